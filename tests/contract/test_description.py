# SPDX-License-Identifier: Apache-2.0
"""The description itself: valid, complete, and the same as the daemon's own tables."""

import re

import pytest
from cloche import errors
from contract.description import METHODS, OPERATIONS, TEXT, mistakes, resolve
from harness.daemon import ROOT
from harness.routes import routes_of
from openapi_spec_validator import validate


def table():
    return routes_of("api/routes.c")


def test_it_is_valid_openapi():
    validate(TEXT)


def test_the_daemons_routes_are_described_and_no_others():
    described = {(op.method, op.path) for op in OPERATIONS.values()}
    assert {(method, path) for method, path, *_ in table()} == described


def test_bodies_and_scopes_are_those_of_the_table():
    scopes = {"0": None, "SCOPE_READ": "read", "SCOPE_WRITE": "write", "SCOPE_ADMIN": "admin"}
    rows = {(method, path): (body, scopes[scope]) for method, path, body, scope, _ in table()}
    for op in OPERATIONS.values():
        body = "JSON" if op.has_json_body else "STREAM" if op.body_types else "NONE"
        assert (body, op.scope) == rows[op.method, op.path], op.id


def test_queries_are_those_of_the_table():
    rows = {(method, path): rest for method, path, _, _, rest in table()}
    for op in OPERATIONS.values():
        rest = rows[op.method, op.path]
        names = re.search(r"(?<!NO_)QUERY\((.*?)\)", rest, re.DOTALL)
        if op.id == "finish_provider_login":  # providers add what they like
            assert not names and "NO_QUERY" not in rest
            continue
        assert names or "NO_QUERY" in rest, op.id
        given = TEXT["paths"][op.path].get("parameters", []) + op.text.get("parameters", [])
        described = {p["name"] for p in map(resolve, given) if p["in"] == "query"}
        assert set(re.findall(r'"(\w+)"', names[1]) if names else []) == described, op.id


def test_operation_ids_are_unique():
    count = sum(method in METHODS for item in TEXT["paths"].values() for method in item)
    assert count == len(OPERATIONS)


def test_error_codes_are_those_of_the_daemon():
    source = (ROOT / "src" / "base" / "err.c").read_text()
    codes = set(re.findall(r'\{"(\w+)", [45]\d\d\}', source))
    assert set(TEXT["components"]["schemas"]["ErrorCode"]["enum"]) == codes


def test_each_error_code_has_a_class_in_both_sdks():
    codes = set(TEXT["components"]["schemas"]["ErrorCode"]["enum"])
    table = (ROOT / "sdk" / "typescript" / "src" / "errors.ts").read_text().partition("const BY_CODE")[2].partition("};")[0]
    classes = dict(re.findall(r"^  (\w+): (\w+),$", table, re.MULTILINE))
    assert set(classes) == codes
    assert {code: cls.__name__ for code, cls in errors.BY_CODE.items() if code in codes} == classes


def test_each_described_error_names_codes_of_its_status():
    source = (ROOT / "src" / "base" / "err.c").read_text()
    status_of = dict(re.findall(r'\{"(\w+)", ([45]\d\d)\}', source))
    for op in OPERATIONS.values():
        for status, response in op.text["responses"].items():
            for word in re.findall(r"`(\w+)`", resolve(response)["description"]) if status >= "400" else []:
                assert status_of.get(word, status) == status, (op.id, status, word)


def bodies():
    for op in OPERATIONS.values():
        for kind, content in op.body_types.items():
            for name, example in content.get("examples", {}).items():
                yield pytest.param(content["schema"], example["value"], id=f"{op.id}-{name}")


@pytest.mark.parametrize("schema, value", list(bodies()))
def test_an_example_fits_its_schema(schema, value):
    assert not mistakes(schema, value)


def test_every_json_body_has_an_example():
    for op in OPERATIONS.values():
        for kind, content in op.body_types.items():
            assert kind != "application/json" or content.get("examples"), op.id


def test_schemas_of_requests_refuse_unknown_fields():
    for op in OPERATIONS.values():
        if op.has_json_body:
            schema = resolve(op.body_types["application/json"]["schema"])
            assert mistakes(schema, {"no_such_field": 1}), op.id
