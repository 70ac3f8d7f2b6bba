# SPDX-License-Identifier: Apache-2.0
"""Random trees of files in a sandbox, random changes to them, and what a plain walk finds: for tests of snapshots as values."""

import json

TOPS = ("/home/user/t", "/tmp/t", "/usr/local/t", "/srv/t")

# Both run as root inside, with a seed. Names are few, so that changes meet what is there.
_COMMON = r"""
import os, random, shutil, stat, sys
rng = random.Random(int(sys.argv[1]))
TOPS = ["/home/user/t", "/tmp/t", "/usr/local/t", "/srv/t"]
NAMES = ["a", "b", "c", "d", "e e", "f\n", "g\udcff", ".h"]

def paths():
    found = []
    for top in TOPS:
        for where, dirs, names in os.walk(top):
            found += [os.path.join(where, n) for n in sorted(dirs + names)]
    return found

def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)

def place():
    dirs = TOPS + [p for p in paths() if os.path.isdir(p) and not os.path.islink(p)]
    return os.path.join(rng.choice(dirs), rng.choice(NAMES))

def make_file(path):
    remove(path)
    with open(path, "wb") as f:
        kind = rng.random()
        if kind < 0.2:  # holes
            f.truncate(rng.randrange(1 << 22))
            f.seek(rng.randrange(1 << 20))
            f.write(b"data")
        elif kind < 0.4:
            f.write(rng.randbytes(rng.randrange(200000)))
        else:
            f.write(b"".join(b"line %d\n" % rng.randrange(9) for _ in range(rng.randrange(40))))

def make_dir(path):
    remove(path)
    os.mkdir(path)

def make_link(path):
    remove(path)
    os.symlink(rng.choice(["a", "/etc/passwd", "../..", "nowhere"]), path)

def make_fifo(path):
    remove(path)
    os.mkfifo(path)

def make_hard_link(path):
    files = [p for p in paths() if stat.S_ISREG(os.lstat(p).st_mode) and p.split("/")[1] == path.split("/")[1] and p != path]
    if files:
        target = rng.choice(files)
        if not target.startswith(path + "/"):
            remove(path)
            os.link(target, path)

def change(path):
    st = os.lstat(path)
    what = rng.randrange(7)
    if what == 0 and not stat.S_ISLNK(st.st_mode):
        os.chmod(path, rng.choice([0o600, 0o755, 0o4711, 0o2750, 0o1777]))
    elif what == 1:
        os.chown(path, rng.choice([0, 33, 1000]), rng.choice([0, 44, 1000]), follow_symlinks=False)
    elif what == 2 and (stat.S_ISREG(st.st_mode) or stat.S_ISDIR(st.st_mode)):
        os.setxattr(path, "user." + rng.choice("xyz"), rng.randbytes(rng.randrange(1, 40)))
    elif what == 3 and stat.S_ISREG(st.st_mode):
        with open(path, "r+b") as f:
            f.seek(rng.randrange(max(st.st_size, 1)))
            f.write(b"!")
    elif what == 4 and stat.S_ISREG(st.st_mode):
        os.truncate(path, rng.randrange(1 << 16))
    elif what == 5:
        os.utime(path, ns=(10**18, 10**18 + rng.randrange(10**9)), follow_symlinks=False)
    elif what == 6:
        target = place()
        if os.path.dirname(target).startswith(path) or target.split("/")[1] != path.split("/")[1] or path == target or target.startswith(path + "/") or path.startswith(target + "/"):
            return
        remove(target)
        shutil.move(path, target)

MAKERS = [make_file] * 5 + [make_dir] * 4 + [make_link, make_fifo, make_hard_link]
def step():
    here = [p for p in paths() if p not in TOPS]
    if here and rng.random() < 0.45:
        change(rng.choice(here))
    elif here and rng.random() < 0.25:
        remove(rng.choice(here))
    else:
        rng.choice(MAKERS)(place())
"""
MAKE = _COMMON + "for top in TOPS:\n    os.makedirs(top)\nfor _ in range(150):\n    step()\n"
CHANGE = _COMMON + "for _ in range(40):\n    step()\n"
WALK = r"""
import hashlib, json, os, stat, sys
found, links = {}, {}
for top in sys.argv[1:]:
    for where, dirs, names in os.walk(top):
        for name in dirs + names:
            path = os.path.join(where, name)
            st = os.lstat(path)
            kind = stat.S_IFMT(st.st_mode)
            content = ""
            if kind == stat.S_IFREG:
                content = hashlib.sha256(open(path, "rb").read()).hexdigest()
            elif kind == stat.S_IFLNK:
                content = os.readlink(path)
            attributes = sorted((n, os.getxattr(path, n, follow_symlinks=False).hex()) for n in os.listxattr(path, follow_symlinks=False))
            shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            blocks = st.st_blocks * 512 < st.st_size / 2 and st.st_size > 1 << 20
            found[shown] = dict(type=kind, mode=oct(st.st_mode), owner=[st.st_uid, st.st_gid], content=content, attributes=attributes,
                                mtime=0 if kind == stat.S_IFDIR else st.st_mtime_ns, sparse=blocks)
            if kind == stat.S_IFREG and st.st_nlink > 1:
                links.setdefault((st.st_dev, st.st_ino), []).append(shown)
print(json.dumps([found, sorted(sorted(names) for names in links.values() if len(names) > 1)]))
"""


def run_inside(sandbox, script, *args):
    result = sandbox.run(["python3", "-c", script, *map(str, args)], user="root")
    assert result.exit_code == 0, result.stderr[-2000:]
    return result.stdout


def walk(sandbox, tops=TOPS):
    """All that is below the tops, by path; and which paths are one file."""
    found, links = json.loads(run_inside(sandbox, WALK, *tops))
    return {"files": found, "links": links}


def expected(before, after):
    """What a diff of two walks has to tell: {path: (kind, changed)}."""
    old, new, out = before["files"], after["files"], {}
    for path in old.keys() | new.keys():
        if path not in old or path not in new:
            out[path] = ("added" if path in new else "deleted", ())
            continue
        a, b = old[path], new[path]
        if a["type"] != b["type"]:
            out[path] = ("modified", ("type",))
            continue
        changed = tuple(n for n in ("content", "mode", "owner", "attributes") if a[n] != b[n])
        if changed:
            out[path] = ("modified", changed)
    return out


def told(reply, tops):
    """The same of a diff's reply."""
    assert not reply["truncated"]
    return {
        c["path"]: (c["kind"], tuple(c["changed"]))
        for c in reply["changes"]
        if any(c["path"].startswith(top + "/") for top in tops)
    }
