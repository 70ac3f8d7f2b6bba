# SPDX-License-Identifier: Apache-2.0
"""What a sandbox may reach: policies at create and later, what they let through, and what is told of it."""

import os
import shutil
import signal

import pytest
from cloche import Client, ClocheError
from harness.cli import Cli
from harness.daemon import PATIENCE, Daemon, wait_for
from harness.internet import ALLOWED, ALLOWED6, OTHER, PRIVATE
from harness.running import running
from harness.walled import REFUSED

ONE_HOST = {"allow": ["allowed.test"]}


def decisions(client, sandbox, **facts):
    """The wall's decisions about a sandbox in the event log."""
    events = client.events(sandbox=sandbox.id, type="policy.decided")
    return [e["data"] for e in events if all(e["data"].get(k) == v for k, v in facts.items())]


def test_a_sandbox_reaches_nothing_unless_it_is_said(walled):
    box = walled()
    assert box.sandbox.network()["kind"] == "deny-all"
    assert box.dial("tcp", ALLOWED, 80)["error"] == "ENETUNREACH"
    assert box.dial("udp", ALLOWED, 53)["error"] == "ENETUNREACH"
    assert box.get("allowed.test") == (0, "no such name")


@pytest.mark.vm
def test_an_allowed_name_is_reached_by_http_and_by_tls(walled):
    box = walled(ONE_HOST)
    status, seen = box.get("allowed.test", "/a?b=c")
    assert (status, seen["address"], seen["host"], seen["path"]) == (200, ALLOWED, "allowed.test", "/a?b=c")
    assert '"port": 443' in box.dial("tls", "allowed.test", 443, "allowed.test")["reply"]


def test_an_allowed_name_is_reached_by_ipv6_where_it_has_no_other_address(walled):
    box = walled({"allow": ["six.test"]})
    assert box.get("six.test")[1]["address"] == ALLOWED6


def test_a_wildcard_allows_what_is_below_and_not_the_name_itself(walled):
    box = walled({"allow": ["*.wild.test"]})
    assert box.get("www.wild.test")[0] == 200
    assert box.get("wild.test")[0] == 403


def test_a_range_and_port_allow_a_server_that_speaks_first(walled):
    box = walled({"rules": [{"match": {"cidrs": [f"{ALLOWED}/32"], "ports": [22]}, "action": "allow"}]})
    assert box.dial("tcp", ALLOWED, 22, 30)["said"].startswith("SSH-")
    assert box.dial("tcp", ALLOWED, 80, 30)["error"] in REFUSED
    assert box.dial("tcp", OTHER, 22)["error"] in REFUSED


def test_a_sandbox_without_a_network_is_told_how_to_get_one(cli, sandbox):
    status, _, err = cli("exec", sandbox.id, "curl", "-sS", "https://pypi.org/")
    assert status == 6 and "create it with --allow HOST (--allow pip, npm or apt for packages)" in err
    failed = sandbox.run_code("import urllib.request as u; u.urlopen('https://pypi.org/')")
    assert "--allow HOST" in failed.error.hint


RETRIES = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "1"}
SHOW_RETRIES = f"import os; {{n: os.environ[n] for n in {list(RETRIES)} if n in os.environ}}"


def test_package_managers_do_not_try_again_where_nothing_can_be_reached(walled):
    """npm would wait for 70 s. Whoever sets the variables himself, or opens the network, is not interfered with."""
    closed = walled(env={}).sandbox
    assert eval(closed.run_code(SHOW_RETRIES).text) == RETRIES and closed.run("echo $PIP_RETRIES").stdout == "1\n"
    assert eval(walled(env={"PIP_RETRIES": "7"}).sandbox.run_code(SHOW_RETRIES).text) == {**RETRIES, "PIP_RETRIES": "7"}
    closed.set_network(ONE_HOST)
    assert closed.run("echo $PIP_RETRIES").stdout == "\n"
    assert eval(walled(ONE_HOST, env={}).sandbox.run_code(SHOW_RETRIES).text) == {}


def domains_of(policy):
    return {name for rule in policy["rules"] for name in rule["match"].get("domains", [])}


def test_words_for_packages_open_the_places_that_templates_have_them_from(client, make_sandbox):
    box = make_sandbox(network={"allow": ["pip", "npm", "api.example.com"]})
    domains = domains_of(box.network()["policy"])
    assert "api.example.com" in domains and not domains & {"pip", "npm"}
    assert box.explain_network("https://pypi.org/simple/six/")["allowed"]
    assert box.explain_network("https://registry.npmjs.org/left-pad")["allowed"]
    assert not box.explain_network("https://deb.debian.org/debian/")["allowed"]
    assert len(box.set_network({"allow": ["apt"]})["policy"]["rules"]) > 0
    box.allow_network("npm")
    assert box.explain_network("https://registry.npmjs.org/left-pad")["allowed"]


def test_words_for_packages_mean_the_mirrors_of_the_host():
    options = ("--templates-npm-registry", "https://npm.corp.example/", "--templates-pip-index", "https://pip.corp.example/simple")
    with running(Daemon(*options)) as daemon, Client(f"unix:{daemon.socket}", daemon.key) as client, client.create(network={"allow": ["pip", "npm"]}) as box:
        policy = box.network()["policy"]
        assert domains_of(policy) == {"npm.corp.example", "pip.corp.example"}
        assert any("10.0.0.0/8" in rule["match"].get("cidrs", []) for rule in policy["rules"])  # a mirror may be private


BLOCKED = "Blocked by the network policy of this sandbox"
REASON = "The network policy of this sandbox does not let it reach other.test port 443: no rule allows it."
TOLD = {  # what people and models see of a denial
    "curl": (["curl", "-sS", "https://other.test/"], REASON),
    "git": (["git", "ls-remote", "https://other.test/a.git"], REASON),
    "pip": (["pip", "download", "--disable-pip-version-check", "-i", "https://other.test/simple", "six"], BLOCKED),
    "npm": (["npm", "view", "--registry", "https://other.test/", "left-pad"], BLOCKED),
    "python": (["python3", "-c", "import urllib.request as u; u.urlopen('https://other.test/')"], BLOCKED),
    "http": (["curl", "-sS", "http://other.test:443/"], REASON),
}


@pytest.mark.parametrize(("argv", "words"), TOLD.values(), ids=TOLD.keys())
def test_a_program_tells_that_the_policy_denies_it(walled, argv, words):
    if not shutil.which(argv[0]):
        pytest.skip(f"no {argv[0]} on this host")
    said = walled(ONE_HOST).sandbox.run(argv, timeout=60 * PATIENCE)
    assert words in said.stdout + said.stderr
    assert "Retrying" not in said.stderr  # it is told at the first try


def test_where_nothing_inside_trusts_the_wall_tls_gets_an_alert(walled):
    said = walled("allow-all").dial("tls", PRIVATE, 443, "-")
    assert "access denied" in said["error"].replace("_", " ").lower()


def test_allow_all_is_the_public_internet(walled):
    box = walled("allow-all")
    assert box.sandbox.network()["kind"] == "allow-all"
    assert box.get("allowed.test")[0] == box.get("other.test")[0] == 200
    assert box.dial("tcp", ALLOWED, 22, 30)["said"].startswith("SSH-")


def test_one_host_more_keeps_what_the_policy_has_with_its_secrets(walled):
    match = {"domains": ["allowed.test"], "protocol": "http"}
    box = walled({"deny": ["denied.test"], "rules": [{"match": match, "action": {"transform": {"headers": {"x-api-key": "s3cret"}}}}]})
    assert box.get("other.test")[0] == 403
    box.sandbox.allow_network("other.test", port=80)
    box.sandbox.allow_network("denied.test")  # behind the rule that denies it
    assert box.get("other.test")[0] == 200
    assert box.get("denied.test")[0] == 403
    assert box.get("allowed.test")[1]["fields"]["x-api-key"] == "s3cret"


def test_methods_and_paths_of_plain_requests_are_judged(walled):
    match = {"domains": ["allowed.test"], "protocol": "http", "methods": ["GET"], "paths": [{"prefix": "/v1/"}]}
    box = walled({"rules": [{"match": match, "action": "allow"}]})
    assert box.get("allowed.test", "/v1/x")[0] == 200
    assert box.get("allowed.test", "/v2")[0] == box.get("allowed.test", "/v1/../v2")[0] == 403
    assert box.get("allowed.test", "/v1/x", method="POST", fields="Content-Length: 0\\r\\n")[0] == 403


def test_a_rule_sets_a_field_and_the_guests_own_is_dropped(walled):
    match = {"domains": ["allowed.test"], "protocol": "http"}
    transform = {"transform": {"headers": {"x-api-key": "s3cret"}}}
    box = walled({"rules": [{"match": match, "action": transform}]})
    seen = box.get("allowed.test", fields="X-API-KEY: mine\\r\\n")[1]
    assert seen["fields"]["x-api-key"] == "s3cret"
    assert "s3cret" not in str(box.sandbox.network())


def test_a_rule_replies_in_place_of_the_host(walled):
    match = {"domains": ["nowhere.test"], "protocol": "http"}
    box = walled({"rules": [{"match": match, "action": {"respond": {"status": 418, "content_type": "text/plain", "body": "short and stout"}}}]})
    reply = "GET / HTTP/1.1\\r\\nHost: nowhere.test\\r\\n\\r\\n"
    assert box.raw(ALLOWED, reply) == (418, "short and stout")


def test_each_request_of_a_kept_connection_goes_where_its_own_host_leads(walled):
    box = walled({"allow": ["allowed.test", "www.wild.test"]})
    one = "GET /1 HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n"
    two = "GET /2 HTTP/1.1\\r\\nHost: www.wild.test\\r\\nConnection: close\\r\\n\\r\\n"
    reply = box.dial("send", ALLOWED, 80, "HEAD /0 HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n" + one + two)["reply"]
    assert reply.startswith("HTTP/1.1 200")


def test_a_body_passes_as_it_is(walled):
    box = walled(ONE_HOST)
    post = "POST / HTTP/1.1\\r\\nHost: allowed.test\\r\\nContent-Length: 5\\r\\n\\r\\nhello"
    assert box.raw(ALLOWED, post)[1]["body"] == "hello"


def test_a_client_that_ends_its_side_gets_its_reply(walled):
    box = walled(ONE_HOST)
    program = f"""if 1:
        import socket
        s = socket.create_connection(("{ALLOWED}", 80))
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")
        s.shutdown(socket.SHUT_WR)
        data = b""
        while part := s.recv(4096):
            data += part
        print(data.split()[1].decode(), data[-1:])
    """
    assert box.sandbox.run(["python3", "-c", program]).stdout == "200 b'}'\n"


def test_dns_answers_by_tcp_and_other_types_have_no_answer(walled):
    box = walled(ONE_HOST)
    assert box.dial("dns", "allowed.test", "A", "tcp") == {"rcode": 0, "answers": 1}
    assert box.dial("dns", "allowed.test", "HTTPS") == box.dial("dns", "allowed.test", "TXT") == {"rcode": 0, "answers": 0}
    assert box.dial("dns", "other.test", "A") == {"rcode": 0, "answers": 1}  # nobody's, where it is told why
    assert box.dial("dns", "other.test", "AAAA") == {"rcode": 0, "answers": 0}
    assert box.dial("dns", "other.test", "TXT")["rcode"] == 5


SEEN = {"rules": [{"match": {"domains": ["allowed.test"], "methods": ["GET"]}, "action": "allow"}]}
SLOW = {"allow": ["allowed.test"], "limits": {"bytes_per_second": 2000}}
DOWNLOADS = {"plain": (ONE_HOST, "http"), "passed-on": (ONE_HOST, "https"), "looked-into": (SEEN, "https"), "paced": (SLOW, "https")}


@pytest.mark.parametrize(("policy", "scheme"), DOWNLOADS.values(), ids=DOWNLOADS.keys())
def test_a_change_cuts_a_download_that_it_forbids(walled, internet, policy, scheme):
    box = walled(policy)
    cuts, seen = len(internet.seen("cut")), len(internet.seen("request", path="/endless"))
    download = box.sandbox.start(["curl", "-skN", "--http1.1", "-o", "/dev/null", f"{scheme}://allowed.test/endless"])
    wait_for(lambda: len(internet.seen("request", path="/endless")) > seen, 10, "the download")
    box.sandbox.set_network({"allow": ["other.test"]})
    assert download.wait(60 * PATIENCE).exit_code in (18, 52, 56)  # curl: cut short, or before the first byte
    wait_for(lambda: len(internet.seen("cut")) > cuts, 10, "the server's end of it")
    assert box.get("allowed.test")[0] == 403
    assert box.get("other.test")[0] == 200


@pytest.mark.slow
def test_a_name_whose_servers_take_their_time_is_waited_for(walled):
    box = walled({"allow": ["slow.test"]})
    assert box.get("slow.test")[0] == 200


LATE = """if 1:
    import socket, time
    s = socket.create_connection(("allowed.test", 8080), 60)
    time.sleep(2)  # longer than the wall waits for a server to speak first
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: close\\r\\n\\r\\n")
    print(s.recv(12).decode())
"""


@pytest.mark.slow
def test_who_is_late_to_say_its_name_is_waited_for_on_any_port_and_who_never_does_is_refused(walled):
    box = walled(ONE_HOST)
    assert box.sandbox.run(["python3", "-S", "-c", LATE], timeout=60 * PATIENCE).stdout == "HTTP/1.1 200\n"
    assert box.dial("tcp", ALLOWED, 8080, 60).get("error") in REFUSED


@pytest.mark.slow
def test_a_rule_that_names_port_and_protocol_has_who_is_late_waited_for_where_all_is_allowed(walled):
    respond = {"respond": {"status": 418, "content_type": "text/plain", "body": "short and stout"}}
    match = {"domains": ["allowed.test"], "ports": [8080], "protocol": "http"}
    box = walled({"rules": [{"match": match, "action": respond}], "allow": ["0.0.0.0/0"]})
    assert box.sandbox.run(["python3", "-S", "-c", LATE], timeout=60 * PATIENCE).stdout == "HTTP/1.1 418\n"


def test_a_change_to_deny_all_and_back(walled):
    box = walled(ONE_HOST)
    assert box.sandbox.set_network("deny-all")["kind"] == "deny-all"
    assert box.dial("tcp", ALLOWED, 80)["error"] == "ENETUNREACH"
    assert box.sandbox.set_network(ONE_HOST)["in_force"] is True
    assert box.get("allowed.test")[0] == 200


@pytest.mark.slow
def test_a_killed_wall_refuses_and_its_successor_lets_through(walled, walled_daemon):
    box = walled(ONE_HOST)
    gateway, wall = walled_daemon.gateway_pid, walled_daemon.wall_pid
    os.kill(wall, signal.SIGKILL)
    wait_for(lambda: box.get("allowed.test")[0] == 200, 20, "the next wall")
    assert walled_daemon.wall_pid != wall
    assert walled_daemon.gateway_pid == gateway


def test_a_killed_gateway_keeps_the_policy(walled, walled_daemon, walled_client):
    box = walled(ONE_HOST)
    gateway = walled_daemon.gateway_pid
    os.kill(gateway, signal.SIGKILL)
    wait_for(lambda: walled_daemon.gateway_pid != gateway, 20, "the next gateway")
    wait_for(lambda: box.sandbox.network()["in_force"], 20, "the door")
    assert box.get("allowed.test")[0] == 200
    assert " 403 " in box.dial("tls", OTHER, 443, "other.test")["reply"]


def test_decisions_are_events_and_bytes_are_metered(walled, walled_client):
    box = walled(ONE_HOST)
    assert box.get("allowed.test")[0] == 200
    assert " 403 " in box.dial("tls", ALLOWED, 443, "other.test")["reply"]
    allowed = wait_for(lambda: decisions(walled_client, box.sandbox, verdict="allowed"), 10, "its event")[0]
    assert (allowed["name"], allowed["address"], allowed["port"], allowed["rule"]) == ("allowed.test", ALLOWED, 80, 0)
    assert allowed["in_bytes"] > 0 and allowed["out_bytes"] > 0
    denied = wait_for(lambda: decisions(walled_client, box.sandbox, verdict="denied"), 10, "its event")[0]
    assert (denied["name"], denied["rule"], denied["reason"]) == ("other.test", None, "no rule allows it")
    wait_for(lambda: box.sandbox.usage()["usage"]["network_in_bytes"] > 0, 10, "its bytes")


def test_explain_names_the_rule_and_its_strength(walled):
    box = walled(ONE_HOST)
    said = box.sandbox.explain_network("https://allowed.test/x")
    assert (said["allowed"], said["rule"], said["strength"]) == (True, 0, "name")
    said = box.sandbox.explain_network("https://other.test/")
    assert (said["allowed"], said["rule"], said["strength"]) == (False, None, "refused")


@pytest.mark.parametrize(
    ("policy", "code", "field"),
    [
        ({"allow": ["example.com", "exa mple.com"]}, "invalid_field", "allow[1]"),
        ({"allow": ["10.0.0.1/8"]}, "invalid_field", "allow[0]"),
        ("allow-some", "invalid_field", "network"),
        ({"rules": [{"match": {"paths": ["/x"]}, "action": {"transform": {"headers": {"a": "b"}}}}]}, "invalid_field", "rules[0].match.domains"),
        ({"rules": [{"match": {"domains": ["a.test"]}, "action": {"forward": {"url": "ftp://b.test/"}}}]}, "invalid_field", "rules[0].action.forward.url"),
        ({"allow": ["a.test"], "proxy": {"url": "https://b.test/"}}, "invalid_field", "proxy.url"),
        ({"rules": [{"match": {"domains": ["a.test"], "cidrs": ["10.0.0.0/8"]}, "action": "allow"}], "proxy": {"url": "socks5://b.test:1"}}, "invalid_field", "network"),
        ({"limits": {"bytes_per_second": 100}}, "invalid_field", "bytes_per_second"),
    ],
)
def test_a_policy_that_cannot_hold_is_refused_whole(walled_client, policy, code, field):
    with pytest.raises(ClocheError) as e:
        walled_client.create(network=policy)
    assert e.value.code == code
    assert field in str(e.value)


def test_a_run_takes_a_policy(walled_client):
    result = walled_client.run("curl -s -o /dev/null -w '%{http_code}' http://allowed.test/", network=ONE_HOST)
    assert result.stdout == "200"


def test_a_sandbox_has_so_many_connections_at_once(walled):
    box = walled({"allow": ["allowed.test"], "limits": {"connections": 3}})
    program = """if 1:
        import socket
        made = [socket.create_connection(("93.184.216.34", 80)) for _ in range(3)]
        try:
            one = socket.create_connection(("93.184.216.34", 80))
            one.settimeout(5)
            print(one.recv(1))
        except ConnectionResetError:
            print("reset")
    """
    assert box.sandbox.run(["python3", "-c", program]).stdout == "reset\n"


def test_a_policy_outlives_a_stop_and_a_resume(walled, walled_client):
    box = walled(ONE_HOST, persistent=True)
    box.sandbox.stop()
    assert box.get("allowed.test")[0] == 200


def test_the_command_line_sets_shows_and_explains(walled_daemon, tmp_path):
    cli = Cli(walled_daemon)
    get = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://allowed.test/"]
    assert cli.ok("run", "--allow", "allowed.test", "--", *get) == "200"
    box = cli.ok("create", "--allow", "allowed.test").strip()
    try:
        assert cli.ok("network", box).startswith("rules\n")
        assert cli.ok("network", "explain", box, "https://allowed.test/").startswith("allowed, by rule 0 (name)")
        (tmp_path / "policy.json").write_text('{"allow": ["other.test"]}')
        assert "other.test" in cli.ok("network", "set", box, str(tmp_path / "policy.json"))
        assert cli.ok("exec", box, *get) == "403"
        assert cli.ok("network", "set", box, "deny-all").startswith("deny-all")
        assert cli("create", "--network", "allow-all", "--allow", "x.test")[0] == 125
    finally:
        cli.ok("rm", box)


def test_explain_knows_where_a_rule_leads_and_that_it_is_closed(make_sandbox):
    """The wall dials the target under its own rules: what those refuse is not told as allowed."""
    def rule(url):
        return {"rules": [{"match": {"domains": ["led.test"]}, "action": {"forward": {"url": url}}}]}

    box = make_sandbox(network=rule("https://192.0.2.1:8443/in"))
    for url, closed in (("http://127.0.0.1:1/", "loopback"), ("http://169.254.169.254/", "metadata")):
        box.set_network(rule(url))
        said = box.explain_network("https://led.test/x")
        assert (said["allowed"], said["strength"], said["closed"], said["rule"]) == (False, "refused", closed, 0), url
    box.set_network(rule("https://gate.test/in"))
    said = box.explain_network("https://led.test/x")
    assert (said["allowed"], said["depends_on_address"]) == (True, True)
