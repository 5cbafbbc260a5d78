"""The kernels on a GPU: right results at any size, and believable times."""

import dataclasses
import os
import re
import subprocess
import sys

import cupy
import numpy as np
import pytest

from lab import RESULTS, check, suite
from lab.correctness import excess
from lab.measure.bench import BenchError, bench
from lab.records import timings
from lab.records.provenance import provenance
from lab.variants import IN_BF16, STEP_IN_FP64, STEPS
from sgemm_tutorial import CATALOGUE, LADDER, TutorialError, cublas, find, gpu, matrices, operands, simulate, timing
from sgemm_tutorial.families import any_shape, hopper

pytestmark = pytest.mark.skipif(not gpu.available(), reason="needs a GPU")
each_kernel = pytest.mark.parametrize("kernel", [*CATALOGUE, *IN_BF16], ids=lambda kernel: kernel.expression)

ROOT = RESULTS.parent.parent
PATTERN_ROWS = 1009  # a prime, so that rows a power of two apart differ
NORMAL = "A[row * K"  # in every kernel's source


def broken(kernel, folder, old, new):
    """Return the kernel with a changed source, in `folder`."""
    assert old in kernel.source
    copy = dataclasses.replace(kernel, folder=folder)
    copy.path.write_text(kernel.source.replace(old, new), encoding="utf-8")
    return copy


# Right results


@each_kernel
def test_the_suite_passes(kernel):
    result = suite(kernel, on_gpu=True)
    assert result.passed, result.failures()


@pytest.mark.parametrize("kernel", [*STEPS[1:], STEP_IN_FP64], ids=lambda kernel: kernel.label)
def test_the_suite_passes_at_each_step_of_13(kernel):
    result = suite(kernel, on_gpu=True)
    assert result.passed, result.failures()


@each_kernel
@pytest.mark.parametrize("size", [(1024, 1024, 1024), (1023, 769, 1537), (4096, 4096, 4096)])
def test_large_sizes(kernel, size):
    result = check(kernel, *size, -1.5, 0.75, on_gpu=True)
    assert result.passed, result


@each_kernel
@pytest.mark.parametrize("tall", [True, False])
def test_more_rows_or_columns_of_tiles_than_65535(kernel, tall):
    """The limit of the grid's second dimension, into which many kernels on the web run."""
    tile = kernel.parameters["BM" if tall else "BN"]
    size = (65_536 * tile + 3, 3, 2) if tall else (3, 65_536 * tile + 3, 2)
    assert check(kernel, *size, 2.0, 1.0, on_gpu=True).passed


def normal(rows, columns, seed, dtype):
    return np.random.default_rng(seed).standard_normal((rows, columns), np.float32).astype(dtype)


def patterned(rows, columns, seed, dtype):
    """Return a matrix on the GPU whose row r is row r % PATTERN_ROWS of the pattern, and the pattern."""
    pattern = normal(PATTERN_ROWS, columns, seed, dtype)
    matrix = cupy.empty((rows, columns), dtype)
    for first in range(0, rows, PATTERN_ROWS):
        part = matrix[first : first + PATTERN_ROWS]
        part.set(pattern[: len(part)])
    return matrix, pattern


@pytest.fixture
def room():
    """Ask for 20 GB on the GPU, and give back what a test took."""
    if cupy.cuda.Device().mem_info[0] < 20e9:
        pytest.skip("needs 20 GB of GPU memory")
    yield
    cupy.get_default_memory_pool().free_all_blocks()


def around(element, columns, rows):
    """Return rows to look at: the first, those around the one that holds the element, and the last."""
    middle = element // columns
    return sorted({0, 1, middle - 1, middle, min(middle + 1, rows - 1), rows - 1})


@each_kernel
def test_offsets_past_2_31_in_a(kernel, room):
    M, N, K = 65_537, 5, 32_771
    assert M * K > 2**31
    A, pattern = patterned(M, K, 1, kernel.types.operand)
    B = normal(K, N, 2, kernel.types.operand)
    got = kernel(A, cupy.asarray(B)).get()
    rows = around(2**31, K, M)
    assert (excess(got[rows], pattern[np.array(rows) % PATTERN_ROWS], B, got[rows], 1.0, 0.0, kernel.types) <= 1).all()


@each_kernel
def test_offsets_past_2_31_in_b(kernel, room):
    M, N, K = 5, 46_351, 46_349
    assert N * K > 2**31
    B, pattern = patterned(K, N, 3, kernel.types.operand)
    A = normal(M, K, 4, kernel.types.operand)
    got = kernel(cupy.asarray(A), B).get()
    columns = np.linspace(0, N - 1, 50).astype(int)
    tall = pattern[:, columns][np.arange(K) % PATTERN_ROWS]
    assert (excess(got[:, columns], A, tall, got[:, columns], 1.0, 0.0, kernel.types) <= 1).all()


@each_kernel
def test_offsets_past_2_31_in_c(kernel, room):
    M, N, K = 46_349, 46_351, 3
    assert M * N > 2**31
    A, B = normal(M, K, 5, kernel.types.operand), normal(K, N, 7, kernel.types.operand)
    C, pattern = patterned(M, N, 6, kernel.types.result)
    kernel(cupy.asarray(A), cupy.asarray(B), C, -1.5, 0.75)
    for row in around(2**31, N, M):
        before = pattern[[row % PATTERN_ROWS]]
        assert (excess(C[row].get()[None], A[[row]], B, before, -1.5, 0.75, kernel.types) <= 1).all(), row


def test_the_guard_bands_catch_a_write_past_the_end(tmp_path):
    kernel = broken(find("02"), tmp_path, "if (row >= M || col >= N) return;", "if (col >= N) return;")
    BM, BN = kernel.parameters["BM"], kernel.parameters["BN"]
    assert check(kernel, 2 * BM, BN, 16, on_gpu=True).passed
    result = check(kernel, 2 * BM + 1, BN, 16, on_gpu=True)
    assert not result.passed and not result.guards_intact


def test_a_wrong_element_is_caught(tmp_path):
    assert NORMAL in find("02").source
    assert not check(broken(find("02"), tmp_path, NORMAL, "A[row * K + (k > 0)"), 64, 64, 64, on_gpu=True).passed


# cuBLAS


@pytest.mark.parametrize("size", [(64, 64, 64), (37, 41, 43), (1, 1, 1), (300, 200, 1), (5, 3, 0), (513, 255, 1023)])
@pytest.mark.parametrize("scalars", [(1.0, 0.0), (-1.5, 0.75)])
@pytest.mark.parametrize("routine", [cublas.sgemm, cublas.dgemm, cublas.gemm_ex, cublas.gemm_ex_bf16])
def test_cublas_follows_the_same_contract(routine, size, scalars):
    assert check(routine, *size, *scalars, on_gpu=True).passed


def test_kernels_are_timed_beside_cublas_of_their_types():
    points = bench([STEPS[-1], STEP_IN_FP64], 1024, progress=False).points
    assert [point.label for point in points] == [STEPS[-1].label, STEP_IN_FP64.label]
    assert all(1 < point.percent_of_cublas < 150 for point in points)


def test_the_check_would_notice_tf32():
    if gpu.capability() < (8, 0):
        pytest.skip("this GPU has no TF32")
    library, handle = cublas._library(), cublas._handle()
    library.setMathMode(handle, 3)
    try:
        assert not check(cublas.sgemm, 256, 256, 256, on_gpu=True).passed
    finally:
        library.setMathMode(handle, library.CUBLAS_DEFAULT_MATH)
    assert check(cublas.sgemm, 256, 256, 256, on_gpu=True).passed


def test_cupys_environment_does_not_bring_tf32_in():
    code = "from lab import check; from sgemm_tutorial import cublas; assert check(cublas.sgemm, 256, 256, 256).passed"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"CUPY_TF32": "1"}, cwd=ROOT, check=True)


# Times


@pytest.fixture
def launches():
    """A function that prepares the kernels named, and cuBLAS, at one square size."""

    def prepare(size, *names):
        A, B, C, D = (cupy.empty((size, size), np.float32) for _ in range(4))
        for operand, seed in ((A, 1), (B, 2)):
            operand.set(np.random.default_rng(seed).standard_normal((size, size), np.float32))
        prepared = {name: find(name).launcher(operands.check(A, B, C, 1.0, 0.0)) for name in names}
        return prepared | {"cuBLAS": cublas.launch(operands.check(A, B, D, 1.0, 0.0))}

    return prepare


def test_at_256_the_time_is_the_gpus_and_not_the_hosts(launches):
    times = timing.time_interleaved(launches(256, "03"))
    assert 0.002 < times["cuBLAS"].percentiles["ms"] < 0.030
    assert 0.002 < times["03"].percentiles["ms"] < 0.060
    assert all(time.batch > 10 for time in times.values())


@pytest.mark.parametrize("size", [256, 1024, 2048])
def test_samples_agree_with_each_other(launches, size):
    for name, time in timing.time_interleaved(launches(size, "03")).items():
        assert time.percentiles["ms_p90"] < 1.25 * time.percentiles["ms_p10"], (name, time)


def test_two_runs_agree(launches):
    pair = launches(1024, "02")
    first, second = (timing.time_interleaved(pair) for _ in range(2))
    for name in pair:
        assert first[name].percentiles["ms"] == pytest.approx(second[name].percentiles["ms"], rel=0.1)


def test_a_long_kernel_takes_as_long_as_plain_events_say(launches):
    launch = launches(2048, "02")["02"]
    median = timing.time_interleaved({"02": launch})["02"].percentiles["ms"]
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    for _ in range(10):
        launch()
    end.record()
    end.synchronize()
    assert median == pytest.approx(cupy.cuda.get_elapsed_time(begin, end) / 10, rel=0.1)


def test_work_that_grows_eightfold_takes_about_eight_times_as_long(launches):
    small, large = (timing.time_interleaved(launches(size, "02"))["02"].percentiles["ms"] for size in (1024, 2048))
    assert 5 < large / small < 12


def test_a_flushed_l2_costs_time(launches):
    pair = launches(512, "02")
    warm, cold = (timing.time_interleaved(pair, flush_l2=flush) for flush in (False, True))
    for name in pair:
        assert warm[name].percentiles["ms"] < cold[name].percentiles["ms"] < warm[name].percentiles["ms"] + 0.1


def test_the_ladder_climbs_and_ratios_are_sane():
    record = bench(LADDER, (2048,), progress=False)
    percent = {point.kernel: point.percent_of_cublas for point in record.points}
    assert 0.1 < percent["01_naive"] < percent["02_coalesced"] < percent["03_shared_tile"] < 60
    references = [point.cublas_ms for point in record.points]
    assert max(references) < 1.15 * min(references)


# Records and failures


def test_provenance_is_complete():
    data = provenance()
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", data["driver"])
    for key in ("driver_cuda", "cuda_runtime", "nvrtc", "cublas"):
        assert re.fullmatch(r"\d+\.\d+(\.\d+)*", data[key]), key
    assert data["sm_clock_max_mhz"] > 500 and data["l2_bytes"] > 2**19 and data["multiprocessors"] > 0


def test_out_of_memory_keeps_what_was_measured(tmp_path):
    path = tmp_path / "r.json"
    side = int((1.1 * cupy.cuda.Device().mem_info[1] / 4) ** 0.5)
    with pytest.raises(BenchError, match=r"out of memory.*points measured before: 1, saved in .*r.json"):
        bench("02", (64, (side, side, 1)), path=path, progress=False)
    kept = timings.load(path)
    assert len(kept.points) == 1 and not kept.complete
    assert bench("02", 64, path=path, progress=False).complete


def test_a_gpu_lost_in_the_middle_keeps_what_was_measured(tmp_path):
    """A process of its own loses it: after such a fault no call to CUDA succeeds any more."""
    broken(find("02"), tmp_path, "C[row * N + col] = result;", "C[row * N + col + (size_t(1) << 45)] = result;")
    code = f"""
import dataclasses, pathlib
from sgemm_tutorial import find
from lab.measure.bench import BenchError, bench
wrong = dataclasses.replace(find("02"), folder=pathlib.Path({str(tmp_path)!r}))
try:
    bench([find("01"), wrong], 64, path={str(tmp_path / "r.json")!r}, progress=False)
except BenchError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "points measured before: 1, saved in" in result.stdout, result.stderr
    assert [point.kernel for point in timings.load(tmp_path / "r.json").points] == ["01_naive"]


@pytest.mark.skipif("H200" not in gpu.place().name if gpu.available() else True, reason="needs an H200")
@pytest.mark.parametrize("cluster", [2, 3, 4, 6, 8])
def test_the_driver_says_how_many_clusters_fit_an_h200(cluster):
    assert gpu.resident_clusters(cluster, gpu.place().device) == hopper.RESIDENT[cluster]


@pytest.mark.parametrize("shape", [(70, 71, 45), (70, 70, 30), (130, 136, 72)], ids=str)
@pytest.mark.parametrize("of", any_shape.SHALLOW_SETTINGS, ids=lambda of: "{BM}x{BN}x{BK}".format_map(of))
def test_a_short_k_gives_the_simulators_bits(of, shape):
    kernel = any_shape.SHALLOW.variant(**of)
    if gpu.capability() < kernel.least_capability:
        pytest.skip("needs Hopper")
    A, B = matrices(*shape, on_gpu=False, types=kernel.types)
    assert cupy.asnumpy(kernel(cupy.asarray(A), cupy.asarray(B))).tobytes() == simulate(kernel, A, B).C.tobytes()


@pytest.mark.parametrize("kernel", ['find("12")', 'find("13").variant().divided(0, 50)'])
def test_no_launch_finds_the_counters_of_one_that_was_cut_off(kernel):
    """The context has ended with it: no later launch in the process runs, so none gives wrong results."""
    code = f"""
import cupy
from sgemm_tutorial import DeviceError, find
A, kernel = cupy.ones((512, 512), cupy.float32), {kernel}
print(kernel(A, A)[0, 0])
for launched in (kernel.edited(("if (isLast) *", "__trap(); *")), kernel, kernel):
    try:
        print(launched(A, A)[0, 0])
    except (DeviceError, cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError):
        print("refused")
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["512.0", "refused", "refused", "refused"], result.stderr


def test_a_wrong_kernel_is_not_timed(tmp_path):
    with pytest.raises(TutorialError, match=r"coalesced<.*> is wrong at"):
        bench(broken(find("02"), tmp_path, NORMAL, "A[row * K + (k > 0)"), 128, progress=False)


def test_the_compilers_log_is_there_a_second_time():
    """NVRTC caches on disk where there is a driver, and a cached program has no log to read registers from."""
    code = "import lab, sgemm_tutorial as sg; assert lab.resources(sg.LADDER[0]).registers > 0"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
