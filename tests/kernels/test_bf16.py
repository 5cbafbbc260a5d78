"""14, 16 and 20 in BF16, simulated: right for any shape, to the bit as the tensor cores' model has it."""

import numpy as np
import pytest

from lab import sass, suite
from lab.experiments.accuracy import error
from lab.variants import IN_BF16
from sgemm_tutorial import ArgumentError, find, simulate
from sgemm_tutorial.launch import Place
from sgemm_tutorial.operands import BF16, imagined

from .test_half_kernels import SHAPES, drawn
from .test_mma_kernels import either_way

pytestmark = pytest.mark.slow

WMMA, MMA, HOPPER = IN_BF16
SMALL_WMMA, SMALL_MMA = WMMA.variant(BM=32, BN=32), MMA.variant(BM=64, BN=64, WM=32, WN=32, STAGES=3)
SMALL_HOPPER = HOPPER.variant(BM=64, BN=128, WN=128, STAGES=3, THREADS=256, CLUSTER=1)
FETCHED = [shape for shape in SHAPES if shape[1] % 8 == shape[2] % 8 == 0 < shape[2]]
"""Shapes that the copy engine can fetch: 20 leaves others to 16."""


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        *((kernel, shape) for kernel in (SMALL_WMMA, SMALL_MMA) for shape in SHAPES),
        *((SMALL_HOPPER, shape) for shape in FETCHED),
        (HOPPER, (130, 264, 136)),
    ],
    ids=lambda value: getattr(value, "expression", str(value)),
)
def test_any_shape(kernel, shape):
    """Tiles are small; the book's have a recording of each bit that a GPU computes."""
    for alpha, beta in ((1.0, 0.0), (-1.5, 0.5)):
        A, B, C = drawn(*shape, types=BF16)
        one, other = either_way(A, B, C, alpha, beta)
        got = simulate(kernel, A, B, C.copy() if beta else None, alpha, beta).C
        assert ((got == one) | (got == other)).all()


@pytest.mark.parametrize("shift", [1, 8])
@pytest.mark.parametrize("kernel", [SMALL_WMMA, SMALL_MMA, SMALL_HOPPER], ids=lambda kernel: kernel.name)
def test_matrices_that_are_not_aligned(kernel, shift):
    A, B, C = drawn(70, 72, 136, shift, BF16)
    one, other = either_way(A, B, C, 2.0, -1.0)
    got = simulate(kernel, A, B, C.copy(), 2.0, -1.0).C
    assert ((got == one) | (got == other)).all()


def test_the_suite_with_small_tiles():
    for kernel in (SMALL_WMMA, SMALL_MMA):
        result = suite(kernel, on_gpu=False)
        assert result.passed, result.failures()


def test_18_still_chooses_for_itself():
    problem = imagined(3072, 3072, 64, BF16)
    chosen, in_fp16 = (kernel.resolve(problem, Place("sm_90", 132)).kernel for kernel in (HOPPER, find("20")))
    assert chosen.types == BF16 and chosen.parameters == in_fp16.parameters | {"T": "__nv_bfloat16"}
    assert HOPPER.variant(T="half") == find("20")
    A, B, _ = drawn(64, 70, 64, types=BF16)
    assert simulate(HOPPER, A, B).kernel == MMA


def test_where_fp16_overflows_bf16_does_not():
    A, B = (np.full((16, 16), 2.0**20, np.float32) for _ in range(2))
    assert (WMMA(A.astype(BF16.operand), B.astype(BF16.operand)) == 2.0**44).all()
    with np.errstate(over="ignore"):
        assert np.isinf(find("14")(A.astype(np.float16), B.astype(np.float16))).all()


def test_its_error_is_eight_times_that_of_fp16_which_is_the_inputs():
    brain, half = (error(kernel, 64, side=64) for kernel in (WMMA, find("14")))
    assert 6 < brain.total / half.total < 10
    assert brain.total < 2 * 2**-8 and brain.total > 10 * brain.arithmetic


def test_machine_code_differs_in_one_instruction_alone():
    for kernel, multiply in ((SMALL_MMA, "HMMA.16816.F32"), (SMALL_HOPPER, "HGMMA.64x128x16.F32")):
        brain, half = ([x.opcode for x in sass(of, "sm_90")] for of in (kernel, kernel.variant(T="half")))
        assert brain != half and [opcode.replace(f"{multiply}.BF16", multiply) for opcode in brain] == half


def test_it_takes_a_later_gpu():
    assert find("14").build("sm_75")
    with pytest.raises(ArgumentError, match="sm_80 or later for 14_wmma"):
        WMMA.build("sm_75")
