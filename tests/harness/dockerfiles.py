# SPDX-License-Identifier: Apache-2.0
"""Dockerfiles in the manner of those that people write, over small bases of this host's own programs; and what they become by buildah and by cloche."""

import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

from .oci import Layout, Tar, busybox_layer

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
APPLETS = """awk basename chgrp chmod chown cp cut date dirname dd du expr false grep gunzip gzip head hostname install ln mkdir mkfifo mktemp mv od
printenv printf realpath rmdir sed seq sha256sum sleep sort tail tar tee test touch tr uname uniq wc which xargs""".split()

# These are compared with every change, all others by `make test-dockerfiles`: buildah takes seconds for each.
FEW = ("python-app", "node-stages", "copy-modes", "add-archives", "users", "root-tree")
# Name -> (Dockerfile, files of its context). A file whose name ends with '*' is executable.
CASES = {
    "python-app": (
        """FROM python:3.12-slim
ENV PYTHONDONTWRITEBYTECODE=1 \\
    PYTHONUNBUFFERED=1
WORKDIR /app
COPY requirements.txt .
RUN --mount=type=cache,target=/root/.cache/pip cat requirements.txt > installed.txt
COPY . .
RUN echo appuser:x:5678:5678::/app:/bin/sh >> /etc/passwd && chown -R appuser /app
USER appuser
EXPOSE 8000
CMD ["python", "-m", "http.server", "8000"]
""",
        {"requirements.txt": "flask==3.0\n", "app.py": "print(1)\n", "pkg/__init__.py": "", "pkg/deep/mod.py": "x = 1\n"},
    ),
    "python-venv-stages": (
        """FROM python:3.12-slim AS builder
WORKDIR /build
RUN mkdir -p /opt/venv/bin && printf '#!/bin/sh\\nexec true\\n' > /opt/venv/bin/tool && chmod +x /opt/venv/bin/tool && ln -s tool /opt/venv/bin/alias
COPY requirements.txt ./
FROM python:3.12-slim
ENV PATH="/opt/venv/bin:$PATH"
COPY --from=builder /opt/venv /opt/venv
WORKDIR /srv/app
COPY --chown=1000:1000 app.py ./
USER 1000:1000
ENTRYPOINT ["tool"]
""",
        {"requirements.txt": "x\n", "app.py": "y\n"},
    ),
    "node-stages": (
        """# syntax=docker/dockerfile:1
ARG NODE_VERSION=20
FROM node:${NODE_VERSION} AS deps
WORKDIR /usr/src/app
COPY package*.json ./
RUN mkdir -p node_modules/left-pad && echo '{}' > node_modules/left-pad/package.json
FROM deps AS build
COPY . .
RUN mkdir dist && cat src/index.js > dist/index.js
FROM node:${NODE_VERSION}
ENV NODE_ENV=production
WORKDIR /usr/src/app
COPY --from=deps /usr/src/app/node_modules ./node_modules
COPY --from=build /usr/src/app/dist ./dist
COPY package.json .
USER user
EXPOSE 3000
CMD node dist/index.js
""",
        {"package.json": "{}\n", "package-lock.json": "{}\n", "src/index.js": "1\n", "README.md": "no\n"},
    ),
    "go-static": (
        """FROM golang:1.22 AS build
WORKDIR /src
COPY go.mod main.go ./
ARG TARGETOS TARGETARCH
RUN mkdir -p /out && cp /bin/busybox /out/server && chmod 0755 /out/server
FROM scratch
COPY --from=build /out/server /server
COPY --from=build /etc/passwd /etc/passwd
USER 65532:65532
ENTRYPOINT ["/server"]
""",
        {"go.mod": "module x\n", "main.go": "package main\n"},
    ),
    "nginx-config": (
        """FROM nginx:alpine
LABEL maintainer="web@example.com" org.opencontainers.image.title="site"
RUN rm -f /etc/nginx/conf.d/default.conf
COPY nginx.conf /etc/nginx/nginx.conf
COPY conf.d/ /etc/nginx/conf.d/
COPY html /usr/share/nginx/html
VOLUME ["/var/lib/nginx"]
EXPOSE 80 443
STOPSIGNAL SIGQUIT
CMD ["nginx", "-g", "daemon off;"]
""",
        {"nginx.conf": "events {}\n", "conf.d/site.conf": "server {}\n", "html/index.html": "<p>\n", "html/a/b.css": "p{}\n"},
    ),
    "copy-directory-onto-existing": (
        "FROM alpine\nRUN mkdir -p /srv/x && echo 1 > /srv/x/one && chmod 700 /srv/x\nCOPY x /srv/x\nCOPY x/ /srv/y/\nCOPY x/two /srv/z/\nCOPY x/two /srv/renamed\n",
        {"x/two": "2\n", "x/sub/three": "3\n"},
    ),
    "copy-patterns": (
        "FROM alpine\nWORKDIR /w\nCOPY *.txt ./\nCOPY d?r/[a-c]*.c out/\nCOPY dir/sub* all/\nCOPY .env* ./\n",
        {"a.txt": "a", "b.txt": "b", "c.md": "c", "dir/a.c": "1", "dir/d.c": "2", "dir/sub1/x": "x", "dir/sub2/y": "y", ".env": "E=1", ".env.local": "E=2"},
    ),
    "copy-modes": (
        "FROM alpine\nCOPY run.sh /usr/local/bin/\nCOPY --chmod=600 secret /etc/app/secret\nCOPY --chmod=755 tree /tree\nCOPY --chown=app tree /mine\nCOPY --chown=1000:app run.sh /home/run.sh\n",
        {"run.sh*": "#!/bin/sh\n", "secret": "s\n", "tree/a/b": "b\n", "tree/exec*": "x\n"},
    ),
    "copy-links": (
        "FROM alpine AS a\nRUN mkdir -p /l/real && echo 1 > /l/real/f && ln -s real/f /l/rel && ln -s /l/real /l/dir && ln /l/real/f /l/hard && ln -s nowhere /l/broken\nFROM alpine\nCOPY --from=a /l /copied\nCOPY --from=a /l/rel /one\n",
        {},
    ),
    "add-archives": (
        "FROM alpine\nADD site.tar.gz /srv/\nADD plain.txt /srv/\nADD plain.txt /srv/renamed.txt\nCOPY site.tar.gz /srv/kept.tar.gz\n",
        {"site.tar.gz": "TAR", "plain.txt": "p\n"},
    ),
    "env-and-args": (
        """ARG VERSION=1
FROM alpine
ARG VERSION
ARG NAME=app
ENV A=1 B="two words" C=three\\ words D=${NAME}-${VERSION}
ENV OLD style with spaces
ENV E=${UNSET:-default} F=${A:+set} G="$A$B" H='$A'
WORKDIR /opt/${NAME}
RUN echo "$D $E $F $G $H $OLD" > env.txt
LABEL version=$VERSION "multi word"="x y"
""",
        None,
    ),
    "workdirs": (
        "FROM alpine\nWORKDIR /a\nWORKDIR b/c\nWORKDIR ../d\nRUN pwd > where\nUSER app\nWORKDIR /srv/by-app/deep\nRUN pwd > /tmp/x\n",
        None,
    ),
    "users": (
        """FROM alpine
RUN echo team:x:3000: >> /etc/group && echo worker:x:3001:3000::/home/worker:/bin/sh >> /etc/passwd && mkdir /data && chown worker:team /data
USER worker
RUN id -u > /data/id && id -g >> /data/id && umask > /data/umask && mkdir /data/d && touch /data/f && echo $HOME > /data/home
USER 3001:0
RUN touch /data/second
USER root
RUN touch /data/third
USER worker:team
""",
        None,
    ),
    "shell-forms": (
        """FROM alpine
SHELL ["/bin/sh", "-e", "-u", "-c"]
RUN echo $0 > /shell
RUN ["/bin/sh", "-c", "echo exec > /exec"]
SHELL ["/bin/sh", "-c"]
RUN echo $0 > /shell2
ENTRYPOINT exec top -b
CMD echo x
""",
        None,
    ),
    "entrypoint-script": (
        """FROM alpine
COPY docker-entrypoint.sh /usr/local/bin/
RUN chmod +x /usr/local/bin/docker-entrypoint.sh && ln -s usr/local/bin/docker-entrypoint.sh /entry
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["serve", "--port", "80"]
""",
        {"docker-entrypoint.sh": '#!/bin/sh\nexec "$@"\n'},
    ),
    "cmd-reset-by-entrypoint": ('FROM nginx:alpine\nENTRYPOINT ["/bin/sh"]\n', None),
    "entrypoint-kept-cmd-changed": ('FROM nginx:alpine\nCMD ["other"]\nLABEL a=b\n', None),
    "healthcheck": ("FROM nginx:alpine\nHEALTHCHECK --interval=30s --timeout=3s --start-period=5s --retries=3 CMD wget -q localhost || exit 1\n", None),
    "volumes-and-ports": ('FROM alpine\nVOLUME /data /logs\nVOLUME ["/data", "/more"]\nEXPOSE 80 8080/tcp 53/udp\nEXPOSE 80\n', None),
    "permissions": (
        """FROM alpine
RUN mkdir -p /p/sticky /p/setgid && chmod 1777 /p/sticky && chmod 2775 /p/setgid && touch /p/suid && chmod 4755 /p/suid
RUN touch /p/none && chmod 000 /p/none && chown 12345:54321 /p/none
""",
        None,
    ),
    "deleted-files": (
        """FROM alpine
RUN mkdir /t && touch /t/a /t/b && echo x > /t/c
RUN rm /t/a && rm -r /etc/mark && mv /t/b /t/moved
RUN rm /t/c && mkdir /t/c && touch /t/c/in
""",
        None,
    ),
    "odd-names": (
        """FROM alpine
RUN mkdir '/o dd' && touch '/o dd/a b' "/o dd/quote'" '/o dd/dollar$x' '/o dd/ünïcode' '/o dd/-dash'
COPY ["with space.txt", "/o dd/"]
COPY ["with space.txt", "/o dd/re named"]
""",
        {"with space.txt": "s\n"},
    ),
    "dockerignore": (
        "FROM alpine\nCOPY . /src\n",
        {".dockerignore": "*.log\nnode_modules\n!keep.log\n**/tmp\n", "a.log": "x", "keep.log": "k", "node_modules/m/x": "x", "src/tmp/y": "y", "src/z": "z"},
    ),
    "bind-mounts": (
        """FROM alpine AS tools
RUN echo tool > /tool
FROM alpine
RUN --mount=type=bind,source=.,target=/ctx --mount=type=bind,from=tools,source=/,target=/mnt/tools cat /ctx/f /mnt/tools/tool > /got
""",
        {"f": "f\n"},
    ),
    "tmpfs-and-cache": (
        """FROM alpine
RUN --mount=type=tmpfs,target=/run/scratch --mount=type=cache,target=/var/cache/things,id=t \\
    echo x > /run/scratch/x && echo y > /var/cache/things/y && cp /run/scratch/x /kept
""",
        None,
    ),
    "long-chains": (
        """FROM alpine
# comments in the middle
RUN set -eux; \\
    # one
    mkdir -p /opt/app/bin; \\

    for i in 1 2 3; do \\
      echo "tool $i" > /opt/app/bin/tool$i; \\
    done; \\
    chmod -R a+x /opt/app/bin
""",
        None,
    ),
    "from-stage-by-number": (
        "FROM alpine\nRUN echo 0 > /zero\nFROM alpine\nCOPY --from=0 /zero /z\nRUN echo 1 > /one\nFROM alpine\nCOPY --from=1 /one /z /\n",
        None,
    ),
    "stage-inherits": (
        """FROM alpine AS base
ENV X=1
WORKDIR /base
USER app
LABEL l=1
FROM base AS mid
ENV Y=$X$X
FROM mid
USER root
RUN echo $X$Y > /n && pwd > /p
CMD ["x"]
""",
        None,
    ),
    "config-only": ('FROM alpine\nENV A=b\nCMD ["true"]\nUSER 1234\nWORKDIR /\n', None),
    "debian-style": (
        """FROM debian:bookworm-slim
ENV DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
RUN echo svc:x:999: >> /etc/group
RUN mkdir -p /etc/app /var/lib/app && chmod 0750 /var/lib/app && chown 1000:999 /var/lib/app && rm -rf /var/lib/apt/lists/*
COPY --chown=1000:svc app.conf /etc/app/
""",
        {"app.conf": "x\n"},
    ),
    "root-tree": (
        """FROM scratch
COPY rootfs/ /
COPY busybox /bin/busybox
COPY busybox /bin/sh
RUN ["/bin/sh", "-c", "echo made > /made"]
CMD ["/bin/sh"]
""",
        {"rootfs/etc/passwd": "root:x:0:0::/root:/bin/sh\n", "rootfs/srv/f": "f\n", "busybox*": "BUSYBOX"},
    ),
}


def base_layer():
    tar = busybox_layer()
    for name in APPLETS:
        tar.link(f"bin/{name}", "busybox")
    for name in ("usr", "usr/bin", "usr/local", "usr/local/bin", "usr/share", "var", "var/lib", "srv", "home", "opt", "mnt"):
        tar.dir(name)
    tar.dir("root", 0o700).dir("home/user", 0o700, uid=1000, gid=1000)
    return tar.add("etc/group", b"root:x:0:\nuser:x:1000:\napp:x:1234:\n").add("etc/shadow", b"", mode=0o640)


BASES = {
    "alpine:latest": {"Env": [f"PATH={PATH}"], "Cmd": ["/bin/sh"]},
    "python:3.12-slim": {"Env": [f"PATH={PATH}", "PYTHON_VERSION=3.12.1"], "Cmd": ["python3"]},
    "node:20": {"Env": [f"PATH={PATH}", "NODE_VERSION=20.1"], "Entrypoint": ["docker-entrypoint.sh"], "Cmd": ["node"]},
    "golang:1.22": {"Env": [f"PATH=/usr/local/go/bin:{PATH}"], "WorkingDir": "/go"},
    "nginx:alpine": {
        "Env": [f"PATH={PATH}"],
        "Entrypoint": ["/docker-entrypoint.sh"],
        "Cmd": ["nginx"],
        "ExposedPorts": {"80/tcp": {}},
        "StopSignal": "SIGTERM",
        "Labels": {"base": "nginx"},
    },
    "debian:bookworm-slim": {"Env": [f"PATH={PATH}"], "Cmd": ["bash"]},
}


def push_bases(registry, directory):
    for name, config in BASES.items():
        layout, extra = Layout(), Tar().add("etc/base", name.encode())
        if "nginx" in name:
            extra.dir("etc/nginx").dir("etc/nginx/conf.d").add("etc/nginx/conf.d/default.conf", b"d\n").dir("usr/share/nginx")
        layout.add(layout.image([base_layer().bytes(), extra.bytes()], config=config, history=[{"created_by": "a"}, {"created_by": "b"}]))
        layout.write(directory / name.replace(":", "-"))
        registry.push(directory / name.replace(":", "-"), f"library/{name}")


def make_archive():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, mode in (("site/index.html", 0o644), ("site/bin/run", 0o755)):
            info = tarfile.TarInfo(name)
            info.mode, info.uid, info.gid, info.size = mode, 1000, 1000, 2
            tar.addfile(info, io.BytesIO(b"x\n"))
    return made.getvalue()


def write_context(directory, text, files):
    directory.mkdir(parents=True)
    (directory / "Dockerfile").write_text(text)
    special = {"TAR": make_archive, "BUSYBOX": Path("/bin/busybox").read_bytes}
    for name, content in (files or {}).items():
        path = directory / name.rstrip("*")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(special[content]() if content in special else content.encode())
        path.chmod(0o755 if name.endswith("*") else 0o644)
    for path in directory.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


class Buildah:
    """Debian's, with a storage of its own; images that are named without a registry come from that one."""

    def __init__(self, registry, directory):
        self.root = directory
        names = 'unqualified-search-registries = ["docker.io"]\nshort-name-mode = "disabled"\n'
        (directory / "registries.conf").write_text(f'{names}[[registry]]\nprefix = "docker.io/library"\nlocation = "{registry.at}/library"\ninsecure = true\n')
        (directory / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')

    def run(self, *words):
        argv = ["buildah", "--storage-driver", "vfs", "--root", self.root / "root", "--runroot", self.root / "run", "--registries-conf", self.root / "registries.conf"]
        done = subprocess.run([*argv, *words], capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def build(self, context):
        """Its files and its config."""
        policy, tag = ["--signature-policy", self.root / "policy.json"], f"localhost/{context.name}"
        self.run("bud", *policy, "--isolation", "chroot", "--format", "docker", "-t", tag, context)
        config = json.loads(self.run("inspect", "--type", "image", tag))["Docker"]["config"]
        container = self.run("from", *policy, "--pull-never", tag).strip()
        found = dict(walk(Path(self.run("mount", container).strip())))
        self.run("rm", container)
        return found, config


LEFT_OUT = re.compile(
    r"^(tmp|var/tmp|var/cache|var/log|run|proc|sys|dev|opt/cloche|root/\.cache|var/lib/apt/lists)(/|$)"  # by a template's rules, or mounted
    r"|^(etc/(resolv\.conf|hosts|hostname|passwd-|group-|shadow-|machine-id)|usr/local/bin/sudo|opt|\.dockerenv)$"  # by those who run them
)


def row(kind, mode, uid, gid, rest=""):
    return f"{kind} {mode & 0o7777:o} {uid}:{gid} {rest}"


def hashed(data):
    return hashlib.sha256(data).hexdigest()[:16]


def walk(root):
    for path in sorted(root.rglob("*")):
        name, st = str(path.relative_to(root)), path.lstat()
        if LEFT_OUT.match(name):
            continue
        kind = "link" if path.is_symlink() else "dir" if path.is_dir() else "fifo" if path.is_fifo() else "file"
        rest = path.readlink() if kind == "link" else hashed(path.read_bytes()) if kind == "file" else ""
        yield name, row(kind, 0o777 if kind == "link" else st.st_mode, st.st_uid, st.st_gid, rest)


def walk_export(archive):
    """The files and the config of an exported template, which has one layer."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as outer:
        blobs = {m.name.rsplit("/", 1)[-1]: outer.extractfile(m).read() for m in outer if m.isfile()}
    manifest = json.loads(blobs[json.loads(blobs["index.json"])["manifests"][0]["digest"][7:]])
    config = json.loads(blobs[manifest["config"]["digest"][7:]])["config"]
    layer = subprocess.run(["zstd", "-dc"], input=blobs[manifest["layers"][0]["digest"][7:]], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        for m in tar:
            name = m.name.removeprefix("./").strip("/")
            if name in ("", ".") or LEFT_OUT.match(name):
                continue
            if m.islnk():
                files[name] = files[m.linkname.removeprefix("./").strip("/")]
                continue
            kind = "link" if m.issym() else "dir" if m.isdir() else "fifo" if m.isfifo() else "file"
            rest = m.linkname if kind == "link" else hashed(tar.extractfile(m).read()) if kind == "file" else ""
            files[name] = row(kind, 0o777 if kind == "link" else m.mode, m.uid, m.gid, rest)
    return files, config


def comparable(config):
    """What both say of how it is started, in one form."""
    user = config.get("User") or "root"
    return {
        "env": dict(word.split("=", 1) for word in config.get("Env") or []),
        "labels": {k: v for k, v in (config.get("Labels") or {}).items() if k not in ("io.buildah.version", "dev.cloche.template")},
        "user": "root" if user in ("0", "root") else user,
        "cwd": config.get("WorkingDir") or "/",
        "entrypoint": config.get("Entrypoint") or [],
        "cmd": config.get("Cmd") or [],
        "ports": sorted(config.get("ExposedPorts") or {}),
        "volumes": sorted(config.get("Volumes") or {}),
        "stop": config.get("StopSignal") or "",
        "onbuild": config.get("OnBuild") or [],
    }
