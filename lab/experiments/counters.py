"""Records the hardware's own counters with Nsight Compute, to check the simulator's against them.

Names of metrics: NVIDIA, Nsight Compute documentation, "Metrics Structure".
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from sgemm_tutorial.catalogue import CATALOGUE, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.simulation import Run
from sgemm_tutorial.table import Table

from .. import variants
from ..measure import nsight
from ..measure.driver import Plan
from ..measure.nsight import counted, made
from ..records import files
from ..records.files import Recording

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
"""Counters of asynchronous copies, which the hardware counts apart from stores to shared memory."""

SHAPES = ((256, 256, 256), (256, 256, 257), (131, 67, 70))
"""Problems (M, N, K) that are counted: whole tiles; whole tiles with unaligned rows of A; and ragged everywhere."""

LARGE = (4096, 4096, 4096)
"""The size at which rungs are compared. It is counted too, though it is too large to simulate."""
OTHER_ROWS = (4096, 4096, 4128)
"""A problem whose rows of A, in FP16, are 64 bytes more than a multiple of 128 bytes apart."""


@dataclass(frozen=True)
class Pattern:
    """An access of a warp to shared memory, and the hardware's counts of it.

    Attributes
    ----------
    kind : str
        "load" or "store".
    width : int
        Bytes for each lane.
    elements : list of int
        The element that each lane accesses; -1 for a lane that takes no part.
    wavefronts, conflicts : int
    """

    kind: str
    width: int
    elements: list[int] = field(hash=False)
    wavefronts: int
    conflicts: int
    times = 1
    fault = ""

    @property
    def key(self) -> Hashable:
        """The access."""
        return (self.kind, self.width, tuple(self.elements))


def plan() -> Plan:
    """Return the plan that counts accesses: the catalogue and `variants.COUNTED`, on all of `SHAPES` and on `LARGE`.

    A kernel that chooses its arguments is left out, and one on the copy engine, whose accesses these counters miss.
    """
    fixed = [kernel for kernel in CATALOGUE if not (kernel.family.chooses or kernel.exact)]
    items = [(kernel, size) for kernel in (*fixed, *variants.COUNTED) for size in (*SHAPES, LARGE)]
    return nsight.plan("counters", items, METRICS)


def sectors_plan() -> Plan:
    """Return the plan that counts the same of `variants.TENSOR` and `variants.HOPPER`, at full size.

    16 is counted with rows of A that begin in other banks of L1 too; see `OTHER_ROWS`.
    """
    items = [(kernel, LARGE) for kernel in (*variants.TENSOR, *variants.HOPPER)]
    return nsight.plan("sectors", [*items, (find("mma"), OTHER_ROWS)], METRICS)


def measured(kernel: Kernel, M: int, N: int, K: int) -> dict[str, int | float]:
    """Return the recorded counters of a kernel on a problem, by the names of `METRICS`.

    Raises
    ------
    ArgumentError
        As for `counted`. `SHAPES` and `LARGE` are recorded of each kernel.
    """
    return counted(kernel, (M, N, K), "counters")


def comparison(run: Run) -> Table:
    """Return a simulated run's counters beside the recorded ones of the same kernel and problem; see `measured`."""
    theirs, total, rows, labels = measured(run.kernel, *run.C.shape, run.K), run.total, [], {}
    for name, copies in COPIES.items():  # the simulator counts an asynchronous copy as the store that it also is
        if theirs[copies]:
            labels[name] = f"{name} and {copies}" if theirs[name] else copies
        theirs[name] += theirs[copies]
    for name in METRICS:
        if hasattr(total, name) and (ours := getattr(total, name)) + theirs[name] > 0:
            label = labels.get(name, name).replace("_", " ")
            rows.append((label, ours, theirs[name], ours / theirs[name] if theirs[name] else None))
    return Table(
        ("counter", "simulated", "measured", "ratio"),
        rows,
        f"{run.kernel.name}: simulated and measured",
        f"{made('counters')}. The simulator counts PTX instructions, the hardware machine instructions.",
    )


def patterns() -> list[Pattern]:
    """Return the recorded accesses to shared memory; see `wavefronts`."""
    return files.load("wavefronts", Recording[Pattern]).points
