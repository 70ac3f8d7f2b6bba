# SPDX-License-Identifier: Apache-2.0
"""Who may do what, and what was done: keys, quotas, projects, webhooks, usage and the event log."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, AsyncIterator, List, Optional, Sequence, Union

from .._protocol import Json, milliseconds, moment, request
from ._caller import AsyncCaller, all_of


class AsyncAccount(AsyncCaller):
    async def health(self) -> Json:
        """{status, ready, version, …}: whether the daemon works, and what its host can do."""
        return await self.call(request("GET", ["health"]))

    async def figures(self) -> Json:
        """Figures of all running sandboxes of the project, from their last readings, and how many sandboxes are in each state."""
        return await self.call(request("GET", ["figures"]))

    async def doctor(self) -> Json:
        """What the daemon's host can do, what is missing and how to get it: jail, checks; for admins of "default"."""
        return await self.call(request("GET", ["doctor"]))

    async def settings(self) -> Json:
        """The daemon's settings: file and settings, each with its value, default, origin and what a change needs;
        for admins of "default"."""
        return await self.call(request("GET", ["settings"]))

    async def nodes(self) -> Json:
        """The nodes of the cluster, by their beats: {cluster, as_of_us, nodes: [{name, state, cordoned, load, problem, …}]}. On a machine
        that is in no cluster `cluster` is None and `nodes` is empty. For admins of "default"."""
        return await self.call(request("GET", ["nodes"]))

    async def history(self, range: str = "1h", *, scope: str = "project", id: Optional[str] = None) -> Json:
        """{from_us, step_ms, series: [{name, unit, aggregate, values}], …}: what was used in the last "1h", "24h", "7d" or "30d".

        `scope` is "project" (one's own, or for admins of "default" the one with the id or name `id`), "sandbox" (`id`, also of a
        removed one) or "host". A value of None is a gap: the daemon or the sandbox did not run.
        """
        return await self.call(request("GET", ["history"], query={"scope": scope, "id": id, "range": range}))

    async def running_at(self, at_us: int, *, project: Optional[str] = None) -> List[Json]:
        """The sandboxes that ran at a moment: id, name, template, began_us, ended_us, and cpu_milli and memory_bytes at that moment."""
        return await all_of(self.pages(["history", "running"], "sandboxes", {"at_us": at_us, "project": project}))

    async def usage(
        self,
        *,
        group_by: str = "project",
        start: Union[None, str, date] = None,
        end: Union[None, str, date] = None,
        project: Optional[str] = None,
    ) -> List[Json]:
        """Rows of usage by "project", "sandbox" or "day" (UTC), from `start` to `end`, both included.

        Default: this month. A key sees its own project; an admin of "default" sees all projects.
        """
        query = {"group_by": group_by, "from": start, "to": end, "project": project}
        return await all_of(self.pages(["usage"], "rows", query))

    async def events(
        self,
        after: int = 0,
        *,
        follow: bool = False,
        type: Optional[str] = None,
        sandbox: Optional[str] = None,
        all: bool = False,
        audit: bool = False,
        figures: bool = False,
        who: Optional[str] = None,
        address: Optional[str] = None,
        text: Optional[str] = None,
        since: Union[None, str, float, datetime] = None,
        until: Union[None, str, float, datetime] = None,
        newest: bool = False,
        before: Optional[int] = None,
        limit: Optional[int] = None,
        node: Optional[str] = None,
    ) -> AsyncIterator[Json]:
        """Entries of the event log after `after`: the `seq` of an entry, or with `all` (entries of all projects) its `place`. With
        `follow` it goes on with new entries, without end.

        If the connection breaks, it reconnects and goes on: no entry is lost or comes twice. With `follow` and `figures`, what
        figures() returns is sent too, every few seconds: {type: "figures", figures}. With `audit` it reads the audit log instead:
        who has read content or changed something, and from where.

        The other arguments search. Entries must match all of them: `who` (a key's id or name, a person's subject, email or name),
        `address` (also a range such as "10.0.0.0/8"), `text` in the type or the facts, and the time from `since` to `until`
        (seconds, RFC 3339, or a datetime with a zone). With `newest`, the newest entries come first, from `before` backwards.
        `limit` is the most entries to return. In a cluster each node has a log of its own: `node` says whose.
        """
        query: Json = {
            "type": type, "sandbox_id": sandbox, "all": all, "audit": audit, "figures": figures, "who": who,
            "address": address, "text": text, "since": moment(since), "until": moment(until),
            "node": node,
        }  # fmt: skip
        if follow:
            async for event in self.follow(["events"], {**query, "follow": True}, after, last=""):
                yield dict(event.raw)
            return
        query.update({"newest": newest or None, "after": after or None, "before": before})
        async for event in self._search(["events"], query, limit):
            yield dict(event.raw)

    async def quota(self, *, project: Optional[str] = None, key: Optional[str] = None) -> Json:
        """{limits, current, …} of the caller's project, another project or a key. On a node of a cluster,
        current is what this node uses, and cluster what all nodes use, with its age."""
        if key is not None:
            return await self.call(request("GET", ["keys", key, "quota"], query={"project": project}))
        if project is not None:
            return await self.call(request("GET", ["projects", project, "quota"]))
        return dict((await self.call(request("GET", ["quota"])))["project"])

    async def set_quota(self, *, project: Optional[str] = None, key: Optional[str] = None, **limits: Any) -> Json:
        """Sets all limits of a project (for admins of "default") or a key: sandboxes, vcpus, memory_mib,
        disk_mib, creates_per_minute, budget (text), a project's weight beside the others (100 is the
        usual), and events_age_ms, how long its events and audit log are kept.
        Those left out have their default; "unlimited" is none."""
        if key is not None:
            return await self.call(request("PUT", ["keys", key, "quota"], query={"project": project}, body=limits))
        return await self.call(request("PUT", ["projects", project or "default", "quota"], body=limits))

    async def keys(self, *, project: Optional[str] = None) -> List[Json]:
        """API keys of the project, without their secrets."""
        return list((await self.call(request("GET", ["keys"], query={"project": project})))["keys"])

    async def create_key(
        self, name: str, *, scope: Optional[str] = None, project: Optional[str] = None, expires_in: Optional[float] = None
    ) -> Json:
        """{key, secret}: the secret is shown only now. The key is valid for expires_in seconds, or until it is revoked."""
        body = {"name": name, "scope": scope, "project": project, "expires_in_ms": milliseconds(expires_in)}
        return await self.call(request("POST", ["keys"], body=body))

    async def revoke_key(self, key_id: str, *, project: Optional[str] = None) -> None:
        """Revokes a key at once. What was begun with it ends."""
        await self.call(request("DELETE", ["keys", key_id], query={"project": project}))

    async def secrets(self) -> List[Json]:
        """Lists the project's secrets by name. Their values cannot be read back."""
        return list((await self.call(request("GET", ["secrets"])))["secrets"])

    async def set_secret(self, name: str, value: str, *, hosts: Optional[Sequence[str]] = None) -> Json:
        """Stores a value under a name, or replaces it. Policies and environments refer to it as secret://NAME. With `hosts` it may
        be sent to these hosts only, and not be put into an environment. Running sandboxes use a new value at once."""
        return await self.call(request("PUT", ["secrets", name], body={"value": value, "hosts": None if hosts is None else list(hosts)}))

    async def delete_secret(self, name: str, *, force: bool = False) -> None:
        """Removes a secret. Refused if policies of living sandboxes refer to it, unless `force` is set; what those rules allow is
        then denied."""
        await self.call(request("DELETE", ["secrets", name], query={"force": force or None}))

    async def authority(self) -> Json:
        """{domain, address, certificates, fingerprints, expires_us}: the domain of sandboxes' ports, and its certificate authority
        in PEM. Needs no key."""
        return await self.call(request("GET", ["authority"]))

    async def identity(self) -> Json:
        """{issuer, token_ms, rotate_ms, audiences, keys}: the issuer of sandboxes' tokens, and the keys that sign them."""
        return await self.call(request("GET", ["identity"]))

    async def rotate_identity(self, *, revoke: bool = False) -> Json:
        """Lets the next key sign from now on. Old tokens stay valid until they expire; with `revoke` they become invalid, because
        all old keys are removed. For admins of "default"."""
        return await self.call(request("POST", ["identity", "rotate"], body={"revoke": revoke}))

    async def webhooks(self) -> List[Json]:
        """Lists the project's webhooks: the URLs that its events are sent to."""
        return list((await self.call(request("GET", ["webhooks"])))["webhooks"])

    async def create_webhook(self, url: str, *, types: Optional[str] = None, secret: Optional[str] = None) -> Json:
        """{webhook, secret}: events of the project go to url from now on; the secret is shown only now.

        With `secret`, a reference such as "secret://HOOK", they are signed with that secret of the project.
        """
        return await self.call(request("POST", ["webhooks"], body={"url": url, "types": types, "secret": secret}))

    async def update_webhook(
        self, webhook_id: str, *, url: Optional[str] = None, types: Optional[str] = None, secret: Optional[str] = None
    ) -> Json:
        """Changes a webhook. Fields that are None stay as they are; types "" means all types."""
        return await self.call(request("PATCH", ["webhooks", webhook_id], body={"url": url, "types": types, "secret": secret}))

    async def delete_webhook(self, webhook_id: str) -> None:
        """Removes a webhook."""
        await self.call(request("DELETE", ["webhooks", webhook_id]))

    async def projects(self) -> List[Json]:
        """Lists all projects; for admins of "default"."""
        return list((await self.call(request("GET", ["projects"])))["projects"])

    async def create_project(self, name: str) -> Json:
        """Creates a project; for admins of "default"."""
        return await self.call(request("POST", ["projects"], body={"name": name}))

    async def delete_project(self, project: str) -> None:
        """Removes a project (by id or name) and its keys; for admins of "default". Refused while it has sandboxes, volumes,
        snapshots or templates."""
        await self.call(request("DELETE", ["projects", project]))
