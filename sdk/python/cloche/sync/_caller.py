# SPDX-License-Identifier: Apache-2.0
# Made by tools/make-sync from aio/_caller.py; change that one.
"""The ways in which calls are made: once, again where that is safe, page by page, and event by event."""

from __future__ import annotations

import json
from typing import Any, Iterator, List, Mapping, Optional, Sequence, TypeVar

from .. import errors
from .._protocol import FOREVER, NDJSON, Endpoint, Event, Json, Request, request
from .._streams import Collector
from ._stream import Stream, events_of
from ._transport import Reply, Transport
from ._wire import pause, settle

RETRY_PAUSES = (0.05, 0.2, 0.5, 1.0)
C = TypeVar("C", bound=Collector)


class Caller:
    """A connection to the daemon. A call that only reads, or that may be made twice, is sent again when the connection
    broke; no other call ever is."""

    def __init__(self, endpoint: Optional[Endpoint], headers: Mapping[str, str], timeout: float) -> None:
        self._transport = Transport(endpoint, headers, timeout)

    def open(self, req: Request) -> Reply:
        """Sends a request and returns its reply with the body unread; errors are raised."""
        pauses = RETRY_PAUSES if req.is_repeatable else ()
        for seconds in pauses:
            try:
                return self._transport.open(req)
            except (errors.ConnectionFailed, errors.Unavailable):
                pause(seconds)
        return self._transport.open(req)

    def call(self, req: Request) -> Json:
        """Sends a request and returns its JSON."""
        with self.open(req) as reply:
            data = reply.read()
        value = json.loads(data) if data else {}
        return value if isinstance(value, dict) else {}

    def items(self, path: Sequence[str], field: str) -> List[Json]:
        """The items of a list without pages."""
        answer = self.call(request("GET", path))
        errors.warn_of_missing(answer, field)
        return list(answer[field])

    def pages(self, path: Sequence[str], field: str, query: Mapping[str, Any]) -> Iterator[Json]:
        """The items of a list that comes in pages; each is fetched when it is needed."""
        cursor: Optional[str] = None
        while True:
            page = self.call(request("GET", path, query={**query, "cursor": cursor}))
            errors.warn_of_missing(page, field)
            for item in page[field]:
                yield item
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def stream(self, req: Request) -> Stream[Event]:
        return events_of(lambda: self.open(req))

    def follow(
        self, path: Sequence[str], query: Mapping[str, Any], after: int, *, last: Optional[str] = None
    ) -> Iterator[Event]:
        """Events behind `after`, until one of type `last`. If the connection breaks, it reconnects and goes on: no event is lost or
        comes twice. Where no event is the last, the end of a reply is the end unless the query says `follow`."""
        while True:
            asked = {**query, "after": after or None}
            try:
                with self.stream(request("GET", path, query=asked, accept=NDJSON, timeout=FOREVER)) as events:
                    for event in events:
                        after = max(after, event.seq)
                        yield event
                        if event.type == last:
                            return
                if last is None or not query.get("follow"):
                    return
            except errors.ConnectionFailed:
                pass
            pause(RETRY_PAUSES[0])

    def _search(self, path: Sequence[str], query: Mapping[str, Any], limit: Optional[int]) -> Iterator[Event]:
        """What a search finds, up to `limit`: asks on where a reply has ended at a bound of its own, or was cut off."""
        asked = dict(query)
        way = "before" if query.get("newest") else "after"
        while True:
            has_more = False
            try:
                with self.stream(
                    request("GET", path, query={**asked, "limit": limit}, accept=NDJSON, timeout=FOREVER)
                ) as events:
                    for event in events:
                        if event.type == "more":
                            asked[way] = event.raw[way]
                            has_more = True
                            continue
                        asked[way] = event.seq or asked[way]
                        limit = limit - 1 if limit and event.seq else limit
                        yield event
            except errors.ConnectionFailed:
                has_more = True
                pause(RETRY_PAUSES[0])
            if not has_more or limit == 0:
                return

    def collect(self, req: Request, collector: C) -> C:
        """Feeds a reply's events to the collector, and makes the calls that it asks for."""
        with self.stream(req) as events:
            for event in events:
                delivery = collector.feed(event)
                if delivery is not None:
                    settle(delivery())
        for delivery in collector.rests():
            settle(delivery())
        return collector

    def close(self) -> None:
        """Lets go of idle connections."""
        self._transport.close()


def all_of(items: Iterator[Json]) -> List[Json]:
    return [item for item in items]
