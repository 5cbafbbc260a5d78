"""Records the hardware's own counters with Nsight Compute, to hold the simulator's against.

``python -m sgemm_tutorial.nsight book/results/counters.json`` on a machine with a GPU and ncu, which must be allowed
to read counters there. Names of metrics: NVIDIA, Nsight Compute documentation, "Metrics Structure".
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import records
from .catalogue import CATALOGUE, Kernel
from .correctness import matrices
from .errors import ArgumentError, DeviceError
from .simulator import Run
from .table import Table
from .variants import COUNTED

METRICS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "copy_instructions": "smsp__inst_executed_op_ldgsts.sum",
    "copy_requests": "sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts.sum",
    "copy_sectors": "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum",
    "copy_wavefronts": "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    "copy_conflicts": "sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
    "l1_tag_wavefronts": "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",
    "l1_data_wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1_fill_sectors": "l1tex__m_xbar2l1tex_read_sectors.sum",
    "instructions": "smsp__inst_executed.sum",
    "fma_thread_instructions": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "dram_bytes": "dram__bytes.sum",
    "l2_sectors": "lts__t_sectors_op_read.sum",
}
"""Our name of each counter and Nsight Compute's. The names that `Counts` has too mean the same there."""

COPIES = {
    "shared_store_requests": "copy_instructions",
    "shared_store_wavefronts": "copy_wavefronts",
    "shared_store_conflicts": "copy_conflicts",
}
"""What the hardware counts of asynchronous copies apart from stores to shared memory."""

SHAPES = ((256, 256, 256), (256, 256, 257), (131, 67, 70))
"""Problems (M, N, K) that are counted: of whole tiles; the same with unaligned rows of A; and ragged all round."""

LARGE = (4096, 4096, 4096)
"""Counted too, though too large to simulate: the size at which rungs are compared."""


def record(path: Path) -> None:
    """Count the catalogue's kernels and those of `COUNTED` on all of `SHAPES` and on `LARGE`, and save the record.

    Raises
    ------
    DeviceError
        There is no GPU or no ncu, or ncu may not read the counters.
    """
    launches = _launches()
    rows = counted(["-m", "sgemm_tutorial.nsight", "--launch"], [kernel.function for kernel, *_ in launches], METRICS)
    points = [
        {"kernel": kernel.name, "label": kernel.label, "parameters": kernel.parameters, "M": M, "N": N, "K": K, **row}
        for (kernel, M, N, K), row in zip(launches, rows, strict=True)
    ]
    records.write(path, {"provenance": records.provenance() | {"ncu": version()}, "metrics": METRICS, "points": points})


def measured(kernel: Kernel, M: int, N: int, K: int) -> dict[str, Any]:
    """Return the recorded counters of a kernel on a problem, by the names of `METRICS`.

    Raises
    ------
    ArgumentError
        The recording in ``book/results`` has no such problem; it has `SHAPES` and `LARGE`.
    """
    key = {"kernel": kernel.name, "label": kernel.label, "parameters": kernel.parameters, "M": M, "N": N, "K": K}
    for point in _recording()["points"]:
        if point.items() >= key.items():
            return {name: point[name] for name in METRICS}
    shapes = ", ".join(map(str, (*SHAPES, LARGE)))
    raise ArgumentError("M, N, K", f"{M}, {N}, {K}", f"a problem recorded for {kernel.expression}, such as {shapes}")


def comparison(run: Run) -> Table:
    """Return a simulated run's counters beside the recorded ones of the same kernel and problem; see `measured`."""
    theirs, total, rows = measured(run.kernel, *run.C.shape, run.K), run.total, []
    for name, copies in COPIES.items():  # the simulator counts an asynchronous copy as the store that it also is
        theirs[name] += theirs[copies]
    for name in METRICS:
        if hasattr(total, name) and (ours := getattr(total, name)) + theirs[name] > 0:
            rows.append((name.replace("_", " "), ours, theirs[name], ours / theirs[name] if theirs[name] else None))
    of = _recording()["provenance"]
    return Table(
        ("counter", "simulated", "measured", "ratio"),
        rows,
        f"{run.kernel.name}: simulated and measured",
        f"Measured on {of['gpu']}, {of['date'][:10]}, Nsight Compute {of['ncu']}. The simulator counts PTX "
        "instructions, the hardware machine instructions.",
    )


def _recording() -> dict[str, Any]:
    return json.loads((records.RESULTS / "counters.json").read_text(encoding="utf-8"))


def counted(python: list[str], functions: list[str], metrics: dict[str, str]) -> list[dict[str, int | float]]:
    """Run a Python program under ncu and return the metrics of its launches.

    Parameters
    ----------
    python : list of str
        Arguments of the interpreter.
    functions : list of str
        Names of the kernels it launches, in order; its launches of others are not looked at.
    metrics : dict of str to str
        Our names and Nsight Compute's.

    Returns
    -------
    list of dict of str to int or float
        For each launch, the metrics by our names.

    Raises
    ------
    DeviceError
        There is no ncu, it failed, or it saw other launches.
    """
    if not shutil.which("ncu"):
        raise DeviceError("ncu, Nsight Compute's command line, is not on the PATH")
    command = [
        "ncu",
        "--csv",
        "--page",
        "raw",
        "--clock-control",
        "none",
        "--metrics",
        ",".join(metrics.values()),
        "--kernel-name",
        f"regex:^({'|'.join(sorted(set(functions)))})$",
        sys.executable,
        *python,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    start = done.stdout.find('"ID"')
    if done.returncode or start < 0:
        raise DeviceError(f"ncu failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    rows = list(csv.DictReader(io.StringIO(done.stdout[start:])))[1:]  # the first row holds the units
    seen = [re.search(r"(\w+)(<.*>)?\(", row["Kernel Name"])[1] for row in rows]
    if seen != functions:
        raise DeviceError(f"ncu saw the launches {seen}, not {functions}")
    return [{ours: _number(row[theirs]) for ours, theirs in metrics.items()} for row in rows]


def _number(text: str) -> int | float:
    value = float(text.replace(",", ""))
    return int(value) if value.is_integer() else value


def version() -> str:
    """Version of Nsight Compute's command line."""
    return re.search(r"Version ([\d.]+)", subprocess.check_output(["ncu", "--version"], text=True))[1]


def launch_all() -> None:
    """Launch what `record` counts, in its order."""
    for kernel, M, N, K in _launches():
        kernel(*matrices(M, N, K, types=kernel.types))


def _launches() -> list[tuple[Kernel, int, int, int]]:
    return [(kernel, *shape) for kernel in (*CATALOGUE, *COUNTED) for shape in (*SHAPES, LARGE)]


if __name__ == "__main__":
    if sys.argv[1:] == ["--launch"]:
        launch_all()
    else:
        record(Path(sys.argv[1]))
