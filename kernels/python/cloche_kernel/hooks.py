# SPDX-License-Identifier: Apache-2.0
"""What libraries need to show themselves here, done when, and only if, the code imports them.

`plt.show()` on a screen blocks until the window is closed; here it shows the figures so far and closes them, so that the
next plot starts a new one. plotly and altair are told to speak their own MIME types rather than to look for a browser.

And what `pip install` has brought meanwhile is found without a restart.
"""

from __future__ import annotations

import importlib.machinery
import os
import site
import sys
from collections.abc import Callable
from types import ModuleType

from .display import Display


class AfterImport:
    """A finder that finds nothing itself, but does something to certain modules once they are loaded."""

    def __init__(self, actions: dict[str, Callable[[ModuleType], None]]):
        self._actions = actions

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        action = self._actions.get(name)
        if action is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            try:
                action(module)
            except AttributeError:  # a release that is built otherwise: it shows itself its own way
                pass

        spec.loader.exec_module = exec_module
        return spec


class AfterInstall:
    """A finder of last resort: the packages that the user has installed since this process started.

    Python takes their directory only if it is there at the start, and in a new sandbox it is not.
    """

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if path is not None or not site.ENABLE_USER_SITE:
            return None
        place = site.getusersitepackages()
        if place in sys.path or not os.path.isdir(place):
            return None
        site.addsitedir(place)
        sys.path_importer_cache.pop(place, None)
        return importlib.machinery.PathFinder.find_spec(name, None, target)


def install(get_display: Callable[[], Display | None]) -> None:
    """Has libraries show themselves by the display that there is at that time."""
    # Also for Python programs that the code starts: there is no screen for them either.
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")

    def show_matplotlib(pyplot: ModuleType) -> None:
        show_window = pyplot.show

        def show(*args: object, **kwargs: object) -> None:
            """Shows all open figures and closes them."""
            display = get_display()
            if display is None or pyplot.get_backend().lower() != "agg":
                show_window(*args, **kwargs)
            else:
                display.show_figures()

        pyplot.show = show

    def show_plotly(renderers: ModuleType) -> None:
        show_by_renderer = renderers.show

        def show(figure: object, renderer: str | None = None, **kwargs: object) -> None:
            """Shows the figure by its own MIME type, unless a renderer is named."""
            display = get_display()
            if display is None or renderer is not None or isinstance(figure, dict):
                show_by_renderer(figure, renderer, **kwargs)
            else:
                display.show(figure)

        renderers.show = show

    def show_altair(altair: ModuleType) -> None:
        altair.renderers.enable("mimetype")

    def show_notebook(functions: ModuleType) -> None:
        show_without_notebook = functions.display

        def show(*values: object, raw: bool = False, metadata: dict | None = None, **kwargs: object) -> None:
            """IPython's display(), where there is no notebook but this."""
            display = get_display()
            if display is None:
                show_without_notebook(*values, raw=raw, metadata=metadata, **kwargs)
            else:
                display.show(*values, raw=raw, metadata=metadata)

        functions.display = show

    def show_pictures(image: ModuleType) -> None:
        show_window = image.Image.show

        def show(picture: object, *args: object, **kwargs: object) -> None:
            """Shows the picture here: there is no program for it."""
            display = get_display()
            if display is None:
                show_window(picture, *args, **kwargs)
            else:
                display.show(picture)

        save_file = image.Image.save

        def save(picture: object, fp: object, format: str | None = None, **params: object) -> None:
            """Where programs of E2B run, a picture that is saved under a name is shown, too: their interpreter does so, and programs read it from there."""
            save_file(picture, fp, format, **params)
            display = get_display()
            if display is not None and isinstance(fp, str) and os.environ.get("E2B_SANDBOX") == "true":
                display.show(picture)

        image.Image.show = show
        image.Image.save = save

    actions = {"IPython.core.display_functions": show_notebook, "PIL.Image": show_pictures, "matplotlib.pyplot": show_matplotlib, "plotly.io._renderers": show_plotly, "altair": show_altair}
    sys.meta_path.insert(0, AfterImport(actions))
    sys.meta_path.append(AfterInstall())
