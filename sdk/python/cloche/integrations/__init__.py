# SPDX-License-Identifier: Apache-2.0
"""Tools for agent frameworks. Each module imports its framework only where it must, and is not imported by `cloche` itself."""
