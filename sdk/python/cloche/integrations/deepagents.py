# SPDX-License-Identifier: Apache-2.0
"""A backend for LangChain's deepagents (`pip install deepagents`): the agent's files and commands are in a sandbox.

    with ClocheBackend() as backend:
        agent = create_deep_agent(model=model, backend=backend)

Files are read and written by commands in the sandbox, which need `python3`. Every template of cloche has it.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from .. import errors
from ..sync.sandbox import Sandbox

TIMED_OUT = 124
# Both streams as one, in the order in which they were written.
SHELL = ["/bin/sh", "-c", 'exec 2>&1; eval "$1"', "sh"]


class ClocheBackend(BaseSandbox):  # type: ignore[misc]
    """Pass a `sandbox` of your own, which stays open. Without it, one is created with `fields` (those of Sandbox.create()), and
    close() ends it. `timeout` is for commands that have none of their own, in seconds."""

    def __init__(self, sandbox: Optional[Sandbox] = None, *, timeout: float = 1800.0, **fields: Any) -> None:
        self._is_own = sandbox is None
        self.sandbox = sandbox if sandbox is not None else Sandbox.create(**fields)
        self._timeout = timeout

    @property
    def id(self) -> str:
        return self.sandbox.id

    def execute(self, command: str, *, timeout: Optional[int] = None) -> ExecuteResponse:
        done = self.sandbox.run([*SHELL, command], timeout=timeout or self._timeout, kill_on_disconnect=True)
        if done.cause == "timeout":
            return ExecuteResponse(f"{done.stdout}\n[its time was up]", TIMED_OUT, done.stdout_truncated)
        return ExecuteResponse(done.stdout, done.exit_code, done.stdout_truncated)

    def upload_files(self, files: List[Tuple[str, bytes]]) -> List[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._write(path, data)) for path, data in files]

    def download_files(self, paths: List[str]) -> List[FileDownloadResponse]:
        return [self._read(path) for path in paths]

    def _write(self, path: str, data: bytes) -> Any:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self.sandbox.files.write(path, data, parents=True)
        except errors.ClocheError as e:
            return self._why(e, path)
        return None

    def _read(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=self.sandbox.files.read(path))
        except errors.ClocheError as e:
            return FileDownloadResponse(path=path, error=self._why(e, path))

    def _why(self, e: errors.ClocheError, path: str) -> Any:
        """In the framework's words; what it has none for is raised."""
        if isinstance(e, errors.FileMissing):
            return "file_not_found"
        if isinstance(e, errors.FileDenied):
            return "permission_denied"
        if not isinstance(e, errors.FileInvalid):
            raise e
        try:
            is_directory = self.sandbox.files.stat(path, follow=True).type == "directory"
        except errors.ClocheError:
            is_directory = False
        return "is_directory" if is_directory else "invalid_path"

    def close(self) -> None:
        if self._is_own:
            self.sandbox.__exit__()

    def __enter__(self) -> "ClocheBackend":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()
