# SPDX-License-Identifier: Apache-2.0
"""Root inside is root of the sandbox: enough to install packages and add users, and nothing more."""

import shutil
import subprocess

import pytest


@pytest.fixture(scope="session")
def local_deb(tmp_path_factory):
    if not shutil.which("dpkg-deb"):
        pytest.skip("no dpkg-deb on this host")
    top = tmp_path_factory.mktemp("deb")
    tree = top / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: cloche-hello\nVersion: 1.0\nArchitecture: all\nMaintainer: Test <test@example.org>\nDescription: says hello\n"
    )
    (tree / "DEBIAN/postinst").write_text("#!/bin/sh\nset -e\necho configured > /var/lib/cloche-hello\nchown daemon /var/lib/cloche-hello\n")
    (tree / "DEBIAN/postinst").chmod(0o755)
    (tree / "usr/bin/cloche-hello").write_text("#!/bin/sh\necho hello from a package\n")
    (tree / "usr/bin/cloche-hello").chmod(0o755)
    deb = top / "cloche-hello.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, deb], check=True, stdout=subprocess.DEVNULL)
    return deb.read_bytes()


@pytest.mark.jail("the suite's template for vms has no apt")
@pytest.mark.parametrize("how", ["root", "sudo"])
def test_apt_get_installs_a_local_package(sandbox, local_deb, how):
    sandbox.files.write("/tmp/hello.deb", local_deb)
    command = ["apt-get", "install", "-y", "/tmp/hello.deb"]
    r = sandbox.run(["sudo", *command]) if how == "sudo" else sandbox.run(command, user="root")
    assert r.exit_code == 0, r.stdout + r.stderr
    assert sandbox.run(["cloche-hello"]).stdout == "hello from a package\n"
    assert sandbox.run("stat -c %U /var/lib/cloche-hello").stdout == "daemon\n"
    assert sandbox.run(["apt-get", "remove", "-y", "cloche-hello"], user="root").exit_code == 0
    assert sandbox.run(["which", "cloche-hello"]).exit_code == 1


def test_the_hosts_own_usr_is_not_changed(sandbox):
    r = sandbox.run("echo mine > /usr/bin/cloche-new; rm -f /usr/bin/env; ls /usr/bin/env", user="root")
    assert r.exit_code != 0
    assert shutil.which("env")
    assert not shutil.which("cloche-new")


def test_useradd_makes_a_user_that_can_run(sandbox):
    r = sandbox.run("useradd -m -s /bin/sh -u 2000 alice", user="root")
    assert r.exit_code == 0, r.stderr
    assert sandbox.run("id -un; pwd; touch mine && stat -c %U mine", user="alice").stdout == "alice\n/home/alice\nalice\n"


def test_sudo_runs_words_as_root_with_the_callers_fds(sandbox):
    r = sandbox.run("echo in | sudo sh -c 'id -u; cat; echo err >&2; exit 9'")
    assert (r.stdout, r.stderr, r.exit_code) == ("0\nin\n", "err\n", 9)


@pytest.mark.parametrize("user", ["nobody", "www-data", "1234", "65533"])
def test_T02_sudo_makes_root_of_no_service_and_no_stranger(sandbox, user):
    r = sandbox.run("sudo id -u", user=user)
    assert r.exit_code != 0 and r.stdout == "" and "sudo:" in r.stderr
    assert sandbox.run("sudo id -u").stdout == "0\n"  # the sandbox's own user


def test_sudo_is_for_members_of_its_group_too(sandbox):
    assert sandbox.run("(getent group sudo || groupadd -r sudo) && useradd -m -G sudo bob", user="root").exit_code == 0
    assert sandbox.run("sudo id -u", user="bob").stdout == "0\n"


def test_sudo_keeps_the_directory(sandbox):
    assert sandbox.run("sudo pwd", cwd="/tmp").stdout == "/tmp\n"


@pytest.mark.jail("root of a vm has a kernel of its own, and no ids of the host behind its own")
def test_root_owns_only_what_is_inside(sandbox):
    assert sandbox.run("cat /proc/self/uid_map", user="root").stdout.split()[0] == "0"
    outside = int(sandbox.run("cat /proc/self/uid_map", user="root").stdout.split()[1])
    assert outside >= 65536


@pytest.mark.parametrize("command", [
    "python3 -c 'import threading, subprocess, multiprocessing as m; p = m.Pool(2); print(p.map(abs, [-1])); p.close(); p.join()'",
    "python3 -c 'import asyncio; print(asyncio.run(asyncio.create_subprocess_exec(\"true\")).pid > 0)'",
    "python3 -m venv --without-pip /tmp/v && /tmp/v/bin/python -c 'print(1)'",
    "printf 'int main(void){return 0;}' > a.c && cc a.c -o a && ./a",
    "git init -q r && cd r && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --oneline",
    "node -e 'require(\"child_process\").execSync(\"true\"); console.log(1)'",
    "sqlite3 :memory: 'select 6*7'",
    "perl -e 'print 42'",
    "tar c /etc/passwd 2>/dev/null | tar t",
])
def test_ordinary_tools_work_inside(sandbox, command):
    program = command.split()[0] if not command.startswith("printf") else "cc"
    if sandbox.run(["which", program]).exit_code != 0:
        pytest.skip(f"the template has no {program}")
    r = sandbox.run(command, timeout=60)
    assert r.exit_code == 0, r.stderr


def test_a_user_that_was_made_inside_becomes_root_only_as_a_member_of_the_group(sandbox):
    made = sandbox.run("useradd -m made && useradd -m -G sudo trusted && sudo -u made id -un && sudo -u trusted id -un", user="root")
    assert (made.exit_code, made.stdout) == (0, "made\ntrusted\n"), made.stderr
    refused = sandbox.run("sudo -u made sudo id -u")
    assert refused.exit_code != 0 and refused.stdout == "" and "group sudo" in refused.stderr
    assert sandbox.run("sudo -u made sudo -u trusted id -un").stdout == ""
    assert sandbox.run("sudo -u trusted sudo id -u").stdout == "0\n"
    assert sandbox.run("sudo id -u").stdout == "0\n"
