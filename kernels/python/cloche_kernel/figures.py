# SPDX-License-Identifier: Apache-2.0
"""matplotlib's figures. Nothing here loads matplotlib: without pyplot in memory there are no figures to show."""

from __future__ import annotations

import io
import sys


def is_figure(value: object) -> bool:
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def png(figure) -> bytes | None:
    """The figure as it would be saved, None where there is nothing on it. Raises what drawing raises."""
    if not (figure.axes or figure.lines or figure.patches or figure.texts or figure.images or figure.subfigs):
        return None
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")
    return picture.getvalue()


def take_open() -> list:
    """The figures that pyplot holds open, in their order, which are closed for pyplot but can still be drawn."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None or "matplotlib.pyplot" not in sys.modules:
        return []
    managers = sorted(helpers.Gcf.get_all_fig_managers(), key=lambda manager: manager.num)
    taken = [manager.canvas.figure for manager in managers]
    if taken:
        sys.modules["matplotlib.pyplot"].close("all")
    return taken


def close(figure) -> None:
    """Closes a figure for pyplot: it was shown and is not to be shown again."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
