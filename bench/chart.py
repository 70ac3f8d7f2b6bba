# SPDX-License-Identifier: Apache-2.0
"""Curves of the rows that are points of one, as SVG. Both axes are logarithmic: a straight line that rises by 45 degrees grows with what is below it."""

from __future__ import annotations

import math
from typing import Dict, List, Tuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 700, 60, 310
COLOURS = ("#0b62a4", "#c0392b", "#2e8b57")
# Title and what lies below the axis, by the chart's name.
CHARTS: Dict[str, Tuple[str, str]] = {
    "rollouts": ("rollouts a second, by CPUs", "CPUs that client, daemon and sandboxes have; 16 by calculation"),
    "live": ("p50 of a call, by sandboxes that live", "live sandboxes, each with an idle Python"),
    "state": ("p50 of forks, pauses and resumes, by the memory of the sandbox", "MB that its Python holds"),
    "paused": ("p50 of a wake, by sandboxes that are paused to disk", "paused sandboxes, each with a Python"),
}


class Axis:
    """Values from low to high, in whole powers of ten, to places."""

    def __init__(self, values: List[float], first: float, last: float) -> None:
        self.low = math.floor(math.log10(min(values)))
        self.high = max(math.ceil(math.log10(max(values))), self.low + 1)
        self.first, self.last = first, last

    def place(self, value: float) -> float:
        return self.first + (math.log10(value) - self.low) / (self.high - self.low) * (self.last - self.first)

    def marks(self) -> List[float]:
        return [10.0**n for n in range(self.low, self.high + 1)]


def label(value: float) -> str:
    return f"{value:g}"


def draw(name: str, rows: List[dict]) -> str:
    title, below = CHARTS[name]
    x = Axis([one["point"]["at"] for one in rows], LEFT, RIGHT)
    y = Axis([one["p50"] for one in rows], BOTTOM, TOP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-weight="bold">{escape(title)}</text>',
        f'<text x="4" y="{TOP - 10}">{escape(rows[0]["unit"])}</text>',
        f'<text x="{(LEFT + RIGHT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(below)}</text>',
    ]
    for mark in y.marks():
        lines.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y.place(mark):.1f}" y2="{y.place(mark):.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y.place(mark) + 4:.1f}" text-anchor="end">{label(mark)}</text>')
    for mark in sorted({one["point"]["at"] for one in rows}):
        lines.append(f'<text x="{x.place(mark):.1f}" y="{BOTTOM + 18}" text-anchor="middle">{label(mark)}</text>')
    series = list(dict.fromkeys(one["point"]["series"] for one in rows))
    for i, what in enumerate(series):
        points = [(x.place(one["point"]["at"]), y.place(one["p50"])) for one in rows if one["point"]["series"] == what]
        colour, key_x = COLOURS[i % len(COLOURS)], LEFT + 40 + i * 200
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        lines += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        lines.append(f'<rect x="{key_x}" y="34" width="12" height="4" fill="{colour}"/>')
        lines.append(f'<text x="{key_x + 18}" y="40">{escape(what)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def charts(rows: List[dict]) -> Dict[str, str]:
    """SVG by name, of those that have points."""
    found = {name: [one for one in rows if one.get("point") and one["point"]["chart"] == name] for name in CHARTS}
    return {name: draw(name, points) for name, points in found.items() if points}
