# SPDX-License-Identifier: Apache-2.0
"""What can be said of a sandbox when it is made, and the words that programs written for other sandboxes use for it."""

from __future__ import annotations

import difflib
from typing import Any, Dict, Mapping, Optional, Sequence, TypedDict, Union

from ._protocol import Snapshot, id_of


class SandboxFields(TypedDict, total=False):
    """Fields of a new sandbox; all may be left out, or None."""

    name: Optional[str]
    """Unique in the project while it lives."""
    group: Optional[str]
    """Of sandboxes that reach each other by name, whatever their `network` is, and are reached by nobody else."""
    alias: Optional[str]
    """Its host name in the group; without it, its name."""
    template: Optional[str]
    """What its files are at first, by id or name."""
    image: Optional[str]
    """Of a registry, instead of a template: "[HOST[:PORT]/]NAME[:TAG][@DIGEST]". The first create pulls it; a tag is pulled again after an hour."""
    pull: Optional[str]
    """Of `image`: "always" asks the registry anew, "missing" takes what is here however old it is."""
    language: Optional[str]
    """That it is to have: without a template, one that has it is taken. "python", "javascript", "typescript", "bash", "r" or "java"."""
    snapshot: Union[None, str, Snapshot]
    """What it goes on from, instead of a template; by itself or by its id or name."""
    memory: Union[None, bool, int]
    """MiB of memory, as in `limits`. With a snapshot, False: from its files alone."""
    packages: Optional[Sequence[str]]
    """Installed in it, once per set: "pip:pandas", "npm:zod@3", "apt:jq", or bare names of the template's language."""
    volumes: Optional[Mapping[str, Any]]
    """Files that outlive it, by the path where it has them: {"/data": "name"}, or {"/data": {"volume": "name", "read_only": True}}."""
    source: Optional[Mapping[str, Any]]
    """There when it runs: {"type": "git" or "tarball", "url", "revision"?, "depth"?, "path"?, "credentials"?}. Its host is
    open for that alone, and credentials never come inside."""
    tags: Optional[Mapping[str, str]]
    env: Optional[Mapping[str, str]]
    limits: Optional[Mapping[str, Any]]
    """vcpus, memory_mib, disk_mib, inodes, pids, open_files, output_mib, execs."""
    timeout: Optional[float]
    """Seconds: `on_timeout` happens this long after its creation or last resume, whatever it does."""
    idle_timeout: Optional[float]
    """Seconds: `on_idle` happens when this long nothing ran in it."""
    on_timeout: Optional[str]
    """"delete", "stop" or "pause"."""
    on_idle: Optional[str]
    """The same, of the idle time; without it as `on_timeout`. One that it has paused is resumed by the next call."""
    persistent: Optional[bool]
    """Its files outlive its end, and it goes on over them when it is next used."""
    auto_resume: Optional[bool]
    """A call to it while it is paused in memory resumes it; on disk, any does."""
    paused_time_counts: Optional[bool]
    """Its lifetime runs on while it is paused, and `on_timeout` happens to it there."""
    engine: Optional[str]
    """"auto", "jail" or "vm"."""
    min_grade: Optional[str]
    """Refuses weaker isolation: "process", "emulated" or "hardware"."""
    network: Union[None, str, Mapping[str, Any]]
    """What it may reach: "deny-all" (the default), "allow-all", or a policy such as {"allow": ["api.example.com"]}."""
    ports: Optional[Sequence[int]]
    """Opened to the outside: port_url() says where."""
    wait: Optional[float]
    """Seconds that the create may wait for room while the project's quota or the host is full; 0 or without: it is refused at once."""
    results: Optional[Sequence[str]]
    """Paths of files and directories that are kept when it ends, however it ends: `read_result()` gives them, as long as the daemon remembers it."""
    get_or_create: Optional[bool]
    """The one of that name is taken if there is one: `Sandbox.get_or_create()` says it shorter."""
    idempotency_key: Optional[str]
    """Calls with one key make one sandbox, and are sent again when the connection breaks."""
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


FORK_FIELDS = ("on_connection", "name", "group", "alias", "tags", "env", "network", "timeout", "idle_timeout", "on_timeout", "persistent")


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
