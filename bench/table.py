"""Samples -> rows -> verdicts -> a table. Budgets stand in budgets.json, by the key of a row: the
most that its value, its ratio or its ratio of minima may be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = Any

BUDGETS: dict[str, dict[str, float]] = json.loads(
    Path(__file__).with_name("budgets.json").read_text()
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured, in any order.

    The least is what the work costs; how far the median is from it is the machine's noise.
    """

    values: Sequence[float]

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def p50(self) -> float:
        return self._at(0.50)

    @property
    def p99(self) -> float:
        return self._at(0.99)

    def _at(self, part: float) -> float:
        ordered = sorted(self.values)
        place = part * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True, slots=True)
class Row:
    """One line.

    `at` is the part of the sample that the verdict and the ratio are about; `theirs` is what it is
    compared with, if anything.
    """

    key: str
    figure: str
    unit: str
    ours: Sample
    against: str = ""
    theirs: Sample | None = None
    at: str = "p50"

    @property
    def value(self) -> float:
        return float(getattr(self.ours, self.at))

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None else self.value / float(getattr(self.theirs, self.at))

    @property
    def ratio_of_minima(self) -> float | None:
        """What the ratio would be without noise; says nothing about a tail."""
        return (
            None if self.theirs is None or self.at != "p50" else self.ours.least / self.theirs.least
        )

    @property
    def kept(self) -> bool | None:
        """Whether the budget is kept; None for a row without one."""
        budget = BUDGETS.get(self.key)
        if budget is None:
            return None
        measured = {"value": self.value, "ratio": self.ratio, "minima": self.ratio_of_minima}
        return all(
            found is None or found <= budget.get(word, float("inf"))
            for word, found in measured.items()
        )

    def as_json(self) -> Json:
        return {
            "key": self.key,
            "figure": self.figure,
            "unit": self.unit,
            "at": self.at,
            "ours": _sample(self.ours),
            "against": self.against,
            "theirs": None if self.theirs is None else _sample(self.theirs),
            "ratio": self.ratio,
            "ratioOfMinima": self.ratio_of_minima,
            "budget": BUDGETS.get(self.key),
            "kept": self.kept,
        }


HEADINGS = (
    "figure",
    "bridge: min / p50 / p99",
    "against",
    "min / p50 / p99",
    "ratio",
    "of minima",
    "budget",
    "verdict",
)


def cells(row: Row) -> tuple[str, ...]:
    """A row as words, under HEADINGS."""
    theirs = "" if row.theirs is None else _spread(row.theirs, row.unit)
    ratio, minima = (
        "" if each is None else f"{each:.2f}" for each in (row.ratio, row.ratio_of_minima)
    )
    verdict = {None: "", True: "kept", False: "MISSED"}[row.kept]
    return (
        row.figure,
        _spread(row.ours, row.unit),
        row.against,
        theirs,
        ratio,
        minima,
        _budget(row),
        verdict,
    )


def as_text(rows: Iterable[Row]) -> str:
    lines = [HEADINGS, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def as_markdown(rows: Iterable[Row]) -> str:
    lines = [HEADINGS, ("---",) * len(HEADINGS), *map(cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _sample(sample: Sample) -> Json:
    return {"n": len(sample.values), "min": sample.least, "p50": sample.p50, "p99": sample.p99}


def _spread(sample: Sample, unit: str) -> str:
    parts = (sample.least, sample.p50, sample.p99) if len(sample.values) > 1 else (sample.p50,)
    return f"{' / '.join(_number(part) for part in parts)} {unit}".rstrip()


def _number(value: float) -> str:
    return (
        f"{value:.0f}"
        if value == int(value) or abs(value) >= 100
        else f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.3f}"
    )


def _budget(row: Row) -> str:
    budget = BUDGETS.get(row.key, {})
    limits = [
        f"{budget[word]:g} {unit}".rstrip()
        for word, unit in (("value", row.unit), ("ratio", "x"))
        if word in budget
    ]
    part = f"{row.at} " if len(row.ours.values) > 1 else ""
    shown = [f"{part}<= {limit}" for limit in limits]
    shown += [f"minima <= {budget['minima']:g} x"] if "minima" in budget else []
    return ", ".join(shown)
