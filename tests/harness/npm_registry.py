# SPDX-License-Identifier: Apache-2.0
"""A registry of npm's as files, for a server of files."""

import base64
import hashlib
import io
import json
import tarfile


def _pack(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def publish(directory, url, name, code):
    """Version 1.0.0 of a package whose index.js is that code; url is where the directory is served."""
    directory.mkdir(exist_ok=True)
    package = _pack({"package.json": json.dumps({"name": name, "version": "1.0.0", "main": "index.js"}), "index.js": code})
    (directory / f"{name}.tgz").write_bytes(package)
    dist = {"tarball": f"{url}/{name}.tgz", "integrity": "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()}
    version = {"name": name, "version": "1.0.0", "main": "index.js", "dist": dist}
    (directory / name).write_text(json.dumps({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}))
