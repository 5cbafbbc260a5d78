"""How long the simulator takes, against the size: ``python -m tests.benchmark_simulator [--sizes 64 128] [--json]``."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence

from tqdm import tqdm

from sgemm_tutorial import LADDER, Kernel, Table, build, matrices, simulate


def seconds(kernel: Kernel, size: int, repeats: int = 2) -> float:
    """Return the shortest time of a few simulated runs of size³, compilation excluded."""
    build(kernel)
    A, B = matrices(size, size, size, on_gpu=False)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        simulate(kernel, A, B)
        times.append(time.perf_counter() - begin)
    return min(times)


def measure(sizes: Sequence[int]) -> list[dict[str, object]]:
    """Return one row per kernel and size."""
    rows = []
    for kernel in tqdm(LADDER, desc="simulating", leave=False, disable=None):
        for size in sizes:
            best = seconds(kernel, size)
            rows.append({"kernel": kernel.name, "size": size, "seconds": best, "fma_per_second": size**3 / best})
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 128, 256, 384], help="M = N = K")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    rows = measure(options.sizes)
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        cells = [(row["kernel"], row["size"], row["seconds"], row["fma_per_second"] / 1e6) for row in rows]
        print(Table(("kernel", "M = N = K", "seconds", "million FMA per second"), cells, "The simulator's speed"))


if __name__ == "__main__":
    main()
