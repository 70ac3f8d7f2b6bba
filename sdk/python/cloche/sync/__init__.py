# SPDX-License-Identifier: Apache-2.0
"""The face for programs without asyncio: made from aio by tools/make-sync, but for _wire.py."""
