"""Whether a signal handler of the host's has run, found out when the process ends, without installing one.

Python drops a `SystemExit` before it calls what is registered for the exit: nothing is left there that says whether
`sys.exit` was called by the program or by its handler of SIGTERM. But the interpreter leaves a trace in code that has
run, its own notes for running it faster, and a fresh copy of the code has none. That is read here; nothing is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FunctionType, TracebackType
from typing import Any

ENDING_SIGNALS = ("SIGTERM", "SIGINT")
_LAYERS = 8  # of partials, methods, decorators and closures looked through
_PROBE = "def probe(number, frame):\n    print.no_such_name\n"  # fails on what it does first, whatever is optimised


def handler_has_run() -> bool:
    """Return whether the handler that stands for SIGTERM or SIGINT now has run. Never raises.

    False, too, where it can't be known: the handler is not written in Python, or was taken away again, or this
    interpreter leaves no trace. A handler that the host itself calls as a function counts as run.
    """
    try:
        handlers = [codes for codes in _handlers() if codes]
        if not handlers:
            return False
        mark = _reliable_mark()
        return mark is not None and any(all(_differs(mark, code) for code in codes) for codes in handlers)
    except Exception:  # noqa: BLE001 - a reason for an exit is worth no noise at an exit
        return False


def is_raised_by_handler(trace: TracebackType | None) -> bool:
    """Return whether a traceback goes through the handler that stands for SIGTERM or SIGINT. Never raises."""
    try:
        wanted = {codes[0] for codes in _handlers() if codes}
        while trace is not None:
            if trace.tb_frame.f_code in wanted:
                return True
            trace = trace.tb_next
    except Exception:  # noqa: BLE001 - as above
        pass
    return False


def _handlers() -> list[list[CodeType]]:
    """Return the code of each handler. Who has not loaded `signal` has installed none."""
    signals: Any = sys.modules.get("signal")
    if signals is None:
        return []
    numbers = [getattr(signals, name) for name in ENDING_SIGNALS if hasattr(signals, name)]
    return [_codes_of(signals.getsignal(number)) for number in numbers]


def _codes_of(handler: Any) -> list[CodeType]:
    """Return the code of a handler and of the functions it closes over; none where it is not written in Python.

    A decorator's code is shared by all that it decorates, so that it alone says nothing.
    """
    codes: list[CodeType] = []
    waiting = [handler]
    while waiting and len(codes) < _LAYERS:
        function = _function_of(waiting.pop(0))
        if function is None or function.__code__ in codes:
            continue
        codes.append(function.__code__)
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        waiting += [content for content in cells if isinstance(content, FunctionType)]
    return codes


def _function_of(handler: Any) -> FunctionType | None:
    """Return the function behind a partial, a method or an object that can be called."""
    for _ in range(_LAYERS):
        if isinstance(handler, FunctionType):
            return handler
        if not callable(handler):  # SIG_DFL and SIG_IGN
            return None
        inner = getattr(handler, "__func__", None) or getattr(handler, "func", None)
        handler = inner if inner is not None else getattr(type(handler), "__call__", None)  # noqa: B004 - the function itself
    return None


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # its variable has no value yet
        return False


def _differs(mark: Callable[[CodeType], bytes], code: CodeType) -> bool:
    return mark(code) != mark(code.replace())


def _reliable_mark() -> Callable[[CodeType], bytes] | None:
    """Return what reads the trace, having seen that it tells code that ran from code that did not; None without one."""
    probe = _new_probe()
    mark = _adaptive_code if sys.version_info >= (3, 12) else _changed_memory()
    if _differs(mark, probe.__code__):
        return None
    _run(probe)
    return mark if _differs(mark, probe.__code__) else None


def _adaptive_code(code: CodeType) -> bytes:
    """Return the code with its counters (`dis` shows them with `adaptive=True`)."""
    return bytes(getattr(code, "_co_code_adaptive"))  # noqa: B009 - not in the type stubs


def _changed_memory() -> Callable[[CodeType], bytes]:
    """Return what reads the bytes of a code object that its first run changes: a counter (Python 3.10 and 3.11)."""
    import ctypes  # costs 10 ms, which only a process that has such a handler pays, when it ends

    def memory(code: CodeType) -> bytes:
        """Return a copy of the object's own bytes."""
        return ctypes.string_at(id(code), CodeType.__basicsize__)

    probe = _new_probe()
    before = memory(probe.__code__)
    _run(probe)
    after = memory(probe.__code__)
    places = [place for place in range(object.__basicsize__, len(before)) if before[place] != after[place]]
    return lambda code: bytes(memory(code)[place] for place in places)


def _new_probe() -> Callable[[Any, Any], None]:
    """Return a function whose code has never run."""
    names: dict[str, Any] = {}
    exec(compile(_PROBE, "<probe>", "exec"), names)
    probe: Callable[[Any, Any], None] = names["probe"]
    return probe


def _run(probe: Callable[[Any, Any], None]) -> None:
    try:
        probe(0, None)
    except AttributeError:
        return
