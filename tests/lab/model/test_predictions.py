"""The chapters' predictions hold against the simulator, and against the hardware's counts."""

import pytest

import lab
import sgemm_tutorial as sg
from lab import counters, predictions
from lab.model.predictions import ARITHMETIC, PIPELINE, WAVEFRONTS
from sgemm_tutorial import ArgumentError

from ...together import for_each

CARD = lab.card()
MERGED = ("03_shared_tile", "04_thread_tile_1d")
"""Kernels whose machine code reads less than the source says: their chapters are about that."""
every = for_each(kernel=sg.LADDER[: len(WAVEFRONTS)])


@every
def test_the_hardware_counts_what_was_predicted(kernel):
    counted = counters.measured(kernel, *counters.LARGE)
    per_multiply_add = counted["l1_data_wavefronts"] / (4096**3 / 32)
    predicted = predictions.cycles(kernel, CARD)[PIPELINE]
    if kernel.name in MERGED:
        assert per_multiply_add < 0.8 * predicted
    else:
        assert per_multiply_add == pytest.approx(predicted, rel=0.05)


@pytest.mark.parametrize("name", ["03_shared_tile", "04_thread_tile_1d", "07_vectorized", "09_warp_tile"])
def test_the_simulator_counts_what_was_predicted(name):
    """PTX reads as the source says, in words up to rung 06 and in fours from 07 on."""
    kernel = sg.find(name)
    run = sg.simulate(kernel, *sg.matrices(256, 256, 256, on_gpu=False), trace=[0])
    loads = [lab.request(run, array=array) for array in "AB"]
    lanes = [loads[0].l1_cycles / kernel.parameters["BN"], loads[1].l1_cycles / kernel.parameters["BM"]]
    fetched = sum(lanes) / (loads[0].width // 4)
    shared = (run.total.shared_load_wavefronts + run.total.shared_store_wavefronts) / run.total.by_class["fma"]
    assert shared + fetched == pytest.approx(predictions.cycles(kernel, CARD)[PIPELINE], rel=1e-6)


def test_the_busiest_part_sets_the_time():
    part, ms = predictions.predicted("01", CARD)
    assert part == PIPELINE
    assert ms == pytest.approx(4096**3 / 32 * 33 / CARD.sms / (CARD.boost_mhz * 1e3))
    part, ms = predictions.predicted("09", CARD, 2048)
    assert part == ARITHMETIC
    assert ms == pytest.approx(2 * 2048**3 / CARD.fp32_tflops / 1e9)


def test_a_kernel_without_a_chapter_is_refused():
    with pytest.raises(ArgumentError, match=r"^kernel: got '?14_wmma'?, needs one of 01_naive"):
        predictions.predicted("14", CARD)
