# SPDX-License-Identifier: Apache-2.0
"""The Python interpreter, driven as the agent drives it. One test per promise of issue and protocol."""

import pytest
from kernels.kernel import Kernel
from kernels.python.driver import ARGV


@pytest.fixture
def kernel():
    with Kernel(ARGV) as kernel:
        yield kernel
