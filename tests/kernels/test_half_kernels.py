"""Kernels 14 and 15: FP16 in, FP32 out, simulated. Right for any shape, to the bit as the tensor cores' model has it.

All of them add up blocks of 16 products in the order of k, zeros behind the last, so that there is one right result.
"""

import functools

import numpy as np
import pytest

from lab import resources, sass
from ptxsim.fma import fma32
from ptxsim.tensor import multiply_accumulate
from sgemm_tutorial import SimulationFault, find
from sgemm_tutorial.operands import FP16

from ..accumulation import accumulation_bound
from ..sources import execute, probe

pytestmark = pytest.mark.slow

WMMA = find("14").variant(BM=32, BN=64)
WARP_TILE = find("15").variant(BM=128, BN=128, BK=32, WM=64, WN=32, STAGES=2, BLOCKS=2)
SMALL = WARP_TILE.variant(BM=64, BN=64, BK=32, WM=32, WN=32)
KERNELS = [
    WMMA,
    WARP_TILE,
    *(SMALL.variant(STAGES=stages) for stages in (0, 1, 2, 4)),
    SMALL.variant(BM=32, BN=64, WM=16, WN=64, BK=64, STAGES=3),
]
EACH = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.expression)


def product(kernel, A, B, C, alpha=1.0, beta=0.0, fresh=(), blocks=None):
    """Compute C ← αAB + βC in place on the simulator; return what was counted."""
    (M, K), (_, N) = A.shape, B.shape
    arguments = {
        "M": np.int32(M),
        "N": np.int32(N),
        "K": np.int32(K),
        "alpha": np.float32(alpha),
        "A": A,
        "B": B,
        "beta": np.float32(beta),
        "C": C,
    }
    return execute(kernel, kernel.threads, kernel.grid(M, N), arguments, blocks, fresh=set(fresh)).total


def drawn(M, N, K, shift=0, types=FP16):
    """Return A, B and C, which begin `shift` elements past a multiple of 512 bytes."""
    random = np.random.default_rng(M + N + K)

    def place(rows, cols, dtype):
        memory = np.full(rows * cols + shift, np.nan, dtype)  # the simulator takes its start for aligned
        matrix = memory[shift:].reshape(rows, cols)
        matrix[:] = random.standard_normal((rows, cols))
        return matrix

    return place(M, K, types.operand), place(K, N, types.operand), place(M, N, types.result)


def expected(A, B, C, alpha, beta):
    """Return the one right result, from the tensor cores' model."""
    scaled = np.float32(alpha) * (sums(A, B) if alpha else np.zeros_like(C))
    factor = np.full(C.size, beta, np.float32)
    return fma32(factor, C.ravel(), scaled.ravel()).reshape(C.shape) if beta else scaled


def sums(A, B):
    """Return AB as the tensor cores' model has it: once for the same A and B, as many kernels are to have it."""
    return _sums(A.tobytes(), B.tobytes(), A.shape, B.shape, A.dtype)


@functools.cache
def _sums(bytes_of_A, bytes_of_B, shape_of_A, shape_of_B, dtype):
    """Return what `sums` does, and hold it against float64."""
    A, B = (np.frombuffer(bytes_of_A, dtype).reshape(shape_of_A), np.frombuffer(bytes_of_B, dtype).reshape(shape_of_B))
    (M, K), (_, N) = A.shape, B.shape
    a, b = (
        np.zeros((-(-M // 16) * 16, -(-K // 16) * 16), A.dtype),
        np.zeros((-(-K // 16) * 16, -(-N // 16) * 16), B.dtype),
    )
    a[:M, :K], b[:K, :N] = A, B
    if A.dtype != np.float16:  # the model takes other types as float32
        a, b = a.astype(np.float32), b.astype(np.float32)
    acc = np.zeros((len(a), b.shape[1]), np.float32)
    tiles = [(slice(i, i + 16), slice(j, j + 16)) for i in range(0, len(a), 16) for j in range(0, b.shape[1], 16)]
    for k in range(0, a.shape[1], 16):
        left, right = (
            np.stack([a[rows, k : k + 16] for rows, _ in tiles]),
            np.stack([b[k : k + 16, cols] for _, cols in tiles]),
        )
        sums = multiply_accumulate(left, right, np.stack([acc[tile] for tile in tiles]))
        for tile, part in zip(tiles, sums, strict=True):
            acc[tile] = part
    acc = acc[:M, :N]
    if K:
        exact = A.astype(np.float64) @ B.astype(np.float64)
        assert (np.abs(acc - exact) <= accumulation_bound(A, B)).all()
    return acc


SHAPES = [
    (128, 128, 64),
    (64, 128, 96),
    (136, 72, 40),
    (129, 131, 33),
    (1, 1, 1),
    (17, 200, 7),
    (200, 16, 16),
    (64, 64, 0),
    (70, 65, 130),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@EACH
def test_any_shape(kernel, shape):
    for alpha, beta in ((1.0, 0.0), (-1.5, 0.5)):
        A, B, C = drawn(*shape)
        want = expected(A, B, C, alpha, beta)
        product(kernel, A, B, C, alpha, beta, {"C"} if beta == 0 else ())
        assert np.array_equal(C, want)


@pytest.mark.parametrize("shift", [1, 8, 16])
@EACH
def test_matrices_that_are_not_aligned(kernel, shift):
    for M, N, K in ((128, 128, 64), (70, 65, 130)):
        A, B, C = drawn(M, N, K, shift)
        want = expected(A, B, C, 2.0, -1.0)
        product(kernel, A, B, C, 2.0, -1.0)
        assert np.array_equal(C, want)


@EACH
def test_nothing_is_read_that_does_not_count(kernel):
    """β = 0 does not read C; α = 0 and K = 0 read neither A nor B. What is not written may not be read."""
    A, B, C = drawn(128, 130, 40)
    product(kernel, A, B, C, 0.0, 0.0, {"A", "B", "C"})
    assert (C == 0).all()
    A, B, C = drawn(64, 128, 32)
    want = np.float32(0.5) * C
    counts = product(kernel, A, B, C, 0.0, 0.5, {"A", "B"})
    assert np.array_equal(C, want)
    assert counts.by_class["tensor"] == 0
    A, B, C = drawn(64, 128, 0)
    product(kernel, A, B, C, np.nan, 0.0, {"C"})
    assert (C == 0).all()


def test_infinities_and_overflow():
    """65504 is float16's largest; their products are float32 and do not overflow, but an infinity stays one."""
    A, B, C = drawn(16, 16, 16)
    A[:], B[:] = 65504, 65504
    A[3, 5], A[4, 6], B[6, 7] = np.inf, np.inf, 0
    product(WMMA, A, B, C)
    want = np.full((16, 16), np.float32(16 * 65504.0**2))
    want[3], want[4], want[:, 7] = np.inf, np.inf, np.float32(15 * 65504.0**2)
    want[3, 7], want[4, 7] = np.inf, np.nan
    assert np.allclose(C, want, rtol=2**-22, equal_nan=True)


# Past 2³² elements. The matrices are files with holes: only what the last block touches takes room.


@pytest.mark.parametrize("matrix", ["A", "A, aligned", "B", "B, aligned", "C"])
@pytest.mark.parametrize("kernel", [WMMA, SMALL, SMALL.variant(STAGES=0)], ids=lambda kernel: kernel.expression)
def test_past_two_to_the_32_elements(place, kernel, matrix):
    M, N, K = {
        "A": (2**30, 1, 5),
        "A, aligned": (2**27, 64, 48),
        "B": (1, 2**30, 5),
        "B, aligned": (64, 2**27, 48),
        "C": (2**17 - 8, 2**16, 3),
    }[matrix]
    assert {"A": M * K, "B": K * N, "C": M * N}[matrix[0]] > 2**32
    try:
        A, B, C = (
            np.memmap(place / name, dtype, "w+", shape=shape)
            for name, dtype, shape in (("A", np.float16, (M, K)), ("B", np.float16, (K, N)), ("C", np.float32, (M, N)))
        )
    except OSError as error:
        pytest.skip(f"no files with holes here: {error}")
    rows, cols = slice(max(M - 64, 0), M), slice(max(N - 64, 0), N)
    a, b, c = drawn(rows.stop - rows.start, cols.stop - cols.start, K)
    A[rows], B[:, cols], C[rows, cols] = a, b, c
    product(kernel, A, B, C, 1.0, 1.0, blocks=[kernel.grid(M, N) - 1])
    ours = [
        slice((size - 1) // tile * tile - size, None)
        for size, tile in ((M, kernel.parameters["BM"]), (N, kernel.parameters["BN"]))
    ]
    want = expected(a, b, c, 1.0, 1.0)[tuple(ours)]
    assert np.array_equal(C[rows, cols][tuple(ours)], want)


# Rows that are so far apart that the distance of two of them, in elements or in bytes, takes more than 32 bits: what
# load_matrix_sync and store_matrix_sync are given is an unsigned of 32 bits, and what they make of it has 64.


@pytest.mark.parametrize("kernel", [WMMA, SMALL, SMALL.variant(STAGES=0)], ids=lambda kernel: kernel.expression)
def test_rows_far_apart(place, kernel):
    M, N, K = 64, 2**29, 48
    assert 15 * N > 2**32
    A, _, _ = drawn(M, 64, K)
    try:
        B, C = (
            np.memmap(place / name, dtype, "w+", shape=shape)
            for name, dtype, shape in (("B", np.float16, (K, N)), ("C", np.float32, (M, N)))
        )
    except OSError as error:
        pytest.skip(f"no files with holes here: {error}")
    _, b, c = drawn(M, 64, K)
    B[:, -64:], C[:, -64:] = b, c
    grid = kernel.grid(M, N)
    product(kernel, A, B, C, 1.0, 1.0, blocks=[grid - 1] if kernel.parameters["BM"] == M else [grid // 2 - 1, grid - 1])
    assert np.array_equal(C[:, -64:], expected(A, b, c, 1.0, 1.0))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_distances_between_rows_have_64_bits_in_machine_code(tmp_path, architecture):
    """A kernel that does nothing but load and store fragments has wide multiplications alone.

    The simulator knows what PTX says of an instruction, and this is what ptxas makes of it.
    """
    kernel = probe(
        tmp_path,
        """
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> fragA;
    fragment<matrix_b, 16, 16, 16, half, row_major> fragB;
    fragment<accumulator, 16, 16, 16, float> acc;
    load_matrix_sync(fragA, reinterpret_cast<const half*>(A), K);
    load_matrix_sync(fragB, reinterpret_cast<const half*>(B), N);
    load_matrix_sync(acc, C, N, mem_row_major);
    mma_sync(acc, fragA, fragB, acc);
    store_matrix_sync(C, acc, N, mem_row_major);""",
        before="#include <mma.h>",
    )
    code = sass(kernel, architecture)
    multiplications = [
        i
        for i in code
        if i.opcode.lstrip("U").startswith("IMAD") and not {"MOV", "IADD", "SHL"} & set(i.opcode.split("."))
    ]
    multiplications = [i for i in multiplications if "RZ, RZ, " not in i.text]  # which would be a move
    assert multiplications and all("WIDE" in i.opcode for i in multiplications), [i.text for i in multiplications]
    assert sum(i.opcode.startswith("LDG") for i in code) >= 6 and any(i.opcode.startswith("STG") for i in code)


# What they cost.


@EACH
def test_multiplications_and_bytes(kernel):
    of, (M, N, K) = kernel.parameters, (128, 256, 128)
    counts = product(kernel, *drawn(M, N, K), fresh={"C"})
    assert counts.by_class["tensor"] == M * N * K // 16**3
    staged = of.get("STAGES", 0) > 0
    rows, cols = (of["BM"], of["BN"]) if staged else (of["WM"], of["WN"])
    assert counts.global_load_bytes == 2 * M * N * K * (1 / rows + 1 / cols)
    assert counts.global_store_bytes == 4 * M * N
    assert counts.shared_load_bytes == staged * 2 * M * N * K * (1 / of["WM"] + 1 / of["WN"])
    assert counts.shared_load_conflicts == 0


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    "kernel",
    [WMMA, WARP_TILE.variant(WN=64), WARP_TILE.variant(WN=64, STAGES=0)],
    ids=lambda kernel: kernel.expression,
)
def test_other_tiles_do_not_spill(kernel, architecture):
    """The catalogue's are compiled for every architecture; these for one of each generation that 15 is for."""
    used = resources(kernel, architecture)
    assert (used.stack_bytes, used.spill_store_bytes, used.spill_load_bytes) == (0, 0, 0)
    assert used.shared_bytes <= 48 * 1024


@pytest.mark.parametrize(
    ("kernel", "barrier", "kinds"),
    [
        (WMMA, "__syncwarp();                                          // all lanes have read", {"race"}),
        (WMMA, "__syncwarp();                                          // the tile", {"race"}),
        (WMMA, "__syncwarp();\n        for", {"race"}),
        (SMALL, "__syncthreads();                                   // for all threads", {"race"}),
        (SMALL, "__syncthreads();                          // all threads", {"race"}),
        (SMALL, "__syncwarp();                              // all lanes", {"race"}),
        (SMALL, "__syncwarp();\n                for", {"race"}),
        (
            SMALL.variant(STAGES=1),
            "__syncthreads();                               // all threads",
            {"race", "in flight"},
        ),
    ],
)
def test_no_barrier_is_too_many(kernel, barrier, kinds):
    broken = kernel.edited((barrier, barrier.replace(barrier.partition(";")[0], "")))
    with pytest.raises(SimulationFault) as caught:
        for shape in ((70, 65, 130), (7, 64, 128)):  # all tiles are ragged, or only those of A
            product(broken, *drawn(*shape))
    assert caught.value.kind in kinds
