"""Which addresses messages may reach; and that the address that was checked is the one that is connected to."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from telemetry_app.alerts import http
from telemetry_app.alerts.addresses import is_public
from telemetry_app.alerts.outcomes import Outcome

PRIVATE = (
    "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1",
    "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_private_addresses(settings):
    settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = False


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_of_the_internet_are_refused(address):
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_addresses_of_the_internet_are_not(address):
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"])
def test_nothing_is_sent_to_this_machine_however_it_is_written(receiver, host):
    answer = http.request("POST", f"http://{host}:{receiver.port}/", headers={})
    assert answer.outcome in (Outcome.REFUSED, Outcome.FAILED)  # failed: this system does not know the spelling
    assert "not public" in answer.text or "gaierror" in answer.text
    assert receiver.received == []


@pytest.fixture
def names(monkeypatch):
    """Names by which a look-up finds addresses; each look-up takes the next of them."""
    known: dict[str, list[list[str]]] = {}
    original = socket.getaddrinfo

    def look_up(host, port, *arguments, **options):
        if host not in known:
            return original(host, port, *arguments, **options)
        found = known[host].pop(0) if len(known[host]) > 1 else known[host][0]
        return [info for address in found for info in original(address, port, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


def test_a_name_with_one_private_address_among_others_is_refused(receiver, names):
    names["mixed.example"] = [["93.184.216.34", "127.0.0.1"]]
    answer = http.request("POST", f"http://mixed.example:{receiver.port}/", headers={})
    assert answer.outcome is Outcome.REFUSED
    assert "127.0.0.1" in answer.text


def test_a_name_that_tells_another_address_the_second_time_is_connected_to_the_first(
    receiver, names, monkeypatch, settings
):
    names["rebinding.example"] = [["93.184.216.34"], ["127.0.0.1"]]
    connected = []

    def connect(address, *arguments, **options):
        connected.append(address[0])
        raise ConnectionRefusedError("nothing leaves this test")

    monkeypatch.setattr(socket, "create_connection", connect)
    answer = http.request("POST", f"http://rebinding.example:{receiver.port}/", headers={})
    assert connected == ["93.184.216.34"]
    assert answer.outcome is Outcome.FAILED


def test_the_name_stays_in_the_host_header(receiver, names, settings):
    settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = True
    names["named.example"] = [["127.0.0.1"]]
    assert http.request("POST", f"http://named.example:{receiver.port}/", headers={}).outcome is Outcome.DELIVERED
    assert receiver.received[0].headers["host"] == f"named.example:{receiver.port}"


def test_the_next_address_has_its_turn(receiver, names, settings):
    settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = True
    names["two.example"] = [["::1", "127.0.0.1"]]
    assert http.request("POST", f"http://two.example:{receiver.port}/", headers={}).outcome is Outcome.DELIVERED


def test_no_proxy_of_the_environment_is_asked(receiver, settings, monkeypatch):
    settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = True
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert http.request("POST", receiver.url, headers={}).outcome is Outcome.DELIVERED


def test_a_long_answer_is_read_and_kept_up_to_a_bound(receiver, settings):
    settings.TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES = True
    receiver.body = b"\x1b[31m\r\n" + b"x" * 5_000_000
    answer = http.request("POST", receiver.url, headers={})
    assert answer.outcome is Outcome.DELIVERED
    assert len(answer.text) <= 300
    assert answer.text.isprintable()


def test_a_name_that_is_not_known_is_tried_again(monkeypatch):
    def unknown(*arguments, **options):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    answer = http.request("POST", "http://nobody.example/", headers={})
    assert answer.outcome is Outcome.FAILED


@pytest.mark.parametrize("url", ["http://" + "a" * 300 + ".example/", "ftp://1.1.1.1/"])
def test_an_address_that_is_none_is_an_answer_and_no_error(url):
    assert http.request("POST", url, headers={}).outcome in (Outcome.REFUSED, Outcome.FAILED)
