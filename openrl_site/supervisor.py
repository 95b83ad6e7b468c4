"""Runs the whole site in one place: servers, web, worker, beat and fleet. Behind `script/server`."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from openrl_site import child_process, leftovers
from openrl_site.exceptions import SetUpError
from openrl_site.file_locks import FileLock
from openrl_site.locations import PROJECT_ROOT
from openrl_site.programs import Address, fleet_program, site_environment, site_programs
from openrl_site.refusals import refuse_taken_port, refuse_unreachable
from openrl_site.shared_servers import SharedServers
from openrl_site.supervised_process import Program, SupervisedProcess

_WATCH_SECONDS = 0.2
# Fleet, then the other programs, then the servers: below ten seconds together.
_FLEET_STOP_SECONDS = 3.0
_PROGRAMS_STOP_SECONDS = 2.5
_PREPARE_STOP_SECONDS = 2.0
_SERVERS_PAUSE_SECONDS = 5.0
_SLOW_SECONDS = 60.0  # a site that is not ready by then says so


class Supervisor:
    """Starts programs, watches them and stops them in order. A signal ends it; a second one hurries it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stopping = threading.Event()
        self._hurry = threading.Event()
        self._output = threading.Lock()  # whole lines of one program at a time
        self._processes: list[SupervisedProcess] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup means what it says
                signal.signal(number, self._on_signal)

    def run_site(self, address: Address, *, fleet_arguments: tuple[str, ...] | None) -> None:
        """Run everything until a signal comes; the fleet only where it has arguments, be they none.

        Raises:
            SetUpError: something is not as it must be; nothing is left running.
        """
        lock = take_site_lock(self._folder)
        servers = SharedServers(self._folder)
        try:
            leftovers.end_leftovers(self._folder)
            refuse_taken_port(address.host, address.port)
            refuse_unreachable(servers.external)
            self._say(f"starting; all data are under {self._folder}")
            env = site_environment(self._folder, address, servers.use())
            self._prepare(address, env, own_database="database_url" not in servers.external)
            self._start(site_programs(address), env)
            if fleet_arguments is not None:
                self._start([fleet_program(fleet_arguments)], env)
            self._watch(address, servers)
        finally:
            self._stop(servers)
            lock.release()

    def run_fleet(self, arguments: Iterable[str], redis_url: str) -> None:
        """Run the fleet alone, on a Redis that somebody else keeps up, until a signal comes or it finishes."""
        try:
            self._start(
                [fleet_program(tuple(arguments))], {**os.environ, "REDIS_URL": redis_url, "PYTHONUNBUFFERED": "1"}
            )
            self._say(f"the fleet alone, on {redis_url}")
            while not self._stopping.wait(_WATCH_SECONDS) and not self._processes[0].is_finished:
                self._processes[0].watch()
        finally:
            self._stop(None)

    def _prepare(self, address: Address, env: Mapping[str, str], *, own_database: bool) -> None:
        """Have the database migrated and a user made, by a process of its own: Django stays out of this one."""
        command = [sys.executable, "-m", "openrl_site.prepare", "--url", address.url]
        command += ["--own-database"] if own_database else []
        process = child_process.start(command, output=subprocess.PIPE, cwd=PROJECT_ROOT, env=env)
        try:
            while process.poll() is None and not self._stopping.wait(0.05):
                pass
        finally:
            child_process.stop(process, signal.SIGTERM, timeout_seconds=_PREPARE_STOP_SECONDS)
        output = process.stdout.read().decode(errors="replace").strip() if process.stdout else ""
        if process.returncode != 0 and not self._stopping.is_set():
            raise SetUpError(output or f"preparing the database ended with status {process.returncode}")
        for line in output.splitlines():
            self._say(line)

    def _start(self, programs: Iterable[Program], env: Mapping[str, str]) -> None:
        for program in programs:
            if not self._stopping.is_set():
                process = SupervisedProcess(program, env=env, cwd=PROJECT_ROOT, write=self._write)
                process.start()
                self._processes.append(process)

    def _watch(self, address: Address, servers: SharedServers) -> None:
        leftovers.write_record(self._folder, address.url, self._processes)
        slow_at, is_ready = time.monotonic() + _SLOW_SECONDS, False
        while not self._stopping.wait(_WATCH_SECONDS):
            self._keep_up(servers)
            started = [process for process in self._processes if process.watch()]
            if started:
                leftovers.write_record(self._folder, address.url, self._processes)
            if not is_ready and (is_ready := _answers(address)):
                self._say_ready(address)
            elif not is_ready and time.monotonic() > slow_at:
                self._say(f"{address.url} still does not answer; the lines above say why")
                slow_at += _SLOW_SECONDS

    def _keep_up(self, servers: SharedServers) -> None:
        """Bring back embedded servers that ended; while that fails, say so and leave the programs to their retries."""
        try:
            servers.use()
        except SetUpError as error:
            self._say(f"{error} Trying again in {_SERVERS_PAUSE_SECONDS:.0f} s")
            self._stopping.wait(_SERVERS_PAUSE_SECONDS)

    def _stop(self, servers: SharedServers | None) -> None:
        if self._processes:
            self._say("stopping")
        fleet = [process for process in self._processes if process.program.name == "fleet"]
        self._end(fleet, _FLEET_STOP_SECONDS)
        self._end([process for process in self._processes if process not in fleet], _PROGRAMS_STOP_SECONDS)
        if servers is not None:
            servers.leave(stop=True)
            leftovers.record_file(self._folder).unlink(missing_ok=True)
        if self._processes:
            self._say("stopped")

    def _end(self, processes: list[SupervisedProcess], timeout_seconds: float) -> None:
        for process in processes:
            process.ask_to_end()
        deadline = time.monotonic() + timeout_seconds
        while not all(process.has_ended for process in processes) and time.monotonic() < deadline:
            if self._hurry.wait(0.05):
                break
        for process in processes:
            process.kill_rest()

    def _on_signal(self, *_: object) -> None:
        (self._hurry if self._stopping.is_set() else self._stopping).set()

    def _say_ready(self, address: Address) -> None:
        self._say(f"READY: open {address.url}/admin/ (user and password: {self._folder / 'access.json'})")
        self._say(f"       API {address.url}/api/v1/inspect/runs, with the token from the same file")
        self._say("       Ctrl-C stops everything; the data stay")

    def _say(self, line: str) -> None:
        self._write("server", line)

    def _write(self, name: str, line: str) -> None:
        with self._output:
            try:
                sys.stdout.write(f"{name:<6} | {line}\n")
                sys.stdout.flush()
            except (OSError, ValueError):  # nobody reads any more, which is no reason to leave the site running
                self._stopping.set()


def take_site_lock(folder: Path) -> FileLock:
    """Return the lock that one running site holds on its data folder.

    Raises:
        SetUpError: another holds it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = FileLock(folder / "supervisor.lock")
    if not lock.take():
        raise SetUpError(f"the site on {folder} runs already ({leftovers.running_site(folder)}): stop it first.")
    return lock


def _answers(address: Address) -> bool:
    connection = http.client.HTTPConnection(address.reachable_host, address.port, timeout=1)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status < 500  # a redirect to https is an answer too
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
