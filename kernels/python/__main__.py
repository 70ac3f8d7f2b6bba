# SPDX-License-Identifier: Apache-2.0
"""Starts the driver: `python3 kernels/python`, with the host's socket as fd 3."""

import sys

from cloche_kernel import driver

# As in an interactive Python, imports look in the working directory, not where the driver lies.
sys.path[0] = ""
driver.main()
