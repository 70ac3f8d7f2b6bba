# SPDX-License-Identifier: Apache-2.0
"""Run AI-written code in a cloche sandbox, on a machine of your own."""

from ._protocol import Entry, Event, ExecInfo, ExecResult, SandboxInfo
from .client import Client, EventStream, Exec, Sandbox
from .code import CodeError, CodeResult, ContextInfo, Contexts, Result
from .errors import ClocheError
from .files import Files, Watch, open_tar

__version__ = "0.1.0"
__all__ = [
    "Client",
    "ClocheError",
    "CodeError",
    "CodeResult",
    "ContextInfo",
    "Contexts",
    "Entry",
    "Event",
    "EventStream",
    "Exec",
    "ExecInfo",
    "ExecResult",
    "Files",
    "Result",
    "Sandbox",
    "SandboxInfo",
    "Watch",
    "open_tar",
]
