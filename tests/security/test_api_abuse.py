# SPDX-License-Identifier: Apache-2.0
"""Clients that attack the API: by paths, by words that end in logs, queries or programs, by races and by vanishing."""

import json
import random
import re
import socket
import struct
import subprocess
import threading

import pytest
from cloche import Client, errors
from harness.daemon import call, wait_for

HERE = "127.0.0.1"


@pytest.mark.parametrize("form", ["/root/{}", "../../../../../../root/{}", "/../../root/{}", "/proc/1/root/root/{}", "/proc/1/cwd/root/{}",
                                  "/proc/self/root/../root/{}", "//root//{}", "/proc/thread-self/root/root/{}"])
def test_A10_no_path_of_the_file_api_leads_to_the_host(sandbox, canaries, form, user):
    path = form.format(canaries.files[0].name)
    for one in (sandbox.files.read, sandbox.files.stat, sandbox.files.list, lambda p, user: b"".join(sandbox.files.tar_out(p, user=user))):
        with pytest.raises(errors.ClocheError) as e:
            one(path, user=user)
        assert 400 <= e.value.status < 500


@pytest.mark.parametrize("path", ["..%2f..%2froot%2f{}", "%2e%2e/%2e%2e/root/{}", "..%252f..%252froot%252f{}", "..%5c..%5croot%5c{}",
                                  "/root/{}%00.txt", "..%c0%af..%c0%afroot%c0%af{}"])
def test_A10_no_encoding_of_a_path_leads_to_the_host(daemon, sandbox, canaries, path):
    for place in (f"/v1/sandboxes/{sandbox.id}/files?path=", f"/v1/sandboxes/{sandbox.id}/files/", "/", "/v1/"):
        status, body = call(daemon, "GET", place + path.format(canaries.files[0].name))
        assert 400 <= status < 500
        assert canaries.token not in str(body)


FORGED = "a\r\nFORGED line\x1b[31m\x07"


def test_A11_no_word_of_a_client_makes_a_line_or_a_control_byte_in_the_log(daemon, client, sandbox):
    for fields in ({"name": FORGED}, {"tags": {"k": FORGED}}, {"tags": {FORGED: "v"}}, {"env": {"V": FORGED}}, {"env": {FORGED: "v"}}, {"template": FORGED}):
        try:
            client.create(**fields).delete()
        except errors.ClocheError as e:
            assert e.status == 400
    for words in ({"argv": [FORGED]}, {"argv": ["true"], "cwd": FORGED}, {"argv": ["true"], "user": FORGED}, {"shell": f"echo {FORGED}"}):
        call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs", words)
    for path in ("/v1/sandboxes/a%0d%0aFORGED%20line%1b", "/v1/sandboxes?tag=a%0d%0aFORGED%20line%1b"):
        call(daemon, "GET", path, headers={"User-Agent": "x\x1b[31m", "X-Request-Id": "FORGED"})
    try:
        client.create_key(FORGED)
    except errors.ClocheError as e:
        assert e.status == 400
    log = daemon.log()
    assert not re.search(r"^FORGED", log, re.M)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", log)


QUOTES = ["' OR '1'='1", "'; DROP TABLE sandboxes; --", '" OR ""="', "%' OR 1=1 --", "x' UNION SELECT secret FROM keys --", "$.tags", "k') --", "\\'; --",
          "*", "%", "_", "{}", "[0]", "$[*]"]


@pytest.mark.parametrize("text", QUOTES)
def test_A15_words_of_a_query_language_are_only_text(daemon, client, make_sandbox, project_keys, text):
    bystander = make_sandbox(tags={"k": "v"})
    marked = make_sandbox(tags={"k": text})
    query = lambda **words: "&".join(f"{k}=" + "".join(f"%{b:02x}" for b in v.encode()) for k, v in words.items())
    assert [s.id for s in client.list(tag=f"k:{text}")] == [marked.id]
    for words in ({"tag": text}, {"tag": f"{text}:v"}, {"cursor": text}, {"state": text}, {"limit": text}):
        status, body = call(daemon, "GET", "/v1/sandboxes?" + query(**words))
        assert status == 400 or (status == 200 and body["sandboxes"] == []), (words, status, body)
        status, body = call(daemon, "GET", "/v1/sandboxes?" + query(**words), key=project_keys["other"])
        assert status == 400 or body["sandboxes"] == []
    for method in ("GET", "DELETE"):
        assert call(daemon, method, "/v1/sandboxes/" + "".join(f"%{b:02x}" for b in text.encode()))[0] in (400, 404)
    assert call(daemon, "POST", "/v1/sandboxes", {"name": text})[0] == 400
    made = client.create_key(text, scope="read")
    assert [k["name"] for k in client.keys() if k["id"] == made["key"]["id"]] == [text]
    client.revoke_key(made["key"]["id"])
    assert {marked.refresh().state, bystander.refresh().state} == {"running"}


def test_A16_words_that_look_like_options_reach_the_program_as_they_are(sandbox):
    words = ["-c", "--help", "--", "-", "$(id)", "`id`", ";id", "|id", "a\nb", "*", "~", "%s%n", "é"]
    r = sandbox.run(["python3", "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *words])
    assert json.loads(r.stdout) == words
    for bad in (["-c", "id"], ["--help"], ["$(id)"], ["/"], ["."]):
        with pytest.raises(errors.ClocheError) as e:
            sandbox.run(bad)
        assert 400 <= e.value.status < 500
    sandbox.files.write("-rf", b"kept")
    assert sandbox.files.read("-rf") == b"kept"
    sandbox.files.move("-rf", "--")
    sandbox.files.remove("--")


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "PATH", "IFS", "BASH_ENV", "HOME", "PYTHONPATH", "CLOCHE_EXEC"])
def test_A16_an_environment_changes_the_command_and_nothing_else(sandbox, name, user):
    """What starts the command and what works on files is never run with the command's variables."""
    env = {name: "/home/user/evil.so"}
    sandbox.files.write("evil.so", b"not a library")
    r = sandbox.run(["/usr/bin/env"], env=env, user=user)
    assert r.exit_code == 0 and f"{name}=" in r.stdout
    assert sandbox.files.read("evil.so") == b"not a library"
    assert sandbox.run(["true"]).exit_code == 0


@pytest.mark.parametrize("count, size", [(1, 2 << 20), (2000, 1024), (4000, 1)])
def test_A16_more_words_than_a_program_takes_are_refused_or_run(daemon, sandbox, count, size):
    status, body = call(daemon, "POST", f"/v1/sandboxes/{sandbox.id}/execs", {"argv": ["true"] + ["x" * size] * count})
    assert status in (400, 413) or (status, body["exec"]["exit_code"]) == (200, 0)
    assert sandbox.run(["true"]).exit_code == 0


ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"GET /v1/sandboxes HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
print(s.recv(12).decode())
"""


def test_A17_who_may_open_the_socket_is_still_asked_for_a_key(daemon):
    """The mode lets a group in; only root and the gateway's own user are taken at their word."""
    def ask(*identity):
        argv = ["setpriv", *identity, "--clear-groups", "/usr/bin/python3", "-c", ASK, str(daemon.socket)]
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30, check=False)

    gid = daemon.socket.stat().st_gid
    assert ask("--reuid=0", "--regid=0").stdout.strip() == "HTTP/1.1 200"
    assert "PermissionError" in ask("--reuid=65534", "--regid=65534").stderr
    if gid == 0 or gid == 65534:
        pytest.skip("the socket has no group of its own here")
    assert ask("--reuid=65534", f"--regid={gid}").stdout.strip() == "HTTP/1.1 401"


@pytest.mark.parametrize("how", ["reset", "close"])
def test_A08_a_client_that_vanishes_in_a_stream_leaves_the_exec_and_the_daemon(daemon, sandbox, how):
    body = json.dumps({"shell": "echo up; while :; do echo x; done"})
    head = f"POST /v1/sandboxes/{sandbox.id}/execs HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\nAccept: application/x-ndjson\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    for _ in range(5):
        s = socket.create_connection((HERE, daemon.port), timeout=60)
        s.sendall(head.encode())
        assert s.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200"
        if how == "reset":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    assert sandbox.run(["echo", "fine"]).stdout == "fine\n"
    running = [e for e in sandbox.execs() if not e.refresh().is_over]
    assert len(running) == 5
    for e in running:
        assert e.kill().cause == "killed"


def test_A08_a_client_that_is_stopped_while_it_uploads_holds_up_nobody(daemon, sandbox):
    head = f"PUT /v1/sandboxes/{sandbox.id}/files?path=half HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.key}\r\nContent-Length: 1000000\r\n\r\n"
    slow = [socket.create_connection((HERE, daemon.port), timeout=60) for _ in range(10)]
    names = lambda: [e.path for e in sandbox.files.list(".")]
    for s in slow:
        s.sendall(head.encode() + b"x" * 1000)
    for i in range(10):
        sandbox.files.write("whole", str(i).encode())
        assert sandbox.run(["cat", "whole"]).stdout == str(i)
    for s in slow:
        s.close()
    wait_for(lambda: "whole" in names() and not any("half" in n or "cloche" in n for n in names()), 15, "the halves' end")


ALLOWED = {"gone", "not_found", "conflict", "file_not_found", "unavailable", "file_exists", "limit_exceeded"}


@pytest.mark.parametrize("seed", range(6))
def test_A14_whatever_meets_a_delete_gets_an_answer_and_leaves_nothing(client, engine, daemon, seed, template):
    """Calls of all kinds against sandboxes that are deleted meanwhile; the audit around the test counts what is left."""
    rng = random.Random(seed)
    odd = []

    def one(sandbox, kind):
        f = sandbox.files
        try:
            if kind == "run":
                sandbox.run("echo x; sleep 0.05")
            elif kind == "start":
                sandbox.start(["sleep", "1000"])
            elif kind == "write":
                f.write("x", (b"y" * 65536 for _ in range(20)))
            elif kind == "read":
                f.read("/etc/passwd")
            elif kind == "tar":
                f.tar_in("t", b"".join(f.tar_out("/etc")), parents=True)
            elif kind == "update":
                sandbox.update(tags={"n": str(rng.random())})
            elif kind == "list":
                [e.refresh() for e in sandbox.execs()]
            else:
                sandbox.delete()
        except errors.ClocheError as e:
            is_cut = kind in ("tar", "read") and "broke off" in str(e)  # a body that had begun can only be cut
            if e.code not in ALLOWED and not is_cut:
                odd.append((kind, e.status, e.code, str(e)))

    for _ in range(4):
        sandbox = client.create(engine=engine, template=template)
        kinds = [rng.choice(["run", "start", "write", "read", "tar", "update", "list"]) for _ in range(10)] + ["delete"] * 2
        rng.shuffle(kinds)
        threads = [threading.Thread(target=one, args=(sandbox, k)) for k in kinds]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        assert not any(t.is_alive() for t in threads), "a call never ended"
        sandbox.close()
    assert odd == []
    assert client.health()["ready"] is True


def test_A14_a_sandbox_deleted_while_it_is_made_leaves_nothing(daemon, client, engine, template):
    name = "made-and-unmade"
    stop = threading.Event()

    def delete():
        while not stop.is_set():
            call(daemon, "DELETE", f"/v1/sandboxes/{name}")

    thread = threading.Thread(target=delete)
    thread.start()
    try:
        for _ in range(10):
            try:
                client.create(engine=engine, template=template, name=name)
            except errors.ClocheError as e:
                assert e.code in ALLOWED, e
    finally:
        stop.set()
        thread.join(30)
    while call(daemon, "DELETE", f"/v1/sandboxes/{name}")[0] in (200, 204):
        pass
    assert [s for s in client.list() if s.info.name == name] == []


def test_A18_no_answer_tells_a_key_a_variable_or_a_place_of_the_host(daemon, client, make_sandbox):
    sandbox = make_sandbox(env={"TOKEN": "canary-of-the-sandbox"})
    sandbox.run(["true"], env={"OTHER": "canary-of-the-exec"})
    told = [str(call(daemon, "GET", path)) for path in (
        "/v1/health", "/v1/sandboxes", f"/v1/sandboxes/{sandbox.id}", f"/v1/sandboxes/{sandbox.id}/execs", "/v1/keys", "/v1/projects",
        f"/v1/sandboxes/{sandbox.id}/files?path=/nowhere", f"/v1/sandboxes/{sandbox.id}/files?path=/etc/shadow", "/metrics", "/debug", "/v1/sandboxes/none",
    )]
    with Client(daemon.url, "clo_" + "0" * 40) as stranger, pytest.raises(errors.ClocheError) as e:
        list(stranger.list())
    told.append(str(e.value))
    for text in [*told, daemon.log()]:
        for secret in ("canary-of-the-sandbox", "canary-of-the-exec", daemon.key[4:]):
            assert secret not in text
    for text in told:
        assert str(daemon.dir) not in text


@pytest.mark.parametrize("value", ["-1", "0", "99999999999999999999", "1e3", "0x10", "1.5", "NaN", "", " 1", "1 ", "+1", "9223372036854775808", "१"])
@pytest.mark.parametrize("field", ["sandboxes?limit", "files/list?path=.&depth", "files/list?path=.&limit", "files?path=/etc/passwd&offset", "execs/E/output?after"])
def test_A19_a_number_in_a_query_is_whole_and_in_its_bounds_or_refused(daemon, place, field, value):
    path, name = field.rsplit("?", 1)[0], re.split("[?&]", field)[-1]
    sandbox, e = place
    base = "/v1/" if path == "sandboxes" else f"/v1/sandboxes/{sandbox.id}/"
    word = "".join(f"%{b:02x}" for b in value.encode())
    status, body = call(daemon, "GET", base + field.replace("/E/", f"/{e.id}/") + "=" + word)
    if status != 200:
        assert (status, body["error"]["code"], body["error"].get("field")) == (400, "invalid_field", name)
    else:
        assert value == "0"


@pytest.fixture(scope="module")
def place(client, daemon):
    with client.create() as sandbox:
        yield sandbox, sandbox.run(["true"]).exec
