"""One product on several GPUs, which are imagined here: every way is right, and a panel that is missing shows."""

import re
from itertools import pairwise, product

import cupy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import several
from lab.chapters import several_gpus
from lab.correctness import excess
from sgemm_tutorial import ArgumentError, DeviceError, cublas, find, matrices
from sgemm_tutorial.operands import FP32

from ..examples import floats, steady
from ..together import for_each

STEPWISE = [way for way in several.WAYS if way not in several.WHOLE]
COPIED = ["gathered", "ahead", "columns"]
NUMBERS = (1, 2, 3, 5)


def right(kernel, way, gpus, shape, beta=-0.5):
    """Multiply with α = 1.5, judge C, and look whether A and B are as they were; without C if β = 0."""
    kernel = find(kernel)
    M, N, _ = shape
    A, B = matrices(*shape, on_gpu=False, types=kernel.types)
    C = floats(M, N, seed=3) if beta else None
    before = [array.copy() for array in (A, B, floats(M, N, seed=3))]
    got = several.multiply(kernel, A, B, C, 1.5, beta, gpus=gpus, way=way)
    assert got is C or not beta
    assert got.shape == (M, N) and got.dtype == kernel.types.result
    assert A.tobytes() == before[0].tobytes() and B.tobytes() == before[1].tobytes()
    return (excess(got, *before, 1.5, beta, kernel.types) <= 1).all()


@for_each(way=several.WAYS)
def test_every_way_gives_the_product(way):
    """No number of GPUs divides some sides, and some products have fewer rows, columns or terms than there are GPUs."""
    shapes = ((11, 7, 13), (4, 3, 2), (1, 6, 7), (6, 4, 0), (0, 5, 3), (5, 0, 3))
    assert not [at for at in product(NUMBERS, shapes) if not right("03", way, *at)]


@for_each(way=several.WAYS)
def test_without_c(way):
    assert not [at for at in product(NUMBERS, ((4, 3, 2), (3, 2, 0))) if not right("03", way, *at, beta=0.0)]


@pytest.mark.parametrize(("kernel", "way"), [("11", "direct"), ("13", "columns"), ("16", "ahead")])
def test_kernels_that_want_alignment_take_panels_that_begin_anywhere(kernel, way):
    assert right(kernel, way, 3, (22, 13, 29))


@for_each(way=several.WAYS)
def test_without_beta_c_is_not_read(way):
    A, B = matrices(5, 4, 7, on_gpu=False)
    C = np.full((5, 4), np.nan, np.float32)
    several.multiply("03", A, B, C, gpus=2, way=way)
    assert (excess(C, A, B, C, 1.0, 0.0) <= 1).all()


@for_each(way=[*several.WHOLE, "columns"], gpus=NUMBERS)
def test_where_no_sum_is_cut_the_bits_are_one_gpus(way, gpus):
    """03 adds in the order of k, wherever in C it is."""
    (A, B), C = matrices(6, 7, 40, on_gpu=False), floats(6, 7, seed=3)
    want = find("03")(A, B, C.copy(), 1.5, -0.5)
    assert several.multiply("03", A, B, C, 1.5, -0.5, gpus=gpus, way=way).tobytes() == want.tobytes()


@steady
@given(st.integers(0, 300), st.integers(1, 20))
def test_parts_cover_a_side_and_differ_by_one_at_most(length, parts):
    found = several.cut(length, parts)
    assert len(found) == parts
    assert found[0].start == 0 and found[-1].stop == length
    assert all(one.stop == other.start for one, other in pairwise(found))
    sizes = [one.stop - one.start for one in found]
    assert min(sizes) >= 0 and max(sizes) - min(sizes) <= 1


def spread(way, gpus, C=None):
    """Return B, and the parts of a product of 7 × 8 × 9."""
    A, B = matrices(7, 8, 9, on_gpu=False)
    return B, several.spread(A, B, C, gpus, way, FP32)


def products(part, way):
    """Return the steps of a GPU that multiply something."""
    return [step for step in several.steps(part, way) if step.C is not None]


def panels(B, way, gpus):
    """Return the panels of B."""
    cuts = several.cut(B.shape[1] if way == "columns" else len(B), gpus)
    return [B[:, at] if way == "columns" else B[at] for at in cuts]


@for_each(way=STEPWISE, gpus=NUMBERS)
def test_no_two_gpus_multiply_with_a_panel_at_a_time(way, gpus):
    """Each with every panel once, and with its own first."""
    B, parts = spread(way, gpus)
    steps = [several.steps(part, way) for part in parts]
    orders = [[step.panel for step in of] for of in steps]
    assert [order[0] for order in orders] == list(range(gpus))
    for at_once in (*orders, *zip(*orders, strict=True)):
        assert sorted(at_once) == list(range(gpus))
    for step in (step for of in steps for step in of):
        assert step.B.shape == panels(B, way, gpus)[step.panel].shape


@for_each(way=several.WHOLE, gpus=NUMBERS)
def test_where_all_of_b_is_there_it_is_multiplied_with_at_once(way, gpus):
    B, parts = spread(way, gpus)
    for part in parts:
        (step,) = products(part, way)
        assert step.B.shape == B.shape and all(np.shares_memory(step.B, panel) for panel in part.B)
        assert way != "held" or np.array_equal(step.B, B)


@for_each(way=several.WAYS, gpus=NUMBERS)
def test_each_block_of_c_is_begun_once(way, gpus):
    _, parts = spread(way, gpus)
    for part in parts:
        for block in part.C:
            first, *later = [step.first for step in products(part, way) if step.C is block]
            assert first and not any(later)


@for_each(way=several.WAYS)
def test_what_a_gpu_has_before_and_after(way):
    """Its own panel, or all that it holds, and then all that comes; of what does not, every element stays NaN."""
    B, parts = spread(way, 3)

    def there():
        found = []
        for number, part in enumerate(parts):
            for q, (panel, want) in enumerate(zip(part.B, panels(B, way, 3), strict=True)):
                assert np.array_equal(panel, want) or np.isnan(panel).all()
                found += [(number, q)] * np.array_equal(panel, want)
        return found

    own, every = [(q, q) for q in range(3)], [(number, q) for number in range(3) for q in range(3)]
    assert there() == (every if way in ("held", "direct") else own)
    several.simulated(find("03"), parts, way)
    assert there() == every
    for part, q in product(parts, range(3) if way == "direct" else ()):
        assert np.shares_memory(part.B[q], parts[q].whole), "it lies where it lay"
        assert np.isnan(part.whole).sum() == B.size - panels(B, way, 3)[part.number].size


@for_each(way=COPIED)
def test_a_panel_that_did_not_come_shows(way):
    """The steps without the copies: NaN wherever another's panel was multiplied with."""
    _, parts = spread(way, 3, floats(7, 8))
    for number, part in enumerate(parts):
        for step in products(part, way):
            find("03")(step.A, step.B, step.C, 1.0, 1.0)
        for q, block in enumerate(part.C):
            assert np.isnan(block).all() != (way == "columns" and q == number)


def sent(messages):
    """Return how many messages and bytes went over each link."""
    found = {}
    for source, target, size in messages:
        count, total = found.get((source, target), (0, 0))
        found[source, target] = count + 1, total + size
    return found


@for_each(way=several.WAYS, gpus=NUMBERS, kernel=["03", "16"])
def test_what_is_sent_is_what_was_computed(way, gpus, kernel):
    """No number of GPUs divides some sides, and some sums have fewer terms than there are GPUs."""
    kernel = find(kernel)
    for M, N, K in ((7, 9, 11), (5, 2, 3), (3, 4, 0)):
        A, B = matrices(M, N, K, on_gpu=False, types=kernel.types)
        parts = several.spread(A, B, None, gpus, way, kernel.types)
        idle = several.simulated(lambda *_: None, parts, way)
        assert sent(idle) == several.traffic(way, gpus, M, N, K, kernel.types.operand.itemsize)


def test_traffic_by_hand():
    """Three GPUs have panels of 3, 3 and 4 rows of 8 floats: each goes to both other GPUs, round the ring."""
    for way in ("gathered", "ahead"):
        want = {(1, 0): (2, 7 * 32), (2, 1): (2, 7 * 32), (0, 2): (2, 6 * 32)}
        assert several.traffic(way, 3, 7, 8, 10, 4) == want
    assert several.traffic("columns", 2, 7, 8, 10, 4) == {(0, 1): (1, 160), (1, 0): (1, 160)}
    assert several.traffic("held", 3, 7, 8, 10, 4) == several.traffic("direct", 3, 7, 8, 10, 4) == {}


@for_each(way=several.WAYS, gpus=NUMBERS)
def test_no_link_carries_two_panels_at_a_time(way, gpus):
    """A GPU sends one to a neighbour in a step at most, and sender and receiver agree."""
    _, parts = spread(way, gpus)
    for now in zip(*(several.steps(part, way) for part in parts), strict=True):
        goes = [(n, other, side, q) for n, step in enumerate(now) for other, side, q in step.goes]
        comes = [(other, n, side, q) for n, step in enumerate(now) for other, side, q in step.comes]
        assert sorted(goes) == sorted(comes)
        links = [of[:2] for of in goes]
        assert len(links) == len(set(links))


GRIDS = {1: (1, 1), 2: (2, 1), 4: (2, 2), 6: (3, 2), 7: (7, 1), 8: (4, 2), 12: (4, 3), 16: (4, 4), 1024: (32, 32)}


def test_the_grid_is_as_square_as_the_number_allows():
    assert {gpus: several.grid("grid", gpus) for gpus in GRIDS} == GRIDS
    assert {several.grid(way, 12) for way in several.WAYS if way != "grid"} == {(12, 1)}


@pytest.mark.parametrize("gpus", [4, 6, 8, 9, 12])
def test_in_two_dimensions(gpus):
    """The product, its traffic, and no GPU that begins with a panel that it does not have."""
    shapes = (13, 11, 29), (2, 3, 1), (3, 5, 0)
    assert not [shape for shape in shapes if not right("03", "grid", gpus, shape)]
    for M, N, K in shapes:
        parts = several.spread(*matrices(M, N, K, on_gpu=False), None, gpus, "grid", FP32)
        first = [several.steps(part, "grid")[0] for part in parts]
        assert not any(np.isnan(one).any() for step in first for one in (step.A, step.B))
        assert sum(np.isfinite(one).sum() for part in parts for one in part.A) == M * K
        assert sum(np.isfinite(one).sum() for part in parts for one in part.B) == K * N
        assert sent(several.simulated(lambda *_: None, parts, "grid")) == several.traffic("grid", gpus, M, N, K, 4)
        for now in zip(*(several.steps(part, "grid") for part in parts), strict=True):
            links = [(number, other) for number, step in enumerate(now) for other, *_ in step.goes]
            assert len(links) == len(set(links))


def test_traffic_in_two_dimensions_by_hand():
    """16 GPUs of 4 × 4 at 64: each gets three panels of 16 × 16 of A and as many of B, where one of rows is 4 × 64."""
    got = several.traffic("grid", 16, 64, 64, 64, 2)
    assert len(got) == 32 and set(got.values()) == {(3, 3 * 16 * 16 * 2)}
    assert set(several.traffic("columns", 16, 64, 64, 64, 2).values()) == {(15, 15 * 64 * 4 * 2)}


def test_parts_are_copies():
    """The caller's arrays stay as they are, whatever a GPU does with its part."""
    (A, B), C = matrices(7, 8, 9, on_gpu=False), floats(7, 8)
    for way in several.WAYS:
        for part in several.spread(A, B, C, 1, way, FP32):
            assert not any(np.shares_memory(one, of) for one in (*part.A, *part.B, *part.C) for of in (A, B, C))


A, B, C = floats(4, 3), floats(3, 5), floats(4, 5)


@pytest.mark.parametrize(
    ("arguments", "more", "text"),
    [
        ((A, B), {"way": "by post"}, "way: got 'by post', needs one of held, gathered, ahead, columns, grid, direct"),
        ((A, B), {"gpus": 0}, "gpus: got 0, needs a whole number, 1 or more"),
        ((A, B), {"gpus": 2.0}, "gpus: got 2.0, needs a whole number"),
        ((A, A), {}, r"B: got shape \(4, 3\), needs \(3, N\)"),
        ((A, B, A), {}, r"C: got shape \(4, 3\), needs \(4, 5\)"),
        ((A.astype(np.float64), B), {}, "A: got dtype <f8"),
        ((A, B, None, 1.0, 2.0), {}, "C: got none, needs an array"),
        ((A, B, C, "one"), {}, "alpha: got str 'one', needs a real number"),
    ],
)
def test_bad_arguments(arguments, more, text):
    with pytest.raises(ArgumentError, match=f"^{text}"):
        several.multiply("03", *arguments, **more)


def test_cublas_is_for_gpus():
    with pytest.raises(ArgumentError, match=r"^A: got a NumPy array, needs a CuPy array: cuBLAS runs on a GPU"):
        several.multiply(cublas.sgemm, A, B)
    with pytest.raises(ArgumentError, match=r"^name: got 'sgemm', needs one of"):
        several.multiply("sgemm", A, B)


def test_more_gpus_than_there_are(monkeypatch):
    monkeypatch.setattr(cupy, "ndarray", np.ndarray)
    monkeypatch.setattr(several, "count", lambda: 2)
    with pytest.raises(DeviceError, match=r"^3 GPUs are wanted, and CuPy sees 2"):
        several.spread(A, B, None, 3, "held", FP32)


@pytest.mark.filterwarnings("ignore:\\s*nccl library could not be loaded")
def test_no_nccl(monkeypatch):
    from cupy.cuda import nccl  # warns where it does not load

    monkeypatch.setattr(nccl, "available", False)
    with pytest.raises(DeviceError, match=r"^NCCL does not load: pip install nvidia-nccl-cu13"):
        several.launch(find("03"), [], "gathered")


def test_figures_of_the_link():
    """The link is slower than its data sheet, and than a GPU's own memory; what comes late is microseconds."""
    found = several_gpus.figures()
    link, near, far = (float(re.match(r"[\d,]+", found[name])[0].replace(",", "")) for name in ("link", "near", "far"))
    assert far < link < several_gpus.LINK / 1e9 < near
    quarter, c, both, start = (float(found[name].split()[0]) for name in ("quarter", "c", "both", "start"))
    assert quarter + c == pytest.approx(both) and float(found["fp16"]) < float(found["times"]) < 2
    assert float(found["apart"].split()[0]) < start / 5, "one line fits all copies"
