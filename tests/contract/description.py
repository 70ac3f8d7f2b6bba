# SPDX-License-Identifier: Apache-2.0
"""api/openapi.yaml as something to hold replies against."""

import json
import re
from dataclasses import dataclass

import yaml
from harness.daemon import ROOT
from jsonschema import Draft202012Validator

METHODS = ("get", "put", "post", "patch", "delete")
TEXT = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())


def resolve(node):
    """The node itself, or what its $ref points to."""
    while "$ref" in node:
        target = TEXT
        for word in node["$ref"].removeprefix("#/").split("/"):
            target = target[word]
        node = target
    return node


def mistakes(schema, value):
    """What is wrong with a value, as text; empty if it fits."""
    root = {**schema, "components": TEXT["components"]}
    return [f"{e.json_path}: {e.message}" for e in Draft202012Validator(root).iter_errors(value)]


@dataclass(frozen=True)
class Operation:
    id: str
    method: str
    path: str
    text: dict

    @property
    def has_json_body(self):
        return "application/json" in self.body_types

    @property
    def body_types(self):
        return self.text.get("requestBody", {}).get("content", {})

    @property
    def scope(self):
        """The least scope that a key must have, as the description's head says it."""
        if self.id == "update_login":
            return "read"
        if self.path in ("/v1/health", "/v1/ready", "/v1/login", "/v1/authority") or self.path.startswith(("/.well-known/", "/v1/login/oidc", "/v1/login/device")):
            return None
        if self.id == "create_login_link":
            return "read"
        if self.path.startswith("/v1/secrets") and self.method != "GET":
            return "admin"
        if self.path.startswith(("/v1/keys", "/v1/projects", "/v1/webhooks", "/v1/doctor", "/v1/settings", "/v1/nodes", "/v1/backups", "/v1/identity/rotate", "/metrics")):
            return "admin"
        return "read" if self.method == "GET" and self.id not in ("attach_exec", "connect_port") else "write"

    def target(self, **fields):
        """Its path with ids filled in; needs-a-path routes get one."""
        values = {"id": "sb_" + "a" * 26, "exec_id": "ex_" + "a" * 26, "key_id": "key_" + "a" * 26,
                  "context_id": "ctx_" + "a" * 26, "webhook_id": "wh_" + "a" * 26, "secret": "NONE", "template": "tpl_" + "a" * 26, "build_id": "bld_" + "a" * 26, "snapshot": "sn_" + "a" * 26, "volume": "vo_" + "a" * 26, "batch": "bt_" + "a" * 26, "reservation": "rs_" + "a" * 26, "project_id": "default", "port": "3000", **fields}
        target = re.sub(r"\{(\w+)\}", lambda m: values[m.group(1)], self.path)
        return target + ("?path=x" if self.needs_path else "")

    @property
    def needs_path(self):
        shared = TEXT["paths"][self.path].get("parameters", [])
        return any(resolve(p)["name"] == "path" for p in shared)

    def check(self, status, content_type, data):
        """Fails unless this is a reply that the description allows."""
        assert str(status) in self.text["responses"], f"{self.id} answered {status}, which is not described: {data[:500]}"
        response = resolve(self.text["responses"][str(status)])
        content = response.get("content", {})
        kind = (content_type or "").partition(";")[0]
        assert not content or kind in content, f"{self.id} {status}: {kind} is not described"
        schema = content.get(kind, {}).get("schema", {})
        for value in values_of(kind, data):
            assert not mistakes(schema, value), f"{self.id} {status}: {mistakes(schema, value)} in {value}"


def values_of(kind, data):
    if kind == "application/json":
        return [json.loads(data)]
    if kind == "application/x-ndjson":
        return [json.loads(line) for line in data.splitlines() if line]
    if kind == "text/event-stream":
        return [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: ")]
    return []


OPERATIONS = {
    op["operationId"]: Operation(op["operationId"], method.upper(), path, op)
    for path, item in TEXT["paths"].items()
    for method, op in item.items()
    if method in METHODS
}
