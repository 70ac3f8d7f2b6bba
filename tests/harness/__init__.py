# SPDX-License-Identifier: Apache-2.0
"""What the Python suites share: a daemon of their own, and an audit of the host."""
