# SPDX-License-Identifier: Apache-2.0
"""Starts the driver: `python3 kernels/python`, with the host's socket as fd 3. With CLOCHE_ZYGOTE in the environment it is
the broker's, and what starts is a zygote."""

import os
import sys

from cloche_kernel import driver

# As in an interactive Python, imports look in the working directory, not where the driver lies.
sys.path[0] = ""
if "CLOCHE_ZYGOTE" in os.environ:
    from cloche_kernel import zygote

    zygote.main()
driver.main()
