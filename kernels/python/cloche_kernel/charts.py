# SPDX-License-Identifier: Apache-2.0
"""What a figure shows, as data: the kind of each chart, its words and its points.

    {"type": "line", "title", "x_label", "y_label", "x_unit", "y_unit", "x_scale", …, "elements": [{"label", "points": [[x, y], …]}]}

A figure with several charts is a "superchart" of them. What is on it that no kind covers is "unknown" and has no elements.
Nothing here loads matplotlib, and whatever fails leaves the figure its picture.
"""

from __future__ import annotations

import datetime
import math
import re
import sys

VALUES_MAX = 100_000  # beyond it a chart is its picture alone

_UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")


def of_figure(figure) -> dict | None:
    """The figure's chart, None where it has no axes, too many values, or cannot be read."""
    try:
        charts = [_of_axes(axes) for axes in figure.axes]
    except Exception:  # another release of matplotlib, or artists of the user's own
        return None
    if not charts or sum(map(_count, charts)) > VALUES_MAX:
        return None
    if len(charts) == 1:
        return charts[0]
    title = getattr(figure, "_suptitle", None)
    return {"type": "superchart", "title": title.get_text() if title else None, "elements": charts}


def _count(chart: dict) -> int:
    return sum(len(e.get("points", ())) + 1 for e in chart["elements"])


def _of_axes(axes) -> dict:
    patches = sys.modules["matplotlib.patches"]
    collections = sys.modules["matplotlib.collections"]
    lines = [line for line in axes.lines if not _is_ruler(line)]
    chart = {"title": axes.get_title() or None, "elements": []}
    if any(isinstance(p, patches.Wedge) for p in axes.patches):
        return chart | {"type": "pie", "elements": [_slice(p) for p in axes.patches if isinstance(p, patches.Wedge)]}
    words = _words(axes)
    if axes.containers:
        return _bars(axes, chart | words | {"type": "bar"})
    if axes.patches and all(isinstance(p, patches.PathPatch) for p in axes.patches):
        return chart | words | {"type": "box_and_whisker", "elements": _boxes(axes)}
    scatters = [c for c in axes.collections if isinstance(c, collections.PathCollection)]
    if scatters:
        points = [{"label": c.get_label(), "points": [[_number(x), _number(y)] for x, y in c.get_offsets()]} for c in scatters]
        return chart | words | _scales(axes) | {"type": "scatter", "elements": points}
    if lines:
        return chart | words | _scales(axes) | {"type": "line", "elements": [_line(line) for line in lines]}
    return chart | {"type": "unknown"}


def _is_ruler(line) -> bool:
    """A line of the grid or the like: straight from edge to edge."""
    x, y = line.get_xdata(), line.get_ydata()
    return len(x) == 2 and len(y) == 2 and (x[0] == x[1] or y[0] == y[1])


def _words(axes) -> dict:
    words = {}
    for side, label in (("x", axes.get_xlabel() or None), ("y", axes.get_ylabel() or None)):
        unit = _UNIT.search(label) if label else None
        words[f"{side}_label"] = label
        words[f"{side}_unit"] = (unit.group(1) or unit.group(2)) if unit else None
    return words


def _number(value: object) -> object:
    """A point's coordinate as JSON can have it."""
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return str(value.astype("datetime64[s]"))
    if isinstance(value, str):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _line(line) -> dict:
    points = [[_number(x), _number(y)] for x, y in zip(line.get_xdata(), line.get_ydata())]
    return {"label": line.get_label(), "points": points}


def _scales(axes) -> dict:
    scales = {}
    for side, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        ticks = list(axis.get_ticklocs())
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        scale = axis.get_scale()
        if "Date" in type(converter).__name__:
            scale = "datetime"
            ticks = [sys.modules["matplotlib.dates"].num2date(t).isoformat() for t in ticks]
        else:
            ticks = [_number(t) for t in ticks]
        if "Category" in type(converter).__name__:
            scale = "categorical"
        scales |= {f"{side}_ticks": ticks, f"{side}_tick_labels": labels, f"{side}_scale": scale}
    return scales


def _slice(wedge) -> dict:
    return {"label": wedge.get_label(), "angle": abs(_rounded(wedge.theta2 - wedge.theta1)), "radius": float(wedge.r)}


def _rounded(value: float) -> float:
    """Without the dust that a picture's own precision leaves on it."""
    return float(f"{float(value):.6g}")


def _bars(axes, chart: dict) -> dict:
    for number, container in enumerate(axes.containers):
        group = container.get_label()
        if group.startswith("_container"):
            group = f"Group {group[len('_container'):] or number}"
        bars = [bar for bar in container if hasattr(bar, "get_height")]
        heights = [bar.get_height() for bar in bars]
        is_lying = len(bars) > 1 and all(h == heights[0] for h in heights) and len({b.get_width() for b in bars}) > 1
        if is_lying and number == 0:
            for name in ("label", "unit"):
                chart[f"x_{name}"], chart[f"y_{name}"] = chart[f"y_{name}"], chart[f"x_{name}"]
        labels = [t.get_text() for t in (axes.get_yticklabels() if is_lying else axes.get_xticklabels())]
        values = [bar.get_width() for bar in bars] if is_lying else heights
        chart["elements"] += [{"label": l, "group": group, "value": _number(v)} for l, v in zip(labels, values)]
    return chart


def _boxes(axes) -> list[dict]:
    """Each box has its quartiles; its median, whiskers and outliers are the lines between its sides."""
    found = []
    labels = [t.get_text() for t in axes.get_xticklabels()]
    for label, patch in zip(labels, axes.patches):
        vertices = patch.get_path().vertices
        left, right = min(vertices[:, 0]), max(vertices[:, 0])
        low, high = min(vertices[:, 1]), max(vertices[:, 1])
        ends, median, outliers = [low, high], None, []
        for line in axes.lines:
            x, y = list(line.get_xdata()), list(line.get_ydata())
            if not x or min(x) < left or max(x) > right:
                continue
            if line.get_linestyle() in ("None", "none", " ", ""):
                outliers += [_rounded(v) for v in y]
            elif len(y) == 2 and y[0] == y[1] and low <= y[0] <= high and (x[0], x[1]) == (left, right):
                median = y[0]
            else:
                ends += y
        found.append({"label": label, "min": _rounded(min(ends)), "first_quartile": _rounded(low),
                      "median": _rounded(median if median is not None else low), "third_quartile": _rounded(high),
                      "max": _rounded(max(ends)), "outliers": outliers})
    return found


def of_table(table) -> dict | None:
    """A DataFrame as lists by column; None where it is too large to be worth it."""
    try:
        if table.size > VALUES_MAX:
            return None
        return {str(name): [_cell(v) for v in table.iloc[:, i].tolist()] for i, name in enumerate(table.columns)}
    except Exception:
        return None


def _cell(value: object) -> object:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


def is_table(value: object) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, "DataFrame", ()))
