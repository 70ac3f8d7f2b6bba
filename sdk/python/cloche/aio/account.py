# SPDX-License-Identifier: Apache-2.0
"""Who may do what, and what was done: keys, quotas, projects, webhooks, usage and the event log."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, AsyncIterator, List, Optional, Sequence, Union

from .._protocol import Json, milliseconds, moment, request
from ._caller import AsyncCaller, all_of


class AsyncAccount(AsyncCaller):
    async def health(self) -> Json:
        """{status, ready, version, …}: is it up, and what can its host do."""
        return await self.call(request("GET", ["health"]))

    async def figures(self) -> Json:
        """Figures of all sandboxes of the project that run, by their last readings, and how many are in each state;
        answered at once."""
        return await self.call(request("GET", ["figures"]))

    async def doctor(self) -> Json:
        """What the daemon's host can do, what is missing and how to get it: jail, checks; for admins of "default"."""
        return await self.call(request("GET", ["doctor"]))

    async def settings(self) -> Json:
        """The daemon's settings: file and settings, each with its value, default, origin and what a change needs;
        for admins of "default"."""
        return await self.call(request("GET", ["settings"]))

    async def history(self, range: str = "1h", *, scope: str = "project", id: Optional[str] = None) -> Json:
        """{from_us, step_ms, series: [{name, unit, aggregate, values}], …}: what was used in the last "1h", "24h", "7d" or "30d".

        `scope` is "project" (one's own, or for admins of "default" the one with the id or name `id`), "sandbox" (`id`, also of one
        that is gone) or "host". A value of None is a gap: nobody looked, or the sandbox did not run.
        """
        return await self.call(request("GET", ["history"], query={"scope": scope, "id": id, "range": range}))

    async def running_at(self, at_us: int, *, project: Optional[str] = None) -> List[Json]:
        """The sandboxes that ran at a moment: id, name, template, began_us, ended_us, and cpu_milli and memory_bytes of then."""
        return await all_of(self.pages(["history", "running"], "sandboxes", {"at_us": at_us, "project": project}))

    async def usage(
        self,
        *,
        group_by: str = "project",
        start: Union[None, str, date] = None,
        end: Union[None, str, date] = None,
        project: Optional[str] = None,
    ) -> List[Json]:
        """Rows of what was used, by "project", "sandbox" or "day" (UTC), from start to end, both included.

        Without days: this month. A key sees its own project; an admin of "default" all of them.
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
    ) -> AsyncIterator[Json]:
        """Entries of the event log behind `after`, the `seq` of an entry, or its `place` where `all` asks for those of all
        projects; with `follow` also those to come, without end.

        A connection that breaks is made again where it was: no entry is lost or comes twice. With `figures`, for who
        follows, what figures() tells comes in between, every few seconds: {type: "figures", figures}. With `audit`, the audit
        log instead: who has read content or changed something, from where.

        The daemon searches for those of `who` (a key's id or name, a person's subject, email or name), from `address` (also a
        range such as "10.0.0.0/8"), with `text` in their type or facts, and from `since` to `until` (seconds, RFC 3339, or a
        datetime with a zone). With `newest`, the newest come first, from `before` back. At most `limit` are given.
        """
        query: Json = {
            "type": type, "sandbox_id": sandbox, "all": all, "audit": audit, "figures": figures, "who": who,
            "address": address, "text": text, "since": moment(since), "until": moment(until),
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
        """{key, secret}: the secret is shown this once. The key is good for expires_in seconds, or until it is revoked."""
        body = {"name": name, "scope": scope, "project": project, "expires_in_ms": milliseconds(expires_in)}
        return await self.call(request("POST", ["keys"], body=body))

    async def revoke_key(self, key_id: str, *, project: Optional[str] = None) -> None:
        """From now on it opens nothing, and what is open with it ends."""
        await self.call(request("DELETE", ["keys", key_id], query={"project": project}))

    async def secrets(self) -> List[Json]:
        """The project's secrets by name: without their values, which nobody can read back."""
        return list((await self.call(request("GET", ["secrets"])))["secrets"])

    async def set_secret(self, name: str, value: str, *, hosts: Optional[Sequence[str]] = None) -> Json:
        """Keeps value under a name, or replaces it; policies and environments refer to it as secret://NAME. With hosts it may be sent to those alone, and into no environment. Sandboxes that run take a new value at once."""
        return await self.call(request("PUT", ["secrets", name], body={"value": value, "hosts": None if hosts is None else list(hosts)}))

    async def delete_secret(self, name: str, *, force: bool = False) -> None:
        """Removes a secret. One that policies of living sandboxes refer to stays, unless forced: what their rules allow is denied then."""
        await self.call(request("DELETE", ["secrets", name], query={"force": force or None}))

    async def authority(self) -> Json:
        """{domain, address, certificates, fingerprints, expires_us}: the names of sandboxes, and the authority that certifies them, as PEM. Needs no key."""
        return await self.call(request("GET", ["authority"]))

    async def identity(self) -> Json:
        """{issuer, token_ms, rotate_ms, audiences, keys}: the issuer of sandboxes' tokens, and the keys that sign them."""
        return await self.call(request("GET", ["identity"]))

    async def rotate_identity(self, *, revoke: bool = False) -> Json:
        """The next key signs from now on; tokens that are out stay good until they expire. With revoke they do not: all keys so far are gone. For admins of "default"."""
        return await self.call(request("POST", ["identity", "rotate"], body={"revoke": revoke}))

    async def webhooks(self) -> List[Json]:
        """Where the project's events go."""
        return list((await self.call(request("GET", ["webhooks"])))["webhooks"])

    async def create_webhook(self, url: str, *, types: Optional[str] = None, secret: Optional[str] = None) -> Json:
        """{webhook, secret}: events of the project go to url from now on; the secret is shown this once.

        With `secret`, a reference such as "secret://HOOK", they are signed with a secret that the project keeps by name.
        """
        return await self.call(request("POST", ["webhooks"], body={"url": url, "types": types, "secret": secret}))

    async def update_webhook(
        self, webhook_id: str, *, url: Optional[str] = None, types: Optional[str] = None, secret: Optional[str] = None
    ) -> Json:
        """What is None stays; types "" is all of them."""
        return await self.call(request("PATCH", ["webhooks", webhook_id], body={"url": url, "types": types, "secret": secret}))

    async def delete_webhook(self, webhook_id: str) -> None:
        """Events go there no more."""
        await self.call(request("DELETE", ["webhooks", webhook_id]))

    async def projects(self) -> List[Json]:
        """All of them; for admins of "default"."""
        return list((await self.call(request("GET", ["projects"])))["projects"])

    async def create_project(self, name: str) -> Json:
        """For admins of "default"."""
        return await self.call(request("POST", ["projects"], body={"name": name}))

    async def delete_project(self, project: str) -> None:
        """With its keys, by id or name; for admins of "default". Refused while it has sandboxes, volumes, snapshots or templates."""
        await self.call(request("DELETE", ["projects", project]))
