"""The hardware's own counters, recorded with Nsight Compute, to hold the simulator's against.

Names of metrics: NVIDIA, Nsight Compute documentation, "Metrics Structure".
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import ArgumentError
from ..kernel import Kernel
from ..paths import RESULTS
from ..simulation import Run
from ..table import Table

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
    return json.loads((RESULTS / "counters.json").read_text(encoding="utf-8"))
