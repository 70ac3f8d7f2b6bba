#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every suite on build directories that are ready, and counts single tests.

First Meson's suites (unit, platform, and the fuzz corpora replayed) with the unit tests of parsers under valgrind beside them, then the Python ones
(the interpreters' drivers by themselves; functional, security, contract on a real daemon; chaos on daemons that are killed; the SDKs as their users install them); with a sanitized build beside the plain one,
unit and a part of functional once more on that (`--only asan`: all of functional). Python suites wait more than they work, so several run side by side, each with
daemons of its own, unless there is one CPU only; a pass of several workers hands them file after file, those that take longest first. A pytest that dies is listed, and
another one runs what it has not begun. What failed is tried once more at the end, one test after the other with nothing beside it: what passes then counts as
passed and is listed as unsteady. Prints each skip with its reason, each failure with its output (at once, and again at the end, where
whoever has only a log's end finds it), what each pass and the whole host took of the processors, and as the very last line "N passed, N failed, N skipped".
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
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MESON_SUITES = ["unit", "platform", "fuzz"]
PYTHON_SUITES = ["chaos", "kernels", "functional", "security", "contract", "sdk", "compat", "dashboard"]
# These take more than half a minute, the longest first, so that at the end nobody waits for one of them alone.
LONGEST_FILES = """
    soak soak_cluster chaos/test_cluster health backup upgrade vercel vm docs examples frameworks errors vm_warm bad_input e2b kernels/python/test_output kernels/test_java network_wall node build bench parity
    functional/test_template_import exhaustion host_disk_full faults operation restart once tar vm_copies pause_kills packages adapters code suite sources
    readmes_vercel environment_worker network notebook api_abuse cli files ports_abuse package_sets pause auth vercel_links network_tls network_h2 events memory_kills
    template_pull pulls_of_many template_shared slow_host snapshots zygote functional/test_imprint identity input audit_sinks people login_abuse objects cluster_collection cluster_nodes nodes_page cluster_snapshots cluster_restore cluster_routing cluster_lists cluster_certificates helm cluster_placement cluster_wires up_cluster
""".split()
IN_ORDER = ["--dist", "loadfile", "--no-loadscope-reorder"]  # else the file with most tests is the first
# What runs side by side. What is marked slow looks for no errors of memory. Several workers of one pass take file after file.
PYTHON_PASSES = [
    ("asan", ["functional"], ["-m", "not slow", "--numprocesses", "2", *IN_ORDER]),
    ("plain", [s for s in PYTHON_SUITES if s != "dashboard"], ["--numprocesses", "6", *IN_ORDER]),
    ("plain", ["dashboard"], []),  # the browser's driver keeps a loop of its own in its process
]
# The files of functional that each run of all tests has time for on the sanitized build: those that send a daemon the most kinds of bytes, and those that
# make it end, start and wait in the most ways. `make test-sanitized` runs all.
SANITIZED_FILES = """
    attach bad_input bounds code compat_e2b diff ends exec exec_limits fairness files http mcp network network_tls network_ways once output pool ports quota
    restart sandboxes slow_host snapshots sources tar template_import terminal turns volumes webhooks zygote
""".split()
# And a part of four of them with vms for sandboxes; all of these where the environment says so.
VM_PASSES = [("plain", ["functional", "security", "sdk", "compat"], ["-m", "vm"])]
# What every engine promises, with the tests' own one.
BARE_PASSES = [("plain", ["functional"], ["-m", "neutral and not slow"])]
DETAIL_MOST = 4000  # of a failure, at the end
SLOWEST = 12  # files of a pass that are named
CRASHES_MOST = 3  # of a pass's pytest: after that the rest is not run
RETRIES_MOST = 30  # failures of one pass: more than that is no accident, and is not tried again
VALGRIND = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]
# Leaks are looked for in the suite `leaks` alone: not in guests and daemons, which are killed, and where seccomp keeps LeakSanitizer from its work.
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:halt_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


def run_counted(argv, **options):
    """(exit status, output, seconds of CPU time that it and all that it has waited for took)"""
    process = subprocess.Popen(argv, stderr=subprocess.STDOUT, text=True, **options)
    output = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, output, usage.ru_utime + usage.ru_stime


def host_seconds():
    """Of all processors since the host's start: at work, waiting for a disk, idle."""
    ticks = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, idle, disk, irq, softirq, steal = (n / os.sysconf("SC_CLK_TCK") for n in ticks)
    return user + nice + system + irq + softirq + steal, disk, idle


def tell_host(what, before):
    """How busy the host was meanwhile, whoever was it: time that is left here is where more could run side by side."""
    busy, disk, idle = (now - then for now, then in zip(host_seconds(), before))
    print(f"{what}, all of the host: {busy:.0f} s of CPU time, {disk:.0f} s waited for a disk, {idle:.0f} s idle", flush=True)


class Tally:
    """What became of each test, by name."""

    def __init__(self):
        self.passed = []
        self.failures = {}
        self.unsteady = {}
        self.skips = []

    def add(self, what, status, detail=""):
        if status == "passed":
            self.passed.append(what)
        elif status == "skipped":
            self.skips.append((what, detail.strip() or "no reason given"))
        else:
            self.failures[what] = "\n".join(filter(None, [self.failures.get(what), detail.rstrip()]))  # a test and its teardown may both fail
            print(f"\nFAILED {what}\n{detail.rstrip()}", flush=True)

    def settle(self, again):
        """again: the tally of a second try of what failed. What has passed there is unsteady, not broken."""
        for what in set(again.passed) & set(self.failures) - set(again.failures):
            self.unsteady[what] = self.failures.pop(what)
            self.passed.append(what)

    def report(self):
        if self.skips:
            print("\nSkipped:")
            for what, reason in self.skips:
                print(f"  {what}: {reason}")
        self._tell("Unsteady (failed, then passed alone; repair these first)", self.unsteady)
        self._tell("Failed", self.failures)
        print(f"{len(self.passed)} passed, {len(self.failures)} failed, {len(self.skips)} skipped", flush=True)

    def _tell(self, title, found):
        if found:
            print(f"\n{title}:")
        for what, detail in found.items():
            print(f"  {what}\n{textwrap.indent(detail[-DETAIL_MOST:], '    ')}")


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


@dataclass
class MesonPass:
    """Programs of a build: those of the suites but `but`, or those named."""

    build: Path
    label: str
    suites: list
    wrapper: list = ()
    but: str = ""
    programs: list = ()
    broken: set = field(default_factory=set)  # programs in which something failed
    cpu_s: float = 0

    def run(self, tally):
        log = self.build / "meson-logs" / (f"testlog-{self.wrapper[0]}.json" if self.wrapper else "testlog.json")
        log.unlink(missing_ok=True)
        argv = ["meson", "test", "-C", str(self.build), "--no-rebuild", "--print-errorlogs"]
        argv += ["--num-processes", "1" if self.programs else str(2 * (os.cpu_count() or 2)), *self.programs]  # those with jails wait more than they work
        for suite in self.suites:
            argv += ["--suite", suite]
        if self.but:
            argv += ["--no-suite", self.but]
        if self.wrapper:
            argv += ["--timeout-multiplier", "5", "--wrapper", " ".join(self.wrapper)]
        _, output, self.cpu_s = run_counted(argv, stdout=subprocess.PIPE, env=meson_env(self.suites))
        if not log.exists():
            if "No suitable tests" not in output and "No tests defined" not in output:
                tally.add(self.label, "failed", output)
            return
        for line in log.read_text().splitlines():
            if line.strip():
                record = json.loads(line)
                add_meson_test(tally, self.label, record)
                if record["result"] not in ("OK", "EXPECTEDFAIL", "SKIP"):
                    self.broken.add(record["name"].split(" / ")[-1])

    def failed(self):
        """The same for the programs in which something failed."""
        return replace(self, programs=sorted(self.broken), broken=set())

    def count(self):
        return len(self.programs)


def add_pytest_case(tally, label, case):
    name = f"{label}/{case_name(case)}"
    for kind, status in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        found = case.find(kind)
        if found is not None:
            detail = found.get("message", "") if status == "skipped" else (found.text or found.get("message", ""))
            if status == "failed":
                detail += "\n" + (case.findtext("system-out") or "")[-DETAIL_MOST // 2:]
            tally.add(name, status, detail)
            return
    tally.add(name, "passed")


def slowest(cases):
    """The files that took longest, with their seconds: where to look when the whole takes too long."""
    took = Counter()
    for case in cases:
        took[case.get("classname", "").rpartition(".")[2]] += float(case.get("time") or 0)
    told = ", ".join(f"{name} {seconds:.0f}" for name, seconds in took.most_common(SLOWEST))
    return f" (most of it: {told})" if told else ""


def most_cpu(path):
    """The files that took most CPU time outside of sandboxes: on a host that is never idle, these say how long all takes."""
    took = Counter()
    for line in path.read_text().splitlines() if path.exists() else ():
        name, _, seconds = line.rpartition(" ")
        took[name] += float(seconds)
    told = ", ".join(f"{name} {seconds:.0f}" for name, seconds in took.most_common(SLOWEST))
    return f"\n  by CPU time, {took.total():.0f} s: {told}" if told else ""


def longest_first(paths):
    """The files below these directories; a name of the table is the end of one."""
    def place(path):
        whole = str(path.with_suffix(""))
        return next((i for i, name in enumerate(LONGEST_FILES) if whole.endswith(name if "/" in name else f"/test_{name}")), len(LONGEST_FILES))

    return sorted((f for path in paths for f in ([path] if path.is_file() else sorted(path.rglob("test_*.py")))), key=place)


def told_name(test):
    """As add_pytest_case names a test that pytest calls PATH::CLASS::NAME[PARAMETERS], the class where there is one."""
    whole, bracket, parameters = test.partition("[")
    holder, _, name = whole.rpartition("::")
    return f"{Path(holder.split('::')[-1]).stem}::{name}{bracket}{parameters}"


def case_name(case):
    return f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"


def has_failed(case):
    return case.find("failure") is not None or case.find("error") is not None


def read_cases(report):
    """None: there is no whole report."""
    try:
        return list(ElementTree.parse(report).getroot().iter("testcase"))
    except (FileNotFoundError, ElementTree.ParseError):
        return None


@dataclass
class Round:
    """What one pytest of a pass has left."""

    status: int
    output: str
    cpu_s: float
    cases: list  # of the report; None: there is none
    begun: list
    ended: set

    @property
    def has_died(self):
        return self.cases is None or self.status not in (0, 1, 5)  # 5: the words for pytest leave no test of these

    @property
    def under_way(self):
        return [test for test in self.begun if test not in self.ended] if self.has_died else []

    @property
    def told(self):
        """The tests that no other round has to run: without a report nobody knows what became of those that have ended."""
        return self.begun if self.cases is not None else self.under_way

    def whole_cases(self):
        """Without those that say nothing: pytest reports its own fault as cases, one of them without a name, and a test that has only begun as one that has
        passed, also where its worker died and it is reported as failed beside that."""
        cut_short = {told_name(test) for test in self.under_way}
        failed = {case_name(case) for case in self.cases or [] if has_failed(case)}
        for case in self.cases or []:
            is_half = case_name(case) in cut_short or (case_name(case) in failed and not has_failed(case))
            if not is_half and not (self.has_died and case.get("classname", "") in ("", "pytest")):
                yield case


@dataclass
class PythonPass:
    """Tests of pytest: what lies below the paths, or the tests named."""

    build: Path
    label: str
    engine: str
    paths: list
    words: list  # for pytest
    tests: list = ()
    files: list = ()  # of the paths, only these

    @property
    def name(self):
        return f"{self.engine}-{self.label}-{'-'.join(p.name for p in self.paths)}"

    @property
    def targets(self):
        return [str(t) for t in self.tests or longest_first(self.files or self.paths)]

    @property
    def failed_list(self):
        return self.build / f"pytest-{self.name}.failed"

    @property
    def cpu_list(self):
        return self.build / f"pytest-{self.name}.cpu"

    def start(self):
        """(seconds, rounds): one pytest after the other, as long as one dies and has begun something before."""
        start = time.monotonic()
        self.failed_list.unlink(missing_ok=True)
        self.cpu_list.unlink(missing_ok=True)
        rounds = [self.round(set())]
        while rounds[-1].has_died and rounds[-1].begun and len(rounds) <= CRASHES_MOST:
            rounds.append(self.round({test for r in rounds for test in r.told}))
        return time.monotonic() - start, rounds

    def round(self, left_out):
        report, progress, names = (self.build / f"pytest-{self.name}.{end}" for end in ("xml", "progress", "left-out"))
        report.unlink(missing_ok=True)
        progress.write_text("")
        names.write_text("\n".join(left_out))
        words = ["--tb=short", "--junitxml", str(report), "-o", "junit_logging=system-out", *self.words]
        sink = None if "-s" in self.words else subprocess.PIPE  # somebody wants to watch
        env = {**self.env, "CLOCHE_PROGRESS": str(progress), "CLOCHE_LEFT_OUT": str(names)}
        status, output, cpu_s = run_counted(self.argv(words), stdout=sink, env=env, cwd=self.rootdir)
        lines = [line.partition(" ") for line in progress.read_text().splitlines()]
        return Round(status, output, cpu_s, read_cases(report), [t for w, _, t in lines if w == "begun"], {t for w, _, t in lines if w == "ended"})

    def compile(self):
        """Leaves the tests' bytecode, which pytest makes with checks of its own, for the workers: each would take seconds to make it."""
        subprocess.run(self.argv(["--collect-only", "-qq"]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env, cwd=self.rootdir)

    def argv(self, words):
        return [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "tests" / "pytest.ini"), "--rootdir", str(self.rootdir), "-o", f"pythonpath={ROOT / 'tests'}",
                *words, *self.targets]

    @property
    def env(self):
        return {**os.environ, **SANITIZER_ENV, "CLOCHE_BUILD": str(self.build), "CLOCHE_ENGINE": self.engine, "CLOCHE_FAILED_TESTS": str(self.failed_list), "CLOCHE_CPU": str(self.cpu_list),
                "PYTHONDONTWRITEBYTECODE": "1", "CLOCHE_BYTECODE": str(ROOT / "build" / "bytecode")}

    @property
    def rootdir(self):
        return self.paths[0].parent

    def add(self, tally, result):
        seconds, rounds = result
        label = self.label if self.engine == "jail" else self.engine
        name = f"{label} {', '.join(p.name for p in self.paths)}"
        for one in rounds:
            for case in one.whole_cases():
                add_pytest_case(tally, label, case)
            if one.has_died:
                self.add_crash(tally, label, name, one)
        if len(rounds) > CRASHES_MOST and rounds[-1].has_died:
            tally.add(name, "failed", f"died {len(rounds)} times: what was left has not been run")
        cases = [case for one in rounds for case in one.whole_cases()]
        print(f"{name}: {seconds:.0f} s, {sum(r.cpu_s for r in rounds):.0f} of CPU time{slowest(cases)}{most_cpu(self.cpu_list)}", flush=True)

    def add_crash(self, tally, label, name, one):
        """A pytest that died is a failure of the tests that were under way, each of which is tried once more, alone; without any it is one of the pass."""
        words = f"pytest died (status {one.status}):\n{one.output[-DETAIL_MOST // 2:]}"
        for test in one.under_way:
            tally.add(f"{label}/{told_name(test)}", "failed", f"one of {len(one.under_way)} that were under way when {words}")
        if not one.under_way:
            tally.add(name, "failed", words)
        with self.failed_list.open("a") as file:
            file.writelines(test + "\n" for test in one.under_way)

    def run(self, tally):
        self.add(tally, self.start())

    def failed(self):
        """The same for the tests that failed, one after the other."""
        found = self.failed_list.read_text().splitlines() if self.failed_list.exists() else []
        alone = [w for w in self.words if w != "-x"] + ["--numprocesses", "0"]
        return replace(self, tests=list(dict.fromkeys(found)), words=alone)

    def count(self):
        return len(self.tests)


def run_in_turn(tally, passes):
    for programs in passes:
        start = time.monotonic()
        programs.run(tally)
        print(f"{programs.label} {', '.join(programs.suites)}: {time.monotonic() - start:.0f} s, {programs.cpu_s:.0f} of CPU time", flush=True)


def run_programs(tally, passes, memcheck, python):
    """Passes of Meson's one after the other, and beside them what works and never waits."""
    with ThreadPoolExecutor(3) as pool:
        under_way = [pool.submit(run_in_turn, tally, passes), pool.submit(run_in_turn, tally, memcheck)]
        if passes and python:
            under_way.append(pool.submit(max(python, key=lambda p: len(p.targets)).compile))
        for done in as_completed(under_way):
            done.result()


def run_python(tally, passes):
    """Side by side. Each is told as a whole when it is over."""
    is_one_by_one = len(os.sched_getaffinity(0)) == 1 or any("-s" in p.words for p in passes)
    if is_one_by_one:
        passes = [replace(p, words=p.words + ["--numprocesses", "0"]) for p in passes]
    with ThreadPoolExecutor(1 if is_one_by_one else len(passes)) as pool:
        under_way = {pool.submit(p.start): p for p in passes}
        for done in as_completed(under_way):
            under_way[done].add(tally, done.result())


def retry(tally, passes):
    """Tries what failed once more, alone."""
    again = Tally()
    for failed in [p.failed() for p in passes]:
        if failed.count() > RETRIES_MOST:
            print(f"\n{failed.count()} failures of {failed.label}: too many to be tried again", flush=True)
        elif failed.count():
            print(f"\nOnce more, alone: {failed.count()} of {failed.label}", flush=True)
            failed.run(again)
    tally.settle(again)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", help="plain build directory (default: build)")
    parser.add_argument("--asan-build", default="build-asan", help="sanitized one; left out where it does not exist")
    parser.add_argument("--only", choices=["plain", "asan"], help="one of the two")
    parser.add_argument("--suite", action="append", choices=MESON_SUITES + PYTHON_SUITES, help="only this suite; again for more")
    parser.add_argument("--path", type=Path, help="only the Python tests below this directory, on the plain build")
    parser.add_argument("pytest", nargs="*", help="words for pytest, behind --")
    return parser.parse_args()


def sanitized_files():
    return [ROOT / "tests" / "functional" / f"test_{name}.py" for name in SANITIZED_FILES]


def python_passes(builds, chosen, extra):
    rows = [(label, "jail", suites, words) for label, suites, words in PYTHON_PASSES]
    rows += [(label, "vm", suites, words) for label, suites, words in VM_PASSES]
    rows += [(label, "bare", suites, words) for label, suites, words in BARE_PASSES]
    if os.environ.get("CLOCHE_ENGINE") == "vm":
        rows = [(label, "vm", suites, ["--numprocesses", "2", *IN_ORDER]) for label, suites, _ in VM_PASSES]
    return [
        PythonPass(builds[label], label, engine, [ROOT / "tests" / s for s in chosen(suites)], words + extra,
                   files=sanitized_files() if label == "asan" and "plain" in builds else [])
        for label, engine, suites, words in rows
        if label in builds and chosen(suites)
    ]


def meson_passes(builds, chosen):
    for label, build in builds.items():
        suites = chosen(MESON_SUITES if label == "plain" else ["unit", "fuzz"])
        if label == "asan" and "unit" in suites:
            yield MesonPass(build, label, ["leaks"])
        if suites:
            yield MesonPass(build, label, suites, but="leaks" if label == "asan" else "")


def main():
    args = parse_args()
    tally = Tally()

    def chosen(suites):
        return [s for s in suites if not args.suite or s in args.suite]

    builds = {"plain": args.build, "asan": args.asan_build}
    builds = {label: (ROOT / build).resolve() for label, build in builds.items() if args.only in (None, label)}
    if not (builds.get("asan", ROOT) / "build.ninja").exists():
        builds.pop("asan", None)
    if args.path:
        meson, python = [], [PythonPass(builds["plain"], "plain", "jail", [args.path.resolve()], args.pytest)]
    else:
        meson, python = list(meson_passes(builds, chosen)), python_passes(builds, chosen, args.pytest)
    memcheck = [] if args.only or args.suite or args.path else [MesonPass(builds["plain"], "valgrind", ["memcheck"], wrapper=VALGRIND)]
    before = host_seconds()
    run_programs(tally, meson, memcheck, python)
    tell_host("Programs", before)
    meson += memcheck
    if python:
        before = host_seconds()
        run_python(tally, python)
        tell_host("Python", before)
    retry(tally, meson + python)
    tally.report()
    return 1 if tally.failures or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
