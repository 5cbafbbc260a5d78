"""Random problems on a GPU, every element of every result held against its error bound.

``python -m tests.fuzz`` gives each kernel of the ladder 2,000 of them and records the outcome in ``book/results``.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from typing import Any

from sgemm_tutorial import LADDER, Kernel, Table, check, find, records
from sgemm_tutorial.bench import digest
from sgemm_tutorial.correctness import CheckResult
from sgemm_tutorial.progress import bar

RECORD = records.RESULTS / "fuzz.json"
CASES = 2000
SEED = 2026
SCALARS = ((1.0, 0.0), (1.0, 0.0), (1.0, 1.0), (-1.5, 0.75), (0.1, -1e-3), (0.0, 2.0), (0.0, 0.0), (-1.0, 0.0))


def case(kernel: Kernel, number: int, seed: int = SEED) -> dict[str, Any]:
    """Return the arguments of `check` for one problem; they depend on the kernel, its number and the seed alone."""
    draw = random.Random(f"{seed} {kernel.expression} {number}")
    tile = [kernel.parameters.get(name, 8) for name in ("BM", "BN", "BK")]
    kind = draw.choice(("tiny", "edges", "edges", "fours", "whole tiles", "medium", "skinny"))
    if kind == "tiny":
        shape = [draw.randint(0, 8) for _ in tile]
    elif kind == "edges":
        shape = [draw.randint(0, 3) * extent + draw.choice((-4, -2, -1, 0, 1, 2, 4)) for extent in tile]
    elif kind == "fours":
        shape = [4 * draw.randint(1, 100) for _ in tile]
    elif kind == "whole tiles":
        shape = [draw.randint(1, 3) * extent for extent in tile]
    elif kind == "medium":
        shape = [draw.randint(1, 400) for _ in tile]
    else:
        shape = [draw.randint(1, 40) for _ in tile]
        shape[draw.randrange(3)] = draw.randint(1000, 5000)
    alpha, beta = draw.choice(SCALARS)
    return dict(zip("MNK", (max(extent, 0) for extent in shape), strict=True)) | {
        "alpha": alpha,
        "beta": beta,
        "seed": number,
        "shift": draw.choice((0, 0, 0, 1, 2, 3)),  # floats past a multiple of 512 bytes that matrices begin
        "special": draw.random() < 0.1,  # infinities, NaNs and subnormals
    }


def fuzz(kernel: Kernel, cases: int, judge: Callable[..., CheckResult] = check) -> dict[str, Any]:
    """Check a kernel on that many problems and return what to record of it."""
    results = [judge(kernel, **case(kernel, number)) for number in bar(range(cases), show=None, unit=kernel.name)]
    failures = [result for result in results if not result.passed]
    for result in failures[:10]:
        print(result)
    return {
        "kernel": kernel.name,
        "parameters": kernel.parameters,
        "source": digest(kernel),
        "cases": cases,
        "failures": len(failures),
        "worst_error_over_bound": max(result.worst_ratio for result in results),
        "aligned": sum(result.shift == 0 and result.N % 4 == result.K % 4 == 0 for result in results),
        "seed": SEED,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz kernels on the GPU of this machine; return how many problems failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernels", nargs="*", type=find, help="these only, without recording the outcome")
    parser.add_argument("--cases", type=int, default=CASES, help="problems per kernel")
    options = parser.parse_args(arguments)
    judge = lambda *given, **more: check(*given, on_gpu=True, **more)  # noqa: E731
    points = [fuzz(kernel, options.cases, judge) for kernel in options.kernels or LADDER]
    columns = ("kernel", "cases", "failures", "worst_error_over_bound")
    print(Table(columns, [[point[name] for name in columns] for point in points], "Random problems"))
    if not options.kernels:
        records.write(RECORD, {"provenance": records.provenance(), "points": points})
    return sum(point["failures"] for point in points)


if __name__ == "__main__":
    raise SystemExit(bool(main()))
