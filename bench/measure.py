# SPDX-License-Identifier: Apache-2.0
"""Samples and what they say: rows of a table, each with a peer from the same run and an aim."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple


def timed(action: Callable[[], object]) -> float:
    """Milliseconds that the action takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def interleave(actions: Dict[str, Tuple[Optional[Callable[[], float]], int]], block: int = 1) -> Dict[str, List[float]]:
    """Runs each action as often as it says, spread over the same rounds, so that noise on the machine hits all of
    them alike. An action gives its own figure; one that is None (an absent peer) gives no samples. block: how often an action
    is run when it is its turn, for those whose first run in another's wake says little."""
    present = {name: (action, count) for name, (action, count) in actions.items() if action and count > 0}
    took: Dict[str, List[float]] = {name: [] for name in actions}
    rounds = max((count for _, count in present.values()), default=0) // block
    for action, _ in present.values():
        action()  # the first time warms caches
    order, shuffle = list(present.items()), random.Random(1).shuffle
    for i in range(rounds):
        shuffle(order)  # so that nobody always runs in another's wake
        for name, (action, count) in order:
            if (i + 1) * count // block // rounds > i * count // block // rounds:
                took[name] += [action() for _ in range(block)]
    return took


def p99(took: Sequence[float]) -> float:
    return sorted(took)[min(len(took) - 1, int(len(took) * 0.99))]


@dataclass
class Point:
    """Where a row stands in a chart (bench/chart.py)."""

    chart: str
    series: str
    at: float


@dataclass
class Row:
    section: str
    what: str
    unit: str
    p50: float
    p99: Optional[float]
    n: int
    peer: Optional[str] = None
    peer_p50: Optional[float] = None
    ratio: Optional[float] = None  # how many times better than the peer
    aim: Optional[str] = None
    ok: Optional[bool] = None
    point: Optional[Point] = None

    def to_json(self) -> dict:
        return asdict(self)


def row(
    section: str,
    what: str,
    took: Sequence[float],
    *,
    unit: str = "ms",
    more_is_better: bool = False,
    peer: Optional[str] = None,
    peer_took: Sequence[float] = (),
    limit: Optional[float] = None,
    limit_p99: Optional[float] = None,
    times: Optional[float] = None,
    point: Optional[Point] = None,
) -> Row:
    """limit: the aim for p50, limit_p99 for p99; times: how many times better than the peer it shall be."""
    tail = p99(took) if len(took) > 1 and not more_is_better else None
    one = Row(section, what, unit, statistics.median(took), tail, len(took), peer, point=point)
    words, checks = [], []
    sign = "≥" if more_is_better else "≤"
    if limit is not None:
        words.append(f"{sign} {limit:g} {unit}")
        checks.append(one.p50 >= limit if more_is_better else one.p50 <= limit)
    if limit_p99 is not None and one.p99 is not None:
        words.append(f"p99 ≤ {limit_p99:g} {unit}")
        checks.append(one.p99 <= limit_p99)
    if peer and peer_took:
        one.peer_p50 = statistics.median(peer_took)
        one.ratio = one.p50 / one.peer_p50 if more_is_better else one.peer_p50 / one.p50
        if times is not None:
            less = f"≥ {times:g}× the peer's" if more_is_better else f"≤ {1 / times:g}× the peer's"
            words.append(f"≥ {times:g}× better" if times >= 1 else less)
            checks.append(one.ratio >= times)
    if checks:
        one.aim, one.ok = ", ".join(words), all(checks)
    return one


def number(value: Optional[float]) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


HEADS = ("what", "p50", "p99", "peer", "its p50", "ratio", "aim", "")


def cells(one: dict) -> Tuple[str, ...]:
    """A row of the table, from the JSON form."""
    absent = one["peer"] and one["peer_p50"] is None
    return (
        one["what"],
        f"{number(one['p50'])} {one['unit']}",
        number(one["p99"]),
        one["peer"] or "",
        "absent" if absent else number(one["peer_p50"]) if one["peer"] else "",
        f"{number(one['ratio'])}×" if one["ratio"] is not None else "",
        one["aim"] or "",
        "" if one["ok"] is None else "ok" if one["ok"] else "miss",
    )


def table(rows: Sequence[dict]) -> str:
    """For a terminal: columns as wide as their widest cell, a headline per section."""
    body = [cells(one) for one in rows]
    widths = [max(len(line[i]) for line in [HEADS, *body]) for i in range(len(HEADS))]
    lines, section = [], None

    def line(words: Sequence[str]) -> str:
        return "  ".join(w.rjust(n) if i in (1, 2, 4, 5) else w.ljust(n) for i, (w, n) in enumerate(zip(words, widths))).rstrip()

    lines.append(line(HEADS))
    for one, words in zip(rows, body):
        if one["section"] != section:
            section = one["section"]
            lines.append(f"\n{section}")
        lines.append(line(words))
    return "\n".join(lines)


def verdict(rows: Sequence[dict]) -> str:
    """How many aims are met, and which are not: a line each."""
    aims = [one for one in rows if one["ok"] is not None]
    missed = [one for one in aims if not one["ok"]]
    lines = [f"{len(aims) - len(missed)} of {len(aims)} aims are met" + (". Missed:" if missed else ".")]
    for one in missed:
        tail = f", p99 {number(one['p99'])}" if one["p99"] is not None else ""
        ratio = f", {number(one['ratio'])}× of {one['peer']}" if one["ratio"] is not None else ""
        lines.append(f"  {one['section']}: {one['what']}: {number(one['p50'])} {one['unit']}{tail}{ratio}, aim {one['aim']}")
    return "\n".join(lines)
