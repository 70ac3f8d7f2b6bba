# SPDX-License-Identifier: Apache-2.0
"""A registry on loopback that only gives: images of layers that are files on disk."""

from __future__ import annotations

import hashlib
import http.server
import json
import platform
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Dict, List, Tuple

OCI = "application/vnd.oci.image."
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        words = self.path.rsplit("/", 2)
        if words[-2] == "manifests" and self.path in self.server.manifests:
            data = self.server.manifests[self.path]
            self.begin(OCI + "manifest.v1+json", len(data))
            self.wfile.write(data)
        elif words[-2] == "blobs" and words[-1] in self.server.blobs:
            path = self.server.blobs[words[-1]]
            self.begin("application/octet-stream", path.stat().st_size)
            with path.open("rb") as blob:
                shutil.copyfileobj(blob, self.wfile, 1 << 20)
        else:
            self.send_error(404)

    def begin(self, kind: str, size: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.manifests: Dict[str, bytes] = {}
        self.blobs: Dict[str, Path] = {}


class Registry:
    def __init__(self) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="cloche-bench-", dir="/var/tmp"))
        self.server = Server()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def at(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def layer(self, path: Path) -> Tuple[str, int]:
        """A tar becomes a blob of it, by its digest and size."""
        with path.open("rb") as tar:
            digest = "sha256:" + hashlib.file_digest(tar, "sha256").hexdigest()
        self.server.blobs[digest] = path
        return digest, path.stat().st_size

    def image(self, name: str, layers: List[Tuple[str, int]]) -> str:
        """Its reference."""
        config = {"architecture": ARCH, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [digest for digest, _ in layers]}}
        path = self.dir / name.replace("/", "-")
        path.write_text(json.dumps(config))
        digest, size = self.layer(path)
        rows = [{"mediaType": OCI + "layer.v1.tar", "digest": d, "size": n} for d, n in layers]
        manifest = {"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": {"mediaType": OCI + "config.v1+json", "digest": digest, "size": size}, "layers": rows}
        data = json.dumps(manifest).encode()
        for word in ("1", "sha256:" + hashlib.sha256(data).hexdigest()):
            self.server.manifests[f"/v2/{name}/manifests/{word}"] = data
        return f"{self.at}/{name}:1"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.dir)
