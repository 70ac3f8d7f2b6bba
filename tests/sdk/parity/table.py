# SPDX-License-Identifier: Apache-2.0
"""One table of calls, said as Python says them; drive.py and drive.mjs make each with their SDK, and all must give the same.

A row is a call on an object that an earlier row kept: `client`, `Sandbox` and `sandbox` are there from the start, and `engine` and
`template`, which the sandbox has. `args` go by position, `options` by name (in JavaScript as one object, in camel case; seconds become
milliseconds). What is shown of the result are its fields `show` (nothing where that is empty: what comes in pieces is cut as it likes),
or itself. {"$": "name.field"} is a value of something kept. `gives` is what must come; where it is missing the drivers must agree with
each other.
"""


def row(call, *args, keep=None, show=None, gives=None, fails=None, **options):
    return {"call": call, "args": list(args), "options": options, "keep": keep, "show": show, "gives": gives, "fails": fails}


def of(name):
    return {"$": name}


# In a sandbox that stays as it was.
USE = [
    row("client.health", show=["ready"], gives={"ready": True}),
    row("client.doctor", show=["jail"], gives={"jail": True}),
    row("client.settings", show=["file"]),
    # Commands.
    row("sandbox.run", "echo out; echo err >&2; exit 3", show=["stdout", "stderr", "exit_code", "signal", "cause"],
        gives={"stdout": "out\n", "stderr": "err\n", "exit_code": 3, "signal": None, "cause": "exited"}),
    row("sandbox.run", ["sh", "-c", "pwd; echo $A; cat"], cwd="/tmp", env={"A": "b"}, stdin="in", show=["stdout"], gives={"stdout": "/tmp\nb\nin"}),
    row("sandbox.run", "sleep 60", timeout=0.05, show=["cause"], gives={"cause": "timeout"}),
    row("sandbox.run", "stty size", pty={"rows": 33, "cols": 99}, show=["stdout"], gives={"stdout": "33 99\r\n"}),
    row("sandbox.run", "id -u", user="root", show=["stdout"], gives={"stdout": "0\n"}),
    row("sandbox.start", "while read x; do last=$x; done; echo got $last; exit 7", open_stdin=True, keep="exec"),
    row("exec.write_stdin", "one\n"),
    row("exec.write_stdin", "two\n", eof=True),
    row("exec.wait", show=["exit_code", "is_over", "state"], gives={"exit_code": 7, "is_over": True, "state": "exited"}),
    row("sandbox.exec", of("exec.id"), keep="again"),
    row("again.output", show=["type", "data"], gives=[{"type": "stdout", "data": "got two\n"}, {"type": "exited", "data": ""}]),
    row("again.signal", "TERM", fails="Gone"),
    row("sandbox.start", ["sleep", "1000"], keep="sleeper"),
    row("sleeper.wait", timeout=0.01, show=["is_over"], gives={"is_over": False}),
    row("sleeper.kill", show=["signal"], gives={"signal": 9}),
    row("sleeper.delete"),
    row("sandbox.exec", of("sleeper.id"), fails="NotFound"),
    # Code.
    row("sandbox.run_code", "x = 20"),
    row("sandbox.run_code", "print('hi'); x + 22", show=["stdout", "text", "status", "exit_code", "count"],
        gives={"stdout": "hi\n", "text": "42", "status": "ok", "exit_code": 0, "count": 2}),
    row("sandbox.run_code", "1/0", show=["status", "exit_code", "error.name", "error.message"],
        gives={"status": "error", "exit_code": 1, "error.name": "ZeroDivisionError", "error.message": "division by zero"}),
    # Files.
    row("sandbox.files.write", "d/a.txt", "text", parents=True, mode=0o640, show=["size", "mode", "type", "name"],
        gives={"size": 4, "mode": 0o640, "type": "file", "name": "a.txt"}),
    row("sandbox.files.append", "d/a.txt", "!"),
    row("sandbox.files.read_text", "d/a.txt", gives="text!"),
    row("sandbox.files.read", "d/a.txt", offset=1, length=2, gives="ex"),
    row("sandbox.files.write", "d/a.txt", "x", exclusive=True, fails="FileExists"),
    row("sandbox.files.copy", "d", "e", recursive=True),
    row("sandbox.files.move", "e/a.txt", "e/b.txt"),
    row("sandbox.files.symlink", "e/link", "b.txt"),
    row("sandbox.files.chmod", "e/b.txt", 0o600),
    row("sandbox.files.stat", "e/link", follow=True, show=["mode", "type"], gives={"mode": 0o600, "type": "file"}),
    row("sandbox.files.list", "e", show=["name", "type", "target"],
        gives=[{"name": "b.txt", "type": "file", "target": None}, {"name": "link", "type": "symlink", "target": "b.txt"}]),
    row("sandbox.files.tar_out", "e", compress="none", keep="archive", show=[]),
    row("sandbox.files.mkdir", "f", parents=True),
    row("sandbox.files.remove", "e", recursive=True),
    row("sandbox.files.exists", "e", gives=False),
    row("sandbox.files.read", "e/b.txt", fails="FileMissing"),
    row("sandbox.upload", "g/up", "1"),
    row("sandbox.download", "g/up", gives="1"),
    # The network, ports, usage, events.
    row("sandbox.network", show=["kind"], gives={"kind": "deny-all"}),
    row("sandbox.set_network", {"allow": ["example.com"]}),
    row("sandbox.allow_network", "example.net", port=443, show=["kind"], gives={"kind": "rules"}),
    row("sandbox.explain_network", "https://example.net/", show=["allowed"], gives={"allowed": True}),
    row("sandbox.explain_network", "https://example.com/", show=["allowed"], gives={"allowed": True}),
    row("sandbox.explain_network", "https://example.org/", method="POST", show=["allowed"], gives={"allowed": False}),
    row("sandbox.expose", 3000, public=True, show=["port", "public"], gives={"port": 3000, "public": True}),
    row("sandbox.ports", show=["port"], gives=[{"port": 3000}]),
    row("sandbox.close_port", 3000),
    row("sandbox.usage", show=["state", "currency"]),
    row("sandbox.history", range="24h", show=["scope", "range", "step_ms", "count"]),
    row("client.history", range="2h", fails="InvalidField"),
    row("client.templates", show=["name"]),
    row("client.quota", show=["limits"]),
    row("client.waiting_creates", show=["position"], gives=[]),
    row("client.reserve", 2, engine=of("engine"), template=of("template"), duration=60, keep="announced", show=["count", "left"], gives={"count": 2, "left": 2}),
    row("client.reservation", of("announced.id"), show=["engine", "count"]),
    row("client.reservations", show=["count"], gives=[{"count": 2}]),
    row("client.release", of("announced.id")),
    row("client.reservation", of("announced.id"), fails="NotFound"),
    row("client.reserve", 0, fails="InvalidField"),
]
# Interpreters that end and start.
CONTEXTS = [
    row("sandbox.run_code", "import os; os.kill(os.getpid(), 9)", show=["status", "exit_code", "signal"], gives={"status": "died", "exit_code": 137, "signal": 9}),
    row("sandbox.run_code", "while True: pass", timeout=0.2, show=["cause"], gives={"cause": "timeout"}),
    row("sandbox.run_code", "echo $((6*7))", language="bash", show=["stdout"], gives={"stdout": "42\n"}),
    row("sandbox.run_code_stream", "print('a')\n'b'", show=["type", "code"],
        gives=[{"type": "stdout", "code": None}, {"type": "result", "code": None}, {"type": "exit", "code": 0}]),
    row("sandbox.contexts.create", name="own", language="python", cwd="/tmp", keep="context", show=["name", "language"], gives={"name": "own", "language": "python"}),
    row("sandbox.run_code", "import os; os.getcwd()", context="own", show=["text"], gives={"text": "'/tmp'"}),
    row("sandbox.run_code", "x", context="own", show=["error.name"], gives={"error.name": "NameError"}),
    row("sandbox.contexts.restart", "own", show=["name"], gives={"name": "own"}),
    row("sandbox.contexts.remove", "own"),
    row("sandbox.contexts.get", "own", fails="NotFound"),
]
# Others beside it, each of which starts anew.
COPIES = [
    row("client.run", ["echo", "once"], engine=of("engine"), template=of("template"), show=["stdout", "stderr", "exit_code"], gives={"stdout": "once\n", "stderr": "", "exit_code": 0}),
    row("client.run_code", "6 * 7", language="python", engine=of("engine"), template=of("template"), show=["text", "status"], gives={"text": "42", "status": "ok"}),
    row("sandbox.snapshot", keep="saved", show=["memory"], gives={"memory": False}),
    row("sandbox.files.write", "d/a.txt", "later"),
    row("sandbox.diff", of("saved.id"), paths=["/home/user/d"], show=["added", "removed", "modified", "truncated"],
        gives={"added": [], "removed": [], "modified": ["/home/user/d/a.txt"], "truncated": False}),
    row("Sandbox.create", client=of("client"), snapshot=of("saved.id"), keep="copy"),
    row("copy.files.read_text", "d/a.txt", gives="text!"),
    row("copy.files.write", "d/b.txt", "fork"),
    row("client.diff", of("saved.id"), of("copy.id"), patch=True, limit=10, show=["truncated"], gives={"truncated": False}),
    row("sandbox.diff", of("saved.id"), keep="changed"),
    row("sandbox.apply", of("copy.id"), on_conflict="skip", show=["applied", "changes", "conflict_count"],
        gives={"applied": True, "changes": 1, "conflict_count": 0}),
    row("sandbox.files.read_text", "d/b.txt", gives="fork"),
    row("copy.files.write", "d/a.txt", "fork"),
    row("sandbox.apply", of("copy.id"), fails="ApplyConflict"),
    row("copy.close"),
    row("client.create", snapshot=of("saved.id"), keep="other"),
    row("other.files.read_text", "d/a.txt", gives="text!"),
    row("other.close"),
    row("sandbox.rollback", of("saved.id"), show=["state"], gives={"state": "running"}),
    row("sandbox.files.read_text", "d/a.txt", gives="text!"),
    row("client.delete_snapshot", of("saved.id")),
]
END = [
    row("sandbox.update", tags={"a": "b"}, idle_timeout=600, show=["tags"], gives={"tags": {"a": "b"}}),
    row("sandbox.pause", to="memory", show=["state", "paused_to"], gives={"state": "paused", "paused_to": "memory"}),
    row("sandbox.resume", show=["state"], gives={"state": "running"}),
    row("sandbox.refresh", show=["state", "persistent", "ended"], gives={"state": "running", "persistent": False, "ended": None}),
    row("Sandbox.get", of("sandbox.id"), client=of("client"), show=["id"]),
    row("client.get", of("sandbox.id"), show=["info.tags"], gives={"info.tags": {"a": "b"}}),
    row("client.list", tag="a:b", state="running", page_size=1, show=["info.state"], gives=[{"info.state": "running"}]),
    row("Sandbox.get", "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa", client=of("client"), fails="NotFound"),
    row("Sandbox.create", client=of("client"), limits={"memory_mib": 1}, fails="InvalidField"),
    row("sandbox.close"),
    row("sandbox.run", "true", fails="Gone"),
    row("sandbox.close"),
]
TABLE = USE + CONTEXTS + COPIES + END
