# SPDX-License-Identifier: Apache-2.0
"""Inspect's own suite for providers of sandboxes, whole."""

from inspect_ai.util._sandbox.self_check import *  # noqa: F403
