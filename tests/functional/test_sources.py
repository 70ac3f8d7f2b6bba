# SPDX-License-Identifier: Apache-2.0
"""A sandbox that is created with a source has its files when it runs: from git, or from an archive; through its own wall,
with credentials that never come inside."""

import io
import json
import os
import signal
import tarfile
import threading

import pytest
from cloche import ClocheError
from harness.cli import Cli
from harness.daemon import end, wait_for
from harness.internet import HOST, METADATA
from harness.sources import BASE, ENCODED, PASSWORD, PORT, TLS_BASE

CREDENTIALS = {"username": "bot", "password": PASSWORD}
# [which, file] of words that are given backwards, so that the search does not find itself.
SEARCH = """
import glob, json, os, sys
words, found = [w[::-1].encode() for w in sys.argv[1:]], []
places = [os.path.join(d, f) for top in ("etc", "home", "root", "run", "tmp", "var/tmp") for d, _, fs in os.walk("/" + top) for f in fs]
for path in places + glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        data = open(path, "rb").read() if os.path.isfile(path) else b""
    except OSError:
        continue
    found += [[i, path] for i, word in enumerate(words) if word in data and "/logs/" not in path]
print(json.dumps(found))
"""


def archive(*entries, mode="w"):
    """A tar of (name, content) and of ready TarInfos."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size = len(entry[1])
            tar.addfile(info, io.BytesIO(entry[1]))
    return out.getvalue()


@pytest.fixture
def create(walled_client, internet, engine, template):
    made = []

    def make(source, **fields):
        internet.set_zone({})
        sandbox = walled_client.create(engine=engine, template=template, source=source, **fields)
        made.append(sandbox)
        return sandbox

    yield make
    for sandbox in made:
        end(sandbox)


def refused(create, source, **fields):
    with pytest.raises(ClocheError) as e:
        create(source, **fields)
    return e.value


@pytest.mark.parametrize(
    "fields, version, commits",
    [({}, 2, 3), ({"depth": 1}, 2, 1), ({"revision": "v1"}, 1, 2), ({"revision": 0}, 0, 1), ({"revision": 1, "depth": 1}, 1, 1), ({"revision": "refs/pull/7/head"}, 0, 1)],
    ids=["whole", "shallow", "tag", "commit", "shallow commit", "ref"],
)
def test_a_git_repository_is_there_when_the_sandbox_runs(create, sources, fields, version, commits):
    if isinstance(fields.get("revision"), int):
        fields = {**fields, "revision": sources.commits[fields["revision"]]}
    sandbox = create({"type": "git", "url": f"{BASE}/git/app.git", **fields})
    assert sandbox.files.read_text("app/README") == f"version {version}\n"
    assert sandbox.run("git -C app log --oneline | wc -l").stdout.strip() == str(commits)
    assert sandbox.run("stat -c %U app app/README; git -C app status --short").stdout == "user\nuser\n"
    assert sandbox.refresh().raw["source"] == {"type": "git", "url": f"{BASE}/git/app.git", "revision": fields.get("revision"), "path": "app"}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_is_unpacked_before_the_sandbox_runs(create, sources, mode):
    (sources.dir / "site.tar").write_bytes(archive(("a/one", b"1" * 1_000_000), ("two", b"2"), mode=mode))
    sandbox = create({"type": "tarball", "url": f"{BASE}/files/site.tar?token=x", "path": "site/new"})
    assert sandbox.run("stat -c '%n %s %U' site/new/a/one site/new/two").stdout == "site/new/a/one 1000000 user\nsite/new/two 1 user\n"
    assert sandbox.refresh().raw["source"]["url"] == f"{BASE}/files/site.tar"  # a query may be a secret


def test_what_is_fetched_by_tls_without_credentials_comes_from_who_has_proved_its_name(create, sources):
    (sources.dir / "site.tar").write_bytes(archive(("two", b"2")))
    url = f"{TLS_BASE}/files/site.tar"
    sandbox = create({"type": "tarball", "url": url})
    assert (sandbox.files.read_text("two"), sandbox.refresh().raw["source"]["url"], sandbox.network()["kind"]) == ("2", url, "deny-all")
    for network in ("deny-all", "allow-all"):
        made = create({"type": "git", "url": f"{TLS_BASE}/git/app.git", "depth": 1}, network=network)
        assert made.files.read_text("app/README") == "version 2\n"
    sources.log_path.write_text("")
    for name in ("wrong.test", "stranger.test"):  # the same server, which has no certificate of theirs
        assert refused(create, {"type": "tarball", "url": url.replace("allowed.test", name)}).code == "source_failed"
    assert not sources.log()


def test_the_sources_host_is_open_for_the_fetch_alone(create, sources, walled_client):
    sandbox = create({"type": "git", "url": f"{BASE}/git/app.git"})
    assert sandbox.network()["kind"] == "deny-all"
    done = sandbox.run(["git", "-C", "app", "fetch"], timeout=30)
    assert done.exit_code != 0 and "Could not resolve host" in done.stderr
    sandbox = create({"type": "git", "url": f"{BASE}/git/app.git"}, network={"allow": ["allowed.test"]})  # the control
    assert sandbox.run(["git", "-C", "app", "fetch"], timeout=30).exit_code == 0


def test_a_private_name_is_fetched_from_where_the_policy_lets_it_lie(create, sources, internet):
    source = {"type": "git", "url": f"http://private.test:{PORT}/git/app.git"}
    error = refused(create, source)
    assert error.code == "source_failed" and error.status == 422
    policy = {"rules": [{"match": {"domains": ["private.test"], "cidrs": ["10.99.0.0/16"]}, "action": "allow"}]}
    assert create(source, network=policy).files.exists("app/README")


@pytest.mark.parametrize("host", [METADATA, "metadata.test", f"[::ffff:{METADATA}]", HOST, "127.0.0.1"])
def test_N29_a_source_is_fetched_from_nothing_that_is_the_operators(create, sources, internet, host):
    assert internet.run("curl", "-sf", f"http://{METADATA}/control").returncode == 0  # there is something to reach
    policy = {"rules": [{"match": {"cidrs": [f"{METADATA}/32", f"{HOST}/32", "127.0.0.1/32"]}, "action": "allow"}]}
    for network in (None, policy):
        assert refused(create, {"type": "tarball", "url": f"http://{host}/n29"}, network=network).code == "source_failed"
    assert not internet.seen("request", path="/n29")


@pytest.mark.parametrize("host", [METADATA, "metadata.test", f"[::ffff:{METADATA}]", HOST, "127.0.0.1"])
def test_N29_a_redirect_leads_a_fetch_to_nothing_that_is_the_operators(create, sources, internet, host):
    ranges = [f"{METADATA}/32", f"{HOST}/32", "127.0.0.1/32"]
    policy = {"rules": [{"match": {"cidrs": ranges}, "action": "allow"}, {"match": {"domains": ["*.test"]}, "action": "allow"}]}
    for network in (None, "allow-all", policy):
        error = refused(create, {"type": "tarball", "url": f"{BASE}/moved/{host}/n29-moved"}, network=network)
        assert error.code == "source_failed", error
    assert not internet.seen("request", path="/n29-moved")
    refused(create, {"type": "tarball", "url": f"{BASE}/moved/other.test/n29-control"}, network=policy)  # no archive, but a redirect is followed
    assert internet.seen("request", path="/n29-control")


@pytest.mark.parametrize("base", [BASE, TLS_BASE], ids=["http", "https"])
def test_credentials_reach_the_server_and_nothing_inside(create, sources, base):
    sources.log_path.write_text("")
    sandbox = create({"type": "git", "url": f"{base}/private/git/app.git", "credentials": CREDENTIALS})
    assert {e["authorization"] for e in sources.log()} == {f"Basic {ENCODED}"}
    assert sandbox.files.read_text("app/README") == "version 2\n"
    words = [word[::-1] for word in (PASSWORD, ENCODED, "private/git/app.git")]
    seen = json.loads(sandbox.run(["python3", "-I", "-c", SEARCH, *words], user="root", timeout=60).stdout)
    assert seen == [[2, "/home/user/app/.git/config"]]  # the control
    assert PASSWORD not in json.dumps(sandbox.refresh().raw) + json.dumps(sandbox.network())


def test_a_password_may_be_a_secret_that_is_kept_by_name(create, sources, walled_client):
    sources.log_path.write_text("")
    source = {"type": "git", "url": f"{TLS_BASE}/private/git/app.git", "credentials": {**CREDENTIALS, "password": "secret://SOURCE"}}
    with pytest.raises(ClocheError, match="no secret 'SOURCE'") as none:
        create(source)
    assert none.value.field == "source.credentials" and not sources.log()
    walled_client.set_secret("SOURCE", PASSWORD)
    assert create(source).files.read_text("app/README") == "version 2\n"
    assert {e["authorization"] for e in sources.log()} == {f"Basic {ENCODED}"}
    walled_client.delete_secret("SOURCE")


def test_credentials_are_not_sent_to_who_cannot_prove_to_be_it(create, sources):
    sources.log_path.write_text("")
    source = {"type": "tarball", "url": TLS_BASE.replace("allowed", "wrong") + "/private/files/x.tar", "credentials": CREDENTIALS}
    assert refused(create, source).code == "source_failed" and not sources.log()


def test_what_goes_wrong_is_told_in_gits_words_and_leaves_nothing(create, sources, walled_daemon, walled_client):
    before = {s.id for s in walled_client.list()}
    cases = {
        "no repository": ({"url": f"{BASE}/git/none.git"}, "not found"),
        "no revision": ({"url": f"{BASE}/git/app.git", "revision": "nope"}, "Remote branch nope not found"),
        "no host": ({"url": f"http://nowhere.test:{PORT}/x.git"}, "Could not resolve host"),
        "no password": ({"url": f"{BASE}/private/git/app.git"}, "could not read Username"),
        "wrong password": ({"url": f"{BASE}/private/git/app.git", "credentials": {"password": "wr0ng-one"}}, ""),
    }
    for name, (fields, words) in cases.items():
        error = refused(create, {"type": "git", **fields})
        assert (error.status, error.code) == (422, "source_failed") and words in str(error), (name, error)
        assert "wr0ng-one" not in str(error)
    error = refused(create, {"type": "tarball", "url": f"{BASE}/files/none.tar"})
    assert "404" in str(error)
    error = refused(create, {"type": "tarball", "url": f"{BASE}/elsewhere/x.tar"})
    assert "other.test" in str(error)
    assert {s.id for s in walled_client.list()} == before
    assert "wr0ng-one" not in walled_daemon.log() and PASSWORD not in walled_daemon.log()


def test_E25_a_hostile_archive_stays_below_its_directory_or_is_refused(create, sources):
    def link(name, target, kind=tarfile.SYMTYPE):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        return info

    device = tarfile.TarInfo("null")
    device.type = tarfile.CHRTYPE
    hostile = {
        "up": archive(("../escaped", b"x")),
        "absolute": archive(("/tmp/escaped", b"x")),
        "through a link": archive(link("out", "/tmp"), ("out/escaped", b"x")),
        "a hard link out": archive(link("passwd", "../../etc/passwd", tarfile.LNKTYPE)),
        "a device": archive(device),
        "no archive": b"x" * 4096,
        "cut short": archive(("one", b"1" * 100_000))[:50_000],
    }
    for name, data in hostile.items():
        (sources.dir / "hostile.tar").write_bytes(data)
        error = refused(create, {"type": "tarball", "url": f"{BASE}/files/hostile.tar", "path": "in"})
        assert error.code == "source_failed" and "cannot be unpacked" in str(error), (name, error)
    (sources.dir / "hostile.tar").write_bytes(archive(("fine", b"x")))
    assert create({"type": "tarball", "url": f"{BASE}/files/hostile.tar", "path": "in"}).files.exists("in/fine")  # the control


def test_an_archive_without_end_ends_at_the_disks_limit(create, sources):
    error = refused(create, {"type": "tarball", "url": f"{BASE}/endless.tar"}, limits={"disk_mib": 16})
    assert (error.status, error.code) == (507, "disk_full")


def test_a_fetch_has_a_time(create, sources):
    error = refused(create, {"type": "tarball", "url": f"{BASE}/stuck.tar", "timeout_ms": 300})
    assert error.code == "source_failed" and "within 300 ms" in str(error)


@pytest.fixture
def stuck(create, sources, walled_client):
    """A create that fetches for ever: (its sandbox, a list that gets its error)."""
    errors = []
    thread = threading.Thread(target=lambda: errors.append(refused(create, {"type": "tarball", "url": f"{BASE}/stuck.tar"})), daemon=True)
    thread.start()

    def fetching():
        return next((s for s in walled_client.list(state="creating") if s.info.raw["source"]["progress"] != "0 bytes"), None)

    yield wait_for(fetching, 20, "a fetch"), errors
    thread.join(30)


def test_who_looks_sees_how_far_a_fetch_is_and_may_end_it(stuck, walled_client):
    sandbox, errors = stuck
    with pytest.raises(ClocheError) as e:
        sandbox.run("true")
    assert e.value.status == 409 and "being created" in str(e.value)
    sandbox.delete()
    wait_for(lambda: errors, 20, "the create's end")
    assert errors[0].code == "gone" and not list(walled_client.list(state="creating"))


def test_a_killed_gateway_leaves_nothing_of_a_fetch(stuck, walled_client, walled_daemon):
    sandbox, errors = stuck
    gateway = walled_daemon.gateway_pid
    os.kill(gateway, signal.SIGKILL)
    wait_for(lambda: walled_daemon.gateway_pid != gateway, 20, "the next gateway")
    wait_for(lambda: errors, 20, "the create's end")
    wait_for(lambda: sandbox.id not in [s.id for s in walled_client.list()], 20, "its end")


def test_the_command_line_creates_from_a_source(sources, walled_daemon, internet):
    internet.set_zone({})
    cli = Cli(walled_daemon)
    cli.env["CLOCHE_SOURCE_PASSWORD"] = PASSWORD
    id = cli.ok("create", "--git", f"{BASE}/private/git/app.git", "--revision", "v1", "--depth", "1", "--source-path", "here", "--source-user", "bot").strip()
    try:
        assert cli.ok("exec", id, "cat", "here/README") == "version 1\n"
    finally:
        cli.ok("rm", "-f", id)
    for words in (["--git", "x", "--tarball", "y"], ["--depth", "1"], ["--source-user", "x"]):
        assert cli("create", *words)[0] != 0


@pytest.mark.parametrize(
    "source, field",
    [
        ({"type": "svn", "url": "http://a.test/x"}, "source.type"),
        ({"type": "git"}, "source.url"),
        ({"type": "git", "url": "ssh://a.test/x"}, "source.url"),
        ({"type": "git", "url": "http://u:p@a.test/x"}, "source.url"),
        ({"type": "git", "url": "http://a.test/x\n"}, "source.url"),
        ({"type": "git", "url": "http://a.test/"}, "source.path"),
        ({"type": "git", "url": "http://a.test/x", "path": "-x"}, "source.path"),
        ({"type": "git", "url": "http://a.test/x", "revision": "--upload-pack=x"}, "source.revision"),
        ({"type": "git", "url": "http://a.test/x", "depth": 0}, "source.depth"),
        ({"type": "tarball", "url": "http://a.test/x", "revision": "x"}, "source.revision"),
        ({"type": "git", "url": "http://a.test/x", "credentials": {"username": "x"}}, "source.credentials.password"),
        ({"type": "git", "url": "http://a.test/x", "credentials": {"username": "x:y", "password": "z"}}, "source.credentials.username"),
        ({"type": "git", "url": "http://a.test/x", "more": 1}, "source.more"),
    ],
)
def test_a_wrong_field_of_a_source_is_named(create, source, field):
    error = refused(create, source)
    assert error.status == 400 and error.field == field
