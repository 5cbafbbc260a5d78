"""Writes the README's picture and table of the recorded ladder: ``python -m tools.readme``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab import draw
from lab.draw.figure import Figure
from lab.experiments import sustained
from lab.paths import RESULTS
from lab.records import timings
from lab.records.timings import OTHERS, Point, Record, climb
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel

ROOT = RESULTS.parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "book" / "_static" / "ladder.svg"
SIZE = 4096
START, END = "<!-- ladder: written by python -m tools.readme -->", "<!-- end of ladder -->"


def picture(record: Record) -> Figure:
    """Return the ladder's picture."""
    return draw.ladder(record, SIZE)


def block(record: Record, others: Record) -> str:
    """Return the README's Markdown between its marks: the picture, the same in a table, and the other kernels.

    Parameters
    ----------
    record, others : Record
        Of the ladder, and of the kernels beside it.
    """
    of, points = record.provenance, record.select(sizes=[(SIZE,) * 3]).points
    beside = sorted(others.select(sizes=[(SIZE,) * 3]).points, key=lambda point: point.kernel)
    cublas = 2 * SIZE**3 / float(np.median([point.cublas_ms for point in points])) / 1e9
    lines = [
        f"![{picture(record).alt}]({PICTURE.relative_to(ROOT).as_posix()})",
        "",
        "| kernel | idea | TFLOP/s | of cuBLAS |",
        "|---|---|---:|---:|",
        *(_row(point, f"{point.tflops:.2f}") for point in points),
        f"| cuBLAS {of['cublas']} | NVIDIA's library, in FP32 | {cublas:.2f} | 100.0% |",
        "",
        f"{of['gpu']}, driver {of['driver']}, {of['date'][:10]}; M = N = K = {SIZE}, FP32, device time, each "
        "kernel beside cuBLAS in one run. 13 as tuned for this size, in a later recording.",
        "",
        "Other roads, against the cuBLAS routine of the same types, each alone for four seconds; then the share "
        "[in turns](book/deeper/20_power_and_chance.ipynb):",
        "",
        "| kernel | idea | types | TFLOP/s | of cuBLAS | in turns |",
        "|---|---|---|---:|---:|---:|",
        *(_row(point, find(point.kernel).types.name, *_lasting(find(point.kernel))) for point in beside),
    ]
    return "\n".join(lines)


def _lasting(kernel: Kernel) -> tuple[str, str]:
    """Return a kernel's speed in a lasting run, and its share of cuBLAS's there, or a dash for each."""
    ms, share = sustained.lasted(kernel) or (None, None)
    return (f"{2 * SIZE**3 / ms / 1e9:.1f}", f"{share:.1%}") if ms else ("–", "–")


def _row(point: Point, *more: str) -> str:
    """Return a kernel's row, with these cells before its share of cuBLAS in turns."""
    name = point.kernel
    cells = (f"[{name}](kernels/{name}.cu)", find(name).idea, *more)
    return f"| {' | '.join(cells)} | {point.percent_of_cublas:.1f}% |"


def written(text: str, record: Record, others: Record) -> str:
    """Return a README's text with the part between its marks written again; see `block`.

    Raises
    ------
    ArgumentError
        The text does not have both marks, once each and in order.
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not end or START in rest or END in before + after:
        raise ArgumentError("text", "other marks", f"one {START} and after it one {END}")
    return f"{before}{start}\n{block(record, others)}\n{end}{after}"


def main(readme: Path = README, file: Path = PICTURE) -> None:
    """Write both again from the recordings in ``book/results``."""
    record = climb()
    text = written(readme.read_text(encoding="utf-8"), record, timings.load(OTHERS))
    readme.write_text(text, encoding="utf-8")
    picture(record).save(file)


if __name__ == "__main__":
    main()
