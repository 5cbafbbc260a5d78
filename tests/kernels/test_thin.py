"""22's way for thin and tiny products, simulated: that it is right at any size, and when it is chosen."""

import re

import numpy as np
import pytest

from lab import check
from lab.skeletons import skeleton
from sgemm_tutorial import find, kernel_from, operands, simulate
from sgemm_tutorial.families.any_shape import AHEAD, DEEP, KERNEL, SHALLOW, TALL, THIN, THIN_SETTINGS, WIDE, thin_cost
from sgemm_tutorial.launch import Place
from sgemm_tutorial.operands import BF16, FP16, IN_16_BITS

from .test_half_kernels import drawn

pytestmark = pytest.mark.slow

H200 = Place("sm_90", 132)
TYPES = {"half": FP16, "__nv_bfloat16": BF16}
each_setting = pytest.mark.parametrize("of", THIN_SETTINGS, ids=lambda of: "{BM}x{BN} {WM} {SLICES}".format_map(of))
each_type = pytest.mark.parametrize(("T", "bits"), [(T, bits) for T in TYPES for bits in (32, 16)], ids=str)
GENERAL = -1.5, 0.75


def loaded(of):
    """Return how many k a block has loads of under way at a time."""
    return 32 // of["WN"] * of["SLICES"] * AHEAD


def taken(shape, kernel=KERNEL, place=H200, types=FP16):
    """Return the kernel that is launched for a shape."""
    return kernel.resolve(operands.imagined(*shape, types), place).kernel


# Whether it is right. Around the matrices, and in C where β = 0, there is NaN, and reading it is a fault.


@each_type
@each_setting
def test_every_setting_is_right_at_awkward_sizes(of, T, bits):
    kernel = THIN.variant(T=T, BITS=bits, **of)
    BM, BN, depth = of["BM"], of["BN"], loaded(of)
    for M, N, K, scalars, shift in (
        (2 * BM + 1, BN + 1, 2 * depth + 3, GENERAL, (1, 1, 1)),
        (BM, 2 * BN, depth, (1.0, 0.0), 0),
        (max(BM - 1, 1), 2 * BN - 1, depth + 1, (1.0, 0.0), (0, 1, 0)),
        (1, BN + 2, max(depth - 1, 1), GENERAL, (1, 0, 3)),
        (BM + 1, 1, 33, (2.0, -1.0), (3, 5, 1)),
        (BM + 1, BN + 1, 1, GENERAL, 0),
        (1, 1, 1, (1.0, 0.0), 1),
        (BM + 1, BN + 1, 9, (0.0, 2.0), 0),
        (BM + 1, BN + 1, 9, (0.0, 0.0), 0),
        (BM + 1, BN + 1, 0, GENERAL, 0),
    ):
        result = check(kernel, M, N, K, *scalars, on_gpu=False, shift=shift)
        assert result.passed, result


@pytest.mark.parametrize("alpha", [np.nan, np.inf])
@pytest.mark.parametrize("beta", [0.0, 2.0])
@each_type
def test_without_a_product_alpha_may_be_anything(T, bits, alpha, beta):
    kernel = KERNEL.variant(T=T, BITS=bits)
    assert taken((5, 3, 0), kernel, types=kernel.types).name == "thin"
    assert check(kernel, 5, 3, 0, alpha, beta, on_gpu=False).passed


@each_type
def test_infinities_and_nan_in_the_matrices(T, bits):
    kernel = THIN.variant(T=T, BITS=bits)
    for scalars in ((1.0, 0.0), GENERAL, (0.0, 2.0)):
        assert check(kernel, 37, 41, 43, *scalars, on_gpu=False, special=True).passed


@each_setting
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), GENERAL])
def test_a_c_of_16_bits_is_the_one_of_32_rounded_once(of, alpha, beta):
    for T, types in TYPES.items():
        A, B, C = drawn(11, 13, 70, 1, IN_16_BITS[types])
        wide, narrow = (THIN.variant(T=T, BITS=bits, **of) for bits in (32, 16))
        wanted = simulate(wide, A, B, C.astype(np.float32), alpha, beta).C.astype(C.dtype)
        assert simulate(narrow, A, B, C, alpha, beta).C.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("min(row + m, size_t(M) - 1)", "(row + m)"),
        ("min(col, unsigned(N) - 1)", "col"),
        ("min(i * stride, last)", "i * stride"),
        ("whole || i * stride <= last", "true"),
        ("depth - k >= round", "true"),
        ("whole ? i * stride", "whole ? i * deep"),
        ("k += round)", "k += stride)"),
        ("fromB += size_t(round) * N;", "fromB += round;"),
        ("fromA[m] += round;", "fromA[m] += stride;"),
        ("if (slice > 0 || lane >= WN || col >= N) return;", "if (slice > 0 || lane >= WN) return;"),
        ("if (row + m >= M) break;", ""),
        ("beta != 0.0f ? fmaf", "true ? fmaf"),
        ("if (alpha == 0.0f) K = 0;", ""),
        ("__syncthreads();", ""),
        ("for (int s = 0; s < SLICES; ++s)", "for (int s = 0; s < 1; ++s)"),
    ],
)
def test_a_bug_in_it_is_found(old, new):
    of = {"BM": 8, "BN": 8, "WM": 2, "WN": 8, "SLICES": 4}
    broken = THIN.variant(**of).edited((old, new))
    scalars = (1.0, 0.0) if "beta" in old else (0.0, 1.0) if "alpha" in old else GENERAL
    assert not check(broken, 13, 11, 2 * loaded(of) + 3, *scalars, on_gpu=False, shift=1).passed


@pytest.mark.parametrize("kernel", [THIN, WIDE, TALL, DEEP, SHALLOW], ids=lambda kernel: kernel.name)
def test_it_waits_for_the_launch_before_it_reads_or_writes_anything(kernel):
    """The simulator begins a grid when the one before has ended; a GPU needs the wait for that."""
    ptx = kernel.build("compute_90").ptx
    code = ptx[ptx.index(".entry") :]
    wait = code.index("griddepcontrol.wait;")
    first = re.search(r"(ld|st)\.global\S*\s+[^;]*\[%|cp\.async\.bulk", code)  # not of a constant of the module
    assert "griddepcontrol.launch_dependents;" in code and wait < first.start()


# When it is chosen.


@each_type
def test_it_takes_thin_and_tiny_products(T, bits):
    kernel = KERNEL.variant(T=T, BITS=bits)
    for shape in ((57, 2, 18), (14, 6, 5), (4097, 1, 4097), (1, 1, 1), (4097, 2, 500)):
        found = taken(shape, kernel, types=kernel.types)
        assert (found.name, found.parameters["T"], found.parameters["BITS"]) == ("thin", T, bits)
        assert found.types == kernel.types
    for shape in ((256, 256, 256), (512, 4096, 1024), (4097, 4097, 4097)):
        found = taken(shape, kernel, types=kernel.types)
        assert (found.name, found.parameters["T"], found.parameters["BITS"]) == ("22_any_shape", T, bits)


def test_it_takes_what_there_is_nothing_to_multiply_of():
    """It takes them from kernels that are settled, edited or `itself` too, as 22 has no step to make."""
    for kernel in (KERNEL, KERNEL.variant(BM=64), KERNEL.edited(("a", "a")), KERNEL.family.itself(KERNEL)):
        for shape in ((0, 5, 3), (5, 0, 3), (5, 3, 0)):
            for T, types in TYPES.items():
                found = taken(shape, kernel.variant(T=T), types=types)
                assert (found.name, found.types) == ("thin", types)


def test_an_edited_or_copied_kernel_does_everything_itself(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(skeleton(KERNEL, ()))
    found = {
        "itself": KERNEL.family.itself(KERNEL),
        "edited": KERNEL.edited(("let_next_begin();", "")),
        "copied": kernel_from(path),
        "settled": KERNEL.variant(BM=64, BN=32, WN=32, THREADS=160, CLUSTER=1),
    }
    for name, kernel in found.items():
        for shape in ((57, 2, 18), (14, 6, 5), (4097, 1, 4097)):
            assert taken(shape, kernel).function == "any_shape", name
    assert check(KERNEL, 14, 6, 5, on_gpu=False).kernel == "22_any_shape"


def test_a_call_runs_it():
    A, B, _ = drawn(14, 6, 5)
    assert KERNEL.resolve(operands.check(A, B, None, 1.0, 0.0, FP16)).kernel.name == "thin"
    assert np.allclose(find("22")(A, B), A.astype(np.float64) @ B.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_each_setting_is_the_quickest_somewhere():
    rng = np.random.default_rng(0)
    shapes = [tuple(int(2**x) for x in rng.uniform(0, 13, 3)) for _ in range(3000)]
    shapes += [(m, n, k) for m in (1, 2, 64, 300, 4096) for n in (1, 2, 3, 64, 4096) for k in (1, 64, 1000, 65536)]
    costs = np.array([[thin_cost(of, shape, 132) for of in THIN_SETTINGS] for shape in shapes])
    assert (costs > 0).all() and set(costs.argmin(axis=1)) == set(range(len(THIN_SETTINGS)))
