# SPDX-License-Identifier: Apache-2.0
"""Which interpreter is driven, and what it must have for a test."""

import os
import subprocess
import sys

import pytest
from kernels.kernel import KERNELS

PYTHON = os.environ.get("CLOCHE_TEST_PYTHON", sys.executable)
ARGV = [PYTHON, str(KERNELS / "python")]


def needs(module):
    """Skips where the interpreter under test, which need not be this one, has no such module."""
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    missing = subprocess.run([PYTHON, "-c", look]).returncode != 0
    return pytest.mark.skipif(missing, reason=f"{module} is not installed")
