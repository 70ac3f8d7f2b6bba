# SPDX-License-Identifier: Apache-2.0
"""A search through the event log and the audit log: who did what, from where, when. The daemon looks, in pieces that hold up nobody."""

import contextlib
import json
import sqlite3
from datetime import datetime, timezone
from urllib.parse import urlencode

import pytest
from cloche import Client
from harness.cli import Cli
from harness.daemon import IS_SANITIZED, Daemon, call, wait_for
from harness.metrics import figures

ENTRIES = 50_000
BEGAN = 1_700_000_000  # seconds: the first entry's; the others follow, one a second
LOOKED_MAX = 20_000  # for one reply
ABOUT_CHAIN = 9223372036854775807
BOB = {"issuer": "https://id.example.org", "subject": "u-17", "name": "Bob \"B\" Ö", "email": "bob@example.org"}


def address_of(i):
    return ("10.1.2.3", "10.9.0.1", "2001:db8::7", "unix:0")[(i + i // 5000) % 4]


def last_from(beginning):
    return [i for i in range(49_990, ENTRIES + 1) if address_of(i).startswith(beginning)]


def row(i, key_id):
    """The i-th entry. One in a thousand is of the person, one in 5000 has a path that is looked for."""
    data = {"method": "GET", "route": "/v1/sandboxes/{id}/files", "params": {"id": f"box-{i % 7}"}, "status": 200, "bytes": 987654,
            "path": f"/srv/Plans/{i}.txt" if i % 5000 == 0 else f"/tmp/{i}"}
    person = json.dumps(BOB, separators=(",", ":"), ensure_ascii=False) if i % 1000 == 0 else ""
    return ("api.write" if i % 10 == 0 else "api.read", person, address_of(i), f"agent/{i % 3}", key_id if i % 2 else "key_elsewhere",
            json.dumps(data, separators=(",", ":")))


def fill(state):
    """Writes the entries straight behind the one that the audit log of the project `default` has."""
    with contextlib.closing(sqlite3.connect(state)) as db, db:
        chain, last, place = db.execute("SELECT project_id, head_seq, place FROM event_chains WHERE seq = ? AND project_id LIKE '%/%'", (ABOUT_CHAIN,)).fetchone()
        (place,) = db.execute("SELECT max(place) FROM events").fetchone()
        project, key_id = db.execute("SELECT project_id, key_id FROM events WHERE type = 'api.write'").fetchone()
        for i in range(1, ENTRIES + 1):
            kind, person, address, agent, key, data = row(i, key_id)
            db.execute("INSERT INTO events (place, seq, at_us, type, project_id, sandbox_id, exec_id, key_id, request_id, client, agent, data, prev, hash, person)"
                       " VALUES (?, ?, ?, ?, ?, '', '', ?, '', ?, ?, ?, ?, ?, ?)",
                       (place + i, last + i, (BEGAN + i) * 1_000_000, kind, project, key, address, agent, data, bytes(32), bytes(32), person))
            db.execute("INSERT INTO event_chains (project_id, seq, place) VALUES (?, ?, ?)", (chain, last + i, place + i))
        db.execute("UPDATE event_chains SET head_seq = ?, head_hash = ?, place = ?, count = count + ?, bytes = bytes + ? WHERE project_id = ? AND seq = ?",
                   (last + ENTRIES, bytes(32), place + ENTRIES, ENTRIES, 400 * ENTRIES, chain, ABOUT_CHAIN))
    return last, key_id


@pytest.fixture(scope="module")
def full():
    """A daemon whose audit log has many entries, the number before the first of them, and the id of the key that made half of them."""
    daemon = Daemon("--pool-max", "0", "--events-age", "3650d").start()
    try:
        assert call(daemon, "POST", "/v1/webhooks", {"url": "bad"})[0] == 400
        wait_for(lambda: find(daemon, audit=1), 10, "the audit log")
        assert daemon.stop() == 0
        first, key_id = fill(daemon.data / "gateway" / "state.db")
        daemon.start()
        yield daemon, first, key_id
    finally:
        daemon.stop()
        daemon.remove()


def find(daemon, key=None, **query):
    """The lines of one reply."""
    status, data = call(daemon, "GET", "/v1/events?" + urlencode(query), key=key)
    assert status == 200, data
    return [json.loads(line) for line in data.splitlines()]


def find_all(daemon, between=lambda: None, **query):
    """The entries of all replies, and how many replies they took."""
    found, replies, way = [], 0, "before" if query.get("newest") else "after"
    while True:
        page = find(daemon, **query)
        replies += 1
        more = page and page[-1]["type"] == "more" and page.pop()
        assert "more" not in [e["type"] for e in page]
        found += page
        if not more:
            return found, replies
        query[way] = more[way]
        between()


def numbers(found, first):
    return [e["seq"] - first for e in found]


@pytest.mark.parametrize("query, wanted", [
    ({"who": "bob@example.org"}, range(1000, ENTRIES + 1, 1000)),
    ({"who": "BOB \"b\" Ö"}, range(1000, ENTRIES + 1, 1000)),
    ({"who": "u-17"}, range(1000, ENTRIES + 1, 1000)),
    ({"who": "https://id.example.org"}, []),
    ({"text": "/srv/plans/"}, range(5000, ENTRIES + 1, 5000)),
    ({"text": "plans/5000.txt"}, [5000]),
    ({"text": "GET", "since": BEGAN + 49_999}, [49_999, 50_000]),
    ({"text": "method"}, []),  # the name of a field
    ({"text": "987654"}, []),  # a number
    ({"text": "box-3", "type": "api.write", "since": BEGAN + 49_900, "until": BEGAN + 50_001}, [i for i in range(49_900, 50_001) if i % 70 == 10]),
    ({"address": "10.1.2.3", "text": "/srv/"}, [20_000, 40_000]),
    ({"address": "10.0.0.0/8", "since": BEGAN + 49_990}, last_from("10.")),
    ({"address": "2001:db8::/32", "since": BEGAN + 49_990}, last_from("2001:")),
    ({"address": "unix", "since": BEGAN + 49_990}, last_from("unix")),
    ({"address": "unix:0", "since": BEGAN + 49_990}, last_from("unix")),
    ({"address": "unix:1"}, []),
    ({"since": "2023-11-15T12:06:39.5Z", "until": "2023-11-15T13:06:41+01:00"}, [50_000]),
    ({"who": "bob@example.org", "address": "10.1.0.0/16", "text": "/SRV/", "until": BEGAN + 30_000}, [20_000]),
])
def test_entries_are_found_by_who_where_what_and_when(full, query, wanted):
    daemon, first, _ = full
    until = {"until": BEGAN + ENTRIES + 1} | query  # what other tests add is later
    found, replies = find_all(daemon, audit=1, **until)
    assert numbers(found, first) == list(wanted)
    assert replies == 3  # the bound of a reply, twice
    assert numbers(find_all(daemon, audit=1, newest=1, **until)[0], first) == list(reversed(wanted))


def test_a_key_is_found_by_its_id_and_its_name_also_after_it_was_revoked(full):
    daemon, first, key_id = full
    assert len(find_all(daemon, audit=1, who=key_id, until=BEGAN + ENTRIES + 1)[0]) == ENTRIES // 2
    with Client(daemon.url, daemon.key) as client:
        key = client.create_key("the plumber", scope="admin")
        with Client(daemon.url, key["secret"]) as theirs:
            made = theirs.create_key("made by it")["key"]["id"]
        for who in (key["key"]["id"], "the plumber"):
            (entry,) = client.events(who=who)
            assert (entry["type"], entry["data"]["subject_key_id"]) == ("key.created", made)
        client.revoke_key(key["key"]["id"])
        assert [e["data"]["subject_key_id"] for e in client.events(who="the plumber", all=True)] == [made]
        assert not list(client.events(who="the plumbe"))
        client.revoke_key(made)


@pytest.mark.skipif(IS_SANITIZED, reason="a sanitized program takes several times its time")
def test_a_search_through_many_entries_holds_up_nobody(full):
    daemon, _, _ = full
    for query in ({"text": "nowhere"}, {"text": "method"}, {"who": "nobody"}, {"address": "192.0.2.1"}, {"newest": 1}, {"text": "route", "newest": 1}):
        find_all(daemon, audit=1, **query)
    assert figures(daemon)['cloche_loop_longest_turn_cpu_seconds{process="gateway"}'] < 0.05


@pytest.mark.parametrize("newest", [0, 1])
@pytest.mark.parametrize("limit", [None, 700])
def test_pages_neither_lose_nor_double_an_entry_while_others_come(full, newest, limit):
    daemon, first, _ = full
    added = []

    def add():
        if len(added) < 5:
            added.append(call(daemon, "POST", "/v1/webhooks", {"url": f"bad{len(added)}"})[0])
    query = {"audit": 1, "newest": newest} | ({"limit": limit, "text": "0.txt"} if limit else {"since": 1})
    found, replies = find_all(daemon, add, **query)
    assert added == [400] * min(5, replies - 1) and replies >= 3
    mine = [n for n in numbers(found, first) if 0 < n <= ENTRIES]
    wanted = range(5000, ENTRIES + 1, 5000) if limit else range(1, ENTRIES + 1)
    assert mine == list(reversed(wanted) if newest else wanted)
    assert len({e["seq"] for e in found}) == len(found)


def test_a_limit_ends_a_page_and_says_where_the_next_begins(full):
    daemon, first, _ = full
    *page, more = find(daemon, audit=1, newest=1, limit=3, until=BEGAN + ENTRIES + 1)
    assert numbers(page, first) == [50_000, 49_999, 49_998] and more == {"type": "more", "before": page[-1]["seq"]}
    rest = find(daemon, audit=1, newest=1, limit=3, until=BEGAN + ENTRIES + 1, before=more["before"], after=first + 49_996)
    assert numbers(rest, first) == [49_997]
    plain = find(daemon, audit=1, limit=3)  # no search: as it always was
    assert [e["type"] for e in plain] == ["api.write", "api.read", "api.read"]


def test_the_sdks_go_on_by_themselves(full):
    daemon, first, _ = full
    with Client(daemon.url, daemon.key) as client:
        found = list(client.events(audit=True, text="/srv/Plans", newest=True, limit=4))
        assert numbers(found, first) == [50_000, 45_000, 40_000, 35_000]
        at = datetime.fromtimestamp(BEGAN + 20_000, timezone.utc)
        assert numbers(client.events(audit=True, who="u-17", since=at, until=BEGAN + 22_000.5), first) == [20_000, 21_000, 22_000]
        assert numbers(client.events(audit=True, text="/srv/", newest=True, before=first + 10_000), first) == [5000]


def test_the_command_line_searches(full):
    daemon, first, _ = full
    cli = Cli(daemon)
    found = [json.loads(line) for line in cli.ok("events", "--audit", "--newest", "--text", "/srv/plans", "--who", "bob@example.org", "--address", "10.1.0.0/16", "--json").splitlines()]
    assert numbers(found, first) == [40_000, 20_000]
    shown = cli.ok("events", "--audit", "--since", f"{BEGAN + 30_000}", "--until", "2023-11-15T06:33:21Z", "--limit", "1")
    assert len(shown.splitlines()) == 1 and "/srv/Plans/30000.txt" in shown
    assert cli.ok("events", "--audit", "--since", "1h", "--text", "/srv/") == ""
    status, _, err = cli("events", "--before", "7")
    assert status == 125 and "--newest" in err
    status, _, err = cli("events", "--address", "nowhere")
    assert status == 125 and "address: must be" in err


def test_who_follows_may_search_too(full):
    daemon, _, _ = full
    with Client(daemon.url, daemon.key) as client:
        told = client.events(follow=True, text="key.created", since=datetime.now(timezone.utc))
        made = client.create_key("followed")["key"]["id"]
        assert next(told)["data"]["subject_key_id"] == made
        told.close()
        client.revoke_key(made)


@pytest.mark.parametrize("query, field", [
    ("who=", "who"), ("who=%00", "who"), ("who=" + 201 * "a", "who"), ("text=", "text"), ("text=a%0ab", "text"), ("text=%ff", "text"),
    ("address=", "address"), ("address=10.0.0.1/8", "address"), ("address=10.1", "address"), ("address=unix:x", "address"), ("address=unixoid", "address"),
    ("since=yesterday", "since"), ("since=2026-02-30T00:00:00Z", "since"), ("since=2026-01-01T00:00:00", "since"), ("since=-1", "since"),
    ("until=1969-12-31T23:59:59Z", "until"), ("since=20&until=10", "until"), ("newest=perhaps", "newest"), ("newest=1&before=0", "before"),
    ("newest=1&before=x", "before"), ("before=7", "before"), ("follow=1&newest=1", "newest"), ("follow=1&until=10", "until"),
])
def test_a_wish_that_makes_no_sense_is_refused_with_the_name_of_its_field(daemon, query, field):
    status, reply = call(daemon, "GET", f"/v1/events?{query}")
    assert status == 400, reply
    assert (reply["error"]["code"], reply["error"].get("field")) == ("invalid_field", field), reply
