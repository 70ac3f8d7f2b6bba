# SPDX-License-Identifier: Apache-2.0
"""The chart for Kubernetes: what it renders by the engine of templates that Helm has (Go's own), and by Helm itself where that is installed."""

import json
import os
import re
import shutil
import socket
import subprocess

import pytest
import yaml
from harness.daemon import ROOT

CHART = ROOT / "packaging" / "helm" / "cloche"
GIVEN = {"image": {"repository": "registry.example.com/cloche", "tag": "1.2"}, "api": {"host": "sandboxes.example.com"}}
RENDER = """
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/template"
)

func main() {
	var data map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&data); err != nil {
		panic(err)
	}
	functions := template.FuncMap{
		"toJson": func(v any) string { b, _ := json.Marshal(v); return string(b) },
		"list":   func(v ...any) []any { return v },
		"concat": func(lists ...[]any) []any { all := []any{}; for _, l := range lists { all = append(all, l...) }; return all },
		"dict": func(v ...any) map[string]any {
			d := map[string]any{}
			for i := 0; i+1 < len(v); i += 2 { d[v[i].(string)] = v[i+1] }
			return d
		},
	}
	for _, path := range os.Args[1:] {
		text, _ := os.ReadFile(path)
		t := template.Must(template.New(path).Option("missingkey=error").Funcs(functions).Parse(string(text)))
		fmt.Println("---")
		if err := t.Execute(os.Stdout, data); err != nil {
			panic(err)
		}
	}
}
"""
# The fields that the API of Kubernetes 1.25 has and the chart may use: one that is misspelled would be left out without a word.
FIELDS = {
    "pod": set("""hostPID hostNetwork dnsPolicy automountServiceAccountToken enableServiceLinks priorityClassName nodeSelector tolerations terminationGracePeriodSeconds imagePullSecrets
        initContainers containers volumes""".split()),
    "container": set("name image imagePullPolicy command args env securityContext ports lifecycle readinessProbe startupProbe resources volumeMounts".split()),
    "securityContext": {"privileged", "runAsUser", "allowPrivilegeEscalation", "readOnlyRootFilesystem"},
    "probe": {"httpGet", "tcpSocket", "exec", "periodSeconds", "timeoutSeconds", "failureThreshold"},
    "mount": {"name", "mountPath", "readOnly", "mountPropagation"},
    "volume": {"name", "secret", "emptyDir", "hostPath"},
}


def merged(base, more):
    return {**base, **{k: merged(base[k], v) if isinstance(v, dict) and isinstance(base.get(k), dict) else v for k, v in more.items()}}


@pytest.fixture(scope="module")
def render(tmp_path_factory):
    """A function from values to the objects, by kind."""
    if not shutil.which("go"):
        pytest.skip("no go")
    folder = tmp_path_factory.mktemp("render")
    (folder / "render.go").write_text(RENDER)
    program = folder / "render"
    subprocess.run(["go", "build", "-o", program, folder / "render.go"], check=True, cwd=folder, timeout=300, env={**os.environ, "GOTOOLCHAIN": "local", "GO111MODULE": "off", "GOFLAGS": ""})

    def of(**values):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        data = {"Values": merged(merged(yaml.safe_load((CHART / "values.yaml").read_text()), GIVEN), values), "Release": {"Name": "cloche", "Namespace": "sandboxes"},
                "Chart": {"AppVersion": str(chart["appVersion"]), "Name": chart["name"]}}
        out = subprocess.run([program, *sorted((CHART / "templates").glob("*.yaml"))], input=json.dumps(data), capture_output=True, text=True, timeout=60)
        assert out.returncode == 0, out.stderr
        return {o["kind"]: o for o in yaml.safe_load_all(out.stdout) if o}

    return of


def pod_of(objects):
    return objects["DaemonSet"]["spec"]["template"]["spec"]


def test_a_node_is_a_service_of_its_machine_whose_sandboxes_outlive_the_pod(render):
    objects = render()
    assert set(objects) == {"DaemonSet", "Service"}
    pod = pod_of(objects)
    assert pod["hostPID"] and pod["hostNetwork"] and not pod["automountServiceAccountToken"]
    (node,) = pod["containers"]
    assert node["securityContext"]["privileged"] and node["image"] == "registry.example.com/cloche:1.2" and node["command"] == ["/usr/bin/cloche", "serve"]
    mounts = {m["name"]: m for m in node["volumeMounts"]}
    volumes = {v["name"]: v for v in pod["volumes"]}
    for name, path in (("data", "/var/lib/cloche"), ("run", "/run/cloche")):
        assert mounts[name] == {"name": name, "mountPath": path, "mountPropagation": "Bidirectional"}
        assert volumes[name]["hostPath"]["path"] == path
    assert volumes["cgroup"]["hostPath"]["path"] == mounts["cgroup"]["mountPath"] == "/sys/fs/cgroup"
    assert {p["name"]: p["hostPort"] for p in node["ports"]} == {"api": 7070, "peers": 7071}
    assert node["readinessProbe"]["httpGet"]["path"] == "/v1/health"  # a cordoned node still answers for its sandboxes
    assert objects["DaemonSet"]["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 1
    selector = objects["DaemonSet"]["spec"]["selector"]["matchLabels"]
    labels = objects["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items() and objects["Service"]["spec"]["selector"].items() <= labels.items()


def test_all_that_is_rendered_are_fields_that_kubernetes_has_and_names_that_are_defined(render):
    pod = pod_of(render(imagePullSecrets=["one", "two"], podMonitor={"enabled": True}))
    assert set(pod) <= FIELDS["pod"], set(pod) - FIELDS["pod"]
    volumes = {v["name"] for v in pod["volumes"]}
    assert all(set(v) <= FIELDS["volume"] and len(v) == 2 for v in pod["volumes"])
    for c in pod["containers"] + pod["initContainers"]:
        assert set(c) <= FIELDS["container"], set(c) - FIELDS["container"]
        assert set(c["securityContext"]) <= FIELDS["securityContext"]
        for m in c["volumeMounts"]:
            assert set(m) <= FIELDS["mount"] and m["name"] in volumes, m
        for probe in ("readinessProbe", "startupProbe"):
            assert set(c.get(probe, {})) <= FIELDS["probe"], c[probe]
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert pod_of(render())["imagePullSecrets"] == []


def test_what_is_given_is_only_ever_a_value(render):
    """Quotes, braces and lines of values stay in their place."""
    hostile = 'a"b\n  privileged: true\n{{ .Release.Name }}: {x}'
    pod = pod_of(render(nodeSelector={"k": hostile}, api={"host": hostile}, preStop=[hostile]))
    assert pod["nodeSelector"]["k"] == hostile
    (node,) = pod["containers"]
    assert node["readinessProbe"]["httpGet"]["httpHeaders"] == [{"name": "Host", "value": hostile}]
    assert node["lifecycle"]["preStop"]["exec"]["command"][-1] == hostile


def test_what_the_pod_says_at_its_start_and_its_end_runs(render, tmp_path):
    """As the kubelet runs it, with words of a test for the programs."""
    (node,) = pod_of(render(preStop=["sh", "-c", f"echo stopped >> {tmp_path}/said; exit 1"], postStart=["sh", "-c", f"echo started >> {tmp_path}/said"], runPath=str(tmp_path)))["containers"]
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(tmp_path / "cloche.sock"))
        for hook in ("postStart", "preStop"):
            assert subprocess.run(node["lifecycle"][hook]["exec"]["command"], timeout=60).returncode == 0
    assert (tmp_path / "said").read_text() == "started\nstopped\n"


def test_the_settings_get_the_machines_address_and_are_roots_alone(render, tmp_path):
    (init,) = pod_of(render())["initContainers"]
    given, made = tmp_path / "settings", tmp_path / "etc"
    given.mkdir()
    made.mkdir()
    (given / "cloche.toml").write_text('address = "@HOST_IP@:7071" # @NODE_NAME@\n')
    script = init["command"][-1].replace("/settings/", f"{given}/").replace("/etc/cloche/", f"{made}/")
    subprocess.run([*init["command"][:-1], script], check=True, env={"HOST_IP": "192.0.2.7", "NODE_NAME": "worker1", "PATH": "/usr/bin:/bin"})
    assert (made / "cloche.toml").read_text() == 'address = "192.0.2.7:7071" # worker1\n'
    assert (made / "cloche.toml").stat().st_mode & 0o077 == 0


def test_each_value_is_described_used_and_in_the_schema():
    values, schema = yaml.safe_load((CHART / "values.yaml").read_text()), json.loads((CHART / "values.schema.json").read_text())
    assert set(values) <= set(schema["properties"]) and set(schema["required"]) <= set(values)
    text = "".join(p.read_text() for p in (CHART / "templates").iterdir())
    assert {name for name in values if f".Values.{name}" not in text} == set()
    used = set(re.findall(r"\.Values\.(\w+)", text))
    assert used <= set(values)


@pytest.mark.skipif(not shutil.which("helm"), reason="no helm")
def test_helm_itself_takes_the_chart_and_refuses_what_is_missing_or_misspelled():
    """With `go install helm.sh/helm/v3/cmd/helm@latest`, which takes minutes and is not for each run."""
    given = ["--set", "image.repository=r", "--set", "image.tag=1", "--set", "api.host=h"]
    lint = subprocess.run(["helm", "lint", "--strict", CHART, *given], capture_output=True, text=True)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    template = subprocess.run(["helm", "template", "cloche", CHART, *given], capture_output=True, text=True)
    assert template.returncode == 0 and {o["kind"] for o in yaml.safe_load_all(template.stdout) if o} == {"DaemonSet", "Service"}, template.stderr
    for wrong in ([], [*given, "--set", "imageTag=2"], [*given, "--set", "ports.api=0"]):
        assert subprocess.run(["helm", "template", CHART, *wrong], capture_output=True).returncode != 0, wrong
