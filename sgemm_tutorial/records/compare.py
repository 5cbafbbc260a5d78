"""Holds two recordings against each other, point by point."""

from __future__ import annotations

from ..errors import ArgumentError
from ..table import Table
from .timings import Point, Record


def compare(old: Record, new: Record) -> Table:
    """Return what two recordings both hold, with how much faster the new one is.

    A change is called one only if the 10–90% ranges of the two don't overlap. The share of cuBLAS's speed, measured
    in the same run each time, tells a change of the kernel from one of the GPU or its clock.

    Raises
    ------
    ArgumentError
        They have no kernel and size in common.
    """
    before = {_key(point): point for point in old.points}
    both = [(before[_key(point)], point) for point in new.points if _key(point) in before]
    if not both:
        raise ArgumentError("new", "no kernel and size that are in the other recording", "some in common")
    both.sort(key=lambda pair: (pair[1].M * pair[1].N * pair[1].K, pair[1].kernel))
    varied = len({(point.kernel, point.size) for _, point in both}) < len(both)
    columns = ["kernel", "M×N×K", "ms before", "ms now", "speed", "verdict", "% of cuBLAS before", "now"]
    rows = []
    for then, now in both:
        row = [
            now.kernel,
            "×".join(map(str, now.size)),
            then.ms,
            now.ms,
            f"{100 * (then.ms / now.ms - 1):+.1f}%",
            verdict(then, now),
            then.percent_of_cublas,
            now.percent_of_cublas,
        ]
        if varied:
            row.insert(1, ", ".join([*filter(None, [now.label]), *map(str, now.parameters.values())]))
        rows.append(row)
    if varied:
        columns.insert(1, "arguments")
    changed = sum(then.source != now.source for then, now in both)
    left_out = f"{len(old.points) - len(both)} and {len(new.points) - len(both)} points are in one recording alone."
    return Table(
        columns,
        rows,
        f"{new.made}, against {old.made}",
        f"Of {len(both)} points in both, {changed} are of code that has changed. {left_out}",
    )


def verdict(then: Point, now: Point) -> str:
    """Say whether one measurement is faster than another beyond the spread of both."""
    if now.ms_p90 < then.ms_p10:
        return "faster"
    return "slower" if now.ms_p10 > then.ms_p90 else "within the spread"


def _key(point: Point) -> tuple:
    return point.kernel, point.label, tuple(point.parameters.items()), point.size
