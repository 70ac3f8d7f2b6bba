# SPDX-License-Identifier: Apache-2.0
"""Templates: sandboxes become images, and images sandboxes."""

import json
import uuid

import pytest
from cloche import Client, errors

# A root of some 2 MB: a busybox, and what the agent needs of a machine.
MAKE_TREE = """
set -e
mkdir -p /template/bin /template/etc
cp /bin/busybox /template/bin/
for i in sh bash cat ls id rm env pwd sleep echo touch true mkdir; do ln -s busybox /template/bin/$i; done
echo "$1" > /template/etc/mark
# What the agent needs where it is not static: a sanitized one is not.
for i in $(ldd /opt/cloche/bin/sudo 2>/dev/null | grep -o "/[^ ]*"); do cp --parents -L $i /template; done
printf 'root:x:0:0::/root:/bin/sh\\nuser:x:1000:1000::/home/user:/bin/sh\\n' > /template/etc/passwd
"""


def name_of(word="t"):
    return f"{word}-{uuid.uuid4().hex[:10]}"


def make_tree(sandbox, mark):
    made = sandbox.run(["sh", "-c", MAKE_TREE, "sh", mark], user="root")
    assert made.exit_code == 0, made.stderr


@pytest.fixture(scope="module")
def tiny(client):
    """The name of a template with a busybox in it, which a sandbox has been on: so its mount is there."""
    name = name_of("tiny")
    with client.create() as sandbox:
        make_tree(sandbox, "tiny")
        client.create_template(name, sandbox, tree=True)
    with client.create(template=name) as sandbox:
        assert sandbox.run("cat /etc/mark").stdout == "tiny\n"
    yield name
    client.delete_template(name)


def test_a_tree_becomes_a_template_and_that_a_sandbox(client, make_sandbox):
    sandbox = make_sandbox()
    make_tree(sandbox, "here")
    name = name_of()
    made = client.create_template(name, sandbox, tree=True, env={"STAGE": "test"}, cwd="/etc", user="root")
    assert made["name"] == name and made["bytes"] > 100_000 and made["digest"].startswith("sha256:")
    assert made["sandboxes"] == 0 and not made["shared"]
    assert client.template(made["id"]) == client.template(name) == made
    assert made in client.templates()
    with client.create(template=name, env={"OWN": "1"}) as one:
        assert one.info.template == name
        assert one.run("cat mark; id -u; pwd; echo $STAGE $OWN").stdout == "here\n0\n/etc\ntest 1\n"
        assert client.template(name)["sandboxes"] == 1
        with pytest.raises(errors.Conflict) as refused:
            client.delete_template(name)
        assert "1 sandbox uses the template" in str(refused.value)
        assert one.run("echo still here").stdout == "still here\n"
    client.delete_template(name)
    with pytest.raises(errors.NotFound):
        client.template(name)
    with pytest.raises(errors.ClocheError) as absent:
        client.create(template=name)
    assert absent.value.field == "template"


def test_a_template_of_a_template_has_the_changes_of_both(client, make_sandbox, tiny):
    sandbox = make_sandbox(template=tiny)
    sandbox.run("echo two > /etc/two; rm /etc/mark; echo x > /tmp/x", user="root")
    name = name_of()
    client.create_template(name, sandbox)
    sandbox.run("echo later > /etc/later", user="root")
    try:
        with client.create(template=name) as next_one:
            assert next_one.run("ls /etc /tmp").stdout == "/etc:\nhostname\nhosts\nmachine-id\npasswd\nresolv.conf\nssl\ntwo\n\n/tmp:\n"
    finally:
        client.delete_template(name)


def test_a_stopped_persistent_sandbox_can_be_sealed_and_holds_its_template(client, make_sandbox, tiny):
    sandbox = make_sandbox(template=tiny, persistent=True)
    sandbox.run("echo kept > /etc/kept", user="root")
    sandbox.stop()
    name = name_of()
    client.create_template(name, sandbox)
    with client.create(template=name) as next_one:
        assert next_one.run("cat /etc/kept").stdout == "kept\n"
    client.delete_template(name)
    with pytest.raises(errors.Conflict):
        client.delete_template(tiny)
    sandbox.resume()
    assert sandbox.run("cat /etc/mark /etc/kept").stdout == "tiny\nkept\n"


def test_a_name_is_one_templates_until_it_is_replaced(client, make_sandbox, tiny):
    name = name_of()
    first = client.create_template(name, make_sandbox(template=tiny))
    with client.create(template=name) as sandbox:
        with pytest.raises(errors.Conflict):
            client.create_template(name, sandbox)
        sandbox.run("echo new > /etc/new", user="root")
        second = client.create_template(name, sandbox, replace=True)
        assert second["id"] != first["id"] and client.template(name) == second
        assert sandbox.run("cat /etc/mark").stdout == "tiny\n"  # its own image is still there
    with client.create(template=name) as next_one:
        assert next_one.run("cat /etc/new").stdout == "new\n"
    client.delete_template(name)


def test_the_same_files_are_one_image(client, make_sandbox, tiny):
    sandbox = make_sandbox(template=tiny)
    names = [name_of(), name_of()]
    made = [client.create_template(n, sandbox) for n in names]
    assert made[0]["id"] != made[1]["id"]
    with client.create(template=names[0]) as one:
        if made[0]["digest"] == made[1]["digest"]:
            client.delete_template(names[0])  # the other one keeps the image
        else:
            client.delete_template(names[1])
        assert one.run("cat /etc/mark").stdout == "tiny\n"
    client.delete_template(names[1] if made[0]["digest"] == made[1]["digest"] else names[0])


@pytest.mark.parametrize("name", ["host", "-x", "Ups", "_a", "a_", "tpl_x", "a/b", "x" * 64])
def test_a_name_that_cannot_be_one_is_named(client, make_sandbox, name):
    with pytest.raises(errors.ClocheError) as refused:
        client.create_template(name, make_sandbox())
    assert refused.value.field == "name"


def test_what_is_not_there_cannot_be_sealed(client, make_sandbox):
    with pytest.raises(errors.NotFound):
        client.create_template(name_of(), "nobody")
    with pytest.raises(errors.ClocheError) as refused:
        client.create_template(name_of(), make_sandbox(), tree=True)
    assert "no directory /template" in str(refused.value)


def test_host_is_always_there(client):
    assert client.templates()[0]["name"] == "host" and client.template("host")["digest"] is None
    with pytest.raises(errors.Conflict):
        client.delete_template("host")
    with client.create() as sandbox:
        assert sandbox.info.template == "host"


def test_another_projects_templates_are_out_of_sight(client, daemon, project_keys, tiny):
    with Client(daemon.url, project_keys["other"]) as other:
        assert tiny not in [t["name"] for t in other.templates()]
        template_id = client.template(tiny)["id"]
        for one in (tiny, template_id):
            with pytest.raises(errors.NotFound):
                other.template(one)
            with pytest.raises(errors.NotFound):
                other.delete_template(one)
            with pytest.raises(errors.ClocheError):
                other.create(template=one)
        with other.create() as sandbox, pytest.raises(errors.Forbidden):
            other.create_template(name_of(), sandbox, shared=True)


def test_a_shared_template_is_everybodys_to_start_from(client, daemon, project_keys, make_sandbox, tiny):
    name = name_of("shared")
    client.create_template(name, make_sandbox(template=tiny), shared=True)
    try:
        with Client(daemon.url, project_keys["other"]) as other:
            assert other.template(name)["shared"]
            with other.create(template=name) as sandbox:
                assert sandbox.run("cat /etc/mark").stdout == "tiny\n"
            with pytest.raises(errors.Forbidden):
                other.delete_template(name)
    finally:
        client.delete_template(name)


def test_templates_count_to_the_projects_disk(client, daemon):
    project = client.create_project(name_of("quota"))
    secret = client.create_key("k", scope="write", project=project["id"])["secret"]
    with Client(daemon.url, secret) as other:
        with other.create(limits={"disk_mib": 64}) as sandbox:
            make_tree(sandbox, "full")
            client.set_quota(project=project["id"], disk_mib=65)
            with pytest.raises(errors.ClocheError) as refused:
                other.create_template(name_of(), sandbox, tree=True)
            assert refused.value.code == "quota_exceeded" or "quota" in refused.value.code
            client.set_quota(project=project["id"], disk_mib=100)
            made = other.create_template("fits", sandbox, tree=True)
            before = other.quota()["current"]["disk_mib"]
            other.delete_template("fits")
            assert before - other.quota()["current"]["disk_mib"] == made["bytes"] // 2**20


def test_making_and_removing_are_in_the_log(client, make_sandbox, tiny):
    after = list(client.events())[-1]["seq"]
    made = client.create_template(name_of(), make_sandbox(template=tiny))
    client.delete_template(made["id"])
    seen = [e for e in client.events(after=after, type="template")]
    assert [e["type"] for e in seen] == ["template.created", "template.removed"]
    assert all(e["data"]["template_id"] == made["id"] for e in seen)


def test_code_of_a_language_that_a_template_lacks_is_refused_by_name(client, tiny):
    with client.create(template=tiny) as sandbox:
        with pytest.raises(errors.ClocheError) as refused:
            sandbox.run_code("1+1")
        assert "python" in str(refused.value).lower()
        for language, program in (("r", "Rscript"), ("java", "java")):
            with pytest.raises(errors.Unsupported, match=f"{language} needs the program '{program}', and the template '.*' does not have it") as refused:
                sandbox.run_code("1", language)
            assert f"'cloche template build --shared {language}' makes a template that has it" in refused.value.hint


def test_the_command_line_makes_lists_shows_and_removes(cli, client, make_sandbox, tiny):
    name = name_of("cli")
    sandbox = make_sandbox(template=tiny)
    template_id = cli.ok("template", "from", "--env", "A=1", "--cwd", "/etc", sandbox.id, name).strip()
    assert client.template(name)["id"] == template_id
    assert name in cli.ok("template", "ls") and "host" in cli.ok("template", "ls")
    assert name in [t["name"] for t in json.loads(cli.ok("template", "ls", "--json"))]
    assert "cwd: /etc" in cli.ok("template", "inspect", name)
    assert cli.ok("run", "--template", name, "--", "sh", "-c", "cat mark; echo $A") == "tiny\n1\n"
    assert cli("template", "rm", name)[0] == 0
    status, _, err = cli("template", "rm", name)
    assert status == 125 and name in err
    assert cli("template")[0] == 125 and "Usage: cloche template" in cli.ok("template", "--help")
