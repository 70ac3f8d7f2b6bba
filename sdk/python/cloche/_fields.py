# SPDX-License-Identifier: Apache-2.0
"""What can be said of a sandbox when it is made, and the words that programs written for other sandboxes use for it."""

from __future__ import annotations

import difflib
from typing import Any, Dict, Mapping, Optional, Sequence, TypedDict, Union

from ._protocol import Snapshot, id_of


class SandboxFields(TypedDict, total=False):
    """Fields of a new sandbox. All are optional; None means the default."""

    name: Optional[str]
    """Name of the sandbox. It must be unique among the project's living sandboxes."""
    group: Optional[str]
    """Name of a group. Sandboxes of one group reach each other by name, whatever their `network` is; no other sandbox reaches them."""
    alias: Optional[str]
    """Its host name in the group. Default: its name."""
    template: Optional[str]
    """The template to start from, by id or name. Default: the daemon's."""
    image: Optional[str]
    """An image from a registry to start from, instead of a template: "[HOST[:PORT]/]NAME[:TAG][@DIGEST]". The first create pulls
    it; after an hour a tag is pulled again."""
    pull: Optional[str]
    """When to pull `image`: "always" asks the registry each time, "missing" uses the local copy, however old it is."""
    language: Optional[str]
    """A language that it must have. Without a template, one that has the language is chosen. "python", "javascript", "typescript",
    "bash", "r" or "java"."""
    snapshot: Union[None, str, Snapshot]
    """A snapshot to start from, instead of a template: the object, or its id or name."""
    memory: Union[None, bool, int]
    """A number: MiB of memory, as in `limits`. With a snapshot, False: start from its files only, without its programs."""
    packages: Optional[Sequence[str]]
    """Packages that it needs: "pip:pandas", "npm:zod@3", "apt:jq", or names without a prefix for the template's language. Each set
    is installed once and then reused."""
    volumes: Optional[Mapping[str, Any]]
    """Volumes to mount, by path. Their files outlive the sandbox: {"/data": "name"}, or {"/data": {"volume": "name", "read_only":
    True}}."""
    source: Optional[Mapping[str, Any]]
    """A git repository or tarball to fetch before it runs: {"type": "git" or "tarball", "url", "revision"?, "depth"?, "path"?,
    "credentials"?}. The URL's host is open for this fetch only; credentials never come inside."""
    tags: Optional[Mapping[str, str]]
    """Labels of your choice, by name; lists filter by them."""
    env: Optional[Mapping[str, str]]
    """Environment variables of everything that runs in it."""
    limits: Optional[Mapping[str, Any]]
    """vcpus, memory_mib, disk_mib, inodes, pids, open_files, output_mib, execs."""
    timeout: Optional[float]
    """Its lifetime in seconds: `on_timeout` happens this long after its start or last resume, even while it works."""
    idle_timeout: Optional[float]
    """In seconds: `on_idle` happens when nothing has run in it for this long."""
    on_timeout: Optional[str]
    """What happens at the end of its lifetime: "delete", "stop" or "pause". Default: "stop" for a persistent sandbox, else "delete"."""
    on_idle: Optional[str]
    """What happens after `idle_timeout`. Default: the same as `on_timeout`. A sandbox that was paused by it is resumed by the next call."""
    persistent: Optional[bool]
    """Keep its files when it stops. The next call starts it again from them; only delete() removes them."""
    on_node_loss: Optional[str]
    """Of a persistent one in a cluster, when its node is silent: "end" (the default), or "restore": another node runs it, with its last durable files."""
    auto_resume: Optional[bool]
    """A call resumes it when it is paused in memory. From a pause on disk, every call does."""
    paused_time_counts: Optional[bool]
    """Its lifetime goes on while it is paused, and `on_timeout` can happen then."""
    engine: Optional[str]
    """How it is isolated: "jail" (processes on the host's kernel), "vm" (a virtual machine) or "auto" (the daemon's default)."""
    min_grade: Optional[str]
    """The weakest isolation that you accept; anything weaker is refused: "process", "emulated" or "hardware"."""
    network: Union[None, str, Mapping[str, Any]]
    """What it may reach: "deny-all" (the default), "allow-all", or a policy such as {"allow": ["api.example.com"]}."""
    ports: Optional[Sequence[int]]
    """Ports to open to the outside: port_url() returns the URL."""
    wait: Optional[float]
    """How many seconds the create may wait for room while the project's quota or the host is full. Default 0: it is refused at once."""
    results: Optional[Sequence[str]]
    """Paths of files and directories to keep when it ends, for whatever reason. `read_result()` reads them, as long as the daemon
    has the sandbox's record."""
    get_or_create: Optional[bool]
    """Use the existing sandbox of this name, if there is one. `Sandbox.get_or_create()` does the same."""
    idempotency_key: Optional[str]
    """All calls with the same key create one sandbox only. The SDK then sends the call again if the connection breaks."""
    idle_timeout_seconds: Optional[float]
    """Another word for idle_timeout."""
    egress: Optional[bool]
    """Another word for network: "allow-all" or "deny-all"."""
    runtime: Optional[str]
    """Another word for template."""


LIMITS = ("vcpus", "memory_mib", "disk_mib", "inodes", "pids", "open_files", "output_mib", "execs")
# What people write for a limit.
LIMIT_WORDS = {**{name: name for name in LIMITS}, "vcpu": "vcpus", "cpu": "vcpus", "cpus": "vcpus", "memory_mb": "memory_mib", "disk": "disk_mib"}


def check_fields(fields: Mapping[str, Any]) -> None:
    """So that a word that does not exist is refused with the one that was meant."""
    known = SandboxFields.__annotations__
    for word in fields:
        if word in known:
            continue
        if word in LIMIT_WORDS:
            hint = f"; write limits={{'{LIMIT_WORDS[word]}': {fields[word]!r}}}"
        else:
            near = difflib.get_close_matches(word, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"a sandbox has no option {word!r}{hint}")


FORK_FIELDS = ("on_connection", "name", "group", "alias", "tags", "env", "network", "timeout", "idle_timeout", "on_timeout", "persistent", "results")


def check_fork_fields(fields: Mapping[str, Any]) -> None:
    """The same for fork()."""
    for word in fields:
        if word not in FORK_FIELDS:
            near = difflib.get_close_matches(word, (*FORK_FIELDS, "count", "memory"), 1)
            raise TypeError(f"fork() has no option {word!r}{f'; did you mean {near[0]!r}?' if near else ''}")


def own_words(fields: Mapping[str, Any]) -> Dict[str, Any]:
    """The fields by cloche's own names; where both are given cloche's own word wins."""
    own = dict(fields)
    memory, snapshot = own.get("memory"), own.get("snapshot")
    if memory is not None and not isinstance(memory, bool):
        own["limits"] = {"memory_mib": memory, **(own.get("limits") or {})}
        own["memory"] = None
    if snapshot is not None:
        own["snapshot"] = id_of(snapshot)
    idle, egress, runtime = (own.pop(word, None) for word in ("idle_timeout_seconds", "egress", "runtime"))
    if own.get("idle_timeout") is None:
        own["idle_timeout"] = idle
    if own.get("template") is None:
        own["template"] = runtime
    if own.get("network") is None and egress is not None:
        own["network"] = "allow-all" if egress else "deny-all"
    return own
