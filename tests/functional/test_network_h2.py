# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 through TLS that the wall looks into: streams are judged one by one, and neither a hostile guest nor a hostile
server gets more out of frames than out of lines."""

import importlib.util
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from harness.certificates import Authority
from harness.daemon import IS_SANITIZED, PATIENCE, memory_kib, wait_for
from harness.internet import RESOLVER
from harness.internet_proxies import PASSWORD, USER

KEY = "sk-5ecret-0123456789"
PORT = 9443
HERE = Path(__file__).resolve().parents[1] / "harness"
MATCH = {"domains": ["allowed.test"], "methods": ["GET", "POST"]}
POLICY = {
    "rules": [
        {"match": {**MATCH, "paths": [{"prefix": "/closed"}]}, "action": "deny"},
        {"match": {**MATCH, "paths": ["/tea"]}, "action": {"respond": {"status": 418, "content_type": "text/plain", "body": "short and stout"}}},
        {"match": MATCH, "action": {"transform": {"headers": {"authorization": f"Bearer {KEY}"}}}},
    ]
}
CALM = 11  # ENHANCE_YOUR_CALM


@pytest.fixture(scope="session")
def h2_server(internet):
    pair = Authority.of(internet.ca_file).issue("allowed.test", "chain.test")
    argv = [*internet.enter(internet.outer), sys.executable, str(HERE / "h2_server.py"), str(pair), str(PORT), str(internet.log_path)]
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout.readline() == b"up\n"
    yield server
    server.stdin.close()
    server.wait(60 * PATIENCE)
    server.stdout.close()


@pytest.fixture(scope="session")
def frames():
    """hpack and hyperframe, as an archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("hpack", "hyperframe"):
            place = Path(importlib.util.find_spec(name).origin).parent
            tar.add(place, name, filter=lambda entry: None if entry.name.endswith("__pycache__") else entry)
    return out.getvalue()


@pytest.fixture
def framed(walled, h2_server, frames):
    """A function that makes a sandbox with a policy and a client of frames."""

    def make(policy=POLICY):
        box = walled(policy)
        box.sandbox.files.mkdir("/tmp/lib")
        box.sandbox.files.tar_in("/tmp/lib", frames)
        box.sandbox.files.write("/tmp/h2_client.py", (HERE / "h2_client.py").read_bytes())
        return box

    return make


def say(box, script, name="allowed.test", port=PORT):
    """What the script left in `said`."""
    done = box.sandbox.run(["python3", "-S", "/tmp/h2_client.py", name, str(port), script], timeout=60 * PATIENCE)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def control(internet, script):
    """The same without a wall."""
    program = f"import sys; sys.path[:0] = {sys.path!r}; sys.argv[1:] = ['allowed.test', '{PORT}', {script!r}]; import socket; real = socket.create_connection; "
    program += f"socket.create_connection = lambda at, t: real(('93.184.216.34', at[1]), t); exec(open({str(HERE / 'h2_client.py')!r}).read())"
    done = internet.run("env", "UNVERIFIED=1", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_streams_of_one_connection_are_judged_one_by_one(framed, internet):
    said = say(framed(), """
c.send(c.head(1, ("authorization", "mine")), c.head(3, path="/closed/x"), c.head(5, path="/tea"), c.head(7, method="DELETE"), c.head(9, path="/echo/last"))
c.wait(1, 3, 5, 7, 9)
said.update(first=c.result(1), denied=c.result(3), tea=c.result(5), deleted=c.result(7), last=c.result(9), marks=[c.fields[n].get("x-cloche-wall") for n in (1, 3)])
said["settings"] = c.settings
said["trailers"] = c.trailers[1]
""")
    assert said["first"][0] == said["last"][0] == 200
    assert json.loads(said["first"][1])["fields"]["authorization"] == f"Bearer {KEY}"
    assert said["denied"][0] == said["deleted"][0] == 403 and "does not let it reach allowed.test" in said["denied"][1]
    assert said["marks"] == [None, "denied"]
    assert said["tea"] == [418, "short and stout"]
    assert said["trailers"]["behind"] == "the reply"
    assert said["settings"]["3"] == 100  # streams at a time
    assert not internet.seen("h2-request", path="/closed/x") and not internet.seen("h2-request", method="DELETE")


# What HTTP/1.1 could read differently.
ODD = {
    "another host": "c.ask(n, authority='other.test')",
    "host and authority differ": "c.ask(n, ('host', 'other.test'))",
    "two hosts": "c.ask(n, ('host', 'allowed.test:9443'), ('host', 'allowed.test:9443'))",
    "line break in a value": "c.ask(n, ('x-a', 'b\\r\\nauthorization: mine'))",
    "line feed in a value": "c.ask(n, ('x-a', 'b\\nauthorization: mine'))",
    "zero byte in a value": "c.ask(n, ('x-a', 'b\\0c'))",
    "capitals in a name": "c.ask(n, ('X-Capital', 'b'))",
    "blank in a name": "c.ask(n, ('x a', 'b'))",
    "colon in a name": "c.ask(n, ('x:a', 'b'))",
    "line break in a name": "c.ask(n, ('x\\r\\na', 'b'))",
    "transfer-encoding": "c.ask(n, ('transfer-encoding', 'chunked'))",
    "connection": "c.ask(n, ('connection', 'authorization'))",
    "upgrade": "c.ask(n, ('upgrade', 'websocket'))",
    "te": "c.ask(n, ('te', 'gzip'))",
    "absolute path": "c.ask(n, path='https://other.test/')",
    "blank in the path": "c.ask(n, path='/a HTTP/1.1')",
    "line break in the path": "c.ask(n, path='/a\\r\\nhost: other.test')",
    "no slash in the path": "c.ask(n, path='echo')",
    "two readings of the path": "c.ask(n, path='/echo/%2e%2e/closed')",
    "empty path": "c.ask(n, path='')",
    "line break in the method": "c.ask(n, method='GET / HTTP/1.1\\r\\nx: ')",
    "plain scheme": "c.ask(n, scheme='http')",
    "no method": "c.ask(n, method=None)",
    "two methods": "c.send(HeadersFrame(n, c.encoder.encode([(':method', 'GET'), (':method', 'POST'), (':scheme', 'https'), (':authority', 'allowed.test'), (':path', '/echo')]), flags=['END_HEADERS', 'END_STREAM']))",
    "pseudo field behind others": "c.send(HeadersFrame(n, c.encoder.encode([(':method', 'GET'), ('x', 'y'), (':scheme', 'https'), (':authority', 'allowed.test'), (':path', '/echo')]), flags=['END_HEADERS', 'END_STREAM']))",
    "a protocol to connect to": "c.ask(n, (':protocol', 'websocket'), method='CONNECT')",
    "connect": "c.send(HeadersFrame(n, c.encoder.encode([(':method', 'CONNECT'), (':authority', 'allowed.test:22')]), flags=['END_HEADERS', 'END_STREAM']))",
    "trace": "c.ask(n, method='TRACE')",
    "two lengths": "c.ask(n, ('content-length', '1'), ('content-length', '2'), method='POST', end=False); c.send(DataFrame(n, b'x', flags=['END_STREAM']))",
    "a length that is none": "c.ask(n, ('content-length', '+1'), method='POST', end=False); c.send(DataFrame(n, b'x', flags=['END_STREAM']))",
    "two credentials": "c.ask(n, ('authorization', 'a'), ('authorization', 'b'))",
}


def test_a_head_of_two_readings_reaches_no_server(framed, internet):
    box = framed()
    script = "n = -1\n" + "".join(f"n = n + 2\n{words}\nsaid[{what!r}] = c.result(n)\nif c.is_closed: c, n = Client(), -1\n" for what, words in ODD.items())
    before = len(internet.seen("h2-request"))
    said = say(box, script)
    passed = {what: result for what, result in said.items() if result[0] not in ("reset", "closed", 400, 403, 405)}
    assert (passed, len(internet.seen("h2-request"))) == ({}, before)
    assert say(box, "c.ask(1); said['x'] = c.result(1)")["x"][0] == 200
    # The control: without a wall the server is given each of them.
    assert {what for what, (status, _) in control(internet, script).items() if status != 200} == set()
    assert len(internet.seen("h2-request")) == before + 1 + len(ODD)


def test_a_body_has_the_length_that_was_said_or_its_stream_ends(framed, internet):
    said = say(framed(), """
c.ask(1, ("content-length", "4"), path="/echo/right", method="POST", end=False)
c.send(DataFrame(1, b"four", flags=["END_STREAM"]))
c.ask(3, ("content-length", "2"), path="/echo/long", method="POST", end=False)
c.send(DataFrame(3, b"four", flags=["END_STREAM"]))
c.ask(5, ("content-length", "9"), path="/echo/short", method="POST", end=False)
c.send(DataFrame(5, b"four", flags=["END_STREAM"]))
said.update(right=c.result(1), long=c.result(3), short=c.result(5))
""")
    assert json.loads(said["right"][1])["body"] == "four"
    assert (said["long"], said["short"]) == (["reset", 1], ["reset", 1])
    assert not internet.seen("h2-request", path="/echo/long") and not internet.seen("h2-request", path="/echo/short")


def test_fields_behind_a_body_pass_but_for_those_that_a_rule_sets(framed, internet):
    say(framed(), """
c.ask(1, path="/echo/trailers", method="POST", end=False)
c.send(DataFrame(1, b"body"), HeadersFrame(1, c.encoder.encode([("authorization", "mine"), ("mine", "too"), ("host", "other.test")]), flags=["END_HEADERS", "END_STREAM"]))
c.wait(1)
""")
    (seen,) = internet.seen("h2-request", path="/echo/trailers")
    assert (seen["trailers"], seen["fields"]["authorization"]) == ({"mine": "too"}, f"Bearer {KEY}")


# What it sends, and what of it comes to a server without a wall: frames of a type.
FLOODS = {
    "rapid reset": ("for i in range(1, 4001, 2): c.send(c.head(i, path='/rapid'), RstStreamFrame(i, 8))", "RstStreamFrame", 2000),
    "streams that the wall has to reset": ("for i in range(1, 4001, 2): c.send(c.head(i, path='/rapid', end=False), WindowUpdateFrame(i, window_increment=0x7fffffff))", "WindowUpdateFrame", 2000),
    "ping": ("c.raw(PingFrame(0, b'12345678').serialize() * 3000)", "PingFrame", 3000),
    "settings": ("c.raw(SettingsFrame(0, {4: 65535}).serialize() * 3000)", "SettingsFrame", 3000),
    "empty data": ("c.ask(1, method='POST', end=False)\nc.raw(DataFrame(1, b'').serialize() * 3000)", "DataFrame", 3000),
    "priority": ("c.raw(PriorityFrame(1, depends_on=3).serialize() * 3000)", "PriorityFrame", 3000),
    "continuation": ("f = c.head(1)\nf.flags.discard('END_HEADERS')\nc.send(f)\nc.raw(ContinuationFrame(1, b'').serialize() * 3000)", "ContinuationFrame", 3000),
    "resets of nothing": ("c.ask(1)\nc.wait(1)\nc.raw(RstStreamFrame(1, 8).serialize() * 3000)", "RstStreamFrame", 3000),
    "window overflow": ("c.send(*[WindowUpdateFrame(0, window_increment=0x7fffffff)] * 2)", "WindowUpdateFrame", 2),
    "no preface": ("c.raw(b'GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n' * 10)", "ExtensionFrame", 1),
    "large frame": ("c.raw(b'\\x7f\\xff\\xff\\x00\\x00\\x00\\x00\\x00\\x01' + bytes(100000))", "DataFrame", 1),
    "unfinished head": ("f = c.head(1)\nf.flags.discard('END_HEADERS')\nc.send(f, PingFrame(0, b'12345678'))", "PingFrame", 1),
    "even stream": ("c.ask(2)", "HeadersFrame", 2),
}
# The rest of a frame that was begun, for a server that waits for it.
REST = {"large frame": "c.raw(bytes(0x7fffff - 100000))", "no preface": "c.raw(bytes(9 + 0x474554 - 380))"}


def test_a_guest_that_floods_is_cut_off(framed, internet):
    box = framed()
    script = "".join(f"c = Client()\n{words}\nc.wait_end()\nsaid[{what!r}] = (c.is_closed, c.goaway)\n" for what, (words, _, _) in FLOODS.items())
    said = say(box, script + "c = Client()\nc.ask(1); said['good'] = c.result(1)")
    assert said.pop("good")[0] == 200
    assert all(closed for closed, _ in said.values()), said
    assert [said[what][1] for what in ("rapid reset", "ping", "empty data", "priority")] == [CALM] * 4
    assert len(internet.seen("h2-request", path="/rapid")) < 1500


def test_without_a_wall_each_flood_reaches_the_server(h2_server, internet):
    """The control of the test above."""
    script = "".join(f"c = Client()\n{words}\n{REST.get(what, '')}\nc.ask(9001)\nsaid[{what!r}] = c.result(9001)\n" for what, (words, _, _) in FLOODS.items())
    for what, (status, text) in control(internet, script).items():
        _, kind, n = FLOODS[what]
        assert status == 200 and json.loads(text)["frames"][kind] >= n, (what, status, text)


OVERRUN = """
c.ask(1, method="POST", end=False)
c.raw(DataFrame(1, bytes(16384)).serialize() * 60)
c.send(DataFrame(1, b"", flags=["END_STREAM"]))
said["x"] = c.result(1)
"""


def test_who_sends_more_than_the_window_is_reset(framed, internet):
    assert say(framed(), OVERRUN)["x"] == ["reset", 3]
    status, text = control(internet, OVERRUN)["x"]
    assert (status, json.loads(text)["length"]) == (200, 60 * 16384)


def test_a_head_that_grows_when_it_is_read_is_cut_and_takes_no_memory(framed, walled_daemon, internet):
    box = framed()
    before = memory_kib(walled_daemon.wall_pid)
    said = say(box, """
for i in range(1, 2 * 30, 2):
    c.ask(i, *[("x-large", "x" * 3900)] * 1000)
c.wait(*range(1, 2 * 30, 2))
said.update(ends=sorted({str(c.result(i)) for i in range(1, 2 * 30, 2)}))
c = Client()
c.ask(1, *[("x-%d" % i, "y") for i in range(200)])
said["many"] = c.result(1)
""")
    assert all("reset" in end or "closed" in end for end in said["ends"]), said["ends"]
    assert said["many"][0] in (400, "reset")
    assert memory_kib(walled_daemon.wall_pid) - before < 8 * 1024
    said = control(internet, "c.ask(1, *[('x-large', 'x' * 3900)] * 1000)\nsaid['large'] = c.result(1)\nc.ask(3, *[('x-%d' % i, 'y') for i in range(200)])\nsaid['many'] = c.result(3)")
    assert [json.loads(said[what][1])["n_fields"] for what in ("large", "many")] == [1004, 204], "without a wall they arrive"


HEADS = """
c.send(*(c.head(i, ("x-large", "%d" % i * 5000), method="POST", end=False) for i in range(101, 201, 2)))
c.wait(199)
said["codes"] = sorted(set(c.resets.values()))
said["n"] = len(c.resets)
c.send(*(DataFrame(i, b"", flags=["END_STREAM"]) for i in range(101, 201, 2) if i not in c.resets))
c.wait(*range(101, 201, 2))
c.ask(201, ("x-large", "y" * 10000))
said["again"] = c.result(201)[0]
"""


def test_heads_are_held_up_to_a_bound_and_streams_beyond_it_come_again(framed, internet):
    said = say(framed(), HEADS)
    assert (said["codes"], said["again"]) == ([7], 200) and 10 < said["n"] < 25
    assert control(internet, HEADS.replace("c.wait(199)", "")) == {"codes": [], "n": 0, "again": 200}, "without a wall all are held"


def test_more_streams_than_are_allowed_at_a_time_are_refused_as_not_looked_at(framed, internet):
    said = say(framed(), """
c.send(*(c.head(i, method="POST", end=False) for i in range(1, 301, 2)))
c.read(); c.read(); c.read()
while len(c.resets) < 50 and c.read(): pass
said["codes"] = sorted(set(c.resets.values()))
said["n"] = len(c.resets)
for i in range(1, 201, 2): c.send(DataFrame(i, b"", flags=["END_STREAM"]))
said["first"] = c.result(1)[0]
""")
    assert said == {"codes": [7], "n": 50, "first": 200}
    without = """
c.send(*(c.head(i, method="POST", end=False) for i in range(1, 301, 2)))
c.ask(301)
said["frames"] = json.loads(c.result(301)[1])["frames"]["HeadersFrame"]
said["n"] = len(c.resets)
"""
    assert control(internet, without) == {"frames": 151, "n": 0}, "without a wall all are open at once"


UNREAD = """
c.is_reading = False
c.send(*(c.head(i, path="/endless") for i in range(1, 30, 2)))
while sum(map(len, c.bodies.values())) < 65535: c.read()
c.is_reading = True
c.send(WindowUpdateFrame(0, window_increment=65535))
c.ask(31)
said["other"] = c.result(31)[0]
"""


def test_who_does_not_read_holds_up_itself_alone_and_grows_nothing(framed, internet, walled_daemon):
    box = framed()
    before = memory_kib(walled_daemon.wall_pid)
    assert say(box, UNREAD)["other"] == 200
    sent = [e["sent"] for e in internet.seen("h2-endless")]
    assert (len(sent), set(sent)) == (15, {256 * 1024}), "the server may send no more than the windows"
    assert memory_kib(walled_daemon.wall_pid) - before < 12 * 1024


HOLD = """
held = [Client() for _ in range(20)]
for c in held:
    c.is_reading = False
    c.send(*(c.head(i, path="/endless") for i in range(1, 30, 2)))
for c in held:
    while sum(map(len, c.bodies.values())) < 65535: c.read()
open("/tmp/held", "w").close()
__import__("signal").pause()
"""


def test_connections_that_hold_much_are_few(framed, walled_daemon):
    box = framed()
    before = memory_kib(walled_daemon.wall_pid)
    box.sandbox.start(["python3", "-S", "/tmp/h2_client.py", "allowed.test", str(PORT), HOLD])
    wait_for(lambda: box.sandbox.files.exists("/tmp/held"), 30, "its connections")
    held = memory_kib(walled_daemon.wall_pid) - before
    assert held < 60 * 1024 and (held > 20 * 1024 or IS_SANITIZED)  # 75 MiB, if each had a wide window


# What a server does, and what a client without a wall then has.
BAD = {
    "ping": "c.frames.get('PingFrame', 0) == 20000",
    "settings": "c.frames.get('SettingsFrame', 0) > 20000",
    "empty": "c.frames.get('DataFrame', 0) == 20000",
    "push": "c.frames.get('PushPromiseFrame', 0) == 1",
    "continuation": "c.frames.get('ContinuationFrame', 0) == 1000",
    "bomb": "c.n_fields == 101",
    "capital": "'X-Capital' in c.fields.get(1, {})",
    "crlf": "c.fields.get(1, {}).get('x-field') == 'a\\r\\nset-cookie: b'",
    "connection": "'transfer-encoding' in c.fields.get(1, {})",
    "long": "c.bodies.get(1) == b'four' and c.fields[1]['content-length'] == '3'",
    "short": "c.bodies.get(1) == b'four' and c.fields[1]['content-length'] == '9'",
    "status": "c.fields.get(1, {}).get(':status') == '2x0'",
    "window": "c.frames.get('WindowUpdateFrame', 0) == 2",
    "overrun": "len(c.bodies.get(1, b'')) == 3 << 20",
    "garbage": "c.frames.get('ExtensionFrame', 0) == 1",
}


def test_a_server_that_floods_or_smuggles_gets_nothing_through(framed):
    box = framed()
    script = "".join(f"c = Client()\nc.ask(1, path='/bad/{what}')\nsaid[{what!r}] = [*c.result(1), c.fields.get(1)]\n" for what in BAD)
    said = say(box, script + "c = Client()\nc.ask(1); said['good'] = [*c.result(1), None]")
    assert said.pop("good")[0] == 200
    for what, (status, body, fields) in said.items():
        assert status in (502, "reset", "closed"), (what, status, body)
        assert "set-cookie" not in (fields or {}), what


def test_without_a_wall_a_client_gets_all_that_a_bad_server_sends(h2_server, internet):
    """The control of the test above."""
    script = "".join(f"c = Client()\nc.ask(1, path='/bad/{what}')\nwhile not ({has}) and c.read(): pass\nsaid[{what!r}] = {has}\n" for what, has in BAD.items())
    assert {what for what, is_there in control(internet, script).items() if not is_there} == set()


def test_what_a_server_says_of_streams_and_connections_is_passed_on(framed, internet):
    said = say(framed(), """
c.ask(1, path="/hint")
said["hint"] = c.result(1)[0]
said["interim"] = c.interim[1]
c.ask(3, path="/refuse")
said["refused"] = c.result(3)
c.ask(5, path="/cut")
said["cut"] = c.result(5)
c.ask(7, path="/early", method="POST", end=False)
said["early"] = c.result(7)
c.ask(9, path="/bye")
said["bye"] = c.result(9)[0]
c.ask(11)
said["after"] = c.result(11)[0]
""")
    assert (said["hint"], said["interim"]) == (200, {":status": "103"})
    assert said["refused"] == ["reset", 7]
    assert said["cut"] == ["reset", 2]
    assert said["early"] == [413, ""]
    assert (said["bye"], said["after"]) == (200, 200), "the next one is made when the last has left"


def test_a_credential_that_a_server_repeats_is_starred_in_every_part(framed):
    rule = {"match": MATCH, "action": {"transform": {"headers": {"authorization": f"Bearer {KEY}"}, "scrub": ["authorization"]}}}
    said = say(framed({"rules": [rule]}), """
c.ask(1, path="/echo/scrubbed")
said.update(reply=c.result(1), fields=c.fields[1], trailers=c.trailers[1])
c.ask(3, ("grpc-accept-encoding", "gzip"), path="/echo/encoded")
said["encoded"] = c.result(3)
""")
    stars = "Bearer " + "*" * len(KEY)
    assert KEY not in json.dumps(said)
    assert json.loads(said["reply"][1])["fields"]["authorization"] == said["fields"]["x-seen"] == said["trailers"]["x-seen-last"] == stars
    assert said["encoded"][0] == 502 and "cannot be scrubbed" in said["encoded"][1]


def test_each_stream_is_an_event_with_its_bytes(framed, walled_client):
    box = framed()
    say(box, "c.ask(1, method='POST', end=False); c.send(DataFrame(1, bytes(5000), flags=['END_STREAM'])); c.wait(1); c.ask(3, path='/closed'); c.wait(3)")

    def events():
        return [e["data"] for e in walled_client.events(sandbox=box.sandbox.id, type="policy.decided") if e["data"].get("port") == PORT]

    both = wait_for(lambda: len(events()) == 2 and {e["verdict"]: e for e in events()}, 10, "their events")
    assert (both["denied"]["name"], both["denied"]["rule"]) == ("allowed.test", 0)
    assert (both["allowed"]["name"], both["allowed"]["rule"]) == ("allowed.test", 2)
    assert 5000 < both["allowed"]["out_bytes"] < 6000 and 0 < both["allowed"]["in_bytes"] < 8000


def test_a_change_of_the_policy_ends_the_streams_that_it_forbids_and_no_others(framed, internet):
    box = framed()
    program = """
c.ask(1, path="/echo/stays", method="POST", end=False)
c.ask(3, path="/gone", method="POST", end=False)
c.ask(5)
c.wait(5)
open("/tmp/ready", "w").close()
said["gone"] = c.result(3)
c.send(DataFrame(1, b"on", flags=["END_STREAM"]))
said["stays"] = c.result(1)[0]
open("/tmp/said", "w").write(json.dumps(said))
"""
    running = box.sandbox.start(["python3", "-S", "/tmp/h2_client.py", "allowed.test", str(PORT), program])
    wait_for(lambda: box.sandbox.files.exists("/tmp/ready"), 20, "its streams")
    box.sandbox.set_network({"rules": [{"match": {**MATCH, "paths": [{"prefix": "/echo"}]}, "action": "allow"}]})
    done = running.wait(60 * PATIENCE)
    assert done.state == "exited"
    said = json.loads(box.sandbox.files.read("/tmp/said"))
    assert said["gone"][0] == 403 and said["stays"] == 200


def test_a_rule_leads_it_through_a_proxy_or_to_another_url(framed, internet):
    proxy = {"url": f"socks5://{RESOLVER}:1080", "username": USER, "password": PASSWORD}
    rules = [
        {"match": {**MATCH, "paths": ["/echo/proxied"]}, "action": {"proxy": proxy}},
        {"match": {**MATCH, "paths": ["/echo/forwarded"]}, "action": {"forward": {"url": f"https://chain.test:{PORT}"}}},
        {"match": {**MATCH, "paths": ["/echo/plain"]}, "action": {"forward": {"url": "http://chain.test"}}},
        {"match": MATCH, "action": "allow"},
    ]
    said = say(framed({"rules": rules}), """
c.ask(1, path="/echo/proxied")
said["proxied"] = c.result(1)[0]
c.ask(3, path="/echo/forwarded")
said["forwarded"] = c.result(3)
c.ask(5, path="/echo/plain")
said["plain"] = c.result(5)
c.ask(7, method="POST", end=False)
c.ask(9, path="/echo/proxied")
said["elsewhere"] = c.result(9)
c.send(DataFrame(7, b"", flags=["END_STREAM"]))
said["first"] = c.result(7)[0]
c.wait_end()
said["goaway"] = c.goaway
""")
    assert internet.seen("socks", name="allowed.test", port=PORT)
    fields = json.loads(said["forwarded"][1])["fields"]
    assert (fields[":authority"], fields["x-forwarded-host"]) == (f"chain.test:{PORT}", f"allowed.test:{PORT}")
    assert said["plain"] == [502, "cloche's network wall: its rule forwards to where HTTP/2 is not spoken\n"]
    # While another stream needs the connection where it leads, the guest has to connect anew.
    assert (said["proxied"], said["elsewhere"], said["first"], said["goaway"]) == (200, ["reset", 7], 200, 0)


def test_a_server_without_http2_is_said_to_be_one(framed):
    box = framed({"rules": [{"match": {"domains": ["allowed.test"], "methods": ["GET"]}, "action": "allow"}]})
    said = say(box, "c.ask(1, authority='allowed.test'); said['x'] = c.result(1)", port=443)
    assert said["x"] == [502, "cloche's network wall: the server does not speak HTTP/2\n"]


def test_a_denied_host_is_refused_in_http2_too(framed):
    box = framed({"allow": ["other.test"]})
    status, text = say(box, "c.ask(1); said['x'] = c.result(1)")["x"]
    assert status == 403 and "does not let it reach allowed.test" in text


NODE = """
const http2 = require("http2");
const c = http2.connect("https://allowed.test:9443");
const s = c.request({":path": "/echo/node", ":method": "POST"});
let text = "";
s.on("response", h => console.log(h[":status"]));
s.on("data", d => text += d);
s.on("trailers", t => console.log(t.behind));
s.on("end", () => { console.log(JSON.parse(text).fields.authorization, JSON.parse(text).length); c.close(); });
s.end("x".repeat(300000));
"""


def test_node_speaks_http2_through_it(framed):
    done = framed().sandbox.run(["node", "-e", NODE], timeout=30 * PATIENCE)
    assert done.stdout.split("\n")[:3] == ["200", "the reply", f"Bearer {KEY} 300000"], done.stderr


def curl(box, path, *options, port=PORT):
    """The version of HTTP that it spoke, and the status."""
    told = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--http2", *options, f"https://allowed.test:{port}{path}"]
    return box.sandbox.run(told, timeout=30 * PATIENCE).stdout


def test_a_client_that_speaks_both_gets_http2_once_its_server_is_known_to_speak_it(framed, internet):
    box = framed()
    n_left = len(internet.seen("h2-left"))
    assert curl(box, "/both/closed", "-X", "PUT") == "1.1 403"
    assert curl(box, "/both/body", "-d", "text") == "1.1 200"
    assert len(internet.seen("h2-left")) == n_left, "who is denied or has a body finds out nothing"
    assert curl(box, "/both/first") == "1.1 200"
    assert [e["first"] for e in internet.seen("h2-left")[n_left:]] == [""], "the server was asked what it speaks, and told nothing"
    assert [curl(box, "/both/later"), curl(box, "/both/later", "-d", "text")] == ["2 200"] * 2
    assert curl(box, "/closed/both") == "2 403"
    assert len(internet.seen("h2-left")) == n_left + 1
    (first,), later = internet.seen("h1-request", path="/both/first"), internet.seen("h2-request", path="/both/later")
    assert [e["fields"]["authorization"] for e in (first, *later)] == [f"Bearer {KEY}"] * 3
    assert curl(framed(), "/both/other") == "1.1 200", "what one sandbox has reached another does not know"


def test_a_client_that_speaks_both_gets_http1_where_the_server_or_the_rules_need_it(framed):
    box = framed()
    assert [curl(box, "/", port=443) for _ in range(2)] == ["1.1 200"] * 2
    assert curl(box, "/both") == "1.1 200" and curl(box, "/both", "--http1.1") == "1.1 200"
    forward = {"match": {**MATCH, "paths": ["/elsewhere"]}, "action": {"forward": {"url": "http://chain.test"}}}
    led = framed({"rules": [forward, *POLICY["rules"]]})
    assert [curl(led, path) for path in ("/both", "/both", "/elsewhere")] == ["1.1 200"] * 3


def test_a_server_that_speaks_http2_no_more_is_forgotten(framed):
    box = framed()
    assert [curl(box, "/both"), curl(box, "/speak/1")] == ["1.1 200", "2 200"]
    try:
        assert [curl(box, "/both"), curl(box, "/both")] == ["2 502", "1.1 200"]
    finally:
        assert curl(box, "/speak/2", "--http1.1") == "1.1 200"
    assert [curl(box, "/both"), curl(box, "/both")] == ["1.1 200", "2 200"]


def test_the_window_of_a_stream_that_is_read_grows(framed, internet):
    assert say(framed(), "c.ask(1, path='/long'); said['x'] = c.result(1)[0]")["x"] == 200
    assert internet.seen("h2-long")[-1]["window"] > 256 * 1024
