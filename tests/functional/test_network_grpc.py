# SPDX-License-Identifier: Apache-2.0
"""gRPC through TLS that the wall looks into: real clients and servers, each call judged by itself and given its
credential."""

import importlib.util
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from harness.certificates import Authority
from harness.daemon import PATIENCE, wait_for

KEY = "sk-5ecret-0123456789"
PORT = 50051
TARGET = f"allowed.test:{PORT}"
CALLS = {"domains": ["allowed.test"], "methods": ["POST"], "paths": [{"prefix": "/test.Test/"}]}
INJECT = {"match": CALLS, "action": {"transform": {"headers": {"authorization": f"Bearer {KEY}"}}}}
SERVER = Path(__file__).resolve().parents[1] / "harness" / "grpc_server.py"

BEGIN = f"""if 1:
    import json, sys, threading
    sys.path.insert(0, "/tmp/lib")
    import grpc
    channel = grpc.secure_channel("{TARGET}", grpc.ssl_channel_credentials())
    call = lambda kind, name: getattr(channel, kind)("/test.Test/" + name)
    said = {{}}
"""


@pytest.fixture(scope="session")
def grpc_server(internet):
    pair = Authority.of(internet.ca_file).issue("allowed.test")
    argv = [*internet.enter(internet.outer), sys.executable, str(SERVER), str(pair), str(PORT), str(internet.log_path)]
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout.readline() == b"up\n"
    yield server
    server.stdin.close()
    server.wait(60 * PATIENCE)
    server.stdout.close()


@pytest.fixture(scope="session")
def grpc_library():
    """What pip has installed for the tests, its own bundle of certificates included, as an archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("grpc", "typing_extensions"):
            place = Path(importlib.util.find_spec(name).origin)
            place = place.parent if place.name == "__init__.py" else place
            tar.add(place, place.name, filter=lambda entry: None if entry.name.endswith("__pycache__") else entry)
    return out.getvalue()


@pytest.fixture
def calling(walled, grpc_server, grpc_library):
    """A function that makes a sandbox with a policy and gRPC's library."""

    def make(policy):
        box = walled(policy)
        box.sandbox.files.mkdir("/tmp/lib")
        box.sandbox.files.tar_in("/tmp/lib", grpc_library)
        return box

    return make


def run(box, program):
    """What the program inside said."""
    done = box.sandbox.run(["python3", "-S", "-c", BEGIN + program + "    print(json.dumps(said))\n"], timeout=60 * PATIENCE)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_calls_of_every_kind_pass_and_have_the_credential(calling):
    box = calling({"rules": [INJECT]})
    said = run(box, """
    reply, done = call("unary_unary", "Unary").with_call(b"hello", metadata=(("authorization", "mine"), ("other", "field")))
    said["unary"] = json.loads(reply)
    said["trailers"] = dict(done.trailing_metadata())
    said["count"] = [m.decode() for m in call("unary_stream", "Count")(b"1000")]
    said["chat"] = [m.decode() for m in call("stream_stream", "Chat")(iter([b"a", b"b" * 100_000, b"c"]))]
    said["sink"] = int(call("stream_unary", "Sink")(iter([bytes(100_000)] * 50)))
""")
    assert said["unary"]["said"] == "hello"
    assert (said["unary"]["fields"]["authorization"], said["unary"]["fields"]["other"]) == (f"Bearer {KEY}", "field")
    assert said["trailers"]["behind"] == "the reply"
    assert said["count"] == [str(i) for i in range(1000)]
    assert said["chat"] == ["<a>", f"<{'b' * 100_000}>", "<c>"]
    assert said["sink"] == 5_000_000


REFUSED = """
    try:
        call("unary_unary", "{name}")(b"", timeout=30)
    except grpc.RpcError as e:
        said.update(code=e.code().name, details=e.details())
"""


def test_a_denied_call_is_told_so_as_gRPC_and_others_go_on(calling, internet):
    match = {**CALLS, "paths": ["/test.Test/Count"]}
    box = calling({"rules": [{"match": match, "action": "allow"}]})
    said = run(box, REFUSED.format(name="Unary") + """
    said["count"] = len(list(call("unary_stream", "Count")(b"3")))
""")
    assert (said["code"], said["count"]) == ("PERMISSION_DENIED", 3)
    assert said["details"].startswith("The network policy of this sandbox does not let it reach allowed.test port 50051")
    assert not internet.seen("grpc", method="Unary", fields={})


def test_a_server_that_does_not_answer_is_unavailable_to_gRPC(calling):
    box = calling({"rules": [INJECT]})
    said = run(box, """
    channel = grpc.secure_channel("allowed.test:50099", grpc.ssl_channel_credentials())
""" + REFUSED.format(name="Unary"))
    assert (said["code"], "it does not answer" in said["details"]) == ("UNAVAILABLE", True)


def test_deadlines_and_cancels_reach_the_server(calling, internet):
    said = run(calling({"rules": [INJECT]}), """
    try:
        call("unary_unary", "Slow")(b"deadline", timeout=1)
    except grpc.RpcError as e:
        said["deadline"] = e.code().name
    late = call("unary_unary", "Slow").future(b"cancel")
    threading.Timer(1, late.cancel).start()
    try:
        late.result()
    except grpc.FutureCancelledError:
        said["cancel"] = True
    said["after"] = len(list(call("unary_stream", "Count")(b"3")))
""")
    assert said == {"deadline": "DEADLINE_EXCEEDED", "cancel": True, "after": 3}
    for word in ("deadline", "cancel"):
        assert internet.seen("grpc", method="Slow", said=word)
        wait_for(lambda word=word: internet.seen("grpc-over", said=word), 10, "its end at the server")


def test_a_credential_that_comes_back_by_gRPC_is_starred(calling):
    rule = {"match": CALLS, "action": {"transform": {"headers": {"authorization": f"Bearer {KEY}"}, "scrub": ["authorization"]}}}
    said = run(calling({"rules": [rule]}), """
    reply, done = call("unary_unary", "Unary").with_call(b"hello")
    said.update(json.loads(reply))
    said["trailers"] = dict(done.trailing_metadata())
""")
    stars = "Bearer " + "*" * len(KEY)
    assert (said["fields"]["authorization"], said["trailers"]["echo"]) == (stars, stars)


def test_many_calls_at_once_each_get_their_own_reply(calling):
    said = run(calling({"rules": [INJECT]}), """
    calls = [call("unary_unary", "Unary").future(b"%d" % i) for i in range(300)]
    said["own"] = [json.loads(c.result())["said"] for c in calls] == [str(i) for i in range(300)]
""")
    assert said == {"own": True}
