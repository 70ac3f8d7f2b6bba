# SPDX-License-Identifier: Apache-2.0
"""LangChain's own suite for sandboxes, whole and as it is, with its backend for E2B's: three variables lead that here."""

import e2b
import pytest
from langchain_e2b import E2BSandbox
from langchain_tests.integration_tests import SandboxIntegrationTests


class TestTheirBackend(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        box = e2b.Sandbox.create(envs={"PATH": "/tmp/bin:/usr/local/bin:/usr/bin:/bin"})
        box.commands.run("mkdir /tmp/bin && ln -s /usr/bin/python3 /tmp/bin/python")  # the suite calls it so
        yield E2BSandbox(sandbox=box)
        box.kill()
