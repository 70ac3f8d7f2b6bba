# SPDX-License-Identifier: Apache-2.0
"""What sandboxes start from or have: templates, the builds that make them, snapshots and volumes."""

from __future__ import annotations

from typing import Any, AsyncIterator, Callable, List, Mapping, Optional, Sequence

from .. import errors
from .._context import pack_context, read_dockerfile
from .._protocol import FOREVER, NDJSON, Json, Request, Snapshot, milliseconds, request, stream_of
from ._caller import AsyncCaller
from ._stream import AsyncStream, bytes_of, lines_of
from ._wire import Source, settle

BUNDLE = "application/x-cloche-bundle"


class AsyncImages(AsyncCaller):
    async def snapshots(self, sandbox: Optional[str] = None) -> AsyncIterator[Snapshot]:
        """Lists the snapshots of the project, or of one sandbox, newest first."""
        async for one in self.pages(["snapshots"], "snapshots", {"sandbox": sandbox}):
            yield Snapshot(one)

    async def snapshot(self, id_or_name: str) -> Snapshot:
        """Gets one by its id or name."""
        return Snapshot(await self.call(request("GET", ["snapshots", id_or_name])))

    async def update_snapshot(self, id_or_name: str, *, name: Optional[str] = None, expires_in: Optional[float] = None) -> Snapshot:
        """Changes the name of a snapshot, and when it is removed automatically."""
        body = {"name": name, "expires_in_ms": milliseconds(expires_in)}
        return Snapshot(await self.call(request("PATCH", ["snapshots", id_or_name], body=body)))

    async def delete_snapshot(self, id_or_name: str) -> None:
        """Removes a snapshot. Sandboxes that were started from it go on; they have a copy of their own."""
        await self.call(request("DELETE", ["snapshots", id_or_name]))

    async def snapshot_tree(self, id_or_name: str) -> Json:
        """{root_id, nodes}: all sandboxes and snapshots with the same origin as this one, parents before their children."""
        return await self.call(request("GET", ["snapshots", id_or_name, "tree"]))

    def export_snapshot(self, id_or_name: str, *, omit_memory: bool = False) -> AsyncStream[bytes]:
        """Exports a snapshot's files as one file, in pieces, for import_snapshot(). A snapshot with memory is refused, unless
        `omit_memory` leaves the memory out."""
        query = {"memory": "omit" if omit_memory else None}
        req = request("GET", ["snapshots", id_or_name, "archive"], query=query, accept=BUNDLE, timeout=FOREVER)
        return bytes_of(lambda: self.open(req))

    async def import_snapshot(self, name: str, archive: Source) -> Snapshot:
        """Creates a snapshot from the output of export_snapshot(), also from another daemon. Its template must exist here."""
        req = request("PUT", ["snapshots", name, "archive"], stream=stream_of(archive), timeout=FOREVER)
        return Snapshot(await self.call(req))

    async def volumes(self) -> List[Json]:
        """Lists the volumes of the project, oldest first."""
        return await self.items(["volumes"], "volumes")

    async def volume(self, id_or_name: str) -> Json:
        """Gets one by its id or name."""
        return await self.call(request("GET", ["volumes", id_or_name]))

    async def create_volume(self, name: str, *, size_mib: Optional[int] = None, one_writer: Optional[bool] = None, source: Optional[str] = None) -> Json:
        """Creates a volume, whose files outlive sandboxes. `volumes` of a create mounts it. With `one_writer` only one running
        sandbox at a time may mount it for writing.

        With `source`, the id or name of a volume, it is a copy of that one as it is now.
        """
        body = {"name": name, "size_mib": size_mib, "one_writer": one_writer, "source": source}
        return await self.call(request("POST", ["volumes"], body=body, timeout=FOREVER if source else None))

    async def delete_volume(self, id_or_name: str) -> None:
        """Removes a volume with its files. Refused while a running sandbox has it."""
        await self.call(request("DELETE", ["volumes", id_or_name]))

    async def diff(self, old: str, new: str, *, patch: bool = False, limit: Optional[int] = None) -> Json:
        """Lists what differs between two sandboxes or snapshots of the same template: {changes, truncated}.

        A change has path, kind (added, deleted, modified), what `changed`, and types, sizes, modes and owners of both sides; with
        `patch` also what changed in texts, as a unified diff.
        """
        query = {"from": old, "to": new, "patch": "true" if patch else None, "limit": limit}
        return await self.call(request("GET", ["diff"], query=query, timeout=FOREVER))

    async def templates(self) -> List[Json]:
        """Lists shared templates and the project's own. The first is `host`, the programs of the daemon's machine."""
        return list((await self.call(request("GET", ["templates"])))["templates"])

    async def template(self, id_or_name: str) -> Json:
        """Gets one by its id or name."""
        return await self.call(request("GET", ["templates", id_or_name]))

    async def create_template(
        self,
        name: str,
        sandbox: Any,
        *,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        cwd: Optional[str] = None,
        replace: bool = False,
        shared: bool = False,
        small: bool = False,
        tree: bool = False,
    ) -> Json:
        """Makes a template of a sandbox's files as they are now (it may be an id, too); the sandbox may go on meanwhile.

        With `tree` its directory /template becomes the root, instead of its whole root. `small` compresses harder and takes longer.
        """
        body = {
            "name": name,
            "from": sandbox if isinstance(sandbox, str) else sandbox.id,
            "env": None if env is None else dict(env),
            "user": user,
            "cwd": cwd,
            "replace": replace or None,
            "shared": shared or None,
            "small": small or None,
            "tree": tree or None,
        }
        return await self.call(request("POST", ["templates"], body=body, timeout=FOREVER))

    async def import_template(
        self,
        name: str,
        archive: Source,
        *,
        ref: Optional[str] = None,
        shared: bool = False,
        replace: bool = False,
        small: bool = False,
        on_progress: Optional[Callable[[str, int], Any]] = None,
    ) -> Json:
        """Makes a template from a tar archive: an export, an OCI image layout, the output of `docker save`, or a root directory.

        The tar may be compressed with gzip or zstd. `ref` names the image, if the archive has several. `on_progress` gets the phase
        and the bytes so far, once all of the archive was sent.
        """
        query = {"ref": ref, "shared": shared, "replace": replace, "small": small}
        path, body, accept = ["templates", name, "archive"], stream_of(archive), NDJSON if on_progress else None
        req = request("PUT", path, query=query, stream=body, accept=accept, timeout=FOREVER)
        return await self._await_import(req, on_progress)

    async def pull_template(
        self,
        name: str,
        ref: str,
        *,
        credentials: Optional[Mapping[str, str]] = None,
        shared: bool = False,
        replace: bool = False,
        small: bool = False,
        on_progress: Optional[Callable[[str, int], Any]] = None,
    ) -> Json:
        """Pulls an image, `[HOST[:PORT]/]NAME[:TAG][@DIGEST]`, from a registry, and makes a template of it.

        `credentials` has username and password, which may be `secret://NAME`, and perhaps the `token_host` that may have them too.
        `on_progress` gets the phase (fetching, unpacking, sealing) and the bytes so far.
        """
        body = {
            "ref": ref,
            "credentials": None if credentials is None else dict(credentials),
            "shared": shared or None,
            "replace": replace or None,
            "small": small or None,
        }
        accept = NDJSON if on_progress else None
        return await self._await_import(request("POST", ["templates", name, "pull"], body=body, accept=accept, timeout=FOREVER), on_progress)

    async def _await_import(self, req: Request, on_progress: Optional[Callable[[str, int], Any]]) -> Json:
        if on_progress is None:
            return await self.call(req)
        async with lines_of(lambda: self.open(req)) as events:
            async for event in events:
                if event["type"] == "progress":
                    await settle(on_progress(event["phase"], event["bytes"]))
                elif event["type"] == "error":
                    raise errors.from_body(0, event)
                else:
                    return dict(event["template"])
        raise errors.ConnectionFailed("the stream ended before the import did")

    def export_template(self, id_or_name: str) -> AsyncStream[bytes]:
        """Exports a template as one archive, in pieces: an OCI image layout, for import_template() or any container engine."""
        req = request("GET", ["templates", id_or_name, "archive"], accept="application/x-tar", timeout=FOREVER)
        return bytes_of(lambda: self.open(req))

    async def delete_template(self, id_or_name: str) -> None:
        """Removes a template. Refused while a sandbox runs on it or keeps files over it."""
        await self.call(request("DELETE", ["templates", id_or_name]))

    async def builds(self) -> List[Json]:
        """Lists the builds of the project, newest first."""
        return list((await self.call(request("GET", ["builds"])))["builds"])

    async def get_build(self, build_id: str) -> Json:
        """Gets one build, with its state."""
        return await self.call(request("GET", ["builds", build_id]))

    async def start_build(
        self,
        recipe: Optional[str] = None,
        *,
        name: Optional[str] = None,
        dockerfile: Optional[str] = None,
        files: Optional[str] = None,
        build_args: Optional[Mapping[str, str]] = None,
        target: Optional[str] = None,
        shared: bool = False,
        fresh: bool = False,
        retries: int = 0,
    ) -> Json:
        """Starts the build of a template: from a recipe's text, by the name of one that comes with cloche, or from a Dockerfile's
        text.

        A Dockerfile needs the template's `name`; the files that it copies are given as `files`, the value that upload_build_files()
        returned. `target` is the stage that becomes the template. If a step fails, the build is started again, up to `retries`
        times, after pauses.
        """
        body: Json = {"recipe": recipe, "name": name, "shared": shared or None, "fresh": fresh or None, "retries": retries or None}
        body.update({"dockerfile": dockerfile, "files": files, "build_args": dict(build_args) if build_args else None, "target": target})
        return await self.call(request("POST", ["builds"], body=body))

    async def upload_build_files(self, archive: Source) -> str:
        """Uploads the files that a Dockerfile copies, as a tar, optionally compressed with gzip. Returns the value for `files` of
        start_build()."""
        req = request("PUT", ["builds", "files"], stream=stream_of(archive), timeout=FOREVER)
        return str((await self.call(req))["files"])

    async def cancel_build(self, build_id: str) -> Json:
        """Cancels a build that waits or runs."""
        return await self.call(request("DELETE", ["builds", build_id]))

    async def build_events(self, build_id: str, after: int = 0, *, follow: bool = True) -> AsyncIterator[Json]:
        """{"type": "log", "seq", "text"}, {"type": "progress", "build"} and, last of all, {"type": "ended", "build"}.

        If the connection breaks, it reconnects and goes on: no line is lost or comes twice.
        """
        async for event in self.follow(["builds", build_id, "events"], {"follow": follow}, after, last="ended"):
            yield dict(event.raw)

    async def prepare_packages(
        self,
        packages: Sequence[str],
        *,
        template: Optional[str] = None,
        language: Optional[str] = None,
        on_progress: Optional[Callable[[Json], Any]] = None,
        on_log: Optional[Callable[[str], Any]] = None,
    ) -> Json:
        """Installs packages ahead of the creates and runs that ask for them; returns the build once it is ready.

        `on_progress` gets the build at each step of its progress. A build that fails raises its error.
        """
        body = {"packages": list(packages), "template": template, "language": language}
        return await self._await_build(await self.call(request("POST", ["builds"], body=body)), on_log, on_progress)

    async def build_template(
        self,
        recipe: Optional[str] = None,
        *,
        name: Optional[str] = None,
        dockerfile: Optional[str] = None,
        context: Optional[str] = None,
        build_args: Optional[Mapping[str, str]] = None,
        target: Optional[str] = None,
        shared: bool = False,
        fresh: bool = False,
        retries: int = 0,
        on_log: Optional[Callable[[str], Any]] = None,
    ) -> Json:
        """Builds a template and waits for its end. Returns the build; a build that failed raises its error.

        `context` is a directory. Its files are uploaded, except those that its .dockerignore names. Without `dockerfile`, its
        Dockerfile is built.
        """
        files = None
        if context is not None:
            dockerfile = read_dockerfile(context) if dockerfile is None and recipe is None else dockerfile
            with pack_context(context) as archive:
                files = await self.upload_build_files(archive)
        build = await self.start_build(
            recipe, name=name, dockerfile=dockerfile, files=files, build_args=build_args, target=target, shared=shared, fresh=fresh, retries=retries
        )
        return await self._await_build(build, on_log)

    async def _await_build(
        self, build: Json, on_log: Optional[Callable[[str], Any]], on_progress: Optional[Callable[[Json], Any]] = None
    ) -> Json:
        if build["state"] != "ready":
            async for event in self.build_events(build["id"]):
                if event["type"] == "log" and on_log:
                    await settle(on_log(event["text"]))
                elif event["type"] == "progress" and on_progress:
                    await settle(on_progress(event["build"]))
                elif event["type"] == "ended":
                    build = event["build"]
        if build["state"] == "cancelled":
            raise errors.Conflict(f"the build of {build['name']} was cancelled")
        if build["error"]:
            raise errors.from_body(0, build)
        return build
