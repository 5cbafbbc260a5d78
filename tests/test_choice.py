"""The choice of 13's template arguments and of how its work is divided: what fits, what adds up, what pays."""

import types

import cupy
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from lab import limits_of
from sgemm_tutorial import ArgumentError, Kernel, find, gpu, operands
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.launch import Division, Place

from .examples import floats, steady
from .together import for_each

AUTOTUNED = find("13")


def problem(M, N, K, shift=(0, 0)):
    """Return a problem without matrices, but for where A and B begin, in elements past a multiple of 512 bytes."""
    A, B, C = (np.zeros(8, np.float32)[by:] for by in (*shift, 0))
    return operands.Problem(M, N, K, np.float32(1), A, B, np.float32(0), C, True, False)


def chosen(M, N, K, shift=(0, 0), architecture="sm_90", multiprocessors=132):
    """Return the template arguments and the division."""
    of = problem(M, N, K, shift)
    kernel = AUTOTUNED.resolve(of, Place(architecture, multiprocessors)).kernel
    return kernel.parameters, kernel.resolve(of, Place(architecture, multiprocessors)).division


sizes = st.integers(0, 5000) | st.sampled_from([2**20, 2**31 - 1])


@steady
@given(sizes, sizes, sizes, st.sampled_from([(1, "sm_75"), (40, "sm_86"), (132, "sm_90"), (170, "sm_120")]))
@example(2**31 - 1, 2**31 - 1, 2**31 - 1, (132, "sm_90"))
@example(1, 2**31 - 1, 1, (132, "sm_90"))
@example(2**31 - 1, 1, 1, (132, "sm_90"))
def test_what_a_launch_is_given_adds_up(M, N, K, card):
    multiprocessors, architecture = card
    of, division = chosen(M, N, K, architecture=architecture, multiprocessors=multiprocessors)
    tiles = -(-M // of["BM"]) * -(-N // of["BN"])
    whole, shares, group = division.counts.values()
    assert list(division.counts) == ["whole", "shares", "group"]
    assert division.blocks == whole + shares
    assert 0 <= whole <= tiles and (shares > 0) == (whole < tiles)
    assert shares <= (tiles - whole) * max(-(-K // of["BK"]), 1)
    assert group >= 1
    assert group * -(-N // of["BN"]) < 2**32
    assert division.arrived == (shares + tiles - whole if shares else 0)
    assert division.workspace >= division.arrived * of["BM"] * of["BN"]
    assert division.workspace <= 4 * multiprocessors * 128 * 256, "what all SMs hold in registers, four times"


@steady
@given(
    sizes, sizes, sizes, st.tuples(st.integers(0, 5), st.integers(0, 5)), st.sampled_from(["sm_75", "sm_80", "sm_120"])
)
def test_words_are_copied_together_only_where_they_lie_together(M, N, K, shift, architecture):
    of, _ = chosen(M, N, K, shift, architecture)
    row = K if of["BN"] == 1 else N
    assert row % of["WORDS"] == 0 and shift[1] % of["WORDS"] == 0
    assert of["BN"] > 1 or N == 1
    assert of["BN"] > 1 or shift[0] % of["WORDS"] == 0, "a row goes along with the column"
    assert (of["STAGES"] == 0) == (architecture == "sm_75")


@for_each(setting=autotuned.SETTINGS, architecture=["sm_75", "sm_80", "sm_86", "sm_90", "sm_120"])
def test_every_setting_fits_an_sm(setting, architecture):
    kernel = AUTOTUNED.variant(**autotuned.named(setting))
    kernel = kernel.resolve(problem(64, 1, 64), Place(architecture, 132)).kernel
    assert 32 <= kernel.threads <= 1024
    assert kernel.dynamic_shared_bytes + 16 <= limits_of(architecture).max_shared_per_block


def test_each_setting_is_the_best_somewhere():
    rng = np.random.default_rng(0)
    shapes = [(m, m, m) for m in range(128, 4097, 128)]
    shapes += [(1, n, n) for n in (1000, 4096, 16384)] + [(n, 1, n) for n in (1000, 4096)]
    shapes += [(4096, n, 4096) for n in (8, 16)]
    shapes += [(10, 1784, 2515), (127, 917, 1188)]  # few tiles and a middling depth
    shapes += [tuple(int(2**x) for x in rng.uniform(2, 13, 3)) for _ in range(200)]
    found = {tuple(chosen(*shape)[0].values())[: autotuned.TILE] for shape in shapes}
    assert found == {setting[: autotuned.TILE] for setting in autotuned.SETTINGS}


def test_what_pays():
    """Depth is shared where C has few tiles and not where it has many, and a vector has a way of its own."""
    of, division = chosen(64, 64, 65536)
    assert division.counts["whole"] == 0 and division.counts["shares"] >= 128
    of, division = chosen(128 * 12, 256 * 11, 4096)
    assert (of["BM"], of["BN"], division.blocks, division.counts["shares"]) == (128, 256, 132, 0)
    of, division = chosen(8192, 8192, 8192)
    assert (of["BM"], of["BN"]) == (128, 256) and division.counts["whole"] > 0.9 * 2048
    assert chosen(1, 4096, 4096)[0]["BM"] == 1
    assert chosen(4096, 1, 4096)[0]["BN"] == 1
    of, _ = chosen(256, 256, 256)
    assert of["BM"] * of["BN"] <= 1024


def test_a_variant_keeps_its_parameters():
    mine = AUTOTUNED.variant(BM=64, BN=64)
    for M in (64, 4096):
        of = mine.resolve(problem(M, M, M), Place("sm_90", 132)).kernel
        assert of == mine and of.resolve(problem(M, M, M), Place("sm_90", 132)).kernel == mine
    ragged = mine.resolve(problem(63, 63, 63), Place("sm_90", 132)).kernel
    assert ragged.parameters == mine.parameters | {"WORDS": 1}


def test_other_kernels_have_no_choice():
    naive = find("01")
    assert naive.resolve(problem(8, 8, 8)).kernel is naive
    assert naive.variant(BM=16) == naive.variant(BM=16) and not naive.variant(BM=16).settled
    assert naive.resolve(problem(100, 100, 8)).division == Division(naive.grid(100, 100))


# The GPU's side of it, without a GPU.


@pytest.fixture
def streams(monkeypatch, request):
    """A GPU whose current stream is `number`, that launches into a list."""
    state = types.SimpleNamespace(number=1, device=0, launched=[])
    monkeypatch.setattr(gpu, "_held", types.SimpleNamespace())
    gpu._bound.cache_clear()
    request.addfinalizer(gpu._bound.cache_clear)
    monkeypatch.setattr(gpu, "load", lambda instance: lambda *what: state.launched.append(what))
    monkeypatch.setattr(gpu, "place", lambda: Place("sm_90", 132, state.device))
    monkeypatch.setattr(cupy, "empty", np.empty)
    monkeypatch.setattr(cupy, "zeros", np.zeros)
    monkeypatch.setattr(cupy.cuda, "Device", lambda: types.SimpleNamespace(id=state.device))
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: types.SimpleNamespace(ptr=state.number))
    return state


def test_a_launch_has_its_arguments_in_the_kernels_order(streams):
    A, B = floats(64, 4096), floats(4096, 64)
    of = operands.check(A, B, None, 1.0, 0.0)
    AUTOTUNED.launcher(of)()
    ((grid, block, values, shared),) = streams.launched
    kernel = AUTOTUNED.resolve(of).kernel
    division = kernel.resolve(of).division
    assert (grid, block, shared) == ((division.blocks,), (kernel.threads,), kernel.dynamic_shared_bytes)
    assert values[:8] == tuple(of.arguments.values())
    workspace, arrived, *counts = values[8:]
    assert (workspace.dtype, arrived.dtype) == (np.float32, np.uint32)
    assert workspace.size >= division.workspace > 0 and arrived.size >= division.arrived and not arrived.any()
    assert counts == list(division.counts.values()) and all(type(count) is np.uint32 for count in counts)
    find("03").launcher(of)()
    assert len(streams.launched[1][2]) == 8


def test_each_stream_has_a_workspace_of_its_own(streams):
    few, many = (operands.check(floats(m, 4096), floats(4096, 64), None, 1.0, 0.0) for m in (64, 640))
    more = AUTOTUNED.launcher(many)

    def given():
        return [id(array) for array in streams.launched[-1][2][8:10]]

    seen = []
    for streams.device, streams.number in ((0, 1), (0, 2), (1, 1), (0, 1), (0, 2)):
        AUTOTUNED.launcher(few)()
        seen.append(given())
    assert seen[0] == seen[3] and seen[1] == seen[4]
    assert len({number for pair in seen for number in pair}) == 6
    streams.device, streams.number = 0, 1
    more()
    AUTOTUNED.launcher(few)()
    assert streams.launched[-1][2][8] is streams.launched[-2][2][8]
    assert streams.launched[-1][2][8].size >= AUTOTUNED.resolve(many).kernel.resolve(many).division.workspace


def test_too_many_tiles_are_refused(streams):
    with pytest.raises(ArgumentError, match=r"C: got shape .* tiles, needs at most 2147483647 tiles"):
        huge = problem(2**31 - 1, 2**31 - 1, 8)._replace(C=np.zeros((1, 1), np.float32))
        AUTOTUNED.launcher(huge)


def test_slices_are_warps_too():
    assert (
        Kernel("99_made_up", "", {"BM": 64, "BN": 64, "WM": 32, "WN": 64, "TM": 8, "TN": 8, "SLICES": 4}).threads == 256
    )


@pytest.mark.parametrize(("size", "least"), [((4027, 4249, 118), 4), ((4028, 4252, 120), 1)])
def test_rows_of_c_that_begin_anywhere_are_written_where_other_blocks_hide_it(size, least):
    """A warp writes such rows word by word. An SM that has a single block multiplies nothing meanwhile."""
    of, _ = chosen(*size)
    assert (of["WORDS"] < 4) == (least > 1)
    assert (of["BLOCKS"] >= 4) == (least > 1)
