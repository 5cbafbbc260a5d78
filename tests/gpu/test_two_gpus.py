"""One product on two GPUs and more: right in every way, on any stream, and as often as it is launched."""

import cupy
import numpy as np
import pytest

from lab import several
from lab.correctness import excess
from sgemm_tutorial import DeviceError, cublas, find, gpu, matrices

from ..examples import floats

pytestmark = pytest.mark.skipif(several.count() < 2, reason="needs two GPUs")
KERNELS = [find("13"), find("20"), find("03"), cublas.sgemm, cublas.gemm_ex]
SHAPES = [(256, 384, 512), (70, 33, 50), (1, 5, 3), (1000, 1000, 1001), (5, 7, 1), (4, 3, 0), (0, 4, 3), (4, 0, 3)]
NUMBERS = [gpus for gpus in (1, 2, 3, 4, 6, 8) if gpus <= max(several.count(), 2)]
each_way = pytest.mark.parametrize("way", several.WAYS)
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


@pytest.fixture(autouse=True)
def possible(request):
    """Leave out what these GPUs or this installation can't do."""
    given = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    kernel, way = given.get("kernel"), given.get("way")
    if way == "gathered":
        try:
            several._nccl()
        except DeviceError as error:
            pytest.skip(str(error))
    if way == "direct" and not several.reaches(0, 1):
        pytest.skip("these GPUs cannot read each other's memory")
    if kernel == find("20") and gpu.capability() != kernel.least_capability:
        pytest.skip("18 is for compute capability 9.0 alone")


@each_kernel
@each_way
@pytest.mark.parametrize("gpus", NUMBERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_way_gives_the_product(kernel, way, gpus, shape):
    A, B = matrices(*shape, on_gpu=True, types=kernel.types)
    C = cupy.asarray(floats(*shape[:2], seed=3))
    before = [array.copy() for array in (A, B, C)]
    assert several.multiply(kernel, A, B, C, 1.5, -0.5, gpus=gpus, way=way) is C
    assert all(cupy.array_equal(one, as_it_was) for one, as_it_was in zip((A, B), before[:2], strict=True))
    assert (excess(C, *before, 1.5, -0.5, kernel.types) <= 1).all()


@each_kernel
@each_way
def test_without_c(kernel, way):
    A, B = matrices(70, 33, 50, on_gpu=True, types=kernel.types)
    got = several.multiply(kernel, A, B, gpus=2, way=way)
    assert got.device.id == A.device.id and got.dtype == kernel.types.result
    assert (excess(got, A, B, got, 1.0, 0.0, kernel.types) <= 1).all()


@pytest.mark.parametrize("way", [*several.WHOLE, "columns"])
def test_where_no_sum_is_cut_the_bits_are_one_gpus(way):
    """03 adds in the order of k, wherever in C it is."""
    A, B = matrices(300, 200, 500, on_gpu=True)
    assert (several.multiply("03", A, B, gpus=2, way=way) == find("03")(A, B)).all()


# Launches, whose every sum is exact: small whole numbers


def whole_numbers(rows, columns, seed, types):
    return np.random.default_rng(seed).integers(-3, 4, (rows, columns)).astype(types.operand)


def parts_of(kernel, way, M=300, N=200, K=128):
    """Return the parts of a product on two GPUs, with zeros for C, and the product itself."""
    A, B = (whole_numbers(*shape, seed, kernel.types) for seed, shape in enumerate(((M, K), (K, N))))
    given = cupy.asarray(A), cupy.asarray(B), cupy.zeros((M, N), kernel.types.result)
    return several.spread(*given, 2, way, kernel.types), A.astype(np.float64) @ B.astype(np.float64)


def together(parts):
    """Return C, put together on the host; only what the current stream of each GPU waits for need be there."""
    bands = []
    for part in parts:
        with cupy.cuda.Device(part.device):
            bands.append(np.concatenate([block.get() for block in part.C], axis=1))
    return np.concatenate(bands)


@each_kernel
@each_way
def test_launched_again_and_again(kernel, way):
    """With β = 1 every launch adds a product, and each waits for the one before."""
    parts, product = parts_of(kernel, way)
    launch, launches = several.launch(kernel, parts, way, beta=1.0), 100
    for _ in range(launches):
        launch()
    cupy.cuda.get_current_stream().synchronize()
    assert np.array_equal(together(parts), launches * product)
    assert cupy.cuda.Device().id == 0


@each_way
def test_parts_are_there_when_they_are_returned(way):
    """However busy the second GPU is, for whose own stream the launches do not wait."""
    with cupy.cuda.Device(1):
        busy = cupy.ones((4096, 4096), np.float32)
        for _ in range(20):
            cupy.matmul(busy, busy)
    parts, product = parts_of(cublas.sgemm, way)
    several.launch(cublas.sgemm, parts, way, beta=1.0)()
    cupy.cuda.get_current_stream().synchronize()
    assert np.array_equal(together(parts), product)


@each_kernel
@each_way
@pytest.mark.parametrize("blocking", [True, False])
def test_on_another_stream(kernel, way, blocking):
    """Earlier work of the stream ends before it begins on either GPU, and it ends before later work."""
    parts, product = parts_of(kernel, way)
    stream, busy = cupy.cuda.Stream(non_blocking=not blocking), cupy.ones((4096, 4096), np.float32)
    launch = several.launch(kernel, parts, way, beta=1.0)
    cupy.matmul(busy, busy)  # made ready before
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(20):
            cupy.matmul(busy, busy)
        for band in parts[0].A:
            band *= 2
        launch()
        first = cupy.concatenate(parts[0].C, axis=1)
        launch()
    stream.synchronize()
    middle = len(product) // 2
    assert np.array_equal(together(parts), 2 * np.concatenate((2 * product[:middle], product[middle:])))
    assert np.array_equal(first.get(), 2 * product[:middle])


def whole_b(parts):
    """Return each panel as the GPU has it that had it from the start."""
    panels = []
    for number, part in enumerate(parts):
        with cupy.cuda.Device(part.device):
            panels.append(part.B[number].get())
    return panels


@pytest.mark.parametrize("way", ["gathered", "ahead"])
def test_panels_that_come_alone(way):
    """They come, and C stays as it was."""
    parts, _ = parts_of(cublas.sgemm, way)
    several.launch(cublas.sgemm, parts, way, alone=True)()
    cupy.cuda.get_current_stream().synchronize()
    assert not together(parts).any()
    for part in parts:
        with cupy.cuda.Device(part.device):
            found = [panel.get() for panel in part.B]
        assert all(np.array_equal(*panels) for panels in zip(found, whole_b(parts), strict=True))


def test_more_gpus_than_there_are():
    A, B = matrices(5, 6, 7, on_gpu=True)
    wanted = several.count() + 1
    with pytest.raises(
        DeviceError, match=f"^{wanted} GPUs are wanted, and CuPy sees {several.count()}; NumPy arrays run"
    ):
        several.multiply("03", A, B, gpus=wanted)
