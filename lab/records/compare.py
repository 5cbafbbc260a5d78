"""Compares two recordings, point by point."""

from collections.abc import Hashable

from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.table import Table

from .sizes import times_of
from .timings import Point, Record


def compare(old: Record, new: Record) -> Table:
    """Return the points that two recordings have in common, with the change of speed.

    A difference counts as a change only if the 10–90% ranges of the two don't overlap, and if it is more than the noise
    between processes, where a recording tells that. The share of cuBLAS's speed, measured in the same run each time,
    distinguishes a change of the kernel from a change of the GPU or its clock.

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
    noise = max(old.noise or 0, new.noise or 0)
    columns = {
        "kernel": [now.kernel for _, now in both],
        "arguments": [", ".join([*filter(None, [now.label]), *map(str, now.parameters.values())]) for _, now in both],
        "M×N×K": [times_of(now.size) for _, now in both],
        "ms before": [then.ms for then, _ in both],
        "ms now": [now.ms for _, now in both],
        "speed": [f"{100 * (then.ms / now.ms - 1):+.1f}%" for then, now in both],
        "verdict": [verdict(then, now, noise) for then, now in both],
        "% of cuBLAS before": [then.percent_of_cublas for then, _ in both],
        "now": [now.percent_of_cublas for _, now in both],
    }
    if len({(point.kernel, point.size) for _, point in both}) == len(both):
        del columns["arguments"]
    changed = sum(then.digest != now.digest for then, now in both)
    known = f" Between processes, {noise:.1%} is noise." if noise else ""
    return Table(
        list(columns),
        list(map(list, zip(*columns.values(), strict=True))),
        f"{new.made}, against {old.made}",
        f"Of {len(both)} points in both, {changed} are of code that has changed. {len(old.points) - len(both)} and "
        f"{len(new.points) - len(both)} points are in one recording alone.{known}",
    )


def verdict(then: Point, now: Point, noise: float = 0.0) -> str:
    """Say whether one measurement is faster than another beyond the spread of both, and beyond the noise."""
    if now.ms_p90 < then.ms_p10 and then.ms / now.ms > 1 + noise:
        return "faster"
    slower = now.ms_p10 > then.ms_p90 and now.ms / then.ms > 1 + noise
    return "slower" if slower else "within the spread"


def _key(point: Point) -> Hashable:
    return point.apart_from_code, point.size
