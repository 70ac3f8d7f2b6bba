# SPDX-License-Identifier: Apache-2.0
"""The life of the process: prepare, serve calls until the host hangs up or the code exits, end.

prepare() does everything that needs no host and may be done once for many: it loads and warms modules, and a zygote forks
behind it. rehearse() is for a fork that has no host yet: it makes the interpreter and runs a call that nobody sees. serve()
takes the socket and never returns.

SIGINT has three handlers in turn. Between calls it is ignored, unless the next call has come already: then it is meant
for that one. While code runs it is Python's own handler, which raises KeyboardInterrupt. While a message is sent it is put
off (framing).
"""

from __future__ import annotations

import _signal
import atexit
import builtins
import faulthandler
import gc
import importlib
import os
import sys
import time
import traceback

from . import errors, hooks
from .display import Display
from .framing import BrokenPeer, Channel, frame, quote, to_json
from .reseed import reseed
from .runner import Runner, make_main_module
from .streams import Streams

TYPE_CHECKING = False  # typing's own, without loading typing at each start
if TYPE_CHECKING:
    from typing import NoReturn

    from .imprint import Imprint

HOST_FD = 3
EXIT_BROKEN_PEER = 70
REHEARSAL = b"print(end='')"

# Those of the C module: the signal module's own make an enum of each answer, which takes ten times as long.
_default_int_handler = _signal.default_int_handler
_set_handler = _signal.signal
_SIGINT = _signal.SIGINT
_process_time_ns, _times = time.process_time_ns, os.times


def _cpu_us() -> int:
    """CPU time of this process and of those children that it has waited for."""
    times = _times()
    return _process_time_ns() // 1000 + int((times.children_user + times.children_system) * 1_000_000)


class Outcome:
    """How a call ended: a value or an exception, and the payload of its result."""

    __slots__ = ("error", "result")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.result: str | None = None


class Driver:
    """One interpreter: the user's module and what runs and shows its cells."""

    def __init__(self, channel: Channel, streams: Streams):
        self._channel = channel
        self._streams = streams
        self.display = Display(channel, streams)
        self._runner = Runner(make_main_module())
        self._count = 0
        self._cpu_before_us = 0
        self._interrupt_next = False
        self._call_env: dict[str, str] = {}
        self.imprint: Imprint | None = None  # of a zygote's fork

    def attach(self, fd: int) -> None:
        """Takes fd for the host's socket, and fds 1 and 2 for its pipes."""
        self._streams.attach()
        self._channel.attach(fd)

    def detach(self) -> None:
        """Closes what attach() took."""
        self._streams.detach()
        self._channel.detach()

    def rehearse(self) -> None:
        """A call that leaves nothing behind."""
        self._run(0, REHEARSAL)
        self._count = 0

    def serve(self) -> NoReturn:
        """Answers the host until one of both is done."""
        _set_handler(_SIGINT, self._on_idle_interrupt)
        self._greet()
        try:
            while (message := self._channel.receive()) is not None:
                verb, call_id, payload = message
                if verb == b"run":
                    self._run(call_id, payload)
                elif verb == b"env":
                    self._take_env(payload)
                elif verb == b"renew":
                    self._renew(call_id, payload)
                elif verb == b"sync":
                    self._answer(call_id)
                elif verb == b"save":
                    self._save(call_id, payload)
                else:
                    raise BrokenPeer("unknown verb")
        except (BrokenPeer, OSError):  # or a socket that the code closed
            os._exit(EXIT_BROKEN_PEER)
        self._end(0)

    def _greet(self) -> None:
        faulthandler.enable(self._streams.error_fd, all_threads=False)
        version = "%d.%d.%d" % sys.version_info[:3]
        head = f'{{"language":"python","version":{quote(version)},"pid":{os.getpid()}'
        self._channel.send(frame("ready", 0, head + self._knows()))

    def _knows(self) -> str:
        """The end of an object, with the messages that not every driver takes."""
        return ',"env":true,"save":true}' if self.imprint else ',"env":true}'

    def _save(self, call_id: int, payload: bytes) -> None:
        """Has its memory written down. In a copy, which returns from here too, it serves the copy's host."""
        refusal = ""
        try:
            pipes = self._streams.pipes
            if self.imprint.save(int(payload), {self._channel.fd, *pipes}, pipes):
                self.attach(HOST_FD)
                self._channel.is_taking = False
                self._greet()
                return
        except Exception as error:  # of what the code has changed under us, or a reason
            refusal = str(error) or type(error).__name__
        self._channel.is_taking = self._interrupt_next = False
        tail = f',"refused":{quote(refusal)}}}' if refusal else "}"
        self._channel.send(frame("done", call_id, self._done("ok")[:-1] + tail))

    def _take_env(self, payload: bytes) -> None:
        self._channel.is_taking = False
        self._call_env = dict(line.split("=", 1) for line in payload.decode().splitlines() if "=" in line)

    def _renew(self, call_id: int, seed: bytes) -> None:
        reseed(seed)
        self._answer(call_id)

    def _answer(self, call_id: int) -> None:
        self._channel.is_taking = self._interrupt_next = False
        self._channel.send(frame("done", call_id, self._done("ok")[:-1] + self._knows()))

    # ---- one call

    def _run(self, call_id: int, payload: bytes) -> None:
        self._count += 1
        self._channel.begin(call_id)
        self._cpu_before_us = _cpu_us()
        outcome = Outcome()
        lent = self._lend_env() if self._call_env else None
        try:
            self._run_guarded(payload, outcome)
        except KeyboardInterrupt as error:  # struck between the code and its outcome
            outcome.error = error
        self._set_idle()
        if lent:
            self._take_back_env(lent)
        if not self._channel.is_mine:
            self._end_child(outcome)
        self._report(call_id, outcome)
        # The traceback's frames hold the outcome, which holds the error: unlinked, they and all they hold go at once.
        outcome.error = None

    def _lend_env(self) -> dict[str, tuple[str, str | None]]:
        """Sets the call's variables; gives each with its value and the one before."""
        lent = {name: (value, os.environ.get(name)) for name, value in self._call_env.items()}
        os.environ.update(self._call_env)
        self._call_env = {}
        return lent

    def _take_back_env(self, lent: dict[str, tuple[str, str | None]]) -> None:
        try:
            for name, (value, before) in lent.items():
                if os.environ.get(name) == value:
                    if before is None:
                        del os.environ[name]
                    else:
                        os.environ[name] = before
        except Exception:  # the code may have put anything in its place
            pass

    def _run_guarded(self, payload: bytes, outcome: Outcome) -> None:
        """Runs the cell and all that may call back into the code: what SIGINT interrupts."""
        _set_handler(_SIGINT, _default_int_handler)
        try:
            self._channel.is_taking = False
            if self._interrupt_next:
                self._interrupt_next = False
                raise KeyboardInterrupt
            self._streams.restore()
            value = self._runner.run(payload.decode(), self._count)
            if value is not None and self._channel.is_mine:
                outcome.result = self.display.payload(value)
        except BaseException as error:
            outcome.error = error
        try:
            if self._channel.is_mine:
                self.display.show_figures()
        except BaseException as error:
            outcome.error = outcome.error or error

    def _report(self, call_id: int, outcome: Outcome) -> None:
        frames = b""
        cpu_us = max(_cpu_us() - self._cpu_before_us, 0)
        done = self._done("ok", cpu_us=cpu_us)
        if outcome.result is not None:
            frames = frame("result", call_id, outcome.result)
        if outcome.error is not None:
            if isinstance(outcome.error, SystemExit):
                exit_code = self._exit_code(outcome.error)
                done = self._done("exit", exit_code, cpu_us)
            else:
                frames += frame("error", call_id, to_json(errors.describe(outcome.error)))
                done = self._done("error", cpu_us=cpu_us)
        self._streams.flush()
        self._channel.finish(frames + frame("done", call_id, done))
        if isinstance(outcome.error, SystemExit):
            self._end(exit_code)

    def _done(self, status: str, exit_code: int | None = None, cpu_us: int | None = None) -> str:
        code = "" if exit_code is None else f',"exit_code":{exit_code}'
        used = "" if cpu_us is None else f',"cpu_us":{cpu_us}'
        return f'{{"status":"{status}","count":{self._count}{code}{used}}}'

    # ---- interrupts

    def _set_idle(self) -> None:
        """Ignores SIGINT from here on; one that comes until then is part of the call and changes nothing any more."""
        while True:
            try:
                _set_handler(_SIGINT, self._on_idle_interrupt)
                return
            except KeyboardInterrupt:
                continue

    def _on_idle_interrupt(self, _number: int, _frame: object) -> None:
        """One between a call's end and the host's knowledge of it is nobody's."""
        if self._channel.is_taking or (self._channel.call_id is None and self._channel.has_input()):
            self._interrupt_next = True

    # ---- ends

    def _end(self, exit_code: int) -> NoReturn:
        """Ends as a script would, but does not wait for threads: the host has its answer."""
        atexit._run_exitfuncs()
        self._streams.flush()
        os._exit(exit_code)

    def _end_child(self, outcome: Outcome) -> NoReturn:
        """Ends a child that the code forked and that came to the end of the cell: as a script's end would."""
        exit_code = 0
        if isinstance(outcome.error, SystemExit):
            exit_code = self._exit_code(outcome.error)
        elif outcome.error is not None:
            exit_code = 1
            self._streams.complain("\n".join(errors.describe(outcome.error)["traceback"]))
        self._streams.flush()
        os._exit(exit_code)

    def _exit_code(self, error: SystemExit) -> int:
        """The process's exit code. As in any Python, an argument that is no number is a message for standard error."""
        if error.code is None:
            return 0
        if isinstance(error.code, int):
            return error.code & 0xFF
        try:
            self._streams.complain(str(error.code))
        except Exception:  # its str() fails
            pass
        return 1


def _no_input(prompt: object = "", /) -> NoReturn:
    """Replaces input(): there is no one to ask."""
    raise EOFError("input() is not available here: nobody is at a keyboard; give the value in the code")


_driver: Driver | None = None
warm_modules: list[str] = []


WARM_FILE = "/etc/cloche/warm"  # of a template: a module a line
WARM_FILE_MAX = 4096


def _warm_names() -> list[str]:
    """The modules that a zygote loads ahead: the operator's and the template's. Any other interpreter loads none."""
    if "CLOCHE_WARM" not in os.environ:
        return []
    names = os.environ.pop("CLOCHE_WARM").split(",")
    try:
        with open(WARM_FILE, encoding="utf-8", errors="replace") as file:
            names += file.read(WARM_FILE_MAX).split()
    except OSError:
        pass
    return [name.strip() for name in names if name.strip()]


def prepare() -> None:
    """Everything that needs no host and may be done once for many: a zygote forks after it."""
    sys.argv = [""]
    builtins.input = _no_input
    hooks.install(lambda: _driver.display if _driver else None)
    for name in _warm_names():
        try:
            importlib.import_module(name)
            warm_modules.append(name)
        except Exception as error:
            traceback.print_exception(error)
    # What is loaded by now stays: the collector need not write to its pages, which forks share.
    gc.freeze()


def build() -> Driver:
    """The interpreter, without a host."""
    global _driver
    if _driver is None:
        _driver = Driver(Channel(), Streams())
        builtins.display = _driver.display.show
    return _driver


def rehearse() -> None:
    """What a first call writes to is this process's own from then on, and no more a page that is shared with the zygote. Fds
    0, 1 and 2 are /dev/null."""
    build().attach(os.dup(0))
    build().rehearse()
    build().detach()


def serve(fd: int) -> NoReturn:
    """Takes the host's socket and serves it to the end of the process."""
    build().attach(fd)
    build().serve()


def main() -> NoReturn:
    prepare()
    serve(HOST_FD)
