"""Lists the kernels in ladder order. This catalogue drives launching, tests, benchmarks, tables and the book."""

import difflib
from functools import partial

from .errors import ArgumentError
from .families import any_shape, autotuned, hopper
from .kernel import Kernel
from .launch import Family
from .operands import FP16
from .own import FILES, kernel_from

LADDER = (
    Kernel("01_naive", "one thread per element of C, neighbouring threads on neighbouring rows", {"BM": 32, "BN": 8}),
    Kernel("02_coalesced", "neighbouring threads on neighbouring columns", {"BM": 8, "BN": 32}),
    Kernel("03_shared_tile", "the block stages tiles of A and B in shared memory", {"BM": 32, "BN": 32, "BK": 128}),
    Kernel(
        "04_thread_tile_1d", "each thread computes a column of TM elements", {"BM": 64, "BN": 64, "BK": 32, "TM": 16}
    ),
    Kernel(
        "05_thread_tile_2d",
        "each thread computes a tile of TM × TN elements",
        {"BM": 128, "BN": 64, "BK": 32, "TM": 8, "TN": 4},
    ),
    Kernel(
        "06_register_fragments",
        "what a thread needs at one k is read into registers first",
        {"BM": 128, "BN": 64, "BK": 32, "TM": 8, "TN": 4},
    ),
    Kernel(
        "07_vectorized",
        "four elements per access, and the tile of A transposed",
        {"BM": 128, "BN": 64, "BK": 16, "TM": 8, "TN": 4, "BLOCKS": 3},
    ),
    Kernel(
        "08_conflict_free",
        "no bank conflicts: tiles and lanes are laid out for the 32 banks of shared memory",
        {"BM": 64, "BN": 128, "BK": 32, "TM": 8, "TN": 8, "BLOCKS": 3},
    ),
    Kernel(
        "09_warp_tile",
        "a tile of C for each warp, whose lanes stand in squares, so that neighbours share reads",
        {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2},
    ),
    Kernel(
        "10_double_buffer",
        "the next tiles are fetched while these are multiplied",
        {"BM": 128, "BN": 256, "BK": 8, "WM": 128, "WN": 32, "TM": 16, "TN": 8, "BLOCKS": 1},
    ),
    Kernel(
        "11_async_pipeline",
        "asynchronous copies, several tiles ahead",
        {"BM": 128, "BN": 256, "BK": 8, "WM": 64, "WN": 64, "TM": 16, "TN": 8, "STAGES": 3, "BLOCKS": 1},
        (8, 0),
    ),
    autotuned.STREAM_K,
    autotuned.KERNEL,
)
"""The climb in FP32 on CUDA cores, past cuBLAS's SGEMM."""


CATALOGUE = (
    *LADDER,
    Kernel(
        "14_wmma",
        "a warp multiplies 16 × 16 × 16 at once, on tensor cores",
        {"T": "half", "BM": 64, "BN": 64, "WM": 16, "WN": 16},
        (7, 0),
        types=FP16,
    ),
    Kernel(
        "15_wmma_warp_tile",
        "a warp has a tile of fragments, a block stages what its warps share",
        {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 64, "STAGES": 3, "BLOCKS": 2},
        (8, 0),
        types=FP16,
        family=Family(partial(hopper.tiles, FP16, 8)),
    ),
    hopper.MMA,
    hopper.TF32X3,
    hopper.WGMMA,
    hopper.PRODUCER_WARP,
    hopper.PERSISTENT,
    hopper.TF32X3_WGMMA,
    any_shape.KERNEL,
    Kernel(
        "23_register_l1",
        "no shared memory: what neighbouring threads share, L1 hands them",
        {
            "T": "float",
            "BM": 16,
            "BN": 512,
            "BK": 32,
            "TM": 16,
            "TN": 4,
            "SHARED": 0,
            "C_LAST": 0,
            "FETCH": 1,
            "READ": 1,
            "UNROLL": 1,
            "EXTRA": 0,
            "BLOCKS": 4,
        },
        family=Family(hopper.tiles_if_shared),
    ),
)
"""Every kernel in the order of the book: the ladder's, then those that take another road or other types."""


def find(name: str | Kernel, **parameters: int | str) -> Kernel:
    """Return the kernel of that name; its number alone ("03", "3") or its name without it will do.

    The path of a file, which ends in ``.cu``, is as good as a name; see `kernel_from`. A kernel instead of a name is
    returned as it is.

    Parameters
    ----------
    name : str or Kernel
    **parameters : int or str
        Template arguments other than its own; see `Kernel.variant`.

    Raises
    ------
    ArgumentError
        There is none; the message suggests the nearest name. Or the file breaks the contract, or the kernel has no
        such parameter.
    """
    if isinstance(name, Kernel):
        return name.variant(**parameters) if parameters else name
    if str(name).endswith(FILES):
        return kernel_from(name, **parameters)
    wanted = str(name).zfill(2)
    for kernel in CATALOGUE:
        if wanted in (kernel.name, kernel.function, kernel.name.partition("_")[0]):
            return find(kernel, **parameters)
    words = {key: kernel.name for kernel in CATALOGUE for key in (kernel.name, kernel.function)}
    near = difflib.get_close_matches(wanted, words, n=1, cutoff=0.4)
    hint = f"; did you mean {words[near[0]]!r}?" if near else ""
    raise ArgumentError("name", repr(name), f"one of {', '.join(kernel.name for kernel in CATALOGUE)}{hint}")
