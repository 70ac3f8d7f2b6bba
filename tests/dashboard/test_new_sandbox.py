# SPDX-License-Identifier: Apache-2.0
"""The form for a new sandbox: what it offers, what it sends, and where it says what is wrong."""

import re
import time
import uuid

import pytest
from harness.daemon import end

NO_VM = {"status": "ok", "ready": True, "version": "0", "engines": [{"engine": "jail", "grade": "process", "walls": [], "gaps": []}]}
LACKS = [
    {"name": "kvm", "present": False, "weight": "extra", "purpose": "", "detail": "", "remedy": "modprobe kvm"},
    {"name": "qemu", "present": False, "weight": "extra", "purpose": "", "detail": "", "remedy": "apt-get install qemu-system-x86"},
    {"name": "guest_kernel", "present": True, "weight": "extra", "purpose": "", "detail": ""},
]


@pytest.fixture
def form(tab):
    """The open dialog."""
    with tab("/sandboxes") as page:
        page.click("text=New sandbox")
        page.wait_for_selector("dialog[open] [name=name]")
        yield page


def unfold(page, title):
    page.click(f"dialog summary:has-text('{title}')")


def submit(page):
    page.click("dialog button[type=submit]")


def test_a_sandbox_is_made_with_all_that_was_chosen(form, client):
    name = f"made-{uuid.uuid4().hex[:8]}"
    form.fill("[name=name]", name)
    form.select_option("[name=engine]", "jail")
    for field, value in {"limits.vcpus": "0.5", "limits.memory_mib": "200", "limits.disk_mib": "300", "timeout_ms": "7"}.items():
        form.fill(f"[name='{field}']", value)
    form.select_option("[name=network]", "names")
    form.fill("[name=names]", "api.example.com\n\n*.example.org\n")
    unfold(form, "Packages")
    form.fill("[name=env]", "DEBUG=1\nGREETING=a=b c")
    unfold(form, "Timeouts")
    form.fill("[name=idle_timeout_ms]", "2")
    form.select_option("[name=on_idle]", "stop")
    unfold(form, "Isolation")
    form.fill("[name=tags]", "team=blue")
    form.check("[name=persistent]")
    submit(form)
    form.wait_for_url(re.compile(r"/sandboxes/sb_"))
    sandbox = client.get(name)
    told = sandbox.info.raw
    assert {k: told["limits"][k] for k in ("vcpus", "memory_mib", "disk_mib")} == {"vcpus": 0.5, "memory_mib": 200, "disk_mib": 300}
    assert (told["idle_timeout_ms"], told["on_idle"], told["on_timeout"], told["persistent"], told["tags"]) == (120_000, "stop", "stop", True, {"team": "blue"})
    assert 0 < told["expires_us"] - time.time() * 1_000_000 <= 7 * 60 * 1_000_000  # its lifetime began when it ran
    assert told["isolation"]["engine"] == "jail" and told["network"] == "rules"
    assert sandbox.run("echo $DEBUG $GREETING").stdout == "1 a=b c\n"
    end(sandbox)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("limits.memory_mib", "7", "Must be from 8 to"),
        ("limits.vcpus", "many", '"many" is not a number'),
        ("name", "No Good", ""),
        ("env", "NOTHING", 'write "NOTHING" as NAME=VALUE'),
        ("packages", "apt:", ""),
        ("idle_timeout_ms", "-1", '"-1" is not a number'),
    ],
)
def test_what_is_wrong_is_told_at_its_field_and_what_was_typed_stays(form, field, value, words):
    form.watch.allow("400")
    form.fill("[name='limits.disk_mib']", "123")
    form.evaluate("document.querySelectorAll('dialog details').forEach((d) => (d.open = true))")
    form.fill(f"[name='{field}']", value)
    form.evaluate("document.querySelectorAll('dialog details').forEach((d) => (d.open = false))")
    submit(form)
    problem = form.locator(f"dialog [data-field='{field}'] .problem")
    problem.wait_for()  # which is to see: what it was folded away in is open
    assert words.lower() in problem.inner_text().lower()
    assert form.locator("dialog .problem:visible").count() == 1
    assert form.evaluate("document.activeElement.name") == field
    assert form.input_value(f"[name='{field}']") == value and form.input_value("[name='limits.disk_mib']") == "123"
    form.fill(f"[name='{field}']", "")
    form.fill("[name='limits.disk_mib']", "0")
    submit(form)
    form.wait_for_selector("dialog [data-field='limits.disk_mib'] .problem")
    assert problem.count() == 0, "what was mended is still blamed"


def test_rules_of_the_network_are_json_or_it_is_told(form):
    form.watch.allow("400")
    form.select_option("[name=network]", "rules")
    form.fill("[name=rules]", "allow example.com")
    submit(form)
    form.wait_for_selector("dialog [data-field=network] .problem:has-text('not JSON')")
    form.fill("[name=rules]", '{"allow": ["http://example.com"]}')
    submit(form)
    form.wait_for_selector("dialog [data-field=network] .problem:has-text('example.com')")
    form.select_option("[name=network]", "names")
    submit(form)
    form.wait_for_selector("dialog [data-field=network] .problem:has-text('which names and ranges')")


def test_an_engine_that_the_host_lacks_cannot_be_chosen_and_it_says_why(tab):
    with tab("/sandboxes") as page:
        page.route("**/v1/health", lambda route: route.fulfill(json=NO_VM))
        page.route("**/v1/doctor", lambda route: route.fulfill(json={"version": "0", "checked_us": 0, "jail": True, "checks": LACKS}))
        page.click("text=New sandbox")
        options = page.locator("[name=engine] option")
        options.nth(2).wait_for(state="attached")
        assert [o.is_enabled() for o in options.all()] == [True, True, False]
        assert "process grade" in options.nth(1).inner_text()
        told = page.locator("[data-field=engine] small").inner_text()
        assert "vm cannot be chosen: qemu is missing" in told and "apt-get install qemu-system-x86" in told and "kvm" not in told


def test_images_of_package_sets_are_no_templates(tab):
    templates = [{"name": n, "aliases": [], "shared": True, "manifest": m, "warm_copies": 0, "bytes": 9} for n, m in (("python", {}), ("python+1fcc7ba2", {"set": {"packages": ["pip:pandas"]}}))]
    builds = [{"id": "bld_1", "name": "python+77aa", "state": "running", "created_us": 1, "progress": None}]
    with tab("/sandboxes") as page:
        page.route("**/v1/templates", lambda route: route.fulfill(json={"templates": templates}))
        page.route("**/v1/builds", lambda route: route.fulfill(json={"builds": builds}))
        page.click("text=New sandbox")
        options = page.locator("select[name=template] option")
        options.nth(1).wait_for(state="attached")
        assert options.all_inner_texts() == ["the default", "python"]
        page.keyboard.press("Escape")
        page.click("nav >> text=Templates")
        page.wait_for_selector("table[aria-label='Package sets'] tr:has-text('pip:pandas')")
        assert page.locator("table[aria-label=Templates] tbody tr").count() == 1
