# SPDX-License-Identifier: Apache-2.0
"""domain() of Vercel's client: a link that is open to whoever has it, with no shim of ours in between."""

import json
import os
import shutil
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.npm import run

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")

SERVER = "require('http').createServer((q, a) => a.end(`served ${q.url}`)).listen(3000, () => console.log('up'))"
MAKE = f"""
import {{ Sandbox }} from "@vercel/sandbox";
const sandbox = await Sandbox.create({{ name: "linked", ports: [3000], persistent: false }});
const server = await sandbox.runCommand({{ cmd: "node", args: ["-e", {json.dumps(SERVER)}], detached: true }});
for await (const line of server.logs()) if (line.data.includes("up")) process.exit(); // the server stays
"""
END = 'import { Sandbox } from "@vercel/sandbox"; await (await Sandbox.get({ name: "linked" })).delete();'
TELL = 'const sandbox = await Sandbox.get({ name: "linked" OPTIONS }); console.log(sandbox.domain(3000), sandbox.currentSession().domain("3000"));'
WAYS = {  # how a program may be written: its options, its text
    "told.mjs": (["--import", "cloche/vercel"], f'import {{ Sandbox }} from "@vercel/sandbox"; {TELL}'),
    "told.cjs": (["--import", "cloche/vercel"], f'const {{ Sandbox }} = require("@vercel/sandbox"); (async () => {{ {TELL} }})()'),
    "given.mjs": ([], f'import {{ Sandbox }} from "@vercel/sandbox"; import {{ fetch }} from "cloche/vercel"; {TELL.replace("OPTIONS", ", fetch")}'),
    "given.cjs": ([], f'const {{ fetch }} = require("cloche/vercel"); const {{ Sandbox }} = require("@vercel/sandbox"); (async () => {{ {TELL.replace("OPTIONS", ", fetch")} }})()'),
    "wrapped.mjs": ([], f'import {{ Sandbox }} from "@vercel/sandbox"; import {{ fetch as ours }} from "cloche/vercel"; const fetch = async (u, i) => (await null, await ours(u, i)); {TELL.replace("OPTIONS", ", fetch")}'),
}


@pytest.fixture(scope="module")
def linked(project, daemon):
    """The environment in which a sandbox of that name has a server."""
    environment = {**os.environ, "CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key}
    for name, text in [("make.mjs", MAKE), ("end.mjs", END)]:
        (project / name).write_text(text)
    run("node", "--import", "cloche/vercel", "make.mjs", cwd=project, env=environment)
    yield environment
    run("node", "--import", "cloche/vercel", "end.mjs", cwd=project, env=environment)


def test_domain_is_a_link_that_anybody_can_open(project, daemon, linked):
    def told(way):
        options, text = WAYS[way]
        (project / way).write_text(text.replace("OPTIONS", ""))
        return run("node", *options, way, cwd=project, env=linked).split()

    with ThreadPoolExecutor(3) as pool:
        links = {link for pair in pool.map(told, WAYS) for link in pair}
    assert len(links) == 1, links
    link = links.pop()
    assert link.startswith(f"{daemon.url}/p/sb_") and not link.endswith("/")
    assert subprocess.run(["curl", "-sS", link, f"{link}/a?b"], capture_output=True, text=True, check=True).stdout == "served /served /a?b"
    for path in ("", "/", "/a?b"):
        assert urllib.request.urlopen(link + path, timeout=30).read().decode() == f"served {path or '/'}"


ELSEWHERE = """
import { fetch } from "cloche/vercel";
import { Sandbox } from "@vercel/sandbox";
const routes = (url) => [{ port: 3000, subdomain: "x", url }];
const sandbox = await Sandbox.get({ name: "linked", fetch });
const say = (base, url) => {
  process.env.CLOCHE_URL = base;
  sandbox.currentSession().updateRoutes(routes(url));
  console.log(sandbox.domain(3000));
};
say("http://box:7070", "http://127.0.0.1:7070/p/sb_x/3000/");
say("https://box/cloche/", "http://localhost:7070/p/sb_x/3000/");
say("http://box:7070", "https://previews.example/p/sb_x/3000/");
say("http://box:7070", "http://3000-x.previews.example:7070");
say("http://127.0.0.1:9999", "http://127.0.0.1:7070/p/sb_x/3000/");
"""


def test_a_daemon_that_knows_its_loopback_alone_is_where_it_is_reached(project, linked):
    (project / "elsewhere.mjs").write_text(ELSEWHERE)
    assert run("node", "elsewhere.mjs", cwd=project, env=linked).split() == [
        "http://box:7070/p/sb_x/3000",
        "https://box/cloche/p/sb_x/3000",
        "https://previews.example/p/sb_x/3000",
        "http://3000-x.previews.example:7070",
        "http://127.0.0.1:7070/p/sb_x/3000",
    ]
