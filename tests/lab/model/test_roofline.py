"""Roofs stand over what the hardware counted, and that is what two small runs on the simulator tell beforehand."""

import dataclasses
import re

import numpy as np
import pytest

import sgemm_tutorial as sg
from lab import counters, find_gpu
from lab.chapters import roofs
from lab.model.roofline import bounds

from ...together import for_each

every = for_each(kernel=sg.LADDER[:-2])
DEPTHS = (128, 256)  # whole steps of every rung


def counted(kernel, K):
    """Counts of one block."""
    BM, BN = kernel.parameters["BM"], kernel.parameters["BN"]
    return sg.simulate(kernel, np.ones((BM, K), np.float32), np.ones((K, BN), np.float32)).total


def extrapolated(kernel, M, N, K, *names):
    """All blocks do the same, and for each step along K the same again: counts grow in a straight line with K."""
    few, more = (sum(getattr(counted(kernel, depth), name) for name in names) for depth in DEPTHS)
    return kernel.grid(M, N) * (few + (K - DEPTHS[0]) // (DEPTHS[1] - DEPTHS[0]) * (more - few))


@every
def test_sectors_at_4096_are_those_that_the_hardware_counted(kernel):
    of = counters.measured(kernel, *counters.LARGE)
    for name in ("global_load_sectors", "global_store_sectors"):
        assert extrapolated(kernel, *counters.LARGE, name) == of[name]


@every
def test_what_is_extrapolated_is_what_a_whole_run_counts(kernel):
    M, N, K = kernel.parameters["BM"], 2 * kernel.parameters["BN"], 384
    total = sg.simulate(kernel, *sg.matrices(M, N, K, on_gpu=False)).total
    for name in ("global_load_sectors", "global_store_sectors", "shared_load_wavefronts", "shared_store_wavefronts"):
        assert extrapolated(kernel, M, N, K, name) == getattr(total, name)


def test_a_changed_source_is_counted_anew(tmp_path):
    """A file that reads less of A moves less, in the same process."""
    kernel = dataclasses.replace(sg.find("02"), folder=tmp_path)
    text = sg.find("02").source
    kernel.path.write_text(text)
    before = counted(kernel, 128)
    kernel.path.write_text(text.replace("acc += A[row * K + k]", "acc += A[row * K]"))
    assert counted(kernel, 128).global_load_sectors < before.global_load_sectors


@every
def test_no_kernel_is_above_a_roof(kernel):
    allowed = roofs.allowed(kernel)
    assert list(allowed) == list(roofs.LEVELS)
    assert 0 < roofs.tflops(kernel) < min(*allowed.values(), roofs.card().fp32_tflops)


def test_bytes_are_those_of_the_counters():
    """02 loads A and B without a tile: the wavefronts of two loads for each multiply-add of a warp, nearly."""
    moved = roofs.moved("02")
    assert moved[roofs.L1] / 128 == pytest.approx(2 * 4096**3 / 32, rel=0.01)
    assert all(moved[level] > 3 * 4 * 4096**2 for level in roofs.LEVELS)
    assert moved[roofs.L1] > moved[roofs.L2] > moved[roofs.DRAM]


def test_the_table_has_the_roofs_and_the_share_of_the_lowest():
    (row,) = roofs.table(["03"]).rows
    assert row[1:4] == tuple(roofs.allowed("03").values())
    assert row[4].endswith(f"({roofs.tflops('03') / min(row[1:4]):.0%})")
    assert "03 0.306 FLOP per byte" in roofs.under(roofs.L1, ["03"]).alt


def number(text):
    return float(re.search(r"[\d.]+", text)[0])


def test_no_roof_is_lower_than_a_kernel_reached():
    rows = roofs.reached().rows
    assert [row[0] for row in rows] == ["arithmetic", *roofs.LEVELS]
    assert [number(row[3]) for row in rows[1:]] == pytest.approx(list(roofs.rates().values()), rel=0.01)
    assert all(0.8 * number(row[3]) < number(row[2]) <= number(row[3]) for row in rows)


def test_a_step_is_the_product_of_its_two_parts():
    (row,) = roofs.steps(["03", "04"]).rows
    speed, right, up = map(number, row[1:])
    assert row[0] == "03 → 04" and speed == pytest.approx(right * up, rel=0.01)
    assert speed == pytest.approx(roofs.tflops("04") / roofs.tflops("03"), rel=0.01)
    assert right == pytest.approx(roofs.allowed("04")[roofs.L1] / roofs.allowed("03")[roofs.L1], rel=0.01)


def test_bounds_of_the_first_source():
    """About 4.6 ms of arithmetic and 0.35 ms of traffic on an RTX 3080, at 4096; one step of K is bound by memory."""
    arithmetic, memory = bounds(find_gpu("RTX 3080"), 4096, 4096, 4096)
    assert arithmetic == pytest.approx(4.6, abs=0.05)
    assert memory == pytest.approx(4 * 4 * 4096**2 / 760e9 * 1e3)
    assert memory == pytest.approx(0.35, abs=0.005)
    arithmetic, memory = bounds(find_gpu("RTX 3080"), 4096, 4096, 1)
    assert arithmetic < memory
