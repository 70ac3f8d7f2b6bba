# SPDX-License-Identifier: Apache-2.0
"""What a sandbox reaches and who reaches it: its network policy and its ports."""

from __future__ import annotations

from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Union

from .._protocol import Json, milliseconds
from ._part import AsyncPart


class AsyncReach(AsyncPart):
    _port_urls: Dict[int, str]

    async def network(self) -> Json:
        """{kind, policy, in_force}: its network policy, without secrets."""
        return await self._call("GET", ["network"])

    async def set_network(self, policy: Union[str, Mapping[str, Any]]) -> Json:
        """Replaces its network policy. The new one is in force when this returns: open connections that it forbids were cut."""
        return await self._call("PUT", ["network"], body={"policy": policy})

    async def allow_network(self, host: str, port: Optional[int] = None) -> Json:
        """Allows one more host, a name or a range. The rule is added after all others, so it decides only about what they do not match."""
        return await self._call("POST", ["network", "allow"], body={"host": host, "port": port})

    async def suggest_network(self, after: int = 0) -> Json:
        """{policy, complete, upto}: the smallest policy that allows everything that was reached while its policy had the mode
        "record". With `after`, the `upto` of an earlier call, only what was reached since."""
        return await self._call("GET", ["network", "suggestion"], query={"after": after or None})

    async def network_decisions(self) -> AsyncIterator[Json]:
        """Lists which connections the network wall has allowed or denied, oldest first."""
        await self.open()
        async for decision in self.client.pages(["sandboxes", self.id, "network", "decisions"], "decisions", {}):
            yield decision

    async def explain_network(self, url: str, method: Optional[str] = None) -> Json:
        """{allowed, rule, strength, …}: which rule decides about a URL, and how strongly."""
        return await self._call("POST", ["network", "explain"], body={"url": url, "method": method})

    async def identity_token(self, audience: str) -> Json:
        """{token, token_id, audience, expires_us}: a signed token that tells `audience` which sandbox this is. The network policy
        must name the audience."""
        return await self._call("POST", ["identity-token"], body={"audience": audience})

    async def expose(self, port: int, *, expires_in: Optional[float] = None, public: bool = False) -> Json:
        """Opens a port to the outside: {port, url, host_url, token, …}. Opening it again makes a new token.

        Whoever has the url can connect, for `expires_in` seconds or as long as the sandbox exists. With `public=True` no token is
        needed.
        """
        body = {"port": port, "public": public, "expires_in_ms": milliseconds(expires_in)}
        opened = await self._call("POST", ["ports"], body=body)
        self._port_urls[port] = opened["host_url"] or opened["url"]
        return opened

    async def port_url(self, port: int) -> str:
        """The URL for a browser of the server on that port. The first call opens the port."""
        if port not in self._port_urls:
            await self.expose(port)
        return self._port_urls[port]

    async def ports(self) -> List[Json]:
        """Lists the open ports, without their tokens."""
        return list((await self._call("GET", ["ports"]))["ports"])

    async def close_port(self, port: int) -> None:
        """Closes the port, and cuts open connections to it."""
        self._port_urls.pop(port, None)
        await self._call("DELETE", ["ports", str(port)])
