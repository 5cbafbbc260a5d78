"""Records with Nsight Compute how many wavefronts accesses to shared memory take, for many patterns of addresses.

NVIDIA does not say how many wavefronts accesses of 8 and 16 bytes take; the simulator's rule is checked against this
recording.
"""

from collections.abc import Iterator, Sequence

import cupy
import numpy as np

from ..measure import nsight
from ..measure.driver import Item, Plan
from ..records.files import Recording
from .counters import Pattern

SOURCE = r"""
template <typename T> __global__ void reads(const int* element, float* out)
{
    __shared__ T shared[512];
    for (int i = threadIdx.x; i < 512 * sizeof(T) / 4; i += 32) reinterpret_cast<float*>(shared)[i] = i;
    __syncthreads();
    if (element[threadIdx.x] < 0) return;
    const T value = shared[element[threadIdx.x]];
    for (int i = 0; i < sizeof(T) / 4; ++i) out[threadIdx.x] += reinterpret_cast<const float*>(&value)[i];
}

template <typename T> __global__ void writes(const int* element, float* out)
{
    __shared__ T shared[512];
    T value;
    for (int i = 0; i < sizeof(T) / 4; ++i) reinterpret_cast<float*>(&value)[i] = threadIdx.x;
    if (element[threadIdx.x] >= 0) shared[element[threadIdx.x]] = value;
    __syncthreads();
    out[threadIdx.x] = reinterpret_cast<float*>(shared)[threadIdx.x];
}
"""

TYPES = {4: "float", 8: "float2", 16: "float4"}
FUNCTIONS = {"load": "reads", "store": "writes"}
METRICS = {
    "load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


def patterns() -> list[list[int]]:
    """Return, for each pattern, the element that each of the 32 lanes accesses; -1 for a lane that takes no part."""
    lane = np.arange(32)
    random = np.random.default_rng(5)
    regular = [
        lane,
        0 * lane,
        lane // 2,
        lane // 4,
        lane // 8,
        lane // 16,
        lane % 8,
        lane % 16,
        2 * lane,
        3 * lane,
        4 * lane,
        8 * lane,
        31 - lane,
        lane ^ 1,
        4 * (lane % 8),
        8 * (lane % 4),
        2 * (lane % 16),
        5 * lane % 32,
        8 * (lane // 8),
        8 * (lane // 16),
        8 * (lane % 2),
        16 * (lane % 2) + lane // 2,
        16 * (lane // 16) + lane % 2,
        8 * (lane // 8) + lane % 2,
    ]
    half = lane < 16
    quarter = lane % 16 < 8
    mixed = [
        np.where(where, one, other)
        for where in (half, ~half, quarter, ~quarter)
        for one, other in (
            (lane // 2, lane),
            (lane % 2 + 2 * (lane // 4), lane),
            (lane // 2, lane % 2 + 2 * (lane // 4)),
            (0 * lane, lane),
        )
    ]
    partial = [
        np.where(where, element, -1)
        for where in (half, quarter, lane % 2 == 0, lane != 5, lane < 3)
        for element in (lane, lane // 2, 4 * lane, 0 * lane)
    ]
    drawn = [random.integers(0, high, 32) for high in (2, 4, 8, 16, 32, 64, 128, 256) for _ in range(4)]
    drawn += [random.permutation(32) for _ in range(4)]
    return [pattern.tolist() for pattern in regular + mixed + partial + drawn]


def plan() -> Plan:
    """Return the plan of the recording: loads and stores of all widths, in all patterns."""
    items = [(kind, width, tuple(pattern)) for kind in FUNCTIONS for width in TYPES for pattern in patterns()]
    return Plan("wavefronts", Recording[Pattern], list(dict.fromkeys(items)), measure, made_on=nsight.made_on)


def measure(missing: Sequence[Item]) -> Iterator[Pattern]:
    """Count them all in one run of ncu, and yield those that are missing."""
    items = plan().items
    rows = nsight.count(nsight.program("wavefronts"), [FUNCTIONS[kind] for kind, *_ in items], METRICS)
    for (kind, width, pattern), row in zip(items, rows, strict=True):
        if (kind, width, pattern) in missing:
            yield Pattern(kind, width, list(pattern), row[f"{kind}_wavefronts"], row[f"{kind}_conflicts"])


def launch(items: Sequence[Item]) -> None:
    """Launch one warp for each pattern."""
    names = {(kind, width): f"{FUNCTIONS[kind]}<{TYPES[width]}>" for kind in FUNCTIONS for width in TYPES}
    module = cupy.RawModule(code=SOURCE, options=("-std=c++17",), name_expressions=list(names.values()))
    out = cupy.zeros(32, np.float32)
    for kind, width, pattern in items:
        module.get_function(names[kind, width])((1,), (32,), (cupy.array(pattern, np.int32), out))
    cupy.cuda.Device().synchronize()
