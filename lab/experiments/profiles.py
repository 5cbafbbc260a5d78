"""Records Nsight Compute's profile of each kernel at full size: how issue slots are used, and why warps wait.

The metrics are explained in NVIDIA's Nsight Compute documentation, "Profiling Guide".
"""

from collections.abc import Mapping

from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from .. import variants
from ..measure import nsight
from ..measure.driver import Plan
from ..measure.nsight import counted, made

SIZE = 4096
"""M = N = K, the size at which rungs are compared."""

INSTRUCTIONS = {
    "FFMA": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "LDS": "smsp__inst_executed_op_shared_ld.sum",
    "STS": "smsp__inst_executed_op_shared_st.sum",
    "LDG": "smsp__inst_executed_op_global_ld.sum",
    "STG": "smsp__inst_executed_op_global_st.sum",
    "LDGSTS": "smsp__inst_executed_op_ldgsts.sum",
    "DFMA": "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
    "HMMA": "smsp__inst_executed_pipe_tensor_op_hmma.sum",
    "all": "smsp__inst_executed.sum",
}
"""Machine instructions, counted per warp. FFMA and DFMA are counted per thread, as there is no other counter."""

STALLS = {
    "waits for L2 or DRAM": "long_scoreboard",
    "waits for shared memory": "short_scoreboard",
    "queue to shared memory full": "mio_throttle",
    "queue to L1 full": "lg_throttle",
    "barrier": "barrier",
    "FP32 units busy": "math_pipe_throttle",
    "fixed latency": "wait",
    "dispatch": "dispatch_stall",
    "next instruction not there": "no_instruction",
    "another warp was chosen": "not_selected",
    "issued": "selected",
}
"""States of a warp in a cycle, in our words and in Nsight Compute's, which calls them "warp states"."""

MEANINGS = {
    "waits for L2 or DRAM": "its next instruction needs what a load from global or local memory has not brought yet",
    "waits for shared memory": "its next instruction needs what shared memory, or a unit like it, has not brought yet",
    "queue to shared memory full": "its next instruction goes to shared memory, whose queue has no place",
    "queue to L1 full": "its next instruction goes to global memory, and the queue to L1 has no place",
    "barrier": "it has reached a barrier, and other warps of its block have not",
    "FP32 units busy": "its next instruction could start, but the units that execute it take none now",
    "fixed latency": "its next instruction needs the result of arithmetic, which takes a known number of cycles",
    "dispatch": "its next instruction is ready, and is held back: something inside the SM conflicts or is not free",
    "next instruction not there": "its next instruction has not come from the instruction cache yet",
    "another warp was chosen": "its next instruction could start, and the scheduler issued another warp's: no wait",
    "issued": "it issues its instruction",
    "other": "the rest",
}
"""The meaning of each state of `STALLS`, after NVIDIA's "Warp Stall Reasons" in the Profiling Guide."""

BETWEEN = "cycles between a warp's instructions"
BARRIER, DISPATCH, SHARED, L2 = (
    f"state: {state}" for state in ("barrier", "dispatch", "waits for shared memory", "waits for L2 or DRAM")
)
"""The `METRICS` that several chapters compare: the cycles, and a few of the states among them."""

METRICS = (
    INSTRUCTIONS
    | {
        f"state: {ours}": f"smsp__average_warps_issue_stalled_{theirs}_per_issue_active.ratio"
        for ours, theirs in STALLS.items()
    }
    | {
        BETWEEN: "smsp__average_warp_latency_per_inst_issued.ratio",
        "issue slots used, %": "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "FMA pipes used, %": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
        "FP64 pipes used, %": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
        "tensor cores used, %": "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
        "L1 and shared memory used, %": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_active",
        "warps resident, %": "sm__warps_active.avg.pct_of_peak_sustained_active",
        "L2 sectors": "lts__t_sectors.sum",
        "L2 hits, %": "lts__t_sector_hit_rate.pct",
        "DRAM bytes": "dram__bytes.sum",
        "nanoseconds": "gpu__time_duration.sum",
        "SM cycles": "sm__cycles_elapsed.max",
    }
)
"""Our name of each metric and Nsight Compute's."""


def plan() -> Plan:
    """Return the plan of profiles at full size: the catalogue, without 13, which `anatomy` has, and 22; 23's steps."""
    kernels = (*variants.FIXED, *variants.STEPS[1:], *variants.STEPS_TESTED, variants.STEP_IN_FP64)
    return nsight.plan("profiles", [(kernel, (SIZE,) * 3) for kernel in kernels], METRICS)


def variants_plan() -> Plan:
    """Return the plan of profiles of variants: of 04 to 11, with fewer resident blocks too, of 21, 20, your kernel.

    04 to 11 are the rungs whose threads have a tile and which choose nothing. 21's are those of `variants.TENSOR` for
    Hopper alone.
    """
    tiled = [kernel for kernel in variants.VARIANTS if "TM" in kernel.parameters and not kernel.family.chooses]
    on_hopper = [kernel for kernel in variants.TENSOR if kernel.exact]
    kernels = dict.fromkeys((*tiled, *on_hopper, *variants.RESIDENT, *variants.HOPPER_STEPS, *variants.YOUR_KERNEL))
    return nsight.plan("variant_profiles", [(kernel, (SIZE,) * 3) for kernel in kernels], METRICS)


def measured(kernel: Kernel) -> dict[str, int | float]:
    """Return a kernel's recorded profile, by the names of `METRICS`.

    Raises
    ------
    ArgumentError
        It is not in the recording, or only of other code.
    """
    return counted(kernel, (SIZE,) * 3, "profiles")


def states(kernel: Kernel) -> dict[str, float]:
    """Return the share of its time that a warp of a recorded kernel spends in each state; see `shares`."""
    return shares(measured(kernel))


def shares(of: Mapping[str, int | float]) -> dict[str, float]:
    """Return the share of its time that a warp spends in each state of `STALLS`, and in all others as "other".

    Parameters
    ----------
    of : mapping of str to number
        By the names of `METRICS`.
    """
    found = {state: of[f"state: {state}"] / of[BETWEEN] for state in STALLS}
    return found | {"other": 1 - sum(found.values())}


def account(kernel: Kernel) -> Table:
    """Return the cycles in each state from one instruction of a warp to its next, and the meaning of each state."""
    between, shares = measured(kernel)[BETWEEN], states(kernel)
    rows = [
        (state, f"{between * shares[state]:.2f}", f"{shares[state]:.0%}", MEANINGS[state])
        for state in sorted(shares, key=shares.get, reverse=True)
        if shares[state] >= 0.0005
    ]
    return Table(
        ("state", "cycles", "of the time", "what the warp does"),
        rows,
        f"{kernel.label or kernel.name}: {between:.2f} cycles from one instruction of a warp to its next",
        f"{made('profiles')}.",
    )
