# SPDX-License-Identifier: Apache-2.0
"""Archives that are small on the wire and large, or endless, when they are unpacked."""

import gzip
import io
import shutil
import subprocess
import tarfile

import pytest
from cloche import errors
from harness.daemon import memory_kib

MIB = 1 << 20


def archive(content, name="content", **fields):
    """A tar of one file; fields change its header."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        for key, value in fields.items():
            setattr(info, key, value)
        tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def gzipped(data):
    return gzip.compress(data, 9)


def zstd(data):
    if not shutil.which("zstd"):
        pytest.skip("no zstd program on this host")
    return subprocess.run(["zstd", "-3", "-c"], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout


@pytest.mark.parametrize("compress, squeeze", [("gzip", gzipped), ("zstd", zstd)])
def test_R14_what_expands_beyond_reason_is_refused_in_bounded_memory(make_sandbox, daemon, compress, squeeze):
    sandbox = make_sandbox()
    honest = archive(b"\n".join(b"line %d" % i for i in range(100_000)))
    sandbox.files.tar_in("/tmp/honest", squeeze(honest), compress=compress, parents=True)
    assert sandbox.files.stat("/tmp/honest/content").size > MIB
    bomb = squeeze(archive(bytes(96 * MIB)))
    base, disk = memory_kib(daemon.gateway_pid), sandbox.usage()["now"]["disk_bytes"]
    assert len(bomb) < MIB
    with pytest.raises((errors.TooLarge, errors.FileInvalid)) as e:
        sandbox.files.tar_in("/tmp/bomb", bomb, compress=compress, parents=True)
    assert "expands beyond reason" in str(e.value)
    assert memory_kib(daemon.gateway_pid) < base + 32 * 1024
    assert sandbox.usage()["now"]["disk_bytes"] < disk + 96 * MIB
    assert sandbox.run("echo alive").stdout == "alive\n"


def test_R14_a_sparse_file_of_a_billion_bytes_is_refused_by_name(make_sandbox):
    sandbox = make_sandbox()
    with pytest.raises(errors.FileInvalid) as e:
        sandbox.files.tar_in("/tmp", archive(b"x", "holes", type=tarfile.GNUTYPE_SPARSE))
    assert "holes" in str(e.value)
    assert not sandbox.files.exists("/tmp/holes")


def test_R14_an_archive_in_an_archive_is_a_file(make_sandbox):
    sandbox = make_sandbox()
    inner = gzipped(archive(bytes(8 * MIB)))
    sandbox.files.tar_in("/tmp", archive(inner, "inner.tar.gz"))
    assert sandbox.files.stat("/tmp/inner.tar.gz").size == len(inner)
