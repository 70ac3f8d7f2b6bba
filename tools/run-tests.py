#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every suite on build directories that are ready, and counts single tests.

First Meson's suites (unit, platform, and the fuzz corpora replayed), then the Python ones
(the interpreters' drivers by themselves; functional, security, contract on a real daemon; chaos on daemons that are killed; the SDKs as their users install them); with a sanitized build beside the plain one,
unit and functional once more on that; then the unit tests of parsers under valgrind. Python suites wait more than they work, so several run side by side, each with
daemons of its own, unless there is one CPU only. Prints each skip with its reason, each failure with its output (at once, and again at the end, where
whoever has only a log's end finds it), and as the very last line "N passed, N failed, N skipped".
"""

import argparse
import json
import os
import re
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MESON_SUITES = ["unit", "platform", "fuzz"]
PYTHON_SUITES = ["kernels", "functional", "security", "contract", "chaos", "sdk", "compat", "dashboard"]
# What runs side by side. What is marked slow looks for no errors of memory. Several workers of one pass take file after file.
PYTHON_PASSES = [
    ("asan", ["functional"], ["-m", "not slow"]),
    ("plain", [s for s in PYTHON_SUITES if s != "dashboard"], ["--numprocesses", "3", "--dist", "loadfile"]),
    ("plain", ["dashboard"], []),  # the browser's driver keeps a loop of its own in its process
]
# And a part of four of them with vms for sandboxes; all of these where the environment says so.
VM_PASSES = [("plain", ["functional", "security", "sdk", "compat"], ["-m", "vm"])]
DETAIL_MOST = 4000  # of a failure, at the end
VALGRIND = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]
# Leaks are looked for in the suite `leaks` alone: not in guests and daemons, which are killed, and where seccomp keeps LeakSanitizer from its work.
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:halt_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


class Tally:
    def __init__(self):
        self.passed = 0
        self.failures = []
        self.skips = []

    def add(self, what, status, detail=""):
        if status == "passed":
            self.passed += 1
        elif status == "skipped":
            self.skips.append((what, detail.strip() or "no reason given"))
        else:
            self.failures.append((what, detail.rstrip()))
            print(f"\nFAILED {what}\n{detail.rstrip()}", flush=True)

    def report(self):
        if self.skips:
            print("\nSkipped:")
            for what, reason in self.skips:
                print(f"  {what}: {reason}")
        if self.failures:
            print("\nFailed:")
            for what, detail in self.failures:
                print(f"  {what}\n{textwrap.indent(detail[-DETAIL_MOST:], '    ')}")
        print(f"{self.passed} passed, {len(self.failures)} failed, {len(self.skips)} skipped", flush=True)


def cmocka_results(text):
    """(name, status, detail) of each test in cmocka's output; detail is what was printed in it."""
    results, name, printed = [], None, []
    for line in text.splitlines():
        found = re.match(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] (\S+)$", line)
        word = found.group(1) if found else None
        if word == "RUN":
            name, printed = found.group(2), []
        elif word and name == found.group(2):  # the summary names failures again
            reasons = [p[6:] for p in printed if p.startswith("SKIP: ")]
            status = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[word]
            results.append((name, status, " ".join(reasons) if word == "SKIPPED" else "\n".join(printed)))
            name = None
        else:
            printed.append(line)
    return results


def add_meson_test(tally, label, record):
    """One of Meson's tests: a program with tests of its own, or a single one."""
    name, result = record["name"].split(" / ")[-1], record["result"]
    output = (record.get("stdout") or "") + (record.get("stderr") or "")
    single = cmocka_results(output)
    for test, status, detail in single:
        tally.add(f"{label}/{name}::{test}", status, detail)
    has_failure = any(status == "failed" for _, status, _ in single)
    if has_failure:  # cmocka's words are on standard error, apart from the names
        print((record.get("stderr") or "")[-3000:], flush=True)
    if result in ("OK", "EXPECTEDFAIL"):
        if not single:
            tally.add(f"{label}/{name}", "passed")
    elif result == "SKIP":
        last = (output.strip().splitlines() or [""])[-1]
        tally.add(f"{label}/{name}", "skipped", last)
    elif not has_failure:
        tally.add(f"{label}/{name}", "failed", f"{result}\n{output[-6000:]}")


def meson_env(suites):
    env = {**os.environ, **SANITIZER_ENV}
    if suites == ["leaks"]:
        env["ASAN_OPTIONS"] = env["ASAN_OPTIONS"].replace("detect_leaks=0", "detect_leaks=1")
    return env


def run_meson(tally, build, suites, label, wrapper=None, but=None):
    log = build / "meson-logs" / (f"testlog-{wrapper[0]}.json" if wrapper else "testlog.json")
    log.unlink(missing_ok=True)
    argv = ["meson", "test", "-C", str(build), "--no-rebuild", "--print-errorlogs", "--num-processes", str(os.cpu_count() or 2)]
    for suite in suites:
        argv += ["--suite", suite]
    if but:
        argv += ["--no-suite", but]
    if wrapper:
        argv += ["--timeout-multiplier", "5", "--wrapper", " ".join(wrapper)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=meson_env(suites))
    if not log.exists():
        if "No suitable tests" not in done.stdout and "No tests defined" not in done.stdout:
            tally.add(label, "failed", done.stdout)
        return
    for line in log.read_text().splitlines():
        if line.strip():
            add_meson_test(tally, label, json.loads(line))


def add_pytest_case(tally, label, case):
    name = f"{label}/{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
    for kind, status in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(kind)
        if found is not None:
            detail = found.get("message", "") if status == "skipped" else (found.text or found.get("message", ""))
            if status == "failed":
                detail += "\n" + (case.findtext("system-out") or "")[-DETAIL_MOST // 2:]
            tally.add(name, status, detail)
            return
    tally.add(name, "passed")


def run_pytest(build, engine, suites, extra):
    """(seconds, exit status, output, the report's cases or None)"""
    start = time.monotonic()
    report = build / f"pytest-{engine}-{'-'.join(suites)}.xml"
    report.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "tests" / "pytest.ini"), "--rootdir", str(ROOT / "tests"),
            "--tb=short", "--junitxml", str(report), "-o", "junit_logging=system-out", *extra, *[str(ROOT / "tests" / s) for s in suites]]
    env = {**os.environ, **SANITIZER_ENV, "CLOCHE_BUILD": str(build), "CLOCHE_ENGINE": engine, "PYTHONDONTWRITEBYTECODE": "1"}
    sink = None if "-s" in extra else subprocess.PIPE  # somebody wants to watch
    done = subprocess.run(argv, stdout=sink, stderr=subprocess.STDOUT, text=True, env=env, cwd=ROOT / "tests")
    cases = list(ElementTree.parse(report).getroot().iter("testcase")) if report.exists() else None
    return time.monotonic() - start, done.returncode, done.stdout or "", cases


def add_pytest(tally, label, suites, result):
    seconds, status, output, cases = result
    for case in cases or []:
        add_pytest_case(tally, label, case)
    if cases is None or status not in (0, 1, 5):  # 5: the words for pytest leave no test of these
        tally.add(f"{label} {' '.join(suites)}", "failed", output[-6000:])
    print(f"{label} {', '.join(suites)}: {seconds:.0f} s", flush=True)


def run_python(tally, passes, extra):
    """passes: (build, label, engine, suites, words for pytest). Each is told as a whole when it is over."""
    is_one_by_one = len(os.sched_getaffinity(0)) == 1 or "-s" in extra
    if is_one_by_one:
        extra = extra + ["--numprocesses", "0"]
    with ThreadPoolExecutor(1 if is_one_by_one else len(passes)) as pool:
        under_way = {
            pool.submit(run_pytest, build, engine, suites, words + extra): (label if engine == "jail" else engine, suites)
            for build, label, engine, suites, words in passes
        }
        for done in as_completed(under_way):
            add_pytest(tally, *under_way[done], done.result())


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="plain build directory (default: build)")
    parser.add_argument("--asan-build", default="build-asan", help="sanitized one; left out where it does not exist")
    parser.add_argument("--only", choices=["plain", "asan"], help="one of the two")
    parser.add_argument("--suite", action="append", choices=MESON_SUITES + PYTHON_SUITES, help="only this suite; again for more")
    parser.add_argument("pytest", nargs="*", help="words for pytest, behind --")
    return parser.parse_args()


def main():
    args = parse_args()
    tally = Tally()

    def chosen(suites):
        return [s for s in suites if not args.suite or s in args.suite]

    builds = {"plain": args.build, "asan": args.asan_build}
    builds = {label: (ROOT / build).resolve() for label, build in builds.items() if args.only in (None, label)}
    if not (builds.get("asan", ROOT) / "build.ninja").exists():
        builds.pop("asan", None)
    for label, build in builds.items():
        if suites := chosen(MESON_SUITES if label == "plain" else ["unit", "fuzz"]):
            start = time.monotonic()
            if label == "asan" and "unit" in suites:
                run_meson(tally, build, ["leaks"], label)
            run_meson(tally, build, suites, label, but="leaks" if label == "asan" else None)
            print(f"{label} {', '.join(suites)}: {time.monotonic() - start:.0f} s", flush=True)
    passes = [(label, "jail", suites, words) for label, suites, words in PYTHON_PASSES]
    passes += [(label, "vm", suites, words) for label, suites, words in VM_PASSES]
    if os.environ.get("CLOCHE_ENGINE") == "vm":
        passes = [(label, "vm", suites, ["--numprocesses", "2", "--dist", "loadfile"]) for label, suites, _ in VM_PASSES]
    passes = [
        (builds[label], label, engine, chosen(suites), words) for label, engine, suites, words in passes if label in builds and chosen(suites)
    ]
    for engine in ("jail", "vm"):  # emulated machines take the time of what runs beside them
        if of_engine := [p for p in passes if p[2] == engine]:
            run_python(tally, of_engine, args.pytest)
    if not args.only and not args.suite:
        run_meson(tally, builds["plain"], ["memcheck"], "valgrind", wrapper=VALGRIND)
    tally.report()
    return 1 if tally.failures or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
