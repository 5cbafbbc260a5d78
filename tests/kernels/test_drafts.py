"""The draft of everything at once, on the simulator: each kind of tile and division, and what belongs to any shape."""

import numpy as np
import pytest

import sgemm_tutorial as sg
from kernels.drafts.everything.choice import TILES, best, plans, ranked, share, table, tile
from kernels.drafts.everything.launching import ANY, KERNEL, AnyShape

PLAIN, GENERAL = (1.0, 0.0), (-1.5, 0.75)
SMALL = tile(64, 64, 6, BLOCKS=2)


def divided(of, division, **more):
    return KERNEL.variant(**of._asdict(), **more).divided(*division)


@pytest.mark.parametrize(
    ("of", "division", "shape", "scalars"),
    [
        # Edges of C: several tiles to a block, and a product with copies of A and B.
        (SMALL, (4, 2), (70, 75, 201), GENERAL),
        # Equal shares that begin and end within a tile, and whole tiles after them.
        (SMALL, (0, 3), (70, 136, 328), PLAIN),
        (SMALL, (2, 3), (70, 136, 328), GENERAL),
        # Cᵀ, with shares.
        (tile(32, 64, 8, TURNED=1, BLOCKS=2), (0, 4), (40, 77, 200), GENERAL),
        # The blocks of a cluster split K; so do clusters.
        (tile(64, 64, 8, DEEP=2), (0, 8), (65, 80, 520), GENERAL),
        # Warpgroups take turns, several tiles each, K deeper than the stages.
        (tile(64, 192, 6, 2, 1, TURNS=1), (3, 1), (140, 400, 456), GENERAL),
        # Clusters that share A.
        (tile(192, 96, 4, 1, 2), (2, 1), (200, 200, 136), GENERAL),
    ],
)
def test_tiles_and_divisions(of, division, shape, scalars):
    result = sg.check(AnyShape(divided(of, division)), *shape, *scalars, on_gpu=False)
    assert result.passed, result


@pytest.mark.parametrize(
    "shape", [(1, 75, 201), (1, 264, 200), (75, 1, 201), (75, 1, 200), (3, 5, 0), (0, 5, 3)], ids=str
)
@pytest.mark.parametrize("shift", [0, 1])
def test_vectors_and_nothing(shape, shift):
    result = sg.check(ANY, *shape, *GENERAL, shift=shift, on_gpu=False)
    assert result.passed, result


@pytest.mark.parametrize("shift", [(1, 0, 0), (0, 1, 0), (0, 0, 1)], ids=str)
def test_a_matrix_off_its_boundary(shift):
    result = sg.check(AnyShape(divided(SMALL, (1, 1))), 33, 40, 72, *GENERAL, shift=shift, on_gpu=False)
    assert result.passed, result


@pytest.mark.parametrize(
    ("of", "division", "shape", "scalars"),
    [
        (SMALL, (0, 3), (70, 136, 328), PLAIN),  # rows of C in fours
        (SMALL, (4, 2), (70, 75, 200), GENERAL),  # and anywhere
        (tile(32, 64, 8, TURNED=1, BLOCKS=2), (0, 4), (40, 77, 200), GENERAL),
        (tile(64, 64, 8, DEEP=4), (4, 4), (70, 80, 520), GENERAL),
    ],
)
def test_a_c_of_16_bits(of, division, shape, scalars):
    """The sum of `check`'s kernels is FP32, so the bound is FP32's, and one rounding to FP16."""
    product, (M, N, K), (alpha, beta) = AnyShape(divided(of, division, NARROW=1)), shape, scalars
    random = np.random.default_rng(0)
    A, B, C = (random.standard_normal(size).astype(np.float16) for size in ((M, K), (K, N), (M, N)))
    wide = [matrix.astype(np.float64) for matrix in (A, B, C)]
    exact = alpha * wide[0] @ wide[1] + beta * wide[2]
    size = abs(alpha) * abs(wide[0]) @ abs(wide[1]) + beta * abs(wide[2])
    got = product(A, B, C if beta else None, alpha, beta)
    assert got.dtype == np.float16
    assert np.all(abs(got - exact) <= (K + 2) * 2.0**-23 * size + 2.0**-11 * abs(exact) + 2.0**-25)


def test_bf16():
    product = AnyShape(divided(SMALL, (1, 1), T="__nv_bfloat16"))
    assert sg.check(product, 60, 61, 130, *GENERAL, on_gpu=False)


def test_a_kernel_of_the_package_chooses():
    """The model's tile where the copy engine can fetch A and B; 16 where it can't."""
    for shape, name in (((72, 80, 200), "everything"), ((72, 75, 201), "16_mma"), ((80, 1, 200), "vector")):
        assert KERNEL.resolve(sg.imagined(*shape, KERNEL.types)).kernel.name == name
    assert sg.check(KERNEL, 72, 80, 200, *GENERAL, on_gpu=False)
    for kernel in (KERNEL, ANY):
        assert sg.check(kernel, 5, 1, 0, np.nan, 2.0, on_gpu=False)


def test_every_division_adds_up():
    assert len(table()) > 100
    for shape in [*table(), (333, 776, 2000), (264, 30000, 40)]:
        assert best(shape, 132) == table().get(shape, [ranked(shape, 132)[0][1:]])[0]
        for of in TILES:
            for plan in plans(of, shape, 132):
                assert share(of, shape, plan.whole, plan.clusters) == plan.per
    with pytest.raises(sg.ArgumentError, match="K"):
        divided(tile(64, 64, 8, DEEP=2), (1, 2)).resolve(sg.imagined(128, 128, 256, KERNEL.types))
