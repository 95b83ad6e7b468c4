"""Which addresses messages may reach: not those of private networks, unless a setting allows them.

Otherwise whoever may edit a channel could reach what only this machine reaches, such as the cloud's metadata service.
"""

from __future__ import annotations

import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Not all that the standard library calls global is public: translations of IPv4, and relays to it.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("2002::/16"))


class AddressRefusedError(Exception):
    """A host has an address that messages may not reach; the message names both."""


def is_public(address: Address) -> bool:
    """Return whether an address is one of the internet: not private, loopback, link-local, shared, multicast, …"""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or address.teredo
        if inner is not None:
            return all(is_public(each) for each in (inner if isinstance(inner, tuple) else (inner,)))
        if address in _TRANSLATED[0]:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def checked_addresses(host: str, port: int, *, allows_private: bool, timeout_seconds: float) -> list[str]:
    """Return the addresses of a host, all of them allowed. Connect to these: a second look-up may tell others.

    Raises:
        AddressRefusedError: one of them is private, and private ones are not allowed.
        OSError: the host has no address, or nobody told in time.
    """
    pool = ThreadPoolExecutor(1)  # the system's look-up knows no time-out
    try:
        found = pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM).result(timeout_seconds)
    except UnicodeError as error:
        raise OSError(f"{host[:80]!r} is no host name") from error
    finally:
        pool.shutdown(wait=False)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    for address in addresses:
        if not allows_private and not is_public(ipaddress.ip_address(address.partition("%")[0])):
            what = f"{host} has the address {address}, which" if host != address else address
            raise AddressRefusedError(f"{what} is not public; TELEMETRY_ALERTS_ALLOW_PRIVATE_ADDRESSES=true allows it")
    return addresses
