# SPDX-License-Identifier: Apache-2.0
"""Directories in one call, out and in; and a corpus of archives made to get out of their directory."""

import gzip
import io
import shutil
import subprocess
import tarfile

import pytest
from cloche import errors, open_tar

pytestmark = pytest.mark.neutral

TREE = """
mkdir -p t/a/b t/empty; echo one > t/1; echo two > t/a/2; chmod 750 t/a; chmod 4755 t/1
ln -s ../1 t/a/link; ln -s /etc/passwd t/abs; ln t/a/2 t/a/b/hard; head -c 300000 /dev/urandom > t/big
printf x > "t/$(printf 'n%.0s' $(seq 200))"; printf x > 't/new
line'; mkdir -p t/$(printf 'd%.0s' $(seq 120))/$(printf 'e%.0s' $(seq 120)); printf deep > t/d*/e*/f; touch -d @1234567890 t/1
"""


def summary(sandbox, directory):
    return sandbox.run(
        f"cd {directory} && find . -printf '%P|%y|%m|%l|' -a \\( -type f -exec sha256sum {{}} \\; -o -printf '\\n' \\) | "
        "sed 's/ .*//' | sort"
    ).stdout


@pytest.mark.parametrize("compress", ["none", "gzip", "zstd"])
def test_a_directory_goes_out_and_in_unchanged(sandbox, compress):
    sandbox.run(TREE.replace("chmod 4755", "chmod 755"))
    archive = b"".join(sandbox.files.tar_out("t", compress=compress))
    reply = sandbox.files.tar_in("u", archive, compress=compress, parents=True)
    assert reply["entries"] >= 13
    assert reply["bytes"] >= 300_000
    assert summary(sandbox, "u") == summary(sandbox, "t")
    assert sandbox.run("stat -c %Y u/1").stdout == "1234567890\n"


def test_an_archive_is_read_by_pythons_and_gnus_tar(sandbox, tmp_path):
    sandbox.run(TREE)
    with tarfile.open(fileobj=open_tar(sandbox.files.tar_out("t", compress="gzip")), mode="r|gz") as tar:
        names = {m.name.lstrip("./"): m for m in tar}
    assert names["a/link"].linkname == "../1"
    assert any(len(n) > 240 for n in names)
    gnu = subprocess.run(["tar", "-C", tmp_path, "-xf", "-"], input=b"".join(sandbox.files.tar_out("t")), check=True)
    assert gnu.returncode == 0
    assert (tmp_path / "a/2").read_text() == "two\n"


def test_an_archive_of_gnu_tar_is_taken(sandbox, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / ("long" * 50)).write_text("1")
    (tmp_path / "x" / "sparse").write_bytes(b"a")
    with open(tmp_path / "x" / "sparse", "r+b") as f:
        f.truncate(1 << 20)
    for format_ in ("gnu", "pax", "ustar" if len("long" * 50) < 100 else "posix"):
        data = subprocess.run(["tar", "-C", tmp_path, f"--format={format_}", "-cf", "-", "x"], stdout=subprocess.PIPE, check=True)
        sandbox.files.tar_in(format_, data.stdout, parents=True)
        assert sandbox.files.read(f"{format_}/x/" + "long" * 50) == b"1"
        assert sandbox.files.stat(f"{format_}/x/sparse").size == 1 << 20


def test_a_big_directory_streams(sandbox):
    sandbox.run("mkdir many; cd many; seq 5000 | xargs touch; head -c 50000000 /dev/zero > big")
    archive = list(sandbox.files.tar_out("many", compress="gzip"))
    reply = sandbox.files.tar_in("again", iter(archive), compress="gzip", parents=True)
    assert reply["bytes"] == 50_000_000
    assert sandbox.run("ls again | wc -l").stdout.strip() == "5001"


# Each entry: fields of tarfile.TarInfo and the content. The archive is unpacked as root into /tmp/in; nothing outside
# of it may change, whatever the answer is.
def info(name, content=b"", **fields):
    t = tarfile.TarInfo(name)
    for k, v in fields.items():
        setattr(t, k, v)
    if t.isreg():
        t.size = len(content)
    return t, content


def archive(*entries, format=tarfile.PAX_FORMAT, end=True):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for t, content in entries:
            tar.addfile(t, io.BytesIO(content))
    data = out.getvalue()
    return data if end else data[: -10240 + 512]


def raw_header(name=b"x", size=b"00000000003\0", kind=b"0", mode=b"0000644\0", link=b"", magic=b"ustar\0" + b"00", prefix=b"", checksum=None):
    h = bytearray(512)
    h[0 : len(name)] = name
    h[100:108] = mode
    h[108:116] = h[116:124] = b"0000000\0"
    h[124 : 124 + len(size)] = size
    h[136:148] = b"00000000000\0"
    h[148:156] = b" " * 8
    h[156:157] = kind
    h[157 : 157 + len(link)] = link
    h[257:265] = magic
    h[345 : 345 + len(prefix)] = prefix
    total = sum(h) if checksum is None else checksum
    h[148:156] = b"%06o\0 " % total
    return bytes(h)


def raw(header, content=b"abc"):
    return header + content.ljust((len(content) + 511) // 512 * 512, b"\0") + bytes(1024)


SYM, LNK, CHR, BLK, FIFO, DIR = (
    tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
)
OUT = "/tmp/outside"
HOSTILE = {
    "dot-dot": archive(info("../outside/new", b"1")),
    "dot-dot-deep": archive(info("a/b/../../../outside/new", b"1")),
    "dot-dot-only": archive(info("..", type=DIR)),
    "dot-dot-end": archive(info("a/..", type=DIR, mode=0o777)),
    "absolute": archive(info(f"{OUT}/new", b"1")),
    "absolute-slashes": archive(info(f"//{OUT}/new", b"1")),
    "symlink-through": archive(info("l", type=SYM, linkname=OUT), info("l/new", b"1")),
    "symlink-relative": archive(info("l", type=SYM, linkname="../outside"), info("l/new", b"1")),
    "symlink-twice": archive(
        info("a", type=SYM, linkname=".."), info("b", type=SYM, linkname="a/outside"), info("b/new", b"1")
    ),
    "symlink-replaced-dir": archive(info("d", type=DIR), info("d", type=SYM, linkname=OUT), info("d/new", b"1")),
    "symlink-overwritten": archive(info("l", type=SYM, linkname=f"{OUT}/victim"), info("l", b"changed")),
    "symlink-root": archive(info("l", type=SYM, linkname="/"), info("l/tmp/outside/new", b"1")),
    "symlink-proc": archive(info("l", type=SYM, linkname="/proc/self/root/tmp/outside"), info("l/new", b"1")),
    "symlink-dir-mode": archive(info("l", type=SYM, linkname=OUT), info("l", type=DIR, mode=0o777)),
    "hardlink-outside": archive(info("h", type=LNK, linkname=f"{OUT}/victim"), info("h", b"changed")),
    "hardlink-dot-dot": archive(info("h", type=LNK, linkname="../outside/victim"), info("h", b"changed")),
    "hardlink-via-symlink": archive(
        info("l", type=SYM, linkname=OUT), info("h", type=LNK, linkname="l/victim"), info("h", b"changed")
    ),
    "hardlink-to-symlink": archive(
        info("l", type=SYM, linkname=f"{OUT}/victim"), info("h", type=LNK, linkname="l"), info("h", b"changed")
    ),
    "char-device": archive(info("mem", type=CHR, devmajor=1, devminor=1, mode=0o666)),
    "block-device": archive(info("disk", type=BLK, devmajor=7, devminor=0, mode=0o666)),
    "fifo": archive(info("pipe", type=FIFO), info("pipe", b"1")),
    "setuid": archive(info("su", b"#!/bin/sh\n", mode=0o6755)),
    "pax-path": archive(info("x", b"1", pax_headers={"path": "../outside/new"})),
    "pax-linkpath": archive(info("l", type=SYM, linkname="x", pax_headers={"linkpath": OUT}), info("l/new", b"1")),
    "pax-size": archive(info("x", b"123", pax_headers={"size": "99999999999"})),
    "pax-negative-size": archive(info("x", b"123", pax_headers={"size": "-5"})),
    "pax-nul": archive(info("x", b"1", pax_headers={"path": "a\0b"})),
    "pax-xattr": archive(info("x", b"1", pax_headers={"SCHILY.xattr.security.capability": "\1\0\0\2"})),
    "pax-overlay-xattr": archive(info("x", type=DIR, pax_headers={"SCHILY.xattr.user.overlay.redirect": "/etc"})),
    "pax-global": archive(info("x", b"1"), format=tarfile.PAX_FORMAT)[:0]
    + raw(raw_header(b"g", b"00000000032\0", b"g"), b"26 path=../outside/newnew\n")[:1024]
    + raw(raw_header()),
    "pax-bad-length": raw(raw_header(b"p", b"00000000012\0", b"x"), b"99 path=x\n")[:1024] + raw(raw_header()),
    "pax-huge": raw(raw_header(b"p", b"77777777777\0", b"x"), b"1"),
    "gnu-long-name": archive(info("../outside/" + "n" * 200, b"1"), format=tarfile.GNU_FORMAT),
    "gnu-long-huge": raw(raw_header(b"././@LongLink", b"77777777777\0", b"L"), b"1"),
    "gnu-sparse-old": raw(raw_header(kind=b"S"), b"abc"),
    "size-negative": raw(raw_header(size=b"\xff" * 12)),
    "size-huge": raw(raw_header(size=b"\x80" + b"\x7f" + b"\xff" * 10)),
    "size-not-octal": raw(raw_header(size=b"9999999999a\0")),
    "bad-checksum": raw(raw_header(checksum=1)),
    "truncated": raw(raw_header(size=b"00000100000\0"))[:700],
    "not-a-tar": b"\x89PNG" * 1000,
    "empty": b"",
    "name-empty": raw(raw_header(name=b"")),
    "name-nul-only-prefix": raw(raw_header(name=b"", prefix=b"../outside")),
    "prefix-dot-dot": raw(raw_header(name=b"new", prefix=b"../outside")),
    "unknown-kind": raw(raw_header(kind=b"Z")),
    "deep": archive(info("/".join(["d"] * 2500) + "/f", b"1")),
    "duplicate": archive(info("x", b"1"), info("x", b"2"), info("x", type=DIR), info("x", b"3")),
    "owner-huge": archive(info("x", b"1", uid=4_000_000_000, gid=4_000_000_000)),
    "backslash": archive(info("..\\outside\\new", b"1")),
}
OUTSIDE = "cd /tmp && find outside -printf '%p|%y|%m|%U|%s|%l\\n' | sort && cat outside/victim && ls -A /tmp"


@pytest.fixture(scope="module")
def target(client, daemon):
    with client.create() as sandbox:
        sandbox.run(f"mkdir -p {OUT}; echo victim > {OUT}/victim", user="root")
        yield sandbox


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_archive_changes_nothing_outside(target, name):
    target.run("mkdir /tmp/in", user="root")
    before = target.run(OUTSIDE, user="root").stdout
    try:
        target.files.tar_in("/tmp/in", HOSTILE[name], user="root")
    except errors.ClocheError as e:
        assert e.status in (400, 403, 404, 409, 413), e
    assert target.run(OUTSIDE, user="root").stdout == before
    kinds = target.run("find /tmp/in -type b -o -type c -o -perm /6000", user="root").stdout
    assert kinds == ""
    attributes = target.run(["python3", "-c", "import os\nfor d,_,f in os.walk('/tmp/in'):\n for n in f+['.']: print(os.listxattr(os.path.join(d,n), follow_symlinks=False))"], user="root")
    assert set(attributes.stdout.split("\n")) <= {"[]", ""}
    target.files.remove("/tmp/in", recursive=True, user="root")


@pytest.mark.parametrize("compress, data", [
    ("gzip", b"\x1f\x8b\x08" + b"\0" * 100),
    ("gzip", gzip.compress(b"x" * 100, mtime=0)[:-6]),
    ("gzip", b"plain"),
    ("zstd", b"\x28\xb5\x2f\xfd" + b"\xff" * 50),
    ("zstd", b"plain"),
])
def test_a_broken_compression_is_a_typed_error(sandbox, compress, data):
    with pytest.raises((errors.FileInvalid, errors.BadRequest, errors.InvalidField)):
        sandbox.files.tar_in("/tmp", data, compress=compress)


@pytest.mark.slow
def test_a_gzip_bomb_ends_at_the_disk_limit(make_sandbox):
    sandbox = make_sandbox(limits={"disk_mib": 64})
    if "disk_limit" in sandbox.info.isolation["gaps"]:
        pytest.skip("this host gives no disk limit")
    plain = io.BytesIO()
    with gzip.open(plain, "wb", compresslevel=9) as out:
        out.write(raw_header(b"bomb", b"02000000000\0"))
        for _ in range(256):
            out.write(bytes(1 << 20))
    with pytest.raises((errors.DiskFull, errors.TooLarge)):
        sandbox.files.tar_in("/tmp", plain.getvalue(), compress="gzip")
    assert sandbox.run(["true"]).exit_code == 0


def test_a_zstd_window_larger_than_sane_is_refused(sandbox):
    if not shutil.which("zstd"):
        pytest.skip("no zstd program on this host")
    data = subprocess.run(["zstd", "--ultra", "-22", "--long=31", "-c"], input=bytes(1000), stdout=subprocess.PIPE, check=True)
    header = bytearray(data.stdout)
    header[4] &= ~0x20  # not a single segment: the window is told by the next byte
    header.insert(5, (31 - 10) << 3)
    with pytest.raises((errors.FileInvalid, errors.TooLarge, errors.BadRequest)):
        sandbox.files.tar_in("/tmp", bytes(header), compress="zstd")
