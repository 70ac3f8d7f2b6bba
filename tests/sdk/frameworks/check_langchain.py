# SPDX-License-Identifier: Apache-2.0
"""LangChain's own suite for sandboxes, whole and as it is, with the version of deepagents that it was written for."""

import pytest
from cloche.integrations.deepagents import ClocheBackend
from langchain_tests.integration_tests import SandboxIntegrationTests


class TestClocheBackend(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        with ClocheBackend(env={"PATH": "/tmp/bin:/usr/local/bin:/usr/bin:/bin"}) as backend:
            backend.execute("mkdir /tmp/bin && ln -s /usr/bin/python3 /tmp/bin/python")  # the suite calls it so
            yield backend
