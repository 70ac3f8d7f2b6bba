# SPDX-License-Identifier: Apache-2.0
"""Templates that are pulled from registries: Debian's docker-registry with images that skopeo and umoci made, and such as are broken."""

import json
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloche import Client, errors
from harness.certificates import Authority
from harness.cli import Cli
from harness.daemon import Daemon, free_port
from harness.internet import HUB, OTHER
from harness.oci import ARCH, INDEX, OTHER_ARCH, Layout, Tar, busybox_layer, layout_of
from harness.registry import PASSWORD, Registry, Servers, htpasswd
from harness.running import running

CREDENTIALS = {"username": "bot", "password": PASSWORD}
CONFIG = {"Env": ["PATH=/bin", "STAGE=pulled"], "User": "app", "WorkingDir": "/etc", "Entrypoint": ["/bin/sh"], "Cmd": ["-c", "env"]}
ZONE = {"hub.test": [HUB], "stranger-hub.test": [HUB], "broken.test": [OTHER], "mirror.test": [HUB]}
SERVER_PORT = 8555


def busybox_image(directory):
    """Two layers, the second of which hides a file of the first."""
    layout_of(busybox_layer().add("etc/gone", b"1"), Tar().add("etc/.wh.gone").add("etc/second", b"2\n"), config=CONFIG).write(directory)
    return directory


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    return busybox_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def servers(internet):
    servers = Servers(internet, OTHER, SERVER_PORT, "broken.test", "other.test")
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def hubs(internet, servers, tmp_path_factory):
    """Three registries with the same certificate: open, by password, by token."""
    pair = Authority.of(internet.ca_file).issue("hub.test", "mirror.test")
    enter, tmp = internet.enter(internet.outer), tmp_path_factory.mktemp("hubs")
    auth = {"open": "", "basic": htpasswd(tmp, "bot"), "token": servers.auth(f"broken.test:{SERVER_PORT}")}
    made = {}
    for i, (name, options) in enumerate(auth.items()):  # all give away what is pushed to the first
        made[name] = Registry(HUB, 5000 + i, prefix=enter, pair=pair, options=options, data=made["open"].data if made else None)
    yield made
    for registry in made.values():
        registry.close()


@pytest.fixture(scope="module")
def digest(hubs, servers, image):
    """Of the image team/app:1, which is also team/public:1 and, in Docker's own form with zstd, team/docker:1."""
    servers.add(layout_of(busybox_layer(), config=CONFIG))
    hubs["open"].push(image, "team/public:1")
    hubs["open"].push(image, "team/docker:1", "--format", "v2s2", "--dest-compress-format", "zstd", "--dest-compress")
    return hubs["open"].push(image, "team/app:1")


@pytest.fixture
def names(internet):
    internet.set_zone(ZONE)
    yield
    internet.set_zone({})


@pytest.fixture
def name(walled_client, names):
    word = f"p-{uuid.uuid4().hex[:10]}"
    yield word
    try:
        walled_client.delete_template(word)
    except errors.NotFound:
        pass


def refused(client, name, ref, error, what, **fields):
    """Nothing is left: no template, no sandbox."""
    with pytest.raises(error, match=what) as caught:
        client.pull_template(name, ref, **fields)
    with pytest.raises(errors.NotFound):
        client.template(name)
    return caught.value


def test_an_image_of_a_real_registry_runs_with_its_env_user_and_directory(walled_client, name, digest):
    seen = []
    made = walled_client.pull_template(name, "hub.test:5000/team/app:1", on_progress=lambda phase, n: seen.append(phase))
    imported = made["manifest"]["imported"]
    assert (imported["ref"], imported["digest"], imported["layers"]) == ("hub.test:5000/team/app:1", digest, 2)
    assert made["manifest"]["entrypoint"] == ["/bin/sh"] and made["manifest"]["cmd"] == ["-c", "env"]
    assert list(dict.fromkeys(seen)) == ["fetching", "unpacking", "sealing"]
    with walled_client.create(template=name) as sandbox:
        assert sandbox.run("cat second; ls gone; id -u; pwd; echo $STAGE").stdout == "2\n1234\n/etc\npulled\n"


@pytest.mark.parametrize("form", ["v2s2", "zstd"])
def test_dockers_own_manifests_and_zstd_layers_are_taken(walled_client, name, hubs, digest, image, form):
    words = {"v2s2": ["--format", "v2s2"], "zstd": ["--dest-compress", "--dest-compress-format", "zstd", "--dest-force-compress-format"]}[form]
    try:
        hubs["open"].push(image, f"form/{form}:1", *words)
    except subprocess.CalledProcessError as e:
        if "unknown flag" not in e.stderr:
            raise
        hubs["open"].push(image, f"form/{form}:1", *words[:-1])
    walled_client.pull_template(name, f"hub.test:5000/form/{form}:1")
    with walled_client.create(template=name) as sandbox:
        assert sandbox.run("cat second").stdout == "2\n"


def test_an_image_that_umoci_made_is_taken(walled_client, name, hubs, digest, tmp_path):
    layout, bundle = tmp_path / "layout", tmp_path / "bundle"
    busybox_image(tmp_path / "base")
    index = json.loads((tmp_path / "base/index.json").read_text())
    index["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": "1"}
    (tmp_path / "base/index.json").write_text(json.dumps(index))
    (tmp_path / "base").rename(layout)
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:1", bundle], check=True, capture_output=True)
    (bundle / "rootfs/etc/third").write_text("3\n")
    (bundle / "rootfs/etc/second").unlink()
    subprocess.run(["umoci", "repack", "--image", f"{layout}:2", bundle], check=True, capture_output=True)
    subprocess.run(["umoci", "config", "--image", f"{layout}:2", "--config.env", "STAGE=umoci"], check=True, capture_output=True)
    hubs["open"].push(f"{layout}:2", "team/umoci:2")
    walled_client.pull_template(name, "hub.test:5000/team/umoci:2")
    with walled_client.create(template=name) as sandbox:
        assert sandbox.run("cat third; ls second; echo $STAGE").stdout == "3\numoci\n"


def test_a_directory_that_no_layer_of_a_real_image_has_is_made(walled_client, name, hubs, digest, tmp_path):
    """As `docker run -w` and a WorkingDir set by a tool leave it: buildah, umoci and Docker make it only when a container starts."""
    layout = busybox_image(tmp_path / "layout")
    index = json.loads((layout / "index.json").read_text())
    index["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": "1"}
    (layout / "index.json").write_text(json.dumps(index))
    subprocess.run(["umoci", "config", "--image", f"{layout}:1", "--config.workingdir", "/srv/app/now", "--config.user", "root"], check=True, capture_output=True)
    hubs["open"].push(f"{layout}:1", "team/nowhere:1")
    done = walled_client.run("pwd; stat -c '%u:%g %a' . ..; echo 1 > f; cat f", image="hub.test:5000/team/nowhere:1")
    assert done.stdout == "/srv/app/now\n0:0 755\n0:0 755\n1\n"


def test_of_an_index_the_hosts_architecture_is_taken_and_a_digest_pins_it(walled_client, name, hubs, digest, tmp_path):
    layout = Layout()
    here, there = layout.image([busybox_layer().bytes()], config=CONFIG), layout.image([Tar().add("etc/mark", b"other\n").bytes()], arch=OTHER_ARCH)
    rows = [{**blob, "platform": {"os": "linux", "architecture": arch}} for blob, arch in ((there, OTHER_ARCH), (here, ARCH))]
    layout.add(layout.json({"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}, INDEX))
    layout.write(tmp_path)
    pinned = hubs["open"].push(tmp_path, "team/many:1", "--all")
    made = walled_client.pull_template(name, f"hub.test:5000/team/many:old@{pinned}")
    assert made["manifest"]["imported"]["digest"] == pinned and made["manifest"]["imported"]["ref"].endswith(f"/team/many@{pinned}")
    with walled_client.create(template=name) as sandbox:
        assert sandbox.run("cat mark").stdout == "lowest\n"


@pytest.mark.parametrize("hub", ["basic", "token"])
def test_credentials_open_a_private_registry_and_stay_outside(walled_client, walled_daemon, name, hubs, digest, servers, hub):
    port = {"basic": 5001, "token": 5002}[hub]
    ref, token_host = f"hub.test:{port}/team/app:1", {"token_host": servers.at} if hub == "token" else {}
    assert "no credentials" in str(refused(walled_client, name, ref, errors.SourceFailed, "does not let it be pulled"))
    wrong = {**CREDENTIALS, "password": "wrong", **token_host}
    assert "not taken" in str(refused(walled_client, name, ref, errors.SourceFailed, "does not let it be pulled", credentials=wrong))
    walled_client.set_secret("REGISTRY", PASSWORD, hosts=["hub.test", "broken.test"])
    made = walled_client.pull_template(name, ref, credentials={"username": "bot", "password": "secret://REGISTRY", **token_host})
    assert made["manifest"]["imported"]["digest"] == digest
    assert PASSWORD not in walled_daemon.log() and PASSWORD not in json.dumps(made)


def test_a_public_image_of_a_registry_with_tokens_needs_no_credentials(walled_client, name, hubs, digest):
    assert walled_client.pull_template(name, "hub.test:5002/team/public:1")["manifest"]["imported"]["layers"] == 2


def test_a_token_server_that_is_not_named_gets_no_credentials(walled_client, name, servers, digest):
    error = refused(walled_client, name, f"{servers.at}/greedy/app:1", errors.SourceFailed, "is not among the hosts", credentials=CREDENTIALS)
    assert "other.test" in str(error)
    asked = [e for e in servers.log() if e["path"] == "/token" and "greedy" in e["query"]]
    assert asked and not any(e["authorization"] for e in asked)


def test_a_connection_that_is_cut_goes_on_where_it_was(walled_client, name, servers, digest):
    walled_client.pull_template(name, f"{servers.at}/cut/app:1")
    assert [e for e in servers.log() if e["path"].startswith("/v2/cut/") and e["range"]]
    walled_client.pull_template(name, f"{servers.at}/anew/app:1", replace=True)  # a server that knows no ranges
    with walled_client.create(template=name) as sandbox:
        assert sandbox.run("cat mark").stdout == "lowest\n"


BROKEN = {
    "damaged": (errors.FileInvalid, "is damaged"),
    "long": (errors.FileInvalid, "is longer than"),
    "short": (errors.SourceFailed, "gave .* of the"),
    "dead": (errors.SourceFailed, "gave .* of the"),
    "busy": (errors.SourceFailed, "answers 503"),
    "away": (errors.SourceFailed, "private.test"),
    "plain": (errors.SourceFailed, "not https"),
    "loop": (errors.SourceFailed, "redirects more than"),
    "huge": (errors.TooLarge, "MiB in its layers"),
    "wide": (errors.FileInvalid, "more than 512"),
    "endless": (errors.FileInvalid, "is over 4 MiB"),
    "upwards": (errors.FileInvalid, "not of sha256"),
    "page": (errors.FileInvalid, "no JSON object"),
    "bad-realm": (errors.SourceFailed, "not https"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_registry_that_is_broken_or_hostile_is_refused_and_nothing_is_left(walled_client, name, servers, digest, how):
    refused(walled_client, name, f"{servers.at}/{how}/app:1", *BROKEN[how])


def test_a_digest_that_the_registry_answers_with_something_else_is_refused(walled_client, name, servers, hubs, digest):
    refused(walled_client, name, f"{servers.at}/swapped/app@sha256:{'0' * 64}", errors.FileInvalid, "with something else")
    refused(walled_client, name, f"hub.test:5000/team/app@sha256:{'0' * 64}", errors.NotFound, "has no image")


@pytest.mark.parametrize(
    "ref, error, what",
    [
        ("hub.test:5000/team/app:2", errors.NotFound, "hub.test:5000 has no image team/app:2"),
        ("stranger-hub.test:5000/team/app:1", errors.SourceFailed, "certificate"),
        ("private.test/team/app:1", errors.SourceFailed, "private.test"),
        ("127.0.0.1:5000/team/app:1", errors.SourceFailed, "pulls may not reach 127.0.0.1:5000"),
        ("nowhere.test/team/app:1", errors.SourceFailed, "nowhere.test"),
        ("team/app:1", errors.InvalidField, "names no registry"),
        ("hub.test/Team/app", errors.InvalidField, "no image's name"),
        ("hub.test/app:1@sha256:12", errors.InvalidField, "behind the '@'"),
        ("hub.test/../app", errors.InvalidField, "no image's name"),
        ("hub.test/app:", errors.InvalidField, "tag"),
    ],
)
def test_a_reference_that_leads_nowhere_says_why(walled_client, name, hubs, digest, ref, error, what):
    assert refused(walled_client, name, ref, error, what).hint or error is errors.NotFound


def test_settings_name_a_default_a_mirror_and_credentials(internet, hubs, digest, names, image):
    """The mirror is asked first; what it does not have comes from the registry itself."""
    options = ["--registry-default", "hub.test:5001/team", "--registry-mirror", "hub.test:5001=https://mirror.test:5000/",
               "--registry-credentials", "hub.test:5001=bot:REGISTRY"]  # fmt: skip
    with running(internet.daemon(*options)) as daemon, Client(f"unix:{daemon.socket}", daemon.key, timeout=600) as client:
        made = client.pull_template("by-default", "app:1")
        assert made["manifest"]["imported"]["ref"] == "hub.test:5001/team/app:1"
        assert "mirror.test" in hubs["open"].log()
        with pytest.raises(errors.SourceFailed, match="no credentials are known") as refused:
            client.pull_template("by-default", "other:1", replace=True)
        assert "no secret 'REGISTRY'" in refused.value.hint
        client.set_secret("REGISTRY", PASSWORD)
        with pytest.raises(errors.NotFound, match="hub.test:5001 has no image team/other:1"):
            client.pull_template("by-default", "other:1", replace=True)
        assert "hub.test:5001" in hubs["basic"].log()


def test_a_registry_on_this_host_is_asked_in_the_clear_where_the_settings_open_it(image):
    port = free_port()
    registry = Registry("127.0.0.1", port)
    try:
        registry.push(image, "team/app:1")
        with running(Daemon("--network-may-open", "127.0.0.1/32")) as daemon:
            cli = Cli(daemon)
            cli.ok("template", "pull", f"127.0.0.1:{port}/team/app:1")
            assert cli.ok("run", "-T", "app-1", "--", "cat", "second") == "2\n"
            image = ("--image", f"127.0.0.1:{port}/team/app:1")
            status, out, said = zip(*(p.result() for p in [ThreadPoolExecutor(3).submit(cli, "run", *image, "--", "cat", "second") for _ in range(3)]))
            assert (status, out) == ((0,) * 3, ("2\n",) * 3), said
            assert registry.log().count("GET /v2/team/app/manifests/1") == 2  # by the pull above, and by one of the three
            status, _, said = cli("run", "--image", f"127.0.0.1:{port}/team/none", "--", "true")
            assert status != 0 and "has no image team/none:latest" in said
            status, _, said = cli("create", *image, "-T", "host")
            assert status != 0 and "instead of a template" in said
            status, _, said = cli("template", "pull", f"localhost:{port}/team/none")
            assert status != 0 and "has no image team/none:latest" in said
    finally:
        registry.close()
