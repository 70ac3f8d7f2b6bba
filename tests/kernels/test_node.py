# SPDX-License-Identifier: Apache-2.0
"""The JavaScript and TypeScript interpreter, driven as the agent drives it. One test per promise of issue and protocol.

CLOCHE_TEST_NODE names another Node than the one in PATH.
"""

import base64
import os
import shutil
import subprocess

import pytest
from kernels.kernel import KERNELS, Kernel, KernelDied, microseconds_per_call

NODE = os.environ.get("CLOCHE_TEST_NODE") or shutil.which("node")
DRIVER = str(KERNELS / "node" / "driver.js")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


def node_version():
    if NODE is None:
        return (0, 0)
    text = subprocess.run([NODE, "--version"], capture_output=True, text=True).stdout
    return tuple(int(part) for part in text.strip().lstrip("v").split(".")[:2])


STRIPS_TYPES = node_version() >= (22, 13)


@pytest.fixture
def kernel(tmp_path):
    with Kernel([NODE, DRIVER], cwd=str(tmp_path)) as kernel:
        yield kernel


@pytest.fixture
def typescript(tmp_path):
    with Kernel([NODE, DRIVER, "--typescript"], cwd=str(tmp_path)) as kernel:
        yield kernel


def interrupt_until_done(kernel):
    """As the host does: a signal that falls into the start or end of what runs can be lost."""
    for _ in range(20):
        kernel.interrupt()
        try:
            return kernel.finish(timeout=1)
        except TimeoutError:
            pass
    raise AssertionError("twenty interrupts did not end the call")


# ---- state and values


def test_it_says_what_it_is_before_the_first_call(kernel):
    assert kernel.ready["language"] == "javascript"
    assert int(kernel.ready["version"].split(".")[0]) >= 18
    assert kernel.ready["pid"] == kernel.pid


@pytest.mark.parametrize("declaration", ["let x = 42", "const x = 42", "var x = 42", "const {a: [x]} = {a: [42]}", "x = 42"])
def test_what_a_cell_declares_stays_for_later_cells(kernel, declaration):
    kernel.run(declaration)
    assert kernel.run("x").text == "42"


def test_functions_and_classes_stay_for_later_cells(kernel):
    kernel.run("function twice(n) { return 2 * n }\nclass Box { constructor(v) { this.v = v } }")
    assert kernel.run("twice(new Box(21).v)").text == "42"


@pytest.mark.parametrize("first", ["let x = 1", "const x = 1", "var x = 1", "class x {}", "function x() {}", "const x = await 1"])
@pytest.mark.parametrize("second", ["let x = 2", "const x = 2", "var x = 2", "const [x] = [await 2]"])
def test_a_name_can_be_declared_anew(kernel, first, second):
    kernel.run(first)
    assert kernel.run(f"{second}\nx").text == "2"


def test_a_let_without_value_is_a_new_variable(kernel):
    kernel.run("let x = 1")
    assert kernel.run("let x\ntypeof x").text == "'undefined'"


def test_a_const_of_the_name_of_a_read_only_global_is_the_cells(kernel):
    assert kernel.run("const crypto = require('crypto'); typeof crypto.createHash").text == "'function'"


def test_calls_are_counted_from_one_also_when_they_fail(kernel):
    assert [kernel.run(code).done["count"] for code in ("1", "throw 1", "let = =")] == [1, 2, 3]


def test_a_call_tells_the_cpu_that_it_took(kernel):
    burn = "const start = process.cpuUsage(); while (process.cpuUsage(start).user + process.cpuUsage(start).system < 50000);"
    assert kernel.run(burn).cpu_us >= 50_000


def test_the_last_expression_is_the_result(kernel):
    reply = kernel.run("let a = 1\na + 1\na + 2 // the last\n")
    assert reply.result == {"data": {"text/plain": "3"}, "metadata": {}}
    assert reply.done == {"status": "ok", "count": 1}


@pytest.mark.parametrize(
    "code", ["let a = 1", "undefined", "", "// nothing", "for (let i = 0; i < 3; i++) i", "if (true) { 5 }", "function f() {}", "await undefined"]
)
def test_what_has_no_value_has_no_result(kernel, code):
    reply = kernel.run(code)
    assert reply.result is None
    assert reply.status == "ok"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("const s = `a${ {b: `${1 + 1}`}.b }`\ns", "'a2'"),
        ("const t = 'let x = 1; // no }'\nt.length", "18"),
        ("let n = 8, d = 2\nn / d / 2 // /", "2"),
        ("if (true) /a[/]b/.test('a/b')\n'}'.match(/[}]/).length", "1"),
        ("var o = {class: 1, if: 2, get let() { return 3 }}\no.let", "3"),
        ("do { var i = 1 } while (false)\ni", "1"),
        ("let f = function () {\n}\nlet g = () => {\n}\ntypeof f + typeof g", "'functionfunction'"),
        ("outer: for (const a of [1]) { for (;;) break outer }\n'out'", "'out'"),
        ("[1, 2].map(async x => await x).length", "2"),
        ("switch (2) { case 2: { let y = 5; var z = y } }\nz", "5"),
        ("'use strict'; const v = 1\nv", "1"),
        ("/* let */ let q = 5 /* ; */\nq", "5"),
        ("#!/usr/bin/env node\n7", "7"),
    ],
)
def test_code_is_understood_whatever_it_looks_like(kernel, code, text):
    assert kernel.run(code).text == text


def test_a_cell_that_is_an_object_is_no_block(kernel):
    assert kernel.run("{a: 1, b: [2]}").data["application/json"] == {"a": 1, "b": [2]}


def test_a_block_stays_a_block(kernel):
    assert kernel.run("{ let inner = 1; globalThis.outer = inner }").error is None
    assert kernel.run("outer").text == "1"


def test_a_function_of_an_early_cell_sees_a_name_declared_anew(kernel):
    kernel.run("let rate = 1\nfunction get() { return rate }")
    kernel.run("let rate = 2")
    assert kernel.run("get()").text == "2"


def test_require_main_is_the_cell(kernel):
    assert kernel.run("require.main === module").text == "true"


def test_one_mebibyte_of_code_runs(kernel):
    assert kernel.run(f"let long = '{'é' * (1 << 19)}'\nlong.length").text == str(1 << 19)


# ---- await and import


def test_await_works_at_the_top_level_and_its_declarations_stay(kernel):
    reply = kernel.run("const {a, ...rest} = await Promise.resolve({a: 1, b: 2})\nfunction plus(n) { return n + a }\nclass C {}\nplus(1)")
    assert reply.text == "2"
    assert kernel.run("[plus(2), rest.b, typeof C]").data["application/json"] == [3, 2, "function"]


def test_a_var_in_a_block_of_a_cell_with_await_stays(kernel):
    kernel.run("for (var i = 0; i < 3; i++) { var last = await i }")
    assert kernel.run("[i, last]").data["application/json"] == [3, 2]


@pytest.mark.parametrize("code", ["await (async () => 42)()", "(await [42])[0]", "`${await 42}` * 1", "for await (const x of [42]) { var y = x }\ny"])
def test_await_is_seen_wherever_it_stands(kernel, code):
    assert kernel.run(code).text == "42"


def test_a_promise_that_is_not_awaited_is_shown_as_one(kernel):
    assert "Promise" in kernel.run("await 1; Promise.resolve(5)").text


def test_import_statements_work_in_all_their_forms(kernel):
    code = "import fs, {readFileSync as read} from 'node:fs'\nimport * as os from 'os'\nimport {\n  join,\n  sep\n} from 'path'\n"
    assert kernel.run(code + "[typeof fs.statSync, typeof read, typeof os.cpus, join('a', 'b')].join()").text == "'function,function,function,a/b'"
    assert kernel.run("sep").text == "'/'"


def test_modules_are_found_from_the_current_directory(kernel, tmp_path):
    (tmp_path / "own.mjs").write_text("export const one = 1; export default 2")
    package = tmp_path / "node_modules" / "some-package"
    package.mkdir(parents=True)
    (package / "index.js").write_text("module.exports = {three: 3}")
    assert kernel.run("import two, {one} from './own.mjs'\nimport {three} from 'some-package'\n[one, two, three]").data["application/json"] == [1, 2, 3]
    assert kernel.run("require('some-package').three + (await import('./own.mjs')).one").text == "4"


def test_an_import_of_what_is_not_exported_says_so(kernel):
    error = kernel.run("import {nothing} from 'fs'").error
    assert error["name"] == "SyntaxError"
    assert "does not provide an export named 'nothing'" in error["message"]


def test_import_meta_is_that_of_a_file_in_the_current_directory(kernel, tmp_path):
    assert kernel.run("import.meta.url").text == f"'file://{tmp_path}/cell.js'"


# ---- results


def test_plain_data_comes_as_json_too(kernel):
    assert kernel.run("[{a: [1, null, 'x']}]").data["application/json"] == [{"a": [1, None, "x"]}]


@pytest.mark.parametrize("code", ["new Map([[1, 2]])", "[() => 1]", "[NaN]", "[1n]", "const o = {}; o.self = o; o", "new Date(0)"])
def test_what_json_would_not_say_whole_comes_as_text_only(kernel, code):
    assert set(kernel.run(code).data) == {"text/plain"}


def test_a_value_can_say_how_it_looks(kernel):
    assert kernel.run("({_repr_html_() { return '<b>' }})").data["text/html"] == "<b>"
    hook = "({[Symbol.for('cloche.mimebundle')]: () => ({'image/png': Buffer.from('PNG'), 'text/plain': 'figure'})})"
    assert kernel.run(hook).data == {"image/png": base64.b64encode(b"PNG").decode(), "text/plain": "figure"}


def test_display_shows_values_and_bundles_during_the_call(kernel):
    reply = kernel.run("display({'text/html': '<i>'}); display([1], 'two')")
    assert [shown["data"] for shown in reply.displays] == [
        {"text/html": "<i>", "text/plain": "<text/html>"},
        {"application/json": [1], "text/plain": "[ 1 ]"},
        {"text/plain": "'two'"},
    ]
    assert reply.result is None


def test_display_after_its_call_is_output(kernel):
    kernel.run("setTimeout(() => display('late'), 20)")
    kernel.wait_output(b"'late'\n")
    assert kernel.run("1").displays == []


def test_long_text_is_cut(kernel):
    reply = kernel.run("'x'.repeat(3e6)")
    assert reply.result["truncated"] is True
    assert (1 << 20) <= len(reply.text) < (1 << 20) + 100


def test_a_bundle_over_eight_mebibytes_is_only_its_text(kernel):
    reply = kernel.run("display({'text/html': 'x'.repeat(9 << 20), 'text/plain': 'big'})")
    assert reply.displays == [{"data": {"text/plain": "big"}, "metadata": {}, "truncated": True}]


def test_a_value_that_cannot_be_inspected_is_shown_as_such(kernel):
    reply = kernel.run("({[require('util').inspect.custom]() { throw new Error('no') }})")
    assert "cannot be shown" in reply.text
    assert reply.status == "ok"


def test_no_string_holds_nul_or_half_a_character(kernel):
    reply = kernel.run("display({'text/html': 'a\\0b\\ud800c\\\\u0000'})")
    assert reply.displays[0]["data"]["text/html"] == "a\ufffdb\ufffdc\\u0000"


# ---- errors


def test_an_error_has_name_message_and_the_users_lines(kernel):
    kernel.run("function inner(x) {\n  return x.a.b\n}")
    error = kernel.run("// a comment\nconst r = await 1\ninner({})").error
    assert error["name"] == "TypeError"
    assert error["message"] == "Cannot read properties of undefined (reading 'b')"
    assert error["traceback"] == [
        "cell-1.js:2",
        "  return x.a.b",
        "             ^",
        "",
        "TypeError: Cannot read properties of undefined (reading 'b')",
        "    at inner (cell-1.js:2:14)",
        "    at cell-2.js:3:1",
    ]


def test_a_syntax_error_shows_the_line_and_runs_nothing(kernel):
    reply = kernel.run("console.log('no')\nlet x = = 4")
    assert reply.error["name"] == "SyntaxError"
    assert reply.error["traceback"][:3] == ["cell-1.js:2", "let x = = 4", "        ^"]
    assert reply.stdout == b""


@pytest.mark.parametrize(("code", "name"), [("throw 5", "Uncaught"), ("throw null", "Uncaught"), ("class Odd extends Error {}; throw new Odd()", "Odd")])
def test_whatever_is_thrown_is_told(kernel, code, name):
    assert kernel.run(code).error["name"] == name


def test_the_cause_of_an_error_is_told(kernel):
    assert "caused by:" in kernel.run("throw new Error('a', {cause: new RangeError('b')})").error["traceback"]


def test_an_error_with_hostile_properties_is_told_all_the_same(kernel):
    code = "const e = new Error('x'); for (const k of ['name', 'message', 'stack', 'cause']) Object.defineProperty(e, k, {get() { throw 1 }}); throw e"
    reply = kernel.run(code)
    assert reply.status == "error"
    assert kernel.run("1").text == "1"


@pytest.mark.parametrize("code", ["Promise.reject(new Error('lost')); 1", "(async () => { throw new Error('lost') })(); 1"])
def test_a_rejection_that_nobody_handles_ends_its_call(kernel, code):
    reply = kernel.run("let kept = 1;\n" + code)
    assert reply.error["message"] == "lost"
    assert kernel.run("kept").text == "1"


def test_an_uncaught_exception_ends_the_call_that_waits(kernel):
    reply = kernel.run("setTimeout(() => { throw new Error('in a timer') }, 10); await new Promise(() => {})")
    assert reply.error["message"] == "in a timer"
    assert kernel.run("1").text == "1"


def test_an_error_after_its_call_is_output_and_the_process_lives(kernel):
    kernel.run("setTimeout(() => { throw new Error('late') }, 20)")
    kernel.wait_output(b"Error: late", stream="stderr")
    assert kernel.run("4 + 4").text == "8"


# ---- output


def test_output_keeps_its_order_and_comes_before_the_reply(kernel):
    reply = kernel.run("console.log('one'); console.error('two'); process.stdout.write('three\\n'); 4")
    assert reply.stdout == b"one\nthree\n"
    assert reply.stderr == b"two\n"
    assert [verb for verb, _ in reply.events][-2:] == ["result", "done"]


def test_output_of_child_processes_stands_between_the_cells_own(kernel):
    reply = kernel.run("console.log(1); require('child_process').execSync('echo 2', {stdio: 'inherit'}); console.log(3)")
    assert reply.stdout == b"1\n2\n3\n"


def test_children_do_not_get_the_drivers_socket(kernel):
    reply = kernel.run("require('child_process').execSync('ls -l /proc/self/fd', {stdio: 'inherit'}); 1")
    assert b"pipe" in reply.stdout
    assert b"socket" not in reply.stdout


def test_output_is_binary_safe(kernel):
    assert kernel.run("process.stdout.write(Buffer.from([255, 0, 254, 10])); undefined").stdout == b"\xff\x00\xfe\n"


def test_a_hundred_megabytes_of_output_arrive(kernel):
    reply = kernel.run("for (let i = 0; i < 100; i++) process.stdout.write(Buffer.alloc(1e6, 120)); undefined", timeout=120)
    assert len(reply.stdout) == 100_000_000


def test_a_child_that_makes_the_pipe_nonblocking_loses_no_output(kernel):
    reply = kernel.run(
        "require('child_process').spawnSync(process.execPath, ['-e', 'process.stdout.write(\"\")'], {stdio: 'inherit'});"
        "process.stdout.write('x'.repeat(5e6)); undefined",
        timeout=60,
    )
    assert len(reply.stdout) == 5_000_000


@pytest.mark.parametrize("code", ["require('fs').closeSync(1)", "process.stdout.end('bye')", "process.stdout.destroy()", "console.log = null"])
def test_what_is_done_to_stdout_does_not_stop_the_next_call(kernel, code):
    kernel.run(code)
    assert kernel.run("40 + 2").text == "42"


def test_timers_go_on_between_calls(kernel):
    kernel.run("let ticks = 0; const timer = setInterval(() => ticks++, 5)")
    assert kernel.run("await new Promise(r => setTimeout(r, 100)); clearInterval(timer); ticks > 3").text == "true"


# ---- interrupt


@pytest.mark.parametrize(
    "code",
    [
        "let kept = 7; console.log('go'); while (true) {}",
        "let kept = 7; setTimeout(() => console.log('go'), 50); await new Promise(() => {})",
        "let kept = 7; console.log('go'); for (;;) console.error('x')",
        "let kept = 7; console.log('go'); ({_repr_html_() { for (;;); }})",
    ],
)
def test_an_interrupt_ends_the_call_and_keeps_the_state(kernel, code):
    kernel.start(code)
    kernel.wait_output(b"go")
    reply = interrupt_until_done(kernel)
    assert reply.error["name"] == "InterruptError"
    assert reply.status == "error"
    reply = kernel.run("console.log('still'); kept")
    assert (reply.stdout, reply.text) == (b"still\n", "7")


def test_an_interrupt_between_calls_is_ignored(kernel):
    kernel.run("await new Promise(r => setTimeout(r, 20))")
    kernel.interrupt()
    kernel.run("0")  # a signal that finds a call unread may be taken as that call's
    assert kernel.run("5").text == "5"


# ---- the end


def test_process_exit_ends_with_its_code_after_the_exit_listeners(kernel):
    reply = kernel.run("process.on('exit', () => console.log('bye')); process.exit(3)")
    assert reply.stdout == b"bye\n"
    assert reply.done == {"status": "exit", "count": 1, "exit_code": 3}
    assert kernel.wait() == 3


def test_process_exit_in_a_callback_ends_the_call_that_waits(kernel):
    assert kernel.run("setTimeout(() => process.exit(), 5); await new Promise(() => {})").done["exit_code"] == 0
    assert kernel.wait() == 0


def test_a_crash_ends_the_process_without_a_word(kernel):
    with pytest.raises(KernelDied) as died:
        kernel.run("process.kill(process.pid, 'SIGKILL'); while (true) {}")
    assert died.value.returncode == -9


def test_it_ends_when_the_host_hangs_up(kernel):
    kernel.run("setInterval(() => {}, 1000)")
    assert kernel.hang_up() == 0


@pytest.mark.parametrize("line", [b"nonsense\n", b"run x 1\n", b"run 1 99999999\n", b"run 1" + b" " * 70])
def test_a_broken_peer_ends_it_with_70(kernel, line):
    kernel.send_raw(line)
    assert kernel.wait() == 70


# ---- sync


def test_a_sync_is_answered_behind_the_running_call_and_changes_nothing(kernel):
    kernel.run("let x = 6")
    kernel.start("console.log('go'); await new Promise((r) => setTimeout(r, 200)); x = 7")
    kernel.wait_output(b"go")
    assert kernel.sync().done == {"status": "ok", "count": 2}
    reply = kernel.run("x")
    assert (reply.text, reply.done["count"]) == ("7", 3)


# ---- env


def test_variables_of_a_call_are_there_for_that_call_alone(kernel):
    assert kernel.ready["env"] is True and kernel.sync_idle().takes_env is True
    kernel.env(TRACEPARENT="00-1", TRACESTATE="a=1,b=é 2")
    assert kernel.run("console.log(process.env.TRACEPARENT ?? 'none', process.env.TRACESTATE ?? 'none')").stdout == "00-1 a=1,b=é 2\n".encode()
    assert kernel.run("console.log(process.env.TRACEPARENT ?? 'none', process.env.TRACESTATE ?? 'none')").stdout == b"none none\n"
    kernel.run("process.env.TRACEPARENT = 'mine'")
    kernel.env(TRACEPARENT="00-2")
    assert kernel.run("console.log(process.env.TRACEPARENT ?? 'none', process.env.TRACESTATE ?? 'none')").stdout == b"00-2 none\n"
    assert kernel.run("console.log(process.env.TRACEPARENT ?? 'none', process.env.TRACESTATE ?? 'none')").stdout == b"mine none\n"
    kernel.env(TRACEPARENT="00-3")
    kernel.run("process.env.TRACEPARENT = 'mine'")
    assert kernel.run("console.log(process.env.TRACEPARENT ?? 'none', process.env.TRACESTATE ?? 'none')").stdout == b"mine none\n"


def test_variables_are_put_back_behind_a_call_that_failed(kernel):
    kernel.env(TRACEPARENT="00-1")
    kernel.run("throw new Error('x')")
    assert kernel.run("console.log(process.env.TRACEPARENT ?? 'none', process.env.TRACESTATE ?? 'none')").stdout == b"none none\n"


# ---- renew


def test_math_random_differs_after_each_renewal(kernel):
    kernel.run("const {randomUUID} = require('crypto')")
    seen = set()
    for _ in range(100):
        assert kernel.renew(os.urandom(32)).done["status"] == "ok"
        seen.add(kernel.run("Math.random() + ' ' + randomUUID()").text)
    assert len(seen) == 100


def test_math_random_is_even_after_a_renewal(kernel):
    kernel.renew(os.urandom(32))
    mean = float(kernel.run("let sum = 0; for (let i = 0; i < 1e5; i++) sum += Math.random(); sum / 1e5").text)
    assert 0.49 < mean < 0.51


# ---- TypeScript


@pytest.mark.skipif(not STRIPS_TYPES, reason="this Node cannot strip types")
def test_types_are_stripped(typescript):
    assert typescript.ready["language"] == "typescript"
    typescript.run("interface P { x: number }\nconst p: P = {x: 41}\nenum E { A = 1 }")
    assert typescript.run("import type {Stats} from 'fs'\n(p.x as number) + E.A").text == "42"


@pytest.mark.skipif(not STRIPS_TYPES, reason="this Node cannot strip types")
def test_errors_show_the_line_with_its_types(typescript):
    error = typescript.run("const a: any = null\nconst b: number = a.x").error
    assert error["traceback"][:2] == ["cell-1.ts:2", "const b: number = a.x"]


@pytest.mark.skipif(STRIPS_TYPES, reason="this Node can strip types")
def test_typescript_on_an_old_node_says_what_it_needs(typescript):
    assert typescript.run("1").error["message"].startswith("TypeScript needs Node 22.13 or newer here")


def test_the_time_of_a_hot_call(kernel):
    print(f"node: {microseconds_per_call(kernel, '1 + 1'):.0f} us a call")
