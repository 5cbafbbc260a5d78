"""Values of a kernel's template parameters, in every combination: who is ruled out and why, who is quickest."""

import types

import pytest

from lab import check
from lab.guessing import kernel_from
from lab.measure import bench as bench_module
from lab.measure import driver, sweep
from lab.records import timings
from sgemm_tutorial import ArgumentError, DeviceError, find, gpu
from sgemm_tutorial.timing import Timing

from ...test_own import MINE
from ..records.test_timings import PROVENANCE

SIZES = ((256,) * 3, (5, 6, 7))


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(driver, "EVERY", 0.0)
    monkeypatch.setattr(sweep, "compile_kernels", lambda *_: None)  # but where they are used, in this process
    monkeypatch.setattr(gpu, "available", lambda: False)


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "my_kernel.cu"
    path.write_text(MINE)
    return str(path)


def test_every_combination_takes_part(mine):
    found = sweep.field(mine, {"BM": [8, 16], "BN": [8, 32], "TM": [2]}, "sm_90", False)
    assert list(found.kernels) == [(8, 8, 2), (8, 32, 2), (16, 8, 2), (16, 32, 2)] and not found.obstacles
    assert found.kernels[16, 32, 2].expression == "two_rows<16, 32, 2>"
    shown = sweep.able(found, "sm_90")
    assert [row[:4] for row in shown.rows][-1] == (16, 32, 2, 256) and "sm_90" in shown.title


def test_of_the_books_rungs_too():
    found = sweep.field("02", {"BM": [4, 0]}, "sm_90", False)
    assert found.kernels == {(4,): find("02").variant(BM=4)}
    assert found.obstacles == {(0,): "BM: got 0, needs a whole number, 1 or more"}


def test_what_cannot_do_is_ruled_out_and_the_reason_said(mine):
    more = """{
    static_assert(BN < 64, "too wide");
    __shared__ float s[BM * 1024];
    s[threadIdx.x] = alpha;
    __syncthreads();
    if (s[0] != alpha) return;
"""
    text = MINE.replace("{\n", more, 1)
    text = text.replace("float acc = 0.0f;", "float acc = TM == 4 ? 1.0f : 0.0f;")
    with open(mine, "w") as file:
        file.write(text)
    found = sweep.field(mine, {"BM": [8, 16, 4096], "BN": [8, 64], "TM": [2, 4]}, "sm_90", False)
    assert list(found.kernels) == [(8, 8, 2)]
    assert found.obstacles[8, 64, 2] == 'does not compile: static assertion failed with "too wide"'
    assert (
        found.obstacles[16, 8, 2].startswith("does not compile") and "too much shared data" in found.obstacles[16, 8, 2]
    )
    assert found.obstacles[4096, 8, 2].startswith("16,384 threads per block")
    assert found.obstacles[8, 8, 4] == "wrong values at M×N×K = 7×17×17"
    assert "11 of 12. Settings are BM, BN, TM." in str(found.table())


def test_what_reads_outside_is_ruled_out(mine):
    with open(mine, "w") as file:
        file.write(MINE.replace("if (row + m >= M || col >= N) return;", "if (col >= N) return;"))
    found = sweep.field(mine, {"BM": [8]}, "sm_90", False)
    assert not found.kernels and found.obstacles[8,].startswith("out of bounds: my_kernel, line 13")


def test_what_the_simulator_does_not_know_is_no_fault_of_the_kernel(mine):
    with open(mine, "w") as file:
        file.write(MINE.replace("float acc = 0.0f;", 'float acc = 0.0f; asm volatile("nanosleep.u32 1;");'))
    assert list(sweep.field(mine, {"BM": [8]}, "sm_90", False).kernels) == [(8,)]


def test_a_parameter_that_is_none_is_an_error(mine):
    with pytest.raises(ArgumentError, match=r"WM: got a parameter unknown to my_kernel\.cu, needs one of BM, BN, TM"):
        sweep.field(mine, {"BM": [8], "WM": [8, 16]}, "sm_90", False)
    with pytest.raises(ArgumentError, match="WM: got a parameter unknown to 02"):
        sweep.field("02", {"WM": [8, 16]}, "sm_90", False)


def test_a_failing_gpu_names_the_setting(mine, monkeypatch):
    def fails(*_, **__):
        raise DeviceError("an illegal address")

    monkeypatch.setattr(sweep, "check", fails)
    with pytest.raises(DeviceError, match=r"^--set BM=8 --set TM=1: an illegal address"):
        sweep.field(mine, {"BM": [8], "TM": [1]}, "sm_90", False)


def test_the_difficult_problem_is_of_the_suite_and_tells():
    kernel = find("11")
    problem = sweep.difficult(kernel)
    assert problem["K"] == (kernel.parameters["STAGES"] + 1) * kernel.parameters["BK"] + 1
    assert check(find("02"), **sweep.difficult(find("02")), on_gpu=False).passed
    late = find("02").edited(("k < K", "k < K - 1"))
    assert not check(late, **sweep.difficult(late), on_gpu=False).passed


class Gpu:
    """Times a kernel without running it: BM, which is told, milliseconds against cuBLAS's 10."""

    def __init__(self, monkeypatch, fault=None, at=None):
        self.taken, self.fault, self.at = [], fault, at
        monkeypatch.setattr(sweep, "on_gpu", self)
        monkeypatch.setattr(bench_module, "provenance", lambda: dict(PROVENANCE))

    def __call__(self, kernels, size, flush_l2, **how):
        assert how == sweep.SAMPLING and not flush_l2
        for kernel in kernels:
            if len(self.taken) == self.at:
                raise self.fault
            self.taken.append((tuple(kernel.parameters.values()), size))
            ms = kernel.parameters["BM"] / kernel.parameters["BN"]
            yield kernel, Timing((0.9 * ms, ms, 1.1 * ms), 3), Timing((10.0,) * 3, 8), None


@pytest.fixture
def entered(mine):
    return sweep.field(mine, {"BM": [16, 8], "BN": [8, 32]}, "sm_90", False)


def test_the_quickest_comes_first(entered, monkeypatch, tmp_path):
    fake = Gpu(monkeypatch)
    record = sweep.sweep(entered, SIZES, path=tmp_path / "t.json", progress=False)
    assert len(fake.taken) == 8 and record.complete
    ranking = sweep.ranked(record, entered)
    assert [setting for setting, point in ranking if point.size == SIZES[1]] == [(8, 32), (16, 32), (8, 8), (16, 8)]
    shown = sweep.quickest(ranking, entered.names, record.made)
    assert shown.columns[:4] == ("M×N×K", "BM", "BN", "ms") and len(shown.rows) == 8
    assert shown.rows[0] == ("256×256×256", 8, 32, 0.25, "0.230–0.270", 2 * 256**3 / 0.25e9, "4000.0%")
    monkeypatch.setattr(sweep, "QUICKEST", 1)
    shown = sweep.quickest(ranking, entered.names, record.made)
    assert [row[0] for row in shown.rows] == [
        "256×256×256",
        "5×6×7",
    ] and "The 1 quickest of each size, of 4" in shown.note


def test_nothing_is_lost_and_nothing_is_done_twice(entered, monkeypatch, tmp_path, mine):
    path = tmp_path / "t.json"
    first = Gpu(monkeypatch, KeyboardInterrupt(), at=3)
    assert not sweep.sweep(entered, SIZES, path=path, progress=False).complete
    assert len(timings.load(path).points) == 3
    second = Gpu(monkeypatch)
    more = sweep.field(mine, {"BM": [16, 8, 4], "BN": [8, 32]}, "sm_90", False)
    assert sweep.sweep(more, SIZES, path=path, progress=False).complete
    assert not {*first.taken} & {*second.taken} and len(first.taken + second.taken) == 12


def test_a_lost_gpu_leaves_what_was_measured(entered, monkeypatch, tmp_path):
    Gpu(monkeypatch, DeviceError("it fell off"), at=2)
    with pytest.raises(DeviceError, match=r"it fell off; points measured before: 2, saved in .*t\.json"):
        sweep.sweep(entered, SIZES, path=tmp_path / "t.json", progress=False)


def test_time_that_runs_out_ends_it(entered, monkeypatch, tmp_path):
    fake, now = Gpu(monkeypatch), iter(range(0, 1000, 10))
    monkeypatch.setattr(sweep, "time", types.SimpleNamespace(monotonic=lambda: next(now)))
    record = sweep.sweep(entered, SIZES, 35, tmp_path / "t.json", progress=False)
    assert len(fake.taken) == len(record.points) == 3 and not record.complete


def test_a_setting_is_shown_as_it_is_asked_for():
    assert sweep.choice_of((64, "double"), ("BM", "T")) == "--set BM=64 --set T=double"


def test_defaults_that_follow_from_other_parameters(tmp_path):
    """Those of a kernel with a launch of its own follow from each setting, not from the first."""
    path = tmp_path / "mine.cu"
    path.write_text("""\
__global__ void other(const float* A, const float* B, float* C, int M, int N, int K) {}
// launch: grid = (cdiv(N, SIDE), cdiv(M, SIDE)), block = (SIDE, SIDE)
template <int SIDE = 8, int WIDE = SIDE + 1>
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * (WIDE - 1) + threadIdx.y, col = blockIdx.x * (WIDE - 1) + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
""")
    found = sweep.field(kernel_from(path, "kernel = product", SIDE=8), {"SIDE": [8, 16]}, "sm_90", False)
    assert not found.obstacles and found.kernels[16,].parameters == {"SIDE": 16, "WIDE": 17}
