# SPDX-License-Identifier: Apache-2.0
"""A real browser: Debian's Chromium, without the parts of a window where that is installed, driven over a pair of pipes by its DevTools protocol
(messages of JSON with a NUL behind each). Nothing but the standard library, and nothing left behind."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

START_S, CALL_S = 60, 30  # far beyond what either takes, for a machine that does other things
FLAGS = [
    "--headless",
    "--no-sandbox",  # its own: it runs as root here, and sees nothing but our tests' pages
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-pipe",  # fds 3 and 4
]


class Browser:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="cloche-browser-", dir="/var/tmp")
        self.number, self.pending = 0, b""
        read_end, self.to = os.pipe()
        self.back, write_end = os.pipe()
        program = shutil.which("chromium-headless-shell") or "chromium"
        script = f'exec 3<&{read_end} 4>&{write_end}; exec {program} "$@"'
        argv = ["bash", "-c", script, "bash", *FLAGS, f"--user-data-dir={self.dir}/profile", "about:blank"]
        with open(f"{self.dir}/log", "wb") as log:
            self.process = subprocess.Popen(
                argv,
                pass_fds=(read_end, write_end),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "HOME": self.dir, "DBUS_SESSION_BUS_ADDRESS": "disabled:"},
            )
        os.close(read_end)
        os.close(write_end)
        self.call("Browser.getVersion", deadline=START_S)

    def _message(self, until):
        """The next one, or an error when there is none in time."""
        while b"\0" not in self.pending:
            readable, _, _ = select.select([self.back], [], [], max(0, until - time.monotonic()))
            part = os.read(self.back, 1 << 20) if readable else b""
            if not part:
                with open(f"{self.dir}/log", errors="replace") as f:
                    raise AssertionError(f"the browser says nothing; its log ends:\n{f.read()[-2000:]}")
            self.pending += part
        message, _, self.pending = self.pending.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, deadline=CALL_S, **params):
        """One call of the protocol. Events are not looked at: what a test waits for it asks for."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        with contextlib.suppress(BrokenPipeError):  # reading tells what became of it
            while data:
                data = data[os.write(self.to, data) :]
        until = time.monotonic() + deadline
        while True:
            reply = self._message(until)
            if reply.get("id") == self.number:
                break
        if "error" in reply:
            raise BrowserError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    @contextlib.contextmanager
    def page(self):
        """A page of a profile of its own: no cookie or worker of another test."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        try:
            yield Page(self, context)
        finally:
            self.call("Target.disposeBrowserContext", browserContextId=context)

    def close(self):
        os.close(self.to)  # its end of the pipe is the order to go
        os.close(self.back)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class BrowserError(Exception):
    pass


class Page:
    def __init__(self, browser, context):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def go(self, url):
        """Returns when the page of that URL has loaded, whatever it is."""
        result = self.browser.call("Page.navigate", self.session, url=url)
        assert "errorText" not in result, (url, result["errorText"])
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, expression):
        """The value of a JavaScript expression, or of its promise; "NAME: MESSAGE" of what it threw."""
        code = f"(async () => {{ try {{ return await ({expression}); }} catch (e) {{ return e.name + ': ' + e.message; }} }})()"
        result = self.browser.call("Runtime.evaluate", self.session, expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression, seconds=60):
        """The first true value of an expression, over whatever pages come meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(BrowserError):  # the page was left while it was asked
                value = self.run(expression)
                if value:
                    return value
            time.sleep(0.05)
        raise AssertionError(f"{expression}: not within {seconds} s; the page is {self.run('document.documentElement.outerHTML')}")
