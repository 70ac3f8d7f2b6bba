# SPDX-License-Identifier: Apache-2.0
"""N09: requests that two parsers could read differently, sent to our wall, to nginx and to haproxy, each with a server
behind it that keeps every byte. The wall must never be the laxest: what one of them refuses, it refuses. And what it
does send on is read by both as exactly one request."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness.daemon import wait_for
from harness.internet import ALLOWED
from harness.parsers import OURS, PEERS, Parsers

POLICY = {"allow": ["allowed.test"]}
HOST = f"Host: allowed.test:{OURS}\r\n"
CLOSE = HOST + "Connection: close\r\n"
HIDDEN = f"GET /hidden HTTP/1.1\r\n{HOST}\r\n"
CHUNKED = CLOSE + "Transfer-Encoding: chunked\r\n"
BODY = "5\r\nhello\r\n0\r\n\r\n"


def post(fields, body):
    return f"POST /@ HTTP/1.1\r\n{fields}\r\n{body}"


def get(fields=CLOSE, line="GET /@ HTTP/1.1"):
    return f"{line}\r\n{fields}\r\n"


# "/@" becomes a path of its own, by which each is found again at the server.
HARMLESS = {
    "get": get(),
    "length": post(CLOSE + "Content-Length: 5\r\n", "hello"),
    "chunks": post(CHUNKED, BODY),
    "names-in-capitals": post(CLOSE.upper() + "TRANSFER-ENCODING: chunked\r\n", BODY),
    "length-padded": post(CLOSE + "Content-Length:   5  \r\n", "hello"),
    "no-blank-behind-the-colon": post(CLOSE + "Content-Length:5\r\n", "hello"),
    "query": get(line="GET /@?a=b&c=%20 HTTP/1.1"),
    "http-1.0": get(line="GET /@ HTTP/1.0"),
}
HOSTILE = {
    # framing said twice
    "length-and-chunks": post(CHUNKED + "Content-Length: 5\r\n", "0\r\n\r\n" + HIDDEN),
    "chunks-and-length": post(CLOSE + f"Content-Length: {5 + len(HIDDEN)}\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + HIDDEN),
    "two-lengths": post(CLOSE + f"Content-Length: 5\r\nContent-Length: {5 + len(HIDDEN)}\r\n", "hello" + HIDDEN),
    "two-lengths-alike": post(CLOSE + "Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
    "list-of-lengths": post(CLOSE + "Content-Length: 5,5\r\n", "hello"),
    "list-of-other-lengths": post(CLOSE + "Content-Length: 5, 6\r\n", "hello"),
    "two-encodings": post(CHUNKED + "Transfer-Encoding: identity\r\n", BODY + HIDDEN),
    "two-encodings-alike": post(CHUNKED + "Transfer-Encoding: chunked\r\n", BODY),
    # lengths that are no number
    **{
        f"length-{name}": post(CLOSE + f"Content-Length: {value}\r\n", "hello" + HIDDEN)
        for name, value in {
            "plus": "+5", "minus": "-5", "hex": "0x5", "octal-blank": "5 5", "empty": "", "letter": "5a", "dot": "5.0", "quoted": '"5"',
            "overflow": "18446744073709551621", "endless": "9" * 40, "vertical-tab": "\x0b5", "form-feed": "5\x0c", "semicolon": "5;5", "nul": "5\0",
        }.items()
    },
    # encodings that are nearly chunked
    **{
        f"encoding-{name}": post(CLOSE + f"Transfer-Encoding: {value}\r\n", BODY + HIDDEN)
        for name, value in {
            "xchunked": "xchunked", "chunkedx": "chunkedx", "twice": "chunked, chunked", "identity-behind": "chunked, identity", "identity": "identity",
            "capital": "Chunked", "gzip-before": "gzip, chunked", "comma-behind": "chunked,", "comma-before": ", chunked", "vertical-tab": "\x0bchunked", "nul": "chunked\0",
            "parameter": "chunked;q=1", "quoted": '"chunked"', "blank-comma": "chunked ,", "bom": "\xef\xbb\xbfchunked", "empty": "", "folded": "\r\n chunked",
        }.items()
    },
    "encoding-with-length-hidden": post(CLOSE + f"Transfer-Encoding: xchunked\r\nContent-Length: {len(BODY + HIDDEN)}\r\n", BODY + HIDDEN),
    "encoding-by-1.0": f"POST /@ HTTP/1.0\r\n{CHUNKED}\r\n{BODY}{HIDDEN}",
    "blank-before-the-colon": post(CLOSE + "Transfer-Encoding : chunked\r\n", BODY + HIDDEN),
    "tab-before-the-colon": post(CLOSE + "Content-Length\t: 5\r\n", "hello" + HIDDEN),
    "blank-before-the-name": post(CLOSE + " Transfer-Encoding: chunked\r\n", BODY + HIDDEN),
    "underscore": post(CLOSE + "Content_Length: 0\r\nContent-Length: 5\r\n", "hello"),
    # chunks
    **{
        f"chunk-{name}": post(CHUNKED, body + HIDDEN)
        for name, body in {
            "hex": "0x5\r\nhello\r\n0\r\n\r\n", "plus": "+5\r\nhello\r\n0\r\n\r\n", "minus": "-5\r\nhello\r\n0\r\n\r\n", "blank-before": " 5\r\nhello\r\n0\r\n\r\n",
            "overflow": "10000000000000005\r\nhello\r\n0\r\n\r\n", "no-size": "\r\nhello\r\n0\r\n\r\n", "longer-than-told": "5\r\nhellohello\r\n0\r\n\r\n",
            "bare-newline-behind-size": "5\nhello\r\n0\r\n\r\n", "bare-newline-behind-data": "5\r\nhello\n0\r\n\r\n", "bare-newline-at-the-end": "5\r\nhello\r\n0\n\n",
            "nul": "5\0\r\nhello\r\n0\r\n\r\n", "underscore": "0_5\r\nhello\r\n0\r\n\r\n", "comma": "5,5\r\nhello\r\n0\r\n\r\n",
        }.items()
    },
    "chunk-extension": post(CHUNKED, "5;a=b\r\nhello\r\n0\r\n\r\n"),
    "chunk-extension-with-newline": post(CHUNKED, "5;a\nb\r\nhello\r\n0\r\n\r\n" + HIDDEN),
    "trailer": post(CHUNKED, "5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n"),
    "trailer-of-framing": post(CHUNKED, "5\r\nhello\r\n0\r\nContent-Length: 50\r\nHost: other.test\r\n\r\n"),
    # lines
    "bare-newlines": get().replace("\r\n", "\n") + HIDDEN,
    "bare-newline-in-a-field": get(CLOSE + f"X: a\n{HIDDEN}"),
    "bare-return-in-a-field": get(CLOSE + "X: a\rTransfer-Encoding: chunked\r\n"),
    "bare-return-ends-a-line": get(CLOSE + "X: a\rContent-Length: 50\r\n"),
    "folded": get(CLOSE + "X: a\r\n b\r\n"),
    "folded-first": get(" X: a\r\n" + CLOSE),
    "nul-in-a-value": get(CLOSE + "X: a\0b\r\n"),
    "nul-in-a-name": get(CLOSE + "X\0Y: a\r\n"),
    "control-in-a-value": get(CLOSE + "X: a\x01b\r\n"),
    "no-colon": get(CLOSE + "nonsense\r\n"),
    "no-name": get(CLOSE + ": a\r\n"),
    "bracket-in-a-name": get(CLOSE + "X(: a\r\n"),
    "blank-in-a-name": get(CLOSE + "X Y: a\r\n"),
    "high-byte-in-a-name": get(CLOSE + "X\xe9: a\r\n"),
    # first lines
    "http-0.9": "GET /@\r\n" + HIDDEN,
    "http-1.2": get(line="GET /@ HTTP/1.2"),
    "http-2": get(line="GET /@ HTTP/2.0"),
    "http-11": get(line="GET /@ HTTP/11.1"),
    "http-01.1": get(line="GET /@ HTTP/01.1"),
    "http-small": get(line="GET /@ http/1.1"),
    "no-version": get(line="GET /@ "),
    "two-blanks": get(line="GET  /@ HTTP/1.1"),
    "tab": get(line="GET\t/@\tHTTP/1.1"),
    "blank-in-the-path": get(line="GET /@ /hidden HTTP/1.1"),
    "nul-in-the-path": get(line="GET /@\0/hidden HTTP/1.1"),
    "fragment": get(line="GET /@#/hidden HTTP/1.1"),
    "small-method": get(line="get /@ HTTP/1.1"),
    "nul-in-the-method": get(line="G\0ET /@ HTTP/1.1"),
    "no-slash": get(line="GET @ HTTP/1.1"),
    "backslash": get(line="GET \\@ HTTP/1.1"),
    "broken-escape": get(line="GET /@%zz HTTP/1.1"),
    "escaped-nul": get(line="GET /@%00 HTTP/1.1"),
    "above-the-root": get(line="GET /../@ HTTP/1.1"),
    "another-host": get(line="GET http://other.test/@ HTTP/1.1"),
    "no-host": get("Connection: close\r\n"),
    "two-hosts": get(CLOSE + "Host: other.test\r\n"),
    "blank-line-first": " \r\n" + get(),
    # one connection's business
    "connection-names-length": post(HOST + "Connection: close, content-length\r\nContent-Length: 5\r\n", "hello"),
    "connection-names-host": get(HOST + "Connection: close, host\r\n"),
    "connection-names-encoding": post(HOST + "Connection: close, transfer-encoding\r\nTransfer-Encoding: chunked\r\n", BODY),
    "upgrade-to-h2c": get(HOST + "Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"),
    "expect-else": post(CLOSE + "Expect: 200-ok\r\nContent-Length: 5\r\n", "hello"),
    "length-on-get": get(CLOSE + f"Content-Length: {len(HIDDEN)}\r\n") + HIDDEN,
}
ALL = {**HARMLESS, **HOSTILE}
SEND = "/tmp/send_raw.py"


def marked(texts):
    return {name: text.replace("@", f"m-{name}", 1) for name, text in texts.items()}


@pytest.fixture(scope="module")
def parsers(internet):
    parsers = Parsers(internet)
    yield parsers
    parsers.close()


@pytest.fixture(scope="module")
def send(walled_client, internet, parsers):
    """Sends texts through the wall, as a peer's send() does: {name: status}."""
    internet.set_zone({})
    with walled_client.create(network=POLICY) as sandbox:
        sandbox.files.write(SEND, (Path(__file__).parents[1] / "harness" / "send_raw.py").read_bytes())

        def send(texts):
            done = sandbox.run(["python3", "-S", SEND, ALLOWED, str(OURS)], stdin=json.dumps(texts), timeout=60)
            assert done.exit_code == 0, done.stderr
            return json.loads(done.stdout)

        yield send


@pytest.fixture(scope="module")
def seen(parsers, send):
    """{who: {name: what its server got of that text, or None}}"""
    texts = marked(ALL)
    with ThreadPoolExecutor() as pool:
        peers = {name: pool.submit(parsers.send, name, texts) for name in PEERS}
        statuses = {"wall": send(texts), **{name: peer.result() for name, peer in peers.items()}}
    ports = {"wall": OURS, **{name: to for name, (_, to) in PEERS.items()}}
    return {who: {name: found(parsers, ports[who], name, statuses[who][name]) for name in texts} for who in ports}


def found(parsers, port, name, status):
    def look():
        return [data for data in parsers.passed_on(port) if f"/m-{name}" in data.partition("\r\n")[0] or f"/m-{name}\0" in data]

    if status == 200:  # the server has replied, so its line comes when the connection has ended
        wait_for(look, 10, f"what came of {name}")
    return (look() or [None])[0]


@pytest.mark.parametrize("name", HARMLESS)
def test_N09_what_is_harmless_passes_all_three(seen, name):
    for who, got in seen.items():
        assert got[name], f"{who} refused it"
    head, _, body = seen["wall"][name].partition("\r\n\r\n")
    assert head.count("Host: allowed.test") == 1
    assert body in ("", "hello", BODY)


@pytest.mark.parametrize("name", HOSTILE)
def test_N09_what_another_refuses_the_wall_refuses(seen, name):
    if seen["wall"][name] is not None:
        assert seen["nginx"][name] is not None, f"nginx refuses what the wall sent on: {seen['wall'][name]!r}"
        assert seen["haproxy"][name] is not None, f"haproxy refuses what the wall sent on: {seen['wall'][name]!r}"


def test_N09_what_the_wall_sends_on_is_one_request_to_both(parsers, seen):
    sent = {name: data.replace(f"/m-{name}", f"/again-{name}", 1) for name, data in seen["wall"].items() if data}
    assert len(sent) >= len(HARMLESS)
    closing = {name: data.replace("\r\n", "\r\nConnection: close\r\n", 1) for name, data in sent.items()}
    for peer, (_, port) in PEERS.items():
        before = len(parsers.passed_on(port))
        assert set(parsers.send(peer, closing).values()) == {200}
        wait_for(lambda port=port, before=before: len(parsers.passed_on(port)) - before >= len(sent), 10, peer)
        lines = [data.partition("\r\n")[0] for data in parsers.passed_on(port)[before:]]
        assert len(lines) == len(sent)
        assert all("/again-" in line for line in lines)


def test_N09_a_hidden_request_never_reaches_the_server(parsers, send, seen):
    assert not [data for data in parsers.passed_on(OURS) if data.startswith("GET /hidden")]
    # Said openly it does, which shows that it would have been found.
    assert send({"open": get(HOST, "GET /open HTTP/1.1") + get(line="GET /hidden HTTP/1.1")})["open"] == 200
    wait_for(lambda: [data for data in parsers.passed_on(OURS) if data.startswith("GET /hidden")], 10, "the open one")
