# SPDX-License-Identifier: Apache-2.0
"""The face for asyncio, where it is more than the sync one with `await`: cancellation, concurrency, and sandboxes that open late."""

import asyncio
import contextlib
import inspect
import ssl
import subprocess

import cloche
import pytest
from cloche import AsyncClient, AsyncSandbox, Client, errors
from cloche._http import HEAD_MAX, BrokenReply, ReplyDecoder, request_head
from cloche._protocol import Endpoint, Request


@pytest.fixture
def each(daemon):
    """Runs a coroutine function with a client, which is closed after."""

    def run(scene):
        async def whole():
            async with AsyncClient(daemon.url, daemon.key) as client:
                return await scene(client)

        return asyncio.run(whole())

    return run


def test_both_faces_have_the_same_calls():
    for name in ("Client", "Sandbox", "Exec", "Files", "Contexts", "SandboxPath"):
        faces = [getattr(cloche, prefix + name) for prefix in ("Async", "")]
        calls = [{n: str(inspect.signature(f)).replace("Async", "") for n, f in vars(face).items() if callable(f)} for face in faces]
        assert {n.replace("__a", "__") for n in calls[0]} == set(calls[1])
        for call, signature in calls[0].items():
            assert calls[1][call.replace("__a", "__")] == signature, call


def test_a_sandbox_opens_at_its_first_call_and_is_closed_at_the_end(each):
    async def scene(client):
        late = AsyncSandbox(client=client)
        with pytest.raises(errors.ClocheError, match="not open yet"):
            _ = late.id
        assert (await late.run(["echo", "up"])).stdout == "up\n"
        async with late:
            assert await late.files.exists("/tmp")
        assert (await late.refresh()).ended["cause"] == "deleted"
        never = AsyncSandbox(client=client)
        await never.close()

    each(scene)


def test_calls_run_beside_each_other(each):
    async def scene(client):
        async with AsyncSandbox(client=client) as sandbox:
            await sandbox.run(["mkfifo", "/tmp/gate"])
            waiting = asyncio.ensure_future(sandbox.run("cat /tmp/gate"))
            await sandbox.run("echo opened > /tmp/gate")
            assert (await waiting).stdout == "opened\n"
            many = await asyncio.gather(*(sandbox.run_code(str(n)) for n in range(8)))
            assert [r.text for r in many] == [str(n) for n in range(8)]

    each(scene)


def test_a_call_that_is_cancelled_ends_what_it_ran_if_that_was_asked(each):
    async def scene(client):
        async with AsyncSandbox(client=client) as sandbox:
            begun = asyncio.Event()
            call = sandbox.run("echo on; sleep 1000", kill_on_disconnect=True, on_stdout=lambda _: begun.set())
            task = asyncio.ensure_future(call)
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for exec_ in await sandbox.execs():
                assert (await exec_.wait()).signal
            assert (await sandbox.run("echo after")).stdout == "after\n"

    each(scene)


def test_callbacks_may_be_coroutines(each):
    async def scene(client):
        seen = []

        async def take(data):
            await asyncio.sleep(0)
            seen.append(data)

        async with AsyncSandbox(client=client) as sandbox:
            result = await sandbox.run_code("print('out')\n6 * 7", on_stdout=take, on_result=take)
            assert seen[0] == "out\n" and seen[1].text == "42"
            assert (result.stdout, result.stdout_truncated, result.stderr) == ("out\n", False, "")
            assert (await sandbox.run("echo out", on_stdout=take)).stdout == "out\n"
            events = [e async for e in sandbox.run_code_stream("print('ü'); 1/0")]
            assert [e.type for e in events] == ["stdout", "error", "exit"]
            assert (events[0].data, events[1].data.name, events[2].code) == ("ü\n", "ZeroDivisionError", 1)

    each(scene)


def test_streams_go_both_ways(each):
    async def scene(client):
        async def pieces():
            for _ in range(64):
                yield b"x" * 65536

        async with AsyncSandbox(client=client) as sandbox:
            assert (await sandbox.files.write("big", pieces())).size == 64 * 65536
            assert sum([len(p) async for p in sandbox.files.read_stream("big")]) == 64 * 65536
            with pytest.raises(errors.FileMissing):  # told while the body is on its way
                await sandbox.files.write("no/such/directory", pieces())
            async with sandbox.files.watch("/tmp") as changes:
                assert (await changes.__anext__())["type"] == "ready"
                await sandbox.run(["touch", "/tmp/new"])
                assert (await changes.__anext__())["path"] == "new"

    each(scene)


def test_a_client_outlives_an_event_loop(daemon):
    client = AsyncClient(daemon.url, daemon.key)
    for _ in range(2):
        assert asyncio.run(client.health())["ready"]
    client.close()


def test_a_connection_that_is_cut_is_a_typed_error():
    async def scene():
        async def cut(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            writer.close()

        server = await asyncio.start_server(cut, "127.0.0.1", 0)
        async with server, AsyncClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout=5) as client:
            with pytest.raises(errors.ConnectionFailed, match="broke off"):
                await client.create()

    asyncio.run(scene())


def test_a_silent_daemon_is_given_up_on():
    async def scene():
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        async with AsyncClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout=0.1) as client:
            with pytest.raises(errors.TimedOut):
                await client.create()
        server.close()

    asyncio.run(scene())


REPLY = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n4\r\nWiki\r\n6;x=1\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nT: x\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_reply_is_understood_however_it_is_cut(size):
    decoder, body = ReplyDecoder("GET"), b""
    for at in range(0, len(REPLY), size):
        assert not decoder.is_over
        body += decoder.feed(REPLY[at : at + size])
    assert body == b"Wikipedia in \r\n\r\nchunks." and decoder.keeps_connection and decoder.headers["x-a"] == "b"


@pytest.mark.parametrize("data, kept", [
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", True),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx", False),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx and more", False),
])
def test_a_connection_is_kept_only_where_the_reply_is_clean(data, kept):
    decoder = ReplyDecoder("GET")
    decoder.feed(data)
    assert decoder.is_over and decoder.keeps_connection == kept


@pytest.mark.parametrize("data", [
    b"SSH-2.0-x\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"x" * (HEAD_MAX + 1), b"HTTP/1.1 200 OK\r\n\r",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
])
def test_what_is_no_reply_is_refused(data):
    decoder = ReplyDecoder("GET")
    with pytest.raises(BrokenReply):
        decoder.feed(data)
        decoder.feed(b"")


def test_a_header_cannot_bring_another_one():
    with pytest.raises(ValueError):
        request_head(Request("GET", "/v1/x", {"Idempotency-Key": "a\r\nX: y"}), Endpoint.parse("http://h"), {})


def test_a_sync_client_sees_what_an_async_one_made(daemon, each):
    async def scene(client):
        return (await client.create()).id

    with Client(daemon.url, daemon.key) as client, client.get(each(scene)) as sandbox:
        assert sandbox.run("echo both").stdout == "both\n"


@pytest.mark.parametrize("is_async", [False, True])
def test_tls_is_checked_and_spoken(tmp_path, monkeypatch, is_async):
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run([*make.split(), "-keyout", tmp_path / "key", "-out", tmp_path / "cert"], check=True, capture_output=True)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    body = b'{"ready": true, "padding": "%s"}' % (b"x" * 300_000)

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
            await writer.drain()
        writer.close()

    async def ask(url):
        if is_async:
            async with AsyncClient(url, timeout=10) as client:
                return await client.create_key("x")
        with Client(url, timeout=10) as client:
            return await asyncio.get_running_loop().run_in_executor(None, client.create_key, "x")

    async def scene():
        server = await asyncio.start_server(serve, "localhost", 0, ssl=serving)
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        async with server:
            with pytest.raises(errors.ConnectionFailed, match="certificate"):
                await ask(url)
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
            assert (await ask(url))["ready"]

    asyncio.run(scene())
