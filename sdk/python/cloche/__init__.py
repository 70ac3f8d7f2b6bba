# SPDX-License-Identifier: Apache-2.0
"""Run AI-written code in a cloche sandbox, on a machine of your own.

    with Sandbox() as sandbox:
        print(sandbox.run_code("6 * 7").text)

Client is the daemon, Sandbox one computer of it, Exec one command in that. Each has a twin for asyncio: AsyncClient, AsyncSandbox,
AsyncExec, with the same methods to await. The sync ones may be shared between threads. Times are in seconds.

    errors.py, code.py, _protocol.py, _http.py, _streams.py, _fields.py    without I/O: requests, replies and what they add up to
    aio/                                                                   the face for asyncio, over aio/_wire.py
    sync/                                                                  made from it, over sync/_wire.py
"""

from . import errors
from ._fields import SandboxFields
from ._protocol import Entry, Event, ExecInfo, ExecResult, Forks, SandboxInfo, Snapshot
from ._tar import open_tar
from .aio._stream import AsyncStream
from .aio.contexts import AsyncContexts
from .aio.execs import AsyncExec
from .aio.files import AsyncFiles, AsyncSandboxPath
from .aio.sandbox import AsyncClient, AsyncSandbox
from .code import CodeError, CodeEvent, CodeResult, ContextInfo, Result
from .errors import ClocheError
from .sync._stream import Stream
from .sync.contexts import Contexts
from .sync.execs import Exec
from .sync.files import Files, SandboxPath
from .sync.sandbox import Client, Sandbox

__version__ = "0.2.0"
__all__ = [
    "AsyncClient",
    "AsyncContexts",
    "AsyncExec",
    "AsyncFiles",
    "AsyncSandbox",
    "AsyncSandboxPath",
    "AsyncStream",
    "Client",
    "ClocheError",
    "CodeError",
    "CodeEvent",
    "CodeResult",
    "ContextInfo",
    "Contexts",
    "Entry",
    "Event",
    "Exec",
    "ExecInfo",
    "ExecResult",
    "Files",
    "Forks",
    "Result",
    "Sandbox",
    "SandboxFields",
    "SandboxInfo",
    "SandboxPath",
    "Snapshot",
    "Stream",
    "errors",
    "open_tar",
]
