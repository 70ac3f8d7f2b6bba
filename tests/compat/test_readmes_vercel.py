# SPDX-License-Identifier: Apache-2.0
"""The examples of Vercel's front pages, as they are in the packages that are installed: with our shim, and nothing else changed."""

import json
import os
import re
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.daemon import wait_for
from harness.internet import HUB
from harness.npm import run
from harness.npm_registry import publish
from harness.oci import busybox_layer, forget, layout_of
from harness.running import running
from harness.sources import Sources, git

pytestmark = pytest.mark.skipif(not shutil.which("npm"), reason="this host has no npm")


@pytest.fixture(scope="module")
def page(project):
    return (project / "node_modules" / "@vercel/sandbox" / "README.md").read_text()


def blocks(text, start="", end=None):
    """The programs between two headings."""
    text = text[text.index(start) :]
    return re.findall(r"^```(?:ts|typescript)\n(.*?)^```$", text[: text.index(end)] if end else text, re.M | re.S)


REGISTRY = "http://packages.test/files/npm"
APP = {
    "package.json": json.dumps({"name": "example", "version": "1.0.0", "scripts": {"dev": "node server.js"}, "dependencies": {"greeting": "1.0.0"}}),
    ".npmrc": f"registry={REGISTRY}/\naudit=false\nfund=false\nupdate-notifier=false\n",
    "server.js": """
const parts = { "/": '<body>empty<script src="/_next/app.js"></script>', "/_next/app.js": `document.body.textContent = "${require("greeting")} " + location.pathname` };
require("http").createServer((q, a) => a.writeHead(200, { "content-type": q.url === "/" ? "text/html" : "text/javascript" }).end(parts[q.url])).listen(3000);
""",
}


@pytest.fixture(scope="module")
def hub(internet, tmp_path_factory):
    """A github.com with the repository that the page names, and the registry that its project installs from."""
    directory = tmp_path_factory.mktemp("hub")
    sources = Sources(directory)
    work = directory / "next"
    work.mkdir()
    for name, text in APP.items():
        (work / name).write_text(text)
    git("init", "-q", cwd=work)
    git("add", ".", cwd=work)
    git("commit", "-qm", "an app", cwd=work)
    git("clone", "-q", "--bare", str(work), str(sources.dir / "vercel" / "sandbox-example-next.git"), cwd=directory)
    publish(sources.dir / "npm", REGISTRY, "greeting", 'module.exports = "hello from";')
    sources.start(internet, f"::ffff:{HUB}", (80, 443), ("github.com", "packages.test"))
    yield {"github.com": [HUB], "packages.test": [HUB]}
    sources.close()


# What `open` is on a Mac: a browser. It looks again until the server is up, as the page of ours that it shows until then does.
OPEN = """#!/bin/sh
echo "$1" > opened
for i in 1 2 3 4 5 6 7 8 9 10; do
	chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-proxy-server --user-data-dir="$PWD/profile" --dump-dom "$1" 2> browser.log > seen.new
	grep -q "hello from" seen.new && exec mv seen.new seen
done
"""


class Desk:
    """Where a user runs the page's programs; they go on as long as their server does, until somebody ends them."""

    def __init__(self, project, internet, daemon):
        self.project, self.internet = project, internet
        path = f"{project}/bin:{os.environ['PATH']}"
        self.env = {**os.environ, "CLOCHE_URL": daemon.url, "CLOCHE_API_KEY": daemon.key, "PATH": path, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
        (project / "bin").mkdir(exist_ok=True)
        (project / "bin" / "open").write_text(OPEN)
        (project / "bin" / "open").chmod(0o755)

    def argv(self, name):
        return [*self.internet.enter(self.internet.inner), "node", "--import", "cloche/vercel", name]

    def run(self, name, text):
        (self.project / name).write_text(text)
        return run(*self.argv(name), cwd=self.project, env=self.env)

    def shown(self, name, text):
        """(what it opened, what the browser showed)"""
        (self.project / name).write_text(text)
        seen = self.project / "seen"
        seen.unlink(missing_ok=True)
        with (self.project / "said").open("w+") as said:
            program = subprocess.Popen(self.argv(name), cwd=self.project, env=self.env, stdout=said, stderr=said, start_new_session=True)
            try:
                wait_for(lambda: seen.exists() or program.poll() is not None, 60, "a page in the browser")
                assert seen.exists(), (self.project / "said").read_text()
            finally:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
        return (self.project / "opened").read_text().strip(), seen.read_text()


STOP = 'import { Sandbox } from "@vercel/sandbox"; await (await Sandbox.get({ name: "vercel-sandbox-example" })).stop();'
LOOK = 'import { Sandbox } from "@vercel/sandbox"; console.log((await Sandbox.get({ name: "vercel-sandbox-example" })).status);'
REMOVE = 'import { Sandbox } from "@vercel/sandbox"; await (await Sandbox.get({ name: "vercel-sandbox-example" })).delete({ deleteOrphanSnapshots: true });'


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="this host has no chromium")
def test_the_first_program_s_app_is_seen_in_a_browser_and_again_when_it_is_resumed(project, page, internet, hub):
    first, again = [block for block in blocks(page, end="## Authentication") if "async function main" in block]
    internet.set_zone(hub)
    with running(internet.daemon("--preview-domain", "localhost")) as daemon:
        desk = Desk(project, internet, daemon)
        url, seen = desk.shown("index.mjs", first)
        assert re.fullmatch(rf"http://3000-[a-z0-9]{{26}}\.localhost:{daemon.port}", url) and "hello from /" in seen
        desk.run("stop.mjs", STOP)
        resumed, seen = desk.shown("resume.mjs", again)
        assert "hello from /" in seen and desk.run("look.mjs", LOOK) == "running\n" and resumed
        desk.run("remove.mjs", REMOVE)


START = 'import { Sandbox } from "@vercel/sandbox";\nconst sandbox = await Sandbox.create();\n'
# mkDir makes no parents, with Vercel as little as here, and the page asks for projects/my-app: users are born with projects.
WITH_PROJECTS = 'await sandbox.runCommand({ cmd: "mkdir", args: ["-p", "-m", "777", "/etc/skel/projects"], sudo: true });\n'
BEHIND = "\nawait sandbox.delete({ deleteOrphanSnapshots: true });\n"
SAID = re.compile(r"^((?:await )?[\w.?]+(?:\(\))?); // (?:(\"[^\"]*\"|'[^']*')|(non-zero).*)$", re.M)


def checks(text):
    """What the page says of a program's values, asked behind it."""
    found = SAID.findall(text)
    return "".join(f"\nif (({value}) {'=== 0' if failed else '!== ' + literal}) throw new Error({json.dumps(value)});" for value, literal, failed in found), len(found)


def users_programs(page):
    (made,) = blocks(page, "### Creating users", "### Running commands")
    commands = blocks(page, "### Running commands", "### File operations")[:2]  # the third installs from Debian's archive
    (files,) = blocks(page, "### File operations", "### File isolation")
    together = blocks(page, "### File isolation", "### Username validation")
    (refused,) = blocks(page, "### Username validation", "### Multi-agent")
    (agents,) = blocks(page, "### Multi-agent", "[create-token]")
    refusals = "".join(f"\nawait assert.rejects(async () => {line.partition(';')[0]});" for line in refused.splitlines())
    return {
        "creating": f'import assert from "node:assert/strict";\n{made}{refusals}',
        "commands": START + "".join(commands),
        "files": START + WITH_PROJECTS + files,
        "together": START + "".join(together),
        "agents": START.splitlines()[0] + "\n" + agents,
    }


def test_its_examples_of_users_do_what_it_says(project, page, environment):
    programs = users_programs(page)
    asked = {name: checks(text) for name, text in programs.items()}
    assert sum(n for _, n in asked.values()) == 12 and programs["creating"].count("rejects") == 4

    def tried(name):
        (project / f"users-{name}.mjs").write_text(programs[name] + asked[name][0] + BEHIND)
        run("node", "--import", "cloche/vercel", f"users-{name}.mjs", cwd=project, env=environment)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(tried, programs))


@pytest.fixture
def image(client):
    """What the page's users have pushed."""
    config = {"Env": ["PATH=/bin"], "User": "app:app", "WorkingDir": "/etc"}
    yield client.import_template("my-repository", layout_of(busybox_layer().add("etc/group", b"app:x:1234:\n"), config=config).tar())
    forget(client, "my-repository")


def test_its_example_of_an_image_starts_from_it(project, page, environment, image):
    (program,) = [block for block in blocks(page, "### Custom images", "## Sudo") if block.startswith("import")]
    told = 'await sandbox.writeFiles([{ path: "own", content: "" }]); await sandbox.mkDir("dir");'
    told += 'console.log(sandbox.image, await (await sandbox.runCommand("sh", ["-c", "cat /etc/mark; stat -c %u own dir"])).stdout());'
    (project / "image.mjs").write_text(program + told + BEHIND)
    assert run("node", "--import", "cloche/vercel", "image.mjs", cwd=project, env=environment) == "my-repository:latest lowest\n1234\n1234\n\n"
