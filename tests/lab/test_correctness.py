"""The judge must pass what is right, however it was summed, and fail everything else."""

import dataclasses
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab import check, correctness, suite
from lab.__main__ import main
from lab.correctness import Case, cases, excess, judged
from sgemm_tutorial import CATALOGUE, ArgumentError, DeviceError, Kernel, find, kernel_from
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.operands import FP32
from tools.mutants import instances

from ..together import for_each

pytestmark = pytest.mark.slow

U = 2.0**-24
LARGEST = float(np.finfo(np.float32).max)


class Imitation:
    """Stands for a kernel: the right answer in float32, then `spoil` does something to it."""

    name, parameters = "imitation", {"BM": 8, "BN": 8, "BK": 8}

    def __init__(self, spoil=None):
        self.spoil = spoil

    def __call__(self, A, B, C, alpha, beta):
        with np.errstate(all="ignore"):
            result = np.zeros_like(C)
            if alpha != 0 and A.shape[1]:
                result = np.float32(alpha) * (A @ B)
            if beta != 0:
                result = result + np.float32(beta) * C
        C[:] = result
        if self.spoil:
            self.spoil(A, B, C)


def change(array, value):
    if array.size:
        array.flat[array.size // 2] = value


SPOILERS = {
    "one element wrong": lambda A, B, C: change(C, C.flat[C.size // 2] + 0.01 if C.size else 0),
    "one element not written": lambda A, B, C: change(C, np.nan),
    "one element infinite": lambda A, B, C: change(C, np.inf),
    "A overwritten": lambda A, B, C: change(A, 7),
    "B overwritten": lambda A, B, C: change(B, 7),
    "a row shifted": lambda A, B, C: C.__setitem__(slice(1, None), C[:-1].copy()),
    "written before C": lambda A, B, C: C.base.__setitem__(4096 - 4096 % 128 - 1, 0),
    "written after C": lambda A, B, C: C.base.__setitem__(-1, 0),
}


def test_a_right_result_passes_every_case():
    result = suite(Imitation(), on_gpu=False)
    assert result.passed, result
    assert len(result.results) == len(cases(Imitation())) > 40
    assert 0 < max(r.worst_ratio for r in result.results) < 1


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_a_spoiled_result_fails(spoiler):
    result = suite(Imitation(SPOILERS[spoiler]), on_gpu=False)
    assert not result.passed
    one = check(Imitation(SPOILERS[spoiler]), 37, 41, 43, -1.5, 0.75, on_gpu=False)
    assert not one.passed
    assert one.guards_intact == (spoiler.split()[-1] not in ("overwritten", "C"))


def wrong_blas(name):
    def kernel(A, B, C, alpha, beta):
        alpha, beta = np.float32(alpha), np.float32(beta)
        with np.errstate(all="ignore"):
            product = A @ B
            C[:] = {
                "reads C at beta = 0": alpha * np.nan_to_num(product) + beta * C,
                "reads A at alpha = 0": alpha * product + (beta * C if beta else 0),
                "swaps alpha and beta": beta * product + (alpha * C if alpha else 0),
                "ignores beta": alpha * product,
            }[name]

    kernel.name, kernel.parameters = name, Imitation.parameters
    return kernel


@pytest.mark.parametrize(
    ("name", "alpha", "beta"),
    [
        ("reads C at beta = 0", 1.0, 0.0),
        ("reads A at alpha = 0", 0.0, 2.0),
        ("swaps alpha and beta", -1.5, 0.75),
        ("ignores beta", -1.5, 0.75),
    ],
)
def test_wrong_blas_semantics_fail(name, alpha, beta):
    assert not check(wrong_blas(name), 37, 41, 43, alpha, beta, on_gpu=False).passed
    assert not suite(wrong_blas(name), on_gpu=False).passed


@pytest.mark.parametrize(("factor", "wrong"), [(0.9, 0), (1.1, 1)])
def test_check_counts_what_exceeds_the_bound(factor, wrong):
    def spoil(A, B, C):
        exact, size = (float(a.astype(np.float64) @ b) for a, b in ((A[3], B[:, 5]), (abs(A[3]), abs(B[:, 5]))))
        C[3, 5] = exact + factor * 45 * U / (1 - 45 * U) * size

    result = check(Imitation(spoil), 37, 41, 43, on_gpu=False)
    assert (result.wrong, result.worst_at) == (wrong, (3, 5))
    assert result.worst_ratio == pytest.approx(factor, rel=0.01)


def test_tf32_inputs_fail():
    def tf32(A, B, C, alpha, beta):
        short = [((m.view(np.uint32) + 0x1000) & np.uint32(0xFFFFE000)).view(np.float32) for m in (A, B)]
        C[:] = np.float32(alpha) * (short[0] @ short[1])

    assert not check(tf32, 64, 64, 64, on_gpu=False).passed


@pytest.mark.parametrize(("factor", "right"), [(0.99, True), (1.01, False)])
def test_the_bound_is_highams(factor, right):
    """With |A||B| = K and gamma(K+2) from the formula, an error just below passes, just above does not."""
    K, alpha, beta = 6, 2.0, 3.0
    A, B, C = np.ones((1, K), np.float32), np.ones((K, 1), np.float32), np.full((1, 1), -4, np.float32)
    bound = (K + 2) * U / (1 - (K + 2) * U) * (alpha * K + beta * 4)
    got = np.array([[alpha * K - beta * 4 + factor * bound]])
    assert (excess(got, A, B, C, alpha, beta) <= 1).all() == right


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e-38, 1e18]))
def test_any_order_of_summation_passes(K, seed, scale):
    random = np.random.default_rng(seed)
    A = (random.standard_normal((3, K)) * scale).astype(np.float32)
    B = random.standard_normal((K, 4)).astype(np.float32)
    C = random.standard_normal((3, 4)).astype(np.float32)
    got = np.zeros((3, 4), np.float32)
    for k in random.permutation(K):
        got += A[:, k, None] * B[k]
    got = np.float32(0.3) * got + np.float32(-7) * C
    assert (excess(got, A, B, C, float(np.float32(0.3)), -7.0) <= 1).all()


@pytest.mark.parametrize(
    ("got", "a", "right"),
    [
        (np.inf, np.inf, True),
        (-np.inf, -np.inf, True),
        (np.nan, np.nan, True),
        (np.inf, -np.inf, False),
        (np.nan, np.inf, False),
        (np.inf, np.nan, False),
        (LARGEST, np.inf, False),
        (1.0, np.nan, False),
        (np.nan, 1.0, False),
        (np.inf, 1.0, False),
    ],
)
def test_non_finite_values_match_in_kind(got, a, right):
    A, B, got = (np.array([[x]], np.float32) for x in (a, 1.0, got))
    assert (excess(got, A, B, got, 1.0, 0.0) <= 1).all() == right


def test_overflow_on_the_way_is_excused_but_a_finite_wrong_value_is_not():
    A, B = np.full((1, 2), 3e38, np.float32), np.array([[1], [1]], np.float32)
    for got, right in ((np.inf, True), (np.nan, True), (3e38, False)):
        got = np.array([[got]], np.float32)
        assert (excess(got, A, B, got, 1.0, 0.0) <= 1).all() == right


def test_underflow_is_excused():
    A, B = np.full((1, 3), 1e-23, np.float32), np.full((3, 1), 1e-23, np.float32)
    got = np.zeros((1, 1), np.float32)
    assert (excess(got, A, B, got, 1.0, 0.0) <= 1).all()
    assert not (excess(got + np.float32(1e-40), A, B, got, 1.0, 0.0) <= 1).all()


def test_subnormal_halfs_count_as_tensor_cores_align_them():
    """Cut off where 2⁻¹⁴ times the other factor has its 23rd bit, which an H100 does; beyond that it is wrong."""
    A, B = np.array([[6e-8]], np.float16), np.array([[1.5]], np.float16)
    exact, bound = float(A[0, 0]) * 1.5, 3 * 2.0**-23 * 2.0**-14 * 1.5
    for factor, right in ((0.99, True), (1.01, False)):
        got = np.array([[exact + factor * bound]])
        assert (excess(got, A, B, got, 1.0, 0.0) <= 1).all() == right
    zero = np.zeros((1, 1), np.float16)
    assert not (excess(np.array([[1e-12]]), zero, B, zero, 1.0, 0.0) <= 1).all()


@pytest.mark.parametrize("kernel", CATALOGUE, ids=lambda kernel: kernel.name)
def test_every_kernel_passes_its_suite(kernel, share_runs):
    result = suite(kernel, on_gpu=False)
    assert result.passed, result.failures()


A_ROW_SHORT, EIGHT_TOO_FAR = ("rows >= BM", "rows >= BM - 1"), ("colA < depth", "colA <= depth")


@pytest.mark.parametrize(
    ("rung", "change", "by"),
    [
        *((rung, A_ROW_SHORT, (-1, 0, 0)) for rung in ("07", "08", "09", "10", "11", "23", "15")),
        ("07", ("cols >= BN", "cols >= BN - 4"), (0, -4, 0)),
        ("07", ("depth >= BK", "depth >= BK - 4"), (0, 0, -4)),
        ("14", ("rows >= 16", "rows >= 15"), (-1, 0, 0)),
        ("15", EIGHT_TOO_FAR, (0, 0, -8)),
        ("15", ("colB < cols", "colB <= cols"), (0, -8, 0)),
    ],
)
def test_what_only_an_aligned_matrix_shows_is_found(rung, change, by):
    """A kernel that takes wide accesses one row, or eight elements, too far does so only where the rest is aligned."""
    kernel = instances(find(rung))[-1 if rung == "23" else 0]
    broken = kernel.edited(change)
    tile = {"BK": 16} | kernel.parameters  # 14 has none
    sizes = {size: tile[name] + more for size, name, more in zip("MNK", ("BM", "BN", "BK"), by, strict=True)}
    case = next(case for case in cases(broken, on_gpu=False) if case.items() >= sizes.items() and "shift" not in case)
    assert not check(broken, on_gpu=False, **case).passed
    assert check(broken, on_gpu=False, **case, shift=1).passed


@pytest.mark.parametrize(
    ("before", "after", "shift"),
    [
        ("aligned(A, K)", "true", (2, 0, 0)),
        ("aligned(B, N)", "true", (0, 2, 0)),
        ("aligned(C, N)", "true", (0, 0, 2)),
    ],
)
def test_each_matrix_alone_is_shifted(before, after, shift):
    kernel = instances(find("07"))[0].edited((f" && {before}", ""))
    assert check(kernel, 64, 64, 8, on_gpu=False).passed
    assert "misaligned" in check(kernel, 64, 64, 8, -1.5, 0.75, on_gpu=False, shift=shift).verdict
    assert {"shift": shift}.items() <= next(case for case in cases(kernel) if case.get("shift") == shift).items()


@pytest.mark.parametrize("narrow", ["unsigned", "int"])
def test_32_bit_offsets_are_found_in_the_last_tile(narrow):
    kernel = find("03").edited(("size_t", narrow))
    far = [case for case in cases(kernel, on_gpu=False) if case.get("last_tile")]
    assert all(max(case["M"] * case["K"], case["K"] * case["N"]) > 2**32 for case in far)
    assert all(case["M"] * case["N"] > 2**32 for case in far)
    assert [check(find("03"), on_gpu=False, **case).passed for case in far] == [True] * len(far)
    assert [check(kernel, on_gpu=False, **case).passed for case in far] == [False] * len(far)


def test_in_the_last_tile_an_element_is_named_by_its_place_in_c():
    kernel = find("03").edited(("alpha * acc", "2 * alpha * acc"))
    case = next(case for case in cases(kernel, on_gpu=False) if case.get("last_tile"))
    result = check(kernel, on_gpu=False, **case)
    row, column = result.worst_at
    assert 0 <= case["M"] - 1 - row < 32 and 0 <= case["N"] - 1 - column < 32
    assert result.example.startswith(f"C[{row}, {column}] is ")


@pytest.mark.parametrize(("alpha", "beta", "array"), [(0.0, 1.0, "A"), (1.0, 0.0, "C")])
def test_a_read_is_found_whatever_becomes_of_it(alpha, beta, array):
    """The value may be compared with something, or multiplied with 0: BLAS does not even read it."""
    harmless = find("02").edited(
        ("if (alpha == 0.0f) K = 0;", f"if ({array}[0] > 1e30f) K = 0; if (alpha == 0.0f) K = 0;")
    )
    assert check(harmless, 9, 9, 9, 1.0, 1.0, on_gpu=False).passed
    result = check(harmless, 9, 9, 9, alpha, beta, on_gpu=False)
    assert f"uninitialised: 02_coalesced, line 17, block 0, thread 0: reads {array} at byte 0" in result.verdict


def test_without_k_alpha_may_be_anything():
    for alpha, beta in ((float("nan"), 2.0), (float("inf"), 0.0)):
        assert check("02", 5, 3, 0, alpha, beta, on_gpu=False).passed
        assert not check(Imitation(lambda A, B, C: change(C, 9)), 5, 3, 0, alpha, beta, on_gpu=False).passed


def test_cases_follow_the_tile():
    plain = cases(find("11"), on_gpu=False)
    assert [case["seed"] for case in plain] == list(range(len(plain)))
    depths = {case["K"] for case in plain if (case["M"], case["N"]) == (128, 256)}
    assert {4, 7, 8, 9, 10, 12, 16, 24} <= depths, "BK = 8, three stages, fours"
    assert sorted({case["K"] for case in plain})[-2:] == [7 * 8, correctness.LONG]
    assert {case["N"] for case in plain if (case["M"], case["K"]) == (128, 8)} >= {252, 255, 256, 257, 258, 260}
    shifts = {case["shift"] for case in plain if "shift" in case}
    assert {(by, 0, 0) for by in (1, 2, 4)} | {(0, by, 0) for by in (1, 2, 4)} | {
        (0, 0, by) for by in (1, 2, 4)
    } < shifts
    assert {(8, 0, 0), (4, 0, 0), (1, 0, 0)} < {case.get("shift") for case in cases("15", on_gpu=False)}
    assert not any("last_tile" in case for case in cases(Imitation()))


def test_a_kernels_name_is_enough():
    assert check("02", 3, 4, 5, on_gpu=False) == check(find("02"), 3, 4, 5, on_gpu=False)
    assert suite("01", on_gpu=False).passed
    assert cases("3") == cases(find("03"))


def test_a_kernel_that_has_a_choice_has_cases_of_its_own():
    """Small tiles in the divisions of large problems: one that has only these, or gives them up, is another."""
    own = [case for case in cases("13", on_gpu=False) if "division" in case]
    assert {case["setting"][autotuned.PARAMETERS.index("STAGES")] for case in own} >= {0, 3, 4}
    assert not any("division" in case for case in cases(find("13").variant(BM=64), on_gpu=False) + cases("11"))
    result = check("13", on_gpu=False, **own[0])
    assert result.passed and "2 blocks with a tile each and 5 that share; template arguments 16, 32, 8" in str(result)
    never = find("13").edited(("if (!isLast) return false;", ""))
    assert [check(never, on_gpu=False, **case).passed for case in (own[0], {"M": 70, "N": 70, "K": 70})] == [
        False,
        True,
    ]


def test_what_is_counted():
    result, counts = judged("02", Case(8, 32, 4), on_gpu=False)
    assert (result.passed, counts.global_load_bytes) == (True, 2 * 4 * 8 * 32 * 4)
    assert judged(Imitation(), Case(8, 32, 4), on_gpu=False)[1].instructions == 0


BROKEN = {
    "barrier gone": ("03_shared_tile", "__syncthreads();                                   // the tiles", "// the"),
    "index shifted": ("02_coalesced", "A[row * K + k]", "A[row * K + (k ? k - 1 : k)]"),
    "guard gone": ("01_naive", "if (row >= M || col >= N) return;", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_fails_with_a_reason(name, tmp_path):
    stem, old, new = BROKEN[name]
    kernel = dataclasses.replace(find(stem), folder=tmp_path)
    shutil.copy(find(stem).path, kernel.path)
    assert kernel.source.count(old) == 1
    kernel.path.write_text(kernel.source.replace(old, new), encoding="utf-8")
    result = suite(kernel, on_gpu=False)
    assert not result.passed
    failed = next(r for r in result.results if not r.passed)
    assert failed.wrong or failed.fault
    assert (failed.fault or "wrong values") in str(result)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: check("01", -1, 2, 3), "M: got -1, needs 0 or more"),
        (lambda: check("01", 1, 2.0, 3), "N: got float 2.0, needs a whole number, 0 or more"),
        (lambda: check("01", 1, 1, 2**24 - 2), "K: got 16777214, needs less than 16777214"),
        (lambda: check("01", 1, 1, 1, seed=-1), "seed: got -1, needs 0 or more"),
        (lambda: check("01", 1, 1, 1, seed="a"), "seed: got str 'a', needs a whole number"),
        (lambda: check("01", 1, 1, 1, "a"), "alpha: got str 'a', needs a real number"),
        (
            lambda: check("01", 1, 1, 1, setting=(8, 8)),
            r"setting: got \(8, 8\), needs all template arguments of a kernel that chooses",
        ),
        (
            lambda: check("13", 1, 1, 1, setting=(8, 8)),
            r"setting: got \(8, 8\), needs all template arguments of a kernel that chooses",
        ),
        (
            lambda: check("02", 1, 1, 1, division=(1, 0)),
            r"division: got \(1, 0\), needs two numbers, for a kernel whose work is divided",
        ),
        (
            lambda: check("13", 9, 9, 9, division=(2, 0)),
            "division: got 2 and 0, needs some of 1 tiles, and for the rest",
        ),
        (lambda: check("01", 1, 1, 1, shift=-1), "shift: got -1, needs 0 or more"),
        (
            lambda: check("01", 1, 1, 1, shift=(1, 2)),
            r"shift: got \(1, 2\), needs a number, or one each for A, B and C",
        ),
        (lambda: check("nonsense", 1, 1, 1), "name: got 'nonsense', needs one of"),
        (lambda: check(3, 1, 1, 1), "kernel: got 3, needs a Kernel, its name, or a function"),
        (lambda: suite(None), "kernel: got None, needs"),
        (lambda: check("01", 1, 1, 1, last_tile=True, shift=1), "last_tile: got True, needs a Kernel on the simulator"),
        (lambda: check("01", 1, 1, 1, on_gpu=True, last_tile=True), "last_tile: got True, needs a Kernel on the sim"),
    ],
)
def test_bad_arguments(call, text):
    with pytest.raises(ArgumentError, match=f"^{text}"):
        call()


def test_what_this_machine_lacks(monkeypatch):
    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(np, "memmap", full)
    with pytest.raises(
        DeviceError, match=r"last_tile needs files with holes, and .* takes none so large: no space left"
    ):
        check("01", 1, 1, 1, on_gpu=False, last_tile=True)


# Verdicts that passed what was wrong.


def own(tmp_path, body, name="00_own", **parameters):
    """Return a kernel with one thread for each element of C: `row` and `col` are its place, `acc` its sum."""
    (tmp_path / f"{name}.cu").write_text(f"""template <int BM, int BN>
__global__ void own(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{{
    size_t tilesN = (size_t(N) + BN - 1) / BN;
    size_t row = blockIdx.x / tilesN * BM + threadIdx.x / BN, col = blockIdx.x % tilesN * BN + threadIdx.x % BN;
    float acc = 0.0f;
{body}
}}
""")
    return Kernel(name, "", {"BM": 8, "BN": 32} | parameters, folder=tmp_path, entry="own")


SUM = "for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[size_t(k) * N + col];"
END = """
    float result = alpha != 0.0f && K > 0 ? alpha * acc : 0.0f;
    if (beta != 0.0f) result += beta * C[row * N + col];
    C[row * N + col] = result;
"""
RIGHT = f"    if (row >= M || col >= N) return;\n    if (alpha != 0.0f) {SUM}{END}"


def test_a_verdict_is_true_if_the_kernel_passed(tmp_path):
    sound, broken = own(tmp_path, RIGHT), own(tmp_path, RIGHT.replace("acc += ", "acc -= "), "01_broken")
    assert check(sound, 8, 8, 8, on_gpu=False) and not check(broken, 8, 8, 8, on_gpu=False)
    assert suite(sound, on_gpu=False) and not suite(broken, on_gpu=False)


@pytest.mark.parametrize(
    "other", ["row + 1 < M ? (row + 1) * N + col : 0", "row * N + (col ^ 1) % N"], ids=["row", "lane"]
)
def test_a_thread_that_writes_what_another_one_writes_too_is_found(tmp_path, other):
    """Each proper value happens to come last. The other one is another warp's, or another lane's of the same warp."""
    racing = own(tmp_path, RIGHT.replace("    C[row", f"    C[{other}] = 7.0f;\n    C[row"))
    assert check(racing, 9, 31, 9, on_gpu=False)
    found = check(racing, 9, 31, 9, on_gpu=False, races=True)
    assert "race" in found.verdict and "unordered" in found.verdict and "global races" in str(found)
    results = suite(racing, on_gpu=False)
    assert all(not result for result in results.results if result.races)
    assert f"looked for in 2 of {len(results.results)} cases" in str(results)


def test_a_note_is_no_failure_and_is_shown_once(tmp_path, capsys):
    flagged = "    __shared__ int used;\n    used = VALUE; __syncthreads();\n    if (used < 0) return;\n" + RIGHT
    noted = own(tmp_path, flagged.replace("VALUE", "M"))
    results = suite(noted, on_gpu=False)
    assert results and str(results).count("the same value: no fault") == 1
    assert main(["check", str(noted.path), "--simulate", "--set", "BM=8", "--set", "BN=32"]) == 0
    assert capsys.readouterr().out.count("the same value: no fault") == 1
    racing = own(tmp_path, flagged.replace("VALUE", "M + threadIdx.x"), "01_racing")
    assert "race" in check(racing, 9, 31, 9, on_gpu=False).verdict


@for_each(kernel=CATALOGUE)
def test_races_are_looked_for_in_each_suite(kernel):
    """Two small cases look for them: tiles side by side, where C is read, and one above the other."""
    watched = [case for case in cases(kernel, on_gpu=False) if case.get("races")]
    assert [(case["alpha"], case["beta"]) for case in watched] == [(-1.5, 0.75), (1.0, 0.0)]
    BM, BN = kernel.family.tile(kernel.parameters)
    beside, above = watched
    assert beside["M"] <= BM and BN < beside["N"] <= 2 * BN
    assert BM < above["M"] <= 2 * BM and above["N"] <= BN


def test_races_in_the_last_tile_alone_are_not_looked_for():
    with pytest.raises(ArgumentError, match="no shift, special values or races"):
        check("02", 64, 64, 64, last_tile=True, races=True, on_gpu=False)


def test_a_check_without_a_simulator_says_nothing_of_races():
    assert not check(Imitation(), 8, 8, 8, races=True, on_gpu=False).races


@pytest.mark.parametrize("sizes", [(1, 64), (64, 1), (1, 1), (8, 48)], ids=str)
def test_the_suite_suits_a_tile_of_one_row_or_column(tmp_path, sizes):
    BM, BN = sizes
    result = suite(own(tmp_path, RIGHT, BM=BM, BN=BN), on_gpu=False)
    assert result.passed and len(result.results) > 50, result.failures()


@pytest.mark.parametrize(
    "limit", ["k < 100 && k < K", "k < 2048 && k < K", "row < 1024 && k < K", "col < 1024 && k < K"]
)
def test_a_sum_that_stops_early_is_found_though_there_is_no_BK(tmp_path, limit):
    assert not suite(own(tmp_path, RIGHT.replace("k < K", limit)), on_gpu=False)


def test_what_was_never_written_is_wrong(tmp_path):
    """Even where the right result is as good as any other: C holds NaNs that no arithmetic makes."""
    nothing = own(tmp_path, "    if (K > 100000) C[0] = acc;")
    for scalars in ((1.0, 0.0), (0.0, 0.0)):
        result = check(nothing, 8, 32, 4, *scalars, on_gpu=False)
        assert (result.passed, result.wrong) == (False, 8 * 32)
    assert not check(nothing, 5, 3, 0, np.nan, 0.0, on_gpu=False)


@pytest.mark.parametrize(
    ("scalars", "text"),
    [
        ((np.nan, 0.0), "alpha: got nan, needs a finite number"),
        ((np.inf, 0.0), "alpha: got inf, needs a finite number"),
        ((1e39, 0.0), r"alpha: got 1e\+39, which is inf in float32, needs a finite number"),
        ((1.0, np.nan), "beta: got nan, needs a finite number"),
        ((1.0, -1e39), r"beta: got -1e\+39, which is -inf in float32, needs a finite number"),
    ],
)
def test_scalars_that_would_excuse_any_result_are_refused(scalars, text):
    with pytest.raises(ArgumentError, match=text):
        check("01", 8, 8, 8, *scalars, on_gpu=False)


def test_the_simulated_suite_depends_on_nothing_of_the_machine(monkeypatch):
    listed = cases("02", on_gpu=False)
    monkeypatch.setattr(correctness.gpu, "available", lambda: True)
    assert cases("02", on_gpu=False) == listed
    assert len(cases("02")) == len(listed) - 4, "on a GPU, but for the last tiles of matrices that are files with holes"


def test_a_comment_does_not_loosen_the_bound(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text("// unlike mma.sync with .tf32.tf32. operands\n" + find("02").source)
    assert kernel_from(path, BM=8, BN=32).types == FP32
