"""What a kernel moves is counted on the simulator and agrees with what an H100 counted; roofs follow from it."""

import dataclasses

import pytest

import sgemm_tutorial as sg
from lab import counters, find_gpu
from lab.model.ceilings import (
    ARITHMETIC,
    DRAM,
    L2,
    SHARED,
    Ceiling,
    Ceilings,
)
from lab.model.roofline import (
    OPERANDS,
    Traffic,
    attainable,
    bounds,
    bounds_table,
    traffic,
)
from sgemm_tutorial import ArgumentError

every = pytest.mark.parametrize("kernel", sg.LADDER[:-1], ids=lambda kernel: kernel.name)
IMAGINARY = Ceilings(
    {},
    {
        ARITHMETIC: Ceiling(ARITHMETIC, "FLOP", 60 * 10**12, 1e3, 1, 1),
        SHARED: Ceiling(SHARED, "byte", 30 * 10**12, 1e3, 1, 1),
        L2: Ceiling(L2, "byte", 6 * 10**12, 1e3, 1, 1),
        DRAM: Ceiling(DRAM, "byte", 3 * 10**12, 1e3, 1, 1),
    },
)


@every
def test_sectors_at_4096_are_those_that_an_h100_counted(kernel):
    counted = counters.measured(kernel, 4096, 4096, 4096)
    sectors = traffic(kernel, 4096, 4096, 4096).bytes[L2] / 32
    assert sectors == counted["global_load_sectors"] + counted["global_store_sectors"]


@every
def test_what_is_extrapolated_is_what_a_whole_run_counts(kernel):
    BM, BN = kernel.parameters["BM"], kernel.parameters["BN"]
    M, N, K = BM, 2 * BN, 384
    A, B = sg.matrices(M, N, K, on_gpu=False)
    total = sg.simulate(kernel, A, B).total
    found = traffic(kernel, M, N, K)
    sectors = total.global_load_sectors + total.global_store_sectors
    wavefronts = total.shared_load_wavefronts + total.shared_store_wavefronts
    assert found.bytes[L2] == 32 * sectors
    assert found.bytes[SHARED] == 32 * sectors + 128 * wavefronts
    assert found.flops == 2 * M * N * K
    assert found.bytes[OPERANDS] == 12 * M * N * K


@pytest.mark.parametrize(
    ("kernel", "megabytes"), [("01", 201), ("14", 134), ("15", 134), (sg.find("13").variant(T="double", BLOCKS=2), 403)]
)
def test_elements_are_as_large_as_the_types_say(kernel, megabytes):
    moved = traffic(kernel, 4096, 4096, 4096).bytes
    assert round(moved[DRAM] / 1e6) == megabytes
    types = sg.find(kernel).types
    assert moved[OPERANDS] == (2 * types.operand.itemsize + types.result.itemsize) * 4096**3


def test_a_changed_source_is_counted_anew(tmp_path):
    """A file that reads less of A moves less, in the same process."""
    kernel = dataclasses.replace(sg.find("02"), folder=tmp_path)
    text = sg.find("02").source
    kernel.path.write_text(text)
    before = traffic(kernel, 128, 128, 128)
    kernel.path.write_text(text.replace("acc += A[row * K + k]", "acc += A[row * K]"))
    after = traffic(kernel, 128, 128, 128)
    assert after.bytes[L2] < before.bytes[L2]
    kernel.path.write_text(text)
    assert traffic(kernel, 128, 128, 128) == before


@pytest.mark.parametrize(
    ("sizes", "name"), [((100, 128, 128), "M"), ((128, 100, 128), "N"), ((128, 128, 64), "K"), ((0, 128, 128), "M")]
)
def test_only_whole_tiles(sizes, name):
    with pytest.raises(ArgumentError, match=f"{name}: got "):
        traffic(sg.find("07"), *sizes)


def test_the_lowest_roof_of_each_level():
    one = Traffic(1000, {OPERANDS: 6000, SHARED: 500, L2: 100, DRAM: 1})
    assert one.intensity(L2) == 10
    assert attainable(one, IMAGINARY) == {ARITHMETIC: 60, SHARED: 2 * 30, L2: 10 * 6, DRAM: 1000 * 3}


def test_bounds_of_the_first_source():
    """About 4.6 ms of arithmetic and 0.35 ms of traffic on an RTX 3080, at 4096."""
    arithmetic, memory = bounds(find_gpu("RTX 3080"), 4096, 4096, 4096)
    assert arithmetic == pytest.approx(4.6, abs=0.05)
    assert memory == pytest.approx(4 * 4 * 4096**2 / 760e9 * 1e3)
    assert memory == pytest.approx(0.35, abs=0.005)
    assert bounds_table((find_gpu("RTX 3080"),), 4096, 4096, 4096).rows[0][-1] == "arithmetic"
    assert bounds_table((find_gpu("RTX 3080"),), 4096, 4096, 1).rows[0][-1] == "memory"
