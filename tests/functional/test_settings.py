# SPDX-License-Identifier: Apache-2.0
"""The daemon tells its settings: each value with its origin, what a change needs, and what waits for a restart."""

import json
import re
import secrets
import signal

import pytest
from cloche import Client, errors
from harness.cli import Cli
from harness.daemon import Daemon, call, wait_for
from harness.running import running

FIRST = """# settings
execs_max = 77
log_level = 'debug'
sandboxes_max = 900

[pool]
max = 0
[templates]
npm_registry = 'https://someone:PASSWORD@npm.example.com/'
[defaults]
memory = '128MiB'
vcpus = 1
"""
PASSWORD = "pw-" + secrets.token_hex(8)
PIP = "http://pip.example.com/simple"


def start_with(text, *options, prefix=()):
    daemon = Daemon("--plain-storage", *options, prefix=prefix)
    daemon.settings = daemon.dir / "cloche.toml"
    daemon.settings.write_text(text)
    daemon.options += ["--config", str(daemon.settings)]
    return daemon


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A daemon with settings of every origin: (daemon, client)."""
    credentials = tmp_path_factory.mktemp("credentials")
    (credentials / "secrets.key").write_text("ab" * 32 + "\n")
    (credentials / "secrets.key").chmod(0o600)
    words = ["env", f"CREDENTIALS_DIRECTORY={credentials}", f"PIP_INDEX_URL={PIP}"]
    daemon = start_with(FIRST.replace("PASSWORD", PASSWORD), "--sandboxes-max", "800", prefix=words)
    daemon.credentials = credentials
    with running(daemon), Client(daemon.url, daemon.key) as client:
        yield daemon, client


def rows(client):
    return {s["name"]: s for s in client.settings()["settings"]}


def origin(**given):
    return {"from": "default", "file": None, "line": None, "variable": None, **given}


def test_each_value_has_its_origin(own):
    daemon, client = own
    file, told = str(daemon.settings), rows(client)

    def facts(name):
        s = told[name]
        return s["value"], s["default"], s["changed"], s["origin"], s["needs"]

    assert facts("execs_max") == (77, 1000, True, origin(**{"from": "file", "file": file, "line": 2}), "reload")
    assert facts("defaults.memory") == ("128MiB", told["defaults.memory"]["default"], True, origin(**{"from": "file", "file": file, "line": 11}), "reload")
    assert facts("ended_max") == (1000, 1000, False, origin(), "reload")
    assert facts("user") == ("cloche", "cloche", False, origin(), "restart")
    assert facts("data") == (str(daemon.data), "/var/lib/cloche", True, origin(**{"from": "command_line"}), "restart")
    assert facts("plain_storage") == (True, False, True, origin(**{"from": "command_line"}), "restart")
    assert facts("secrets.key_file") == (f"{daemon.credentials}/secrets.key", None, True, origin(**{"from": "environment", "variable": "CREDENTIALS_DIRECTORY"}), "restart")
    assert facts("templates.pip_index") == (PIP, None, True, origin(**{"from": "environment", "variable": "PIP_INDEX_URL"}), "restart")
    assert facts("socket") == (str(daemon.socket), str(daemon.socket), False, origin(), "restart")
    assert told["--rm"]["value"] is True and told["--rm"]["origin"]["from"] == "command_line"
    assert client.settings()["file"] == {"path": file, "present": True}


def test_the_command_line_wins_and_a_change_of_it_needs_a_restart(own):
    s = rows(own[1])["sandboxes_max"]
    assert (s["value"], s["origin"]["from"], s["overridden_line"], s["needs"]) == (800, "command_line", 4, "restart")


def test_every_kind_of_value_is_as_the_file_has_it(own):
    told = rows(own[1])
    assert {s["kind"] for s in told.values()} == {"string", "list", "bool", "count", "size", "duration", "cpus", "level", "money"}
    assert told["defaults.vcpus"]["value"] == 1
    assert told["log_level"]["value"] == "debug"
    assert told["ended_age"]["value"] == "1d"
    assert told["listen"]["value"] == [f"127.0.0.1:{own[0].port}"]
    assert told["prices.create"]["value"] == "0.00"
    assert told["quota.sandboxes"]["value"] is None
    assert all(s["help"] for s in told.values())


def test_what_print_config_prints_is_told(own):
    names, section = set(), ""
    for line in Cli(own[0]).ok("serve", "--print-config").splitlines():
        if found := re.fullmatch(r"\[(\w+)\]", line):
            section = found.group(1) + "."
        elif found := re.match(r"#?(\w+) = ", line):
            names.add(section + found.group(1))
    assert names == {n for n in rows(own[1]) if not n.startswith("--")}


def test_a_secret_in_a_setting_is_not_shown(own):
    daemon, client = own
    s = rows(client)["templates.npm_registry"]
    assert (s["value"], s["hidden"], s["changed"]) == ("https://***@npm.example.com/", True, True)
    assert not rows(client)["templates.pip_index"]["hidden"]
    assert PASSWORD in daemon.settings.read_text()
    assert PASSWORD not in json.dumps(client.settings()) + Cli(daemon).ok("settings") + Cli(daemon).ok("settings", "--json") + daemon.log()


def test_a_tenant_s_admin_and_a_reader_are_refused(own):
    daemon, client = own
    project = client.create_project("tenant")
    key = client.create_key("admin of it", scope="admin", project=project["id"])
    with Client(daemon.url, key["secret"]) as theirs, pytest.raises(errors.Forbidden):
        theirs.settings()
    with Client(daemon.url, client.create_key("reader", scope="read")["secret"]) as reader, pytest.raises(errors.Forbidden):
        reader.settings()


def test_the_command_line_shows_them(own):
    daemon, _ = own
    lines = Cli(daemon).ok("settings").splitlines()
    names = [line.split()[0] for line in lines]
    assert names.index("execs_max") < names.index("ended_max")  # the default comes last
    assert re.search(rf"^execs_max +77 +1000 +{daemon.settings}:2 +reload$", "\n".join(lines), re.M)
    assert f"sandboxes_max: line 4 of {daemon.settings} is overridden by the command line" in lines
    assert "ended_max" not in Cli(daemon).ok("settings", "--changed")
    few = Cli(daemon).ok("settings", "pool", "memory").splitlines()
    assert [line.split()[0] for line in few] == ["SETTING", "pool.memory", "pool.reserve_memory"]
    assert json.loads(Cli(daemon).ok("settings", "--json"))["file"]["present"]
    assert "did you mean 'cloche settings'" in Cli(daemon)("config")[2]


def reload(daemon, text, until="daemon.reloaded"):
    seen = daemon.log().count(f'"{until}"')
    daemon.settings.write_text(text)
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: daemon.log().count(f'"{until}"') > seen, what=until)


@pytest.fixture
def second():
    daemon = start_with("execs_max = 5\n[pool]\nmax = 0\n")
    with running(daemon), Client(daemon.url, daemon.key) as client:
        yield daemon, client


@pytest.mark.slow
def test_a_reload_changes_value_and_origin_and_tells_what_waits_for_a_restart(second):
    daemon, client = second
    text = f"# one more line\nexecs_max = 6\nsocket = '{daemon.dir}/other.sock'\nwatchdog = '20s'\n[pool]\nmax = 0\n"
    reload(daemon, text)
    told = rows(client)
    assert (told["execs_max"]["value"], told["execs_max"]["origin"]["line"]) == (6, 2)
    assert (told["watchdog"]["value"], told["watchdog"]["pending"]) == ("20s", None)
    waits = {"value": f"{daemon.dir}/other.sock", "origin": origin(**{"from": "file", "file": str(daemon.settings), "line": 3})}
    assert (told["socket"]["value"], told["socket"]["pending"], told["socket"]["origin"]["from"]) == (str(daemon.socket), waits, "default")
    assert f"socket: {daemon.dir}/other.sock ({daemon.settings}:3) from the next start of the daemon on" in Cli(daemon).ok("settings")
    reload(daemon, f"tls_cert = '{daemon.dir}/none'\ntls_key = '{daemon.dir}/none'\nrun = '/elsewhere'\n", "daemon.reload_undone")
    wait_for(lambda: call(daemon, "GET", "/v1/health")[0] == 200, what="an answer")
    assert rows(client) == told  # a file that was taken back has changed nothing
    reload(daemon, "execs_max = 7\n[pool]\nmax = 0\n")
    told = rows(client)
    assert (told["execs_max"]["value"], told["execs_max"]["origin"]["line"], told["socket"]["pending"]) == (7, 1, None)


@pytest.mark.slow
def test_what_waited_is_in_force_after_a_restart(second):
    daemon, client = second
    text = f"socket = '{daemon.run}/other.sock'\n[pool]\nmax = 0\n"
    reload(daemon, text)
    assert rows(client)["socket"]["pending"]["value"] == f"{daemon.run}/other.sock"
    daemon.stop()
    daemon.start()
    s = rows(client)["socket"]
    assert (s["value"], s["pending"], s["origin"]["line"]) == (f"{daemon.run}/other.sock", None, 1)


def test_words_that_no_setting_has_are_told(own):
    status, _, said = Cli(own[0])("settings", "no-such-thing")
    assert status != 0 and "no setting has all of these words" in said and "'cloche settings' lists all" in said
    assert Cli(own[0]).ok("settings", "--changed", "no-such-thing") == "No setting with these words differs from its default.\n"
