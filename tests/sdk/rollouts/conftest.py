# SPDX-License-Identifier: Apache-2.0
"""What the checks work with: a sandbox of Inspect's."""

import os

import pytest

# Of every sandbox that is made here.
FIELDS = {"engine": os.environ.get("ROLLOUT_ENGINE"), "template": os.environ.get("ROLLOUT_TEMPLATE"), "limits": {"memory_mib": 1024}}


@pytest.fixture
def provider():
    from inspect_ai.util._sandbox.registry import registry_find_sandboxenv

    return registry_find_sandboxenv("cloche")


@pytest.fixture
def config(provider):
    return provider.config_deserialize({name: value for name, value in FIELDS.items() if value})


@pytest.fixture
async def sandbox_env(provider, config):
    made = await provider.sample_init("suite", config, {})
    yield made["default"]
    await provider.sample_cleanup("suite", config, made, False)
