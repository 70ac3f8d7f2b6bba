# SPDX-License-Identifier: Apache-2.0
"""Container images made by hand: layers as tars, an OCI image layout, what `docker save` writes, and all that may be wrong with them."""

import gzip
import hashlib
import io
import json
import platform
import re
import subprocess
import tarfile

from cloche import errors

from .daemon import BUILD, wait_for

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OTHER_ARCH = "arm64" if ARCH == "amd64" else "amd64"
APPLETS = ("sh", "bash", "cat", "ls", "id", "rm", "env", "pwd", "echo", "true", "stat", "find", "readlink")
OCI = "application/vnd.oci.image."
MANIFEST, INDEX, CONFIG = OCI + "manifest.v1+json", OCI + "index.v1+json", OCI + "config.v1+json"
LAYER, LAYER_GZIP = OCI + "layer.v1.tar", OCI + "layer.v1.tar+gzip"
TIME = 1_700_000_000


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Tar:
    """A tar in the making; each call adds an entry."""

    def __init__(self):
        self._file = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._file, mode="w", format=tarfile.PAX_FORMAT)

    def add(self, name, data=b"", *, kind=tarfile.REGTYPE, mode=0o644, target="", uid=0, gid=0, mtime=TIME, pax=None):
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.uid, info.gid, info.mtime = kind, mode, uid, gid, mtime
        info.linkname, info.size, info.pax_headers = target, len(data), pax or {}
        self._tar.addfile(info, io.BytesIO(data))
        return self

    def dir(self, name, mode=0o755, **more):
        return self.add(name, kind=tarfile.DIRTYPE, mode=mode, **more)

    def link(self, name, target, **more):
        return self.add(name, kind=tarfile.SYMTYPE, mode=0o777, target=target, **more)

    def hard(self, name, target, **more):
        return self.add(name, kind=tarfile.LNKTYPE, target=target, **more)

    def bytes(self):
        self._tar.close()
        return self._file.getvalue()


def agent_libraries():
    """What the agent needs of a root where it is not static: a sanitized one is not."""
    said = subprocess.run(["ldd", str(BUILD / "src" / "agent" / "cloche-agent")], capture_output=True, text=True)
    return re.findall(r"(/\S+)", said.stdout) if said.returncode == 0 else []


def busybox_layer():
    """A root of some 2 MB that a shell runs in."""
    with open("/bin/busybox", "rb") as f:
        tar = Tar().dir("bin").dir("etc").dir("tmp", 0o1777).add("bin/busybox", f.read(), mode=0o755)
    for path in agent_libraries():
        with open(path, "rb") as f:
            tar.add(path[1:], f.read(), mode=0o755)
    for name in APPLETS:
        tar.link(f"bin/{name}", "busybox")
    passwd = b"root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\napp:x:1234:1234::/srv:/bin/sh\n"
    return tar.add("etc/passwd", passwd).add("etc/mark", b"lowest\n")


class Layout:
    """An OCI image layout: blobs by digest, and an index."""

    def __init__(self):
        self.files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
        self.manifests = []

    def blob(self, data, media_type):
        self.files["blobs/sha256/" + digest(data)[7:]] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    def json(self, value, media_type):
        return self.blob(json.dumps(value).encode(), media_type)

    def image(self, layers, *, config=None, arch=ARCH, os="linux", compress=True, layer_type=None, history=()):
        """The descriptor of one image of these layers, which are tars."""
        blobs = [gzip.compress(data, 1, mtime=0) if compress else data for data in layers]
        kind = layer_type or (LAYER_GZIP if compress else LAYER)
        whole = {
            "architecture": arch,
            "os": os,
            "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [digest(data) for data in layers]},
            **({"history": list(history)} if history else {}),
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.json(whole, CONFIG),
            "layers": [self.blob(data, kind) for data in blobs],
        }
        return self.json(manifest, MANIFEST)

    def add(self, descriptor, *, ref=None, arch=None):
        if ref:
            descriptor = {**descriptor, "annotations": {"org.opencontainers.image.ref.name": ref}}
        if arch:
            descriptor = {**descriptor, "platform": {"os": "linux", "architecture": arch}}
        self.manifests.append(descriptor)
        return self

    def write(self, directory):
        for name, data in self._all().items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def tar(self, *, last=("index.json",)):
        """The layout as one archive; what `last` names stands at its end."""
        files = self._all()
        tar = Tar()
        for name in sorted(files, key=lambda n: (n in last, n)):
            tar.add(name, files[name])
        return tar.bytes()

    def _all(self):
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": self.manifests}
        return {"index.json": json.dumps(index).encode(), **self.files}


def layout_of(*layers, **how):
    layout = Layout()
    return layout.add(layout.image([t.bytes() for t in layers], **how))


def docker_save(layers, *, config=None, tags=("app:1",), arch=ARCH):
    """As Docker before 25 wrote it: a directory a layer, and one that is a link to another."""
    whole = {
        "architecture": arch,
        "os": "linux",
        "config": config or {},
        "rootfs": {"type": "layers", "diff_ids": [digest(data) for data in layers]},
    }
    text = json.dumps(whole).encode()
    name = digest(text)[7:] + ".json"
    tar, paths = Tar(), []
    for i, data in enumerate(layers):
        tar.dir(f"{i:064x}").add(f"{i:064x}/real.tar", data).link(f"{i:064x}/layer.tar", "real.tar")
        paths.append(f"{i:064x}/layer.tar")
    tar.add(name, text)
    tar.add("manifest.json", json.dumps([{"Config": name, "RepoTags": list(tags), "Layers": paths}]).encode())
    return tar.bytes()


def forget(client, name):
    """Deletes a template, once the last sandbox that was made from it is gone."""

    def is_gone():
        try:
            client.delete_template(name)
        except errors.Conflict:
            return False
        return True

    wait_for(is_gone, 20, f"no sandbox of {name}")
