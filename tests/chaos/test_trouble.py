# SPDX-License-Identifier: Apache-2.0
"""What the troubles leave behind: nothing, whoever is at work beside them."""

import subprocess

import pytest
from harness import audit
from harness.daemon import Daemon

from chaos.trouble import disk_of_its_own

HOLD = ["unshare", "--mount", "sh", "-c", "echo here; exec sleep 600"]


def test_a_disk_goes_though_others_have_copies_of_its_mounts(tmp_path):
    data = tmp_path / "data"
    with disk_of_its_own(data, 256 << 20):
        layers, image = data / "layers", data / "layers.img"
        layers.mkdir()
        with open(image, "wb") as f:
            f.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, layers], check=True)
        other = subprocess.Popen(HOLD, stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"here\n"
        subprocess.run(["umount", layers], check=True)
    try:
        assert not audit.loop_devices(tmp_path) and data.is_dir()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("place", ["", "layers"])
def test_a_stopped_daemon_is_not_blamed_for_others_copies_of_its_mounts(place):
    daemon = Daemon()
    at, image = daemon.data / place, daemon.dir / "disk"
    at.mkdir(parents=True)
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, at], check=True)
    other = subprocess.Popen(HOLD, stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"here\n"
        subprocess.run(["umount", at], check=True)
        assert audit.loop_devices(daemon.dir)  # as it is without more
        assert not audit.left_after_stop(daemon, set()) and at.is_dir() and other.poll() is None
    finally:
        other.kill()
        other.wait()
        daemon.remove()
