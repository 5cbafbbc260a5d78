"""Computations of chapters 09 to 12: pictures of lanes, and the rules of registers."""

import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.chapters import account, double_buffer, register_banks, warp_tile


def traced(kernel, *size):
    return sg.simulate(kernel, *sg.matrices(*size, on_gpu=False), trace=range(kernel.grid(*size[:2])))


@pytest.fixture(scope="module")
def runs():
    return {
        name: traced(kernel, 128, 128, 32) for name, kernel in (("rows", warp_tile.IN_ROWS), ("09", warp_tile.RUNG))
    }


def test_lanes_stand_where_they_store_and_are_served_as_the_rule_says(runs):
    alt = warp_tile.lanes(runs).alt
    assert "rows: 0 1 2 3, 4 5 6 7," in alt and "09: 0 1 4 5, 2 3 6 7, 8 9 12 13," in alt
    assert alt.count("4 wavefronts, 8 lanes each") == alt.count("2 wavefronts, 16 lanes each") == 1


def test_reads_of_a_are_alike_in_rows_and_squares(runs):
    assert warp_tile.lanes(runs, array="As").alt.count("2 wavefronts, 16 lanes each") == 2


def test_an_sm_is_busy_as_long_as_the_data_sheet_says():
    """128 multiply-adds in a cycle, which is the peak."""
    assert account.milliseconds(4096**3 / 128) == pytest.approx(2 * 4096**3 / lab.card().fp32_tflops / 1e9, rel=0.01)


def test_spills_in_the_main_loop_are_found():
    assert [warp_tile.local_accesses(kernel) for kernel in (warp_tile.RUNG, warp_tile.NEITHER)] == [0, 1]


def test_a_block_takes_less_time_for_a_tile_with_two_stages():
    before, now = map(double_buffer.cycles_per_tile, (double_buffer.BEFORE, double_buffer.RUNG))
    assert 128 * 256 * 8 / 128 < now < before


def test_ffmas_read_what_the_one_before_has_not_kept():
    kept = register_banks.pattern("one kept, one of each bank")
    assert {len(read) for read in kept[1:]} == {2}
    fresh = np.mean([len(read) == 3 for read in register_banks.reads(warp_tile.ONE_WAY)])
    assert np.mean([len(read) == 3 for read in register_banks.reads(warp_tile.RUNG)]) < fresh < 1
