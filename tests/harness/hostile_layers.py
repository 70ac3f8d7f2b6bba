# SPDX-License-Identifier: Apache-2.0
"""Layers of images that want more than to become files of a template, each beside one that does not."""

import tarfile
import zlib

from .oci import Tar


def small():
    return Tar().dir("etc").add("etc/mark", b"here\n")


# Name -> (what is added to small(), why it is refused; None: it is not, in the tar of a root)
ENTRIES = {
    "upwards": (lambda t: t.add("../out"), "leads upwards"),
    "upwards-inside": (lambda t: t.add("etc/../../out"), "leads upwards"),
    "absolute": (lambda t: t.add("/etc/out"), "absolute"),
    "pax-upwards": (lambda t: t.add("etc/fine", pax={"path": "../../out"}), "leads upwards"),
    "hard-upwards": (lambda t: t.hard("etc/x", "../../etc/passwd"), "outside the archive"),
    "hard-absolute": (lambda t: t.hard("etc/x", "/etc/passwd"), "outside the archive"),
    "hard-to-nothing": (lambda t: t.hard("etc/x", "etc/passwd"), "is not there"),
    "hard-through-link": (lambda t: t.link("way", "/").hard("x", "way/nothing/passwd"), "is not there"),
    "through-file": (lambda t: t.add("etc/mark/below"), "no directory"),
    "through-dangling": (lambda t: t.link("way", "/nowhere/at/all").add("way/x"), "no directory"),
    "through-loop": (lambda t: t.link("a", "b").link("b", "a").add("a/x"), "no directory"),
    "character-device": (lambda t: t.add("etc/null", kind=tarfile.CHRTYPE), "is a device"),
    "block-device": (lambda t: t.add("sda", kind=tarfile.BLKTYPE), "is a device"),
    "device-beside-dev": (lambda t: t.add("devices/null", kind=tarfile.CHRTYPE), "is a device"),
    "sparse": (lambda t: t.add("etc/holes", kind=b"S"), "sparse"),
    "unknown-kind": (lambda t: t.add("etc/what", kind=b"Z"), "unknown kind"),
    "whiteout-upwards": (lambda t: t.add("etc/.wh..."), None),  # a name like any other, in the tar of a root
}


def bomb():
    """A gzip stream of some 100 KB that has 96 MB of zeros, of a file that says it had a TB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    info = tarfile.TarInfo("etc/zeros")
    info.size = 1 << 40
    parts = [packer.compress(info.tobuf(tarfile.GNU_FORMAT))]
    parts += [packer.compress(bytes(1 << 20)) for _ in range(96)]
    return b"".join(parts) + packer.flush()
