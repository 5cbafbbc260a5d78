"""22's way for a small C with a long K, whose blocks meet in clusters: that it is right, and when it is chosen."""

import numpy as np
import pytest

from lab import check
from sgemm_tutorial import operands, simulate
from sgemm_tutorial.families.any_shape import (
    DEEP,
    DEEP_SETTINGS,
    KERNEL,
    deep_cost,
    deep_setting,
    setting,
)
from sgemm_tutorial.families.hopper import resident
from sgemm_tutorial.operands import FP16, IN_16_BITS
from sgemm_tutorial.tuned import Way

from .test_half_kernels import drawn
from .test_thin import GENERAL, H200, TYPES, each_type

pytestmark = pytest.mark.slow


def deep(BM, BN, SPLIT, **more):
    return DEEP.variant(**deep_setting(BM, BN, 3, SPLIT), **more)


# Whether it is right. Around the matrices, and in C where β = 0, there is NaN, and reading it is a fault.


@each_type
@pytest.mark.parametrize("SPLIT", [2, 3])
def test_parts_of_a_sum_meet(T, bits, SPLIT):
    for (BM, BN), (M, N, K), scalars, shift in (
        ((64, 32), (70, 72, 64 * 7), GENERAL, 0),
        ((64, 32), (9, 40, 64 * 6 + 8), (1.0, 0.0), (0, 0, 8)),
        ((64, 64), (150, 71, 777), GENERAL, (1, 1, 3)),
        ((128, 64), (130, 66, 400), (0.0, 2.0), (0, 0, 1)),
        ((64, 32), (64, 32, 40), (1.0, 0.0), 0),  # one step: most blocks have none
    ):
        result = check(deep(BM, BN, SPLIT, T=T, BITS=bits), M, N, K, *scalars, on_gpu=False, shift=shift)
        assert result.passed, result


@pytest.mark.parametrize("of", DEEP_SETTINGS, ids=lambda of: "{BM}x{BN} {SPLIT}".format_map(of))
def test_every_setting_is_right(of):
    SPLIT = of["SPLIT"]
    result = check(DEEP.variant(**of), of["BM"] + 1, of["BN"] + 8, 64 * SPLIT * 2 - 24, *GENERAL, on_gpu=False)
    assert result.passed, result


def test_a_block_takes_more_steps_than_it_has_stages():
    assert check(deep(64, 32, 2), 64, 32, 64 * 14, on_gpu=False).passed


@each_type
def test_infinities_and_nan_in_the_matrices(T, bits):
    for scalars in ((1.0, 0.0), GENERAL, (0.0, 2.0)):
        assert check(deep(64, 32, 2, T=T, BITS=bits), 37, 40, 328, *scalars, on_gpu=False, special=True).passed


@pytest.mark.parametrize("seed", [1, 2])
def test_blocks_and_warps_may_run_in_any_order(seed):
    """Barriers alone order the reads of a cluster's blocks from each other."""
    assert check(deep(64, 32, 2), 70, 40, 64 * 9, *GENERAL, on_gpu=False, races=True, seed=seed).passed


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), GENERAL])
def test_a_c_of_16_bits_is_the_one_of_32_rounded_once(alpha, beta):
    for T, types in TYPES.items():
        A, B, C = drawn(70, 44, 520, 1, IN_16_BITS[types])
        wanted = simulate(deep(64, 32, 2, T=T), A, B, C.astype(np.float32), alpha, beta).C.astype(C.dtype)
        assert simulate(deep(64, 32, 2, T=T, BITS=16), A, B, C, alpha, beta).C.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("steps * rank / SPLIT", "0u"),
        ("steps * (rank + 1) / SPLIT", "steps * (rank + 1) / SPLIT - 1"),
        ("if (turn >= STAGES) empty[stage]", "if (false) empty[stage]"),
        ("(turn / STAGES - 1) % 2", "(turn / STAGES) % 2"),
        ("empty[(turn - 1) % STAGES].arrive()", "empty[turn % STAGES].arrive()"),
        ("__syncthreads();                                       // no warp reads tiles any more", ""),
        ("cluster_barrier();                                     // the sums of all blocks are there", ""),
        ("cluster_barrier();                                     // no block ends while another reads its sums", ""),
        ("load_from(block, &sums[m][n])", "sums[m][n]"),
        ("if (n * 4 >= columns) continue;", ""),
        ("j < 4 && j < columns", "j < 4"),
        ("min(size_t(BM), M - row0) * across", "BM * across"),
        ("i / 2 % 2 * 8", "0"),
        ("if (alpha == 0.0f) K = 0; ", ""),
        ("beta != 0.0f ? fmaf", "true ? fmaf"),
    ],
)
def test_a_bug_in_it_is_found(old, new):
    scalars = (1.0, 0.0) if "beta" in old else (0.0, 1.0) if "alpha" in old else GENERAL
    broken, N = deep(64, 32, 2).edited((old, new)), 45 if old.endswith("< columns") else 44
    results = [check(broken, 70, N, 64 * 17, *scalars, on_gpu=False, races=races) for races in (False, True)]
    assert not all(result.passed for result in results)


# When it is chosen; see `test_once` too.


def test_neither_22_itself_nor_a_variant_hands_over():
    problem = operands.imagined(128, 128, 16384, FP16)
    for kernel in (
        KERNEL.family.itself(KERNEL),
        KERNEL.edited(label="alone"),
        KERNEL.edited(("unsigned step", "unsigned  step")),
    ):
        assert kernel.resolve(problem, H200).kernel.name == KERNEL.name


def test_a_table_names_either_kernel(monkeypatch):
    """A variant of 22 does by the model what a table would leave to the other kernel."""
    of, place = deep_setting(64, 64, 12, 4), H200._replace(name="a GPU")
    ways = {"deep": Way(tuple(of.values()), 0, 1), KERNEL.name: Way(tuple(setting(64, 32, 12).values()), 0, 4)}
    for name, way in ways.items():
        monkeypatch.setattr("sgemm_tutorial.tuned.best", lambda *_, way=way: way)
        launch = KERNEL.edited().resolve(operands.imagined(128, 128, 16384, FP16), place)
        assert launch.kernel.name == name
        alone = KERNEL.edited(label="alone").resolve(operands.imagined(128, 128, 16384, FP16), place)
        assert alone.kernel.name == KERNEL.name


def test_the_model_keeps_to_what_fits():
    """Clusters begin in two rounds at most, and each block has two steps at least."""
    for shape in ((64, 64, 65536), (500, 700, 3000), (1000, 1000, 640), (16, 8192, 1024)):
        fitting = [of for of in DEEP_SETTINGS if deep_cost(of, shape, H200) < float("inf")]
        for of in fitting:
            tiles = -(-shape[0] // of["BM"]) * -(-shape[1] // of["BN"])
            assert -(-shape[2] // 64) >= 2 * of["SPLIT"] and tiles <= 2 * resident(of["SPLIT"], H200)
        assert fitting
    assert {deep_cost(of, (4096, 4096, 64), H200) for of in DEEP_SETTINGS} == {float("inf")}
