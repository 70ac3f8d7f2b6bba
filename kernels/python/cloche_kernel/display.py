# SPDX-License-Identifier: Apache-2.0
"""`display()`, and the figures that a call left open.

What is displayed belongs to the call that runs. A thread that outlived its call, and a child that the code forked, have no
call to show things in: they get the text on standard output instead.
"""

from __future__ import annotations

import sys

from . import bundle, figures
from .framing import Channel
from .streams import Streams


class Display:
    def __init__(self, channel: Channel, streams: Streams):
        self._channel = channel
        self._streams = streams

    def show(self, *values: object, raw: bool = False, metadata: dict | None = None) -> None:
        """Shows each value in its richest form. With raw=True a value is a MIME bundle itself: {"text/html": "…"}."""
        for value in values:
            if raw and isinstance(value, dict):
                payload = bundle.of_data(value, metadata or {})
            else:
                payload = self.payload(value)
            self._streams.flush()
            if not self._channel.send_display(payload):
                sys.stdout.write(bundle.plain_text(value)[0] + "\n")

    def payload(self, value: object) -> str:
        """The value's bundle. A figure that is shown this way is not shown again at the end of the call."""
        if not figures.is_figure(value):
            return bundle.of_value(value)
        try:
            return bundle.of_value(value)
        except Exception as error:  # what it is to draw is wrong, say bad TeX
            self._streams.complain(f"{value!r} cannot be drawn: {type(error).__name__}: {error}")
            return bundle.of_data({"text/plain": repr(value)}, {})
        finally:
            figures.close(value)

    def show_figures(self) -> None:
        """Shows the figures that pyplot holds open and closes them."""
        if "matplotlib.pyplot" in sys.modules:
            self.show(*figures.take_open())
