# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged as kept is there after a power cut, however soon that comes.

The daemon's directories are on a disk that can lose its power (harness/power.py). Each step changes something and is acknowledged; at that moment
an image is taken of what the disk holds by then. A daemon is started on each image, and must know all that was acknowledged before it.
"""

import shutil
import subprocess

import pytest
from harness.daemon import ENGINE, IS_SANITIZED, Daemon, call, children_of
from harness.power import Disk

pytestmark = pytest.mark.skipif(ENGINE != "jail", reason="the disk is the same for all engines")


class Machine:
    """A daemon and all that it starts, in a pid and a mount namespace of their own: they end as when the power goes."""

    OWN = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")

    def __init__(self, disk):
        self.daemon = Daemon("--pool-max", "0", rm=False, prefix=self.OWN, parent=disk.place)
        self.daemon.run = disk.dir / "run"  # in memory, on a host
        self.daemon.socket = self.daemon.run / "cloche.sock"

    def start(self):
        shutil.rmtree(self.daemon.run, ignore_errors=True)
        self.daemon.start()

    def end(self):
        if self.daemon.process and self.daemon.process.poll() is None:
            self.daemon.process.kill()
            self.daemon.process.wait()
        Daemon.started.discard(self.daemon)

    def settle(self):
        """All that there is comes to disk, as it does by itself in time."""
        (pid,) = children_of(self.daemon.process.pid)
        for place in (self.daemon.data / "layers", self.daemon.data):
            subprocess.run(["nsenter", "--mount", f"--target={pid}", "sync", "-f", str(place)], check=True)

    def ask(self, method, path, body=None, key=None, status=(200, 201)):
        got, reply = call(self.daemon, method, path, body, key=key, timeout=120)
        assert got in ([status] if isinstance(status, int) else status), reply
        return reply


class Steps:
    """Each method changes something, and gives a function that looks for it on a machine that was started on an image."""

    def __init__(self, machine):
        self.m = machine

    def make_key(self):
        made = self.m.ask("POST", "/v1/keys", {"name": "kept", "scope": "read"})
        self.key_id, secret = made["key"]["id"], made["secret"]
        return lambda m: m.ask("GET", "/v1/sandboxes", key=secret)

    def revoke_key(self):
        made = self.m.ask("POST", "/v1/keys", {"name": "revoked", "scope": "read"})
        self.m.settle()
        self.m.ask("DELETE", f"/v1/keys/{made['key']['id']}")
        return lambda m: m.ask("GET", "/v1/sandboxes", key=made["secret"], status=401)

    def make_project(self):
        made = self.m.ask("POST", "/v1/projects", {"name": "team"})
        return lambda m: made["id"] in [p["id"] for p in m.ask("GET", "/v1/projects")["projects"]] or pytest.fail("no project")

    def set_quota(self):
        self.m.ask("PUT", f"/v1/keys/{self.key_id}/quota", {"sandboxes": 3})
        return lambda m: m.ask("GET", f"/v1/keys/{self.key_id}/quota")["limits"]["sandboxes"] == 3 or pytest.fail("no quota")

    def make_webhook(self):
        made = self.m.ask("POST", "/v1/webhooks", {"url": "https://example.com/hook"})["webhook"]
        return lambda m: m.ask("GET", f"/v1/webhooks/{made['id']}")

    def make_volume(self):
        self.volume = self.m.ask("POST", "/v1/volumes", {"name": "data"})["id"]
        return lambda m: m.ask("GET", f"/v1/volumes/{self.volume}")["state"] == "ready" or pytest.fail("its files are lost")

    def make_sandbox(self):
        made = self.m.ask("POST", "/v1/sandboxes", {"name": "kept", "persistent": True})
        self.sandbox = made["id"]
        return self.runs

    def runs(self, m):
        m.ask("POST", f"/v1/sandboxes/{self.sandbox}/resume")
        assert m.ask("POST", f"/v1/sandboxes/{self.sandbox}/execs", {"shell": "cat /etc/hostname"})["exec"]["exit_code"] == 0

    def rename_sandbox(self):
        self.m.ask("PATCH", f"/v1/sandboxes/{self.sandbox}", {"name": "renamed"})
        return lambda m: m.ask("GET", "/v1/sandboxes/renamed")

    def set_policy(self):
        self.m.ask("PUT", f"/v1/sandboxes/{self.sandbox}/network", {"policy": {"allow": ["api.example.com"]}})
        return lambda m: "api.example.com" in str(m.ask("GET", f"/v1/sandboxes/{self.sandbox}/network")) or pytest.fail("no policy")

    def take_snapshot(self):
        self.m.ask("POST", f"/v1/sandboxes/{self.sandbox}/execs", {"shell": "echo saved > /var/tmp/it"})
        made = self.m.ask("POST", f"/v1/sandboxes/{self.sandbox}/snapshots", {"name": "point"})
        return lambda m: m.ask("GET", f"/v1/snapshots/{made['id']}")

    def roll_back(self):
        path = f"/v1/sandboxes/{self.sandbox}"
        self.m.ask("POST", f"{path}/execs", {"shell": "echo later > /var/tmp/later"})
        self.m.settle()
        self.m.ask("POST", f"{path}/rollback", {"snapshot": "point"})

        def look(m):
            self.runs(m)
            assert m.ask("POST", f"{path}/execs", {"shell": "ls -A /var/tmp"})["stdout"] == "it\n"

        return look

    def create_from_snapshot(self):
        self.fork = self.m.ask("POST", "/v1/sandboxes", {"name": "fork", "persistent": True, "snapshot": "point"})["id"]
        return lambda m: self.fork_has(m, "saved\n")

    def fork_has(self, m, text):
        m.ask("POST", f"/v1/sandboxes/{self.fork}/resume")
        assert m.ask("POST", f"/v1/sandboxes/{self.fork}/execs", {"shell": "cat /var/tmp/it"})["stdout"] == text

    def pause_to_disk(self):
        self.m.ask("POST", f"/v1/sandboxes/{self.fork}/execs", {"shell": "echo paused > /var/tmp/it"})
        self.m.ask("POST", f"/v1/sandboxes/{self.fork}/pause", {"to": "disk"})

        def look(m):
            told = m.ask("GET", f"/v1/sandboxes/{self.fork}")
            assert (told["state"], told["paused_to"]) == ("paused", "disk")
            self.fork_has(m, "paused\n")

        return look

    def stop_sandbox(self):
        path = f"/v1/sandboxes/{self.sandbox}"
        self.m.ask("POST", f"{path}/execs", {"shell": "echo written > /var/tmp/it"})
        self.m.ask("POST", f"{path}/stop")

        def look(m):
            assert m.ask("GET", path)["state"] == "stopped"
            self.runs(m)
            assert m.ask("POST", f"{path}/execs", {"shell": "cat /var/tmp/it"})["stdout"] == "written\n"

        return look

    def delete_sandbox(self):
        self.m.settle()
        self.m.ask("DELETE", f"/v1/sandboxes/{self.sandbox}")

        def look(m):
            status, told = call(m.daemon, "GET", f"/v1/sandboxes/{self.sandbox}")
            assert status == 404 or (told["state"], told["ended"]["cause"]) == ("stopped", "deleted"), told

        return look

    def delete_volume(self):
        self.m.settle()
        self.m.ask("DELETE", f"/v1/volumes/{self.volume}")
        return lambda m: m.ask("GET", f"/v1/volumes/{self.volume}", status=404)


@pytest.mark.slow
def test_what_was_acknowledged_is_there_after_a_power_cut():
    disk = Disk()
    machine = Machine(disk)
    steps = Steps(machine)
    # In this order nothing that a later step has synced can help an earlier one: an image is taken after each.
    order = [
        steps.make_key,
        steps.revoke_key,
        steps.make_project,
        steps.set_quota,
        steps.make_webhook,
        steps.make_volume,
        steps.make_sandbox,
        steps.rename_sandbox,
        steps.set_policy,
        steps.take_snapshot,
        steps.roll_back,
        steps.create_from_snapshot,
        *([] if IS_SANITIZED else [steps.pause_to_disk]),
        steps.stop_sandbox,
        steps.delete_sandbox,
        steps.delete_volume,
    ]
    lost = []
    try:
        machine.start()
        images = [(step.__name__, step(), disk.cut()) for step in order]
        machine.end()
        disk.take_down()
        for name, look, image in images:
            disk.put_up(image)
            try:
                machine.start()
                look(machine)
            except (AssertionError, RuntimeError, KeyError, pytest.fail.Exception) as e:
                lost.append(f"{name}: {str(e)[:300]}")
            machine.end()
            disk.put_down()
        assert not lost, "\n".join(lost)
    finally:
        machine.end()
        disk.remove()
