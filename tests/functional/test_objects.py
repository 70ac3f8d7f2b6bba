# SPDX-License-Identifier: Apache-2.0
"""What a cluster keeps in a directory or a bucket, brought there and back by the member's own workers; and stores that lie, stutter and refuse."""

import contextlib
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading

import pytest
from harness.certificates import Authority
from harness.cluster import Database, Node
from harness.daemon import BUILD, free_port, wait_for
from harness.sinks import CREDENTIALS, KEY, Server, s3rver

pytestmark = pytest.mark.skipif(not (BUILD / "tests/objects/move-object").exists(), reason="built without libpq")
MIB = 1 << 20


class Bucket(Server):
    """A real S3 server that checks signatures."""

    id, secret = KEY, KEY

    def __init__(self, directory, program):
        super().__init__(directory)
        self.program = program
        self.settings = {"OBJECTS": "s3://audit/a/b", "ENDPOINT": f"http://127.0.0.1:{self.port}", "CREDENTIALS": str(self.dir / "keys")}
        self.write_keys(self.secret)

    def write_keys(self, secret):
        (self.dir / "keys").write_text(CREDENTIALS.format(id=self.id, secret=secret))

    def words(self):
        return ["node", str(self.program / "serve.js"), str(self.dir / "data"), str(self.port)]


class Gateway(Bucket):
    """VersityGW, where one has it: $CLOCHE_VERSITYGW names the program."""

    id, secret = "user", "secret-of-user"

    def words(self):
        (self.dir / "data/audit").mkdir(parents=True, exist_ok=True)
        return ["env", f"ROOT_ACCESS_KEY={self.id}", f"ROOT_SECRET_KEY={self.secret}", self.program, "--port", f"127.0.0.1:{self.port}", "posix", str(self.dir / "data")]


class Directory:
    def __init__(self, path):
        self.path = path
        path.mkdir(mode=0o777)
        path.chmod(0o777)
        self.settings = {"OBJECTS": f"dir://{path}"}

    def objects(self, kind):
        return sorted(p for p in (self.path / "v1" / kind).rglob("*") if p.is_file())


@pytest.fixture
def place(tmp_path):
    """A folder that the workers' user can reach."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.getuid() and str(parent) not in ("/", "/tmp", "/var/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
    return tmp_path


@pytest.fixture(params=["directory", "s3rver", "versitygw"])
def store(request, place, tmp_path_factory):
    with contextlib.ExitStack() as stack:
        if request.param == "directory":
            yield Directory(place / "store")
        elif request.param == "s3rver":
            yield stack.enter_context(Bucket(place / "store", s3rver(tmp_path_factory)).start())
        else:
            program = os.environ.get("CLOCHE_VERSITYGW") or shutil.which("versitygw")
            if not program:
                pytest.skip("this host has no versitygw")
            yield stack.enter_context(Gateway(place / "store", program).start())


def move(settings, *words):
    r = subprocess.run([BUILD / "tests/objects/move-object", *words], env={**os.environ, **settings}, capture_output=True, text=True, timeout=240)
    assert r.returncode in (0, 1), (r.returncode, r.stdout, r.stderr)
    answer = json.loads(r.stdout)
    assert (r.returncode == 0) == (answer["code"] == "") and (not answer["code"] or (answer["message"] and answer["hint"])), answer
    assert "call_refused" not in r.stderr
    return answer


def make(path, size, hole=0):
    path.write_bytes(os.urandom(size - hole))
    os.truncate(path, size)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_is_put_comes_back_and_is_stored_once_and_unreadable(store, place):
    file, out = place / "file", place / "out"
    digest = make(file, 22 * MIB + 5, hole=9 * MIB)
    assert move(store.settings, "check", "A", "-")["code"] == ""
    first = move(store.settings, "put", "A", file)
    assert (first["code"], first["digest"], first["chunks"], first["zero"]) == ("", digest, 6, 2)
    assert move(store.settings, "put", "A", file)["code"] == ""
    assert move(store.settings, "get", "A", out, digest)["code"] == ""
    assert out.read_bytes() == file.read_bytes()
    assert out.stat().st_blocks * 512 <= 17 * MIB  # zeros are holes
    stored = [p for p in (place / "store").rglob("*") if p.is_file() and p.name not in ("keys", "log")]
    piece = file.read_bytes()[: 64 * 1024][1000:1064]
    assert stored and not any(piece in p.read_bytes() for p in stored)
    assert not any(digest in str(p) for p in stored)


def test_another_project_finds_nothing_of_it(store, place):
    digest = make(place / "file", MIB)
    move(store.settings, "put", "A", place / "file")
    assert move(store.settings, "get", "B", place / "out", digest)["code"] == "object_missing"
    assert move(store.settings, "get", "A", place / "out", digest)["code"] == ""  # the control


@pytest.mark.parametrize("size", [1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1])
def test_no_size_is_special(place, size):
    store = Directory(place / "store")
    digest = make(place / "file", size)
    assert move(store.settings, "put", "A", place / "file")["chunks"] == -(-size // (4 * MIB))
    assert move(store.settings, "get", "A", place / "out", digest)["code"] == ""
    assert (place / "out").read_bytes() == (place / "file").read_bytes()


def test_a_directory_that_was_tampered_with_gives_nothing_wrong(place):
    """Each change that who holds the store can make, with what was there before it as the control."""
    store = Directory(place / "store")
    one, two = make(place / "one", 5 * MIB), make(place / "two", 5 * MIB)
    move(store.settings, "put", "A", place / "one")
    manifest = store.objects("manifests")[0]
    chunk, *_ = store.objects("chunks")
    move(store.settings, "put", "A", place / "two")
    other_manifest = next(m for m in store.objects("manifests") if m != manifest)
    move(store.settings, "put", "B", place / "one")
    foreign = next(m for m in store.objects("manifests") if m not in (manifest, other_manifest))
    other_chunk = next(c for c in store.objects("chunks") if c.stat().st_size == chunk.stat().st_size and c != chunk)
    good = {p: p.read_bytes() for p in (manifest, chunk)}

    def got(digest=one):
        (place / "out").unlink(missing_ok=True)
        code = move(store.settings, "get", "A", place / "out", digest)["code"]
        assert code or hashlib.sha256((place / "out").read_bytes()).hexdigest() == digest
        for path, content in good.items():
            path.unlink(missing_ok=True)
            path.write_bytes(content)
        return code

    flipped = bytearray(good[chunk])
    flipped[len(flipped) // 2] ^= 1
    changes = [(manifest, other_manifest.read_bytes()), (manifest, foreign.read_bytes()), (manifest, good[manifest][:-1]), (manifest, good[manifest] + b"\0"), (manifest, b"x"),
               (chunk, bytes(flipped)), (chunk, other_chunk.read_bytes()), (chunk, good[chunk][:-1]), (chunk, good[chunk] + b"\0" * (8 * MIB)), (chunk, b"\0" * len(good[chunk]))]
    assert got() == ""
    for path, content in changes:
        path.write_bytes(content)
        assert got() == "objects_damaged", (path.name, len(content))
    chunk.unlink()
    assert got() == "object_missing"
    chunk.unlink()
    os.symlink("/etc/passwd", chunk)
    assert got() in ("objects_damaged", "objects_unreachable")
    chunk.unlink()
    os.mkfifo(chunk)
    assert got() == "objects_damaged"
    assert (got(), got(two)) == ("", "")


def test_a_directory_that_is_not_there_or_not_ours_is_told_so(place):
    assert move({"OBJECTS": f"dir://{place}/none"}, "check", "A", "-")["code"] == "objects_missing"
    store = Directory(place / "store")
    store.path.chmod(0o755)
    assert move(store.settings, "check", "A", "-")["code"] == "objects_rights_missing"
    store.path.chmod(0o777)
    assert move(store.settings, "check", "A", "-")["code"] == ""


def test_a_bucket_that_refuses_is_told_by_its_cause(place, tmp_path_factory):
    with Bucket(place / "store", s3rver(tmp_path_factory)).start() as bucket:
        def code(**other):
            return move({**bucket.settings, **other}, "check", "A", "-")["code"]

        assert code() == ""
        assert code(OBJECTS="s3://nobucket") == "objects_missing"
        bucket.write_keys("wrong")
        assert code() == "objects_keys_refused"
        assert code(CREDENTIALS="/none") == "objects_setting_invalid"
        assert code(ENDPOINT=f"http://127.0.0.1:{free_port()}") == "objects_unreachable"
        assert code(ENDPOINT=f"https://127.0.0.1:{bucket.port}") in ("objects_untrusted", "objects_unreachable")


class Hostile(http.server.ThreadingHTTPServer):
    """Answers what a test says: answer(method, number of the request) gives status, fields, body; None is the right one, from memory."""

    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.kept, self.n, self.lock, self.seen = answer, {}, 0, threading.Lock(), []
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def serve(self):
        s = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with s.lock:
            s.n += 1
            number = s.n
            s.seen.append((self.command, self.path, dict(self.headers)))
        told = s.answer(self.command, number)
        if told is None:
            told = (200, {}, b"") if self.command == "PUT" else (204, {}, b"") if self.command == "DELETE" else (200, {}, s.kept[self.path]) if self.path in s.kept else (404, {}, b"<Code>NoSuchKey</Code>")
            if self.command == "PUT":
                s.kept[self.path] = body
        status, fields, content = told
        self.send_response(status)
        if not any(name.lower() == "content-length" for name in fields):
            fields = {**fields, "Content-Length": str(len(content))}
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        if callable(content):
            content(self.wfile)
        elif self.command != "HEAD":
            self.wfile.write(content)
        if int(fields.get("Content-Length", 0)) != len(content if isinstance(content, bytes) else b"") or fields.get("Connection") == "close":
            self.close_connection = True

    do_GET = do_PUT = do_HEAD = do_DELETE = serve


@contextlib.contextmanager
def hostile(place, answer, **more):
    keys = place / "keys"
    keys.write_text(CREDENTIALS.format(id="a", secret="b"))
    with Hostile(answer) as server:
        yield server, {"OBJECTS": "s3://bucket", "ENDPOINT": f"http://127.0.0.1:{server.server_port}", "CREDENTIALS": str(keys), **more}


def error(status, code, **fields):
    return status, fields, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()


@pytest.mark.parametrize("answer, code", [
    (error(500, "InternalError"), "objects_unreachable"),
    (error(503, "SlowDown"), "objects_unreachable"),
    (error(403, "AccessDenied"), "objects_rights_missing"),
    (error(403, "RequestTimeTooSkewed"), "objects_clock_wrong"),
    (error(403, "InvalidAccessKeyId"), "objects_keys_refused"),
    (error(301, "PermanentRedirect", Location="http://127.0.0.1:1/", **{"x-amz-bucket-region": "eu-1"}), "objects_region_wrong"),
    ((307, {"Location": "http://127.0.0.1:1/"}, b""), "objects_region_wrong"),
    (error(400, "AuthorizationHeaderMalformed"), "objects_region_wrong"),
    (error(404, "NoSuchBucket"), "objects_missing"),
    (error(507, "XMinioStorageFull"), "objects_full"),
    ((200, {"Content-Length": "99"}, b"short"), "objects_unreachable"),
    ((500, {}, b"x" * 200000), "objects_unreachable"),
    ((403, {}, b"<Code>" + b"\xff\0<" * 30000), "objects_rights_missing"),
], ids=lambda v: v if isinstance(v, str) else str(v[0]))
def test_an_answer_of_a_store_is_told_by_its_cause(place, answer, code):
    with hostile(place, lambda method, n: answer) as (_, settings):
        assert move(settings, "check", "A", "-")["code"] == code


def test_what_passes_is_tried_again_and_a_closed_connection_is_obeyed(place):
    """Every second answer is an error, and every connection ends with its answer."""
    def stutter(method, n):
        return error(503, "SlowDown", Connection="close") if n % 2 else None

    digest = make(place / "file", 9 * MIB)
    with hostile(place, stutter) as (server, settings):
        assert move(settings, "put", "A", place / "file")["code"] == ""
        assert move(settings, "get", "A", place / "out", digest)["code"] == ""
        assert (place / "out").read_bytes() == (place / "file").read_bytes()
        puts = [fields for method, _, fields in server.seen if method == "PUT"]
        assert all(f["authorization"].startswith("AWS4-HMAC-SHA256 Credential=a/") and len(f["x-amz-content-sha256"]) == 64 for f in puts)
        assert any(f.get("if-none-match") == "*" for f in puts)


def test_a_store_that_knows_no_conditions_is_asked_without(place):
    digest = make(place / "file", 9 * MIB)
    with hostile(place, lambda method, n: None) as (server, settings):
        server.answer = lambda method, n: error(501, "NotImplemented") if server.seen[n - 1][2].get("if-none-match") else None
        assert move(settings, "put", "A", place / "file")["code"] == ""
        assert move(settings, "get", "A", place / "out", digest)["code"] == ""


@pytest.mark.parametrize("age, writes", [("Fri, 01 Jan 2100 00:00:00 GMT", 3), ("Thu, 01 Jan 1970 00:00:10 GMT", 6), ("soon", 6)])
def test_an_old_chunk_is_not_counted_on(place, age, writes):
    """What could be collected is written once more; what was written just now is not."""
    make(place / "file", 9 * MIB)
    with hostile(place, lambda method, n: None) as (server, settings):
        def answer(method, n):
            if method == "HEAD":
                return 200, {"Last-Modified": age}, b""
            return error(412, "PreconditionFailed") if server.seen[n - 1][2].get("if-none-match") else None

        server.answer = answer
        move(settings, "put", "A", place / "file")
        chunks = [path for method, path, _ in server.seen if method == "PUT" and "/chunks/" in path]
        assert len(chunks) == writes


def test_a_store_that_gives_other_bytes_or_no_end_is_not_believed(place):
    digest = make(place / "file", 9 * MIB)

    def endless(out):
        with contextlib.suppress(OSError):
            while True:
                out.write(b"x" * 65536)

    with hostile(place, lambda method, n: None) as (server, settings):
        assert move(settings, "put", "A", place / "file")["code"] == ""
        chunks = [p for p in server.kept if "/chunks/" in p]
        for content in (b"x" * 100, b"", server.kept[chunks[0]], endless):
            server.answer = lambda method, n, c=content: (200, {"Content-Length": str(1 << 40)} if callable(c) else {}, c) if "/chunks/" in server.seen[n - 1][1] else None
            (place / "out").unlink(missing_ok=True)
            assert move(settings, "get", "A", place / "out", digest)["code"] == "objects_damaged"
        server.answer = lambda method, n: None
        (place / "out").unlink()
        assert move(settings, "get", "A", place / "out", digest)["code"] == ""


def test_a_store_with_tls_is_verified(place):
    import ssl

    right, wrong = Authority(place, "right"), Authority(place, "wrong")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(right.issue("localhost"))
    with hostile(place, lambda method, n: None) as (server, settings):
        server.socket = context.wrap_socket(server.socket, server_side=True)
        settings["ENDPOINT"] = f"https://localhost:{server.server_port}"
        assert move({**settings, "CA": str(wrong.cert)}, "check", "A", "-")["code"] == "objects_untrusted"
        assert move({**settings, "CA": str(right.cert)}, "check", "A", "-")["code"] == ""


def test_a_member_tells_how_its_store_is(place):
    """And goes on beating without it."""
    database, store = Database(), Directory(place / "store")
    database.make("one")
    store.path.chmod(0o755)
    node = Node("a", database.conninfo("one"), objects={"objects": store.settings["OBJECTS"]})
    try:
        node.init(database.owner("one"))
        node.start()
        node.await_state("held")
        wait_for(lambda: node.status()["objects"].get("problem", {}).get("code") == "objects_rights_missing", 30, "a problem")
        told = node.status()["objects"]["problem"]
        assert str(store.path) in told["message"] and "chown" in told["hint"]
        shown = subprocess.run([BUILD / "cloche", "cluster", "status", "--config", node.config], capture_output=True, text=True).stdout
        assert "objects_rights_missing" in shown
        store.path.chmod(0o777)
        wait_for(lambda: node.status()["objects"]["state"] == "ok", 30, "the store")
        assert node.state() == "held"
    finally:
        node.close()
        database.close()
