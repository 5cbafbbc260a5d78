"""Three protocols, energies, the course of a run alone, and chance."""

import numpy as np
import pytest

import lab
from lab.chapters import copy_engine, power
from lab.records.timings import load
from sgemm_tutorial import find, operands
from sgemm_tutorial.launch import Place

H200 = Place("sm_90", 132)


def test_20_leads_in_turns_at_8192_and_not_alone_or_in_bursts():
    """The recordings as they are show it."""
    assert power.in_turns(8192) > 103 and abs(power.in_turns(4096) - 100) < 0.5
    assert [round(power.shares(size)[0], 1) for size in power.SIZES] == [99.0, 98.4]
    assert power.bursts(8192, "normal").round(1).tolist() == [98.1, 98.1]
    figures = power.figures()
    assert figures["in turns"] == "102.3 to 103.5" and figures["again"] == "1.2%"


def test_what_is_spent_is_of_the_second_half_by_time():
    own = lab.sustained.of(power.KERNEL, 8192)
    ms, watts, joules = power.spent()[:, 0]
    half = len(own.samples.ms) // 2
    taken, drawn = (np.array(of[half:]) for of in (own.samples.ms, own.samples.watts))
    assert np.isclose(ms, taken.mean()) and np.isclose(watts, taken @ drawn / taken.sum()) and joules == own.joules
    assert abs(1000 * joules / watts / ms - 1) < 0.011


def test_a_ratio_of_times_is_one_of_energies_where_watts_are_equal_only():
    for size in power.SIZES:
        by_ms, by_joules = power.shares(size)
        assert abs(by_ms - by_joules) < 1.4 and np.ptp(power.spent(size)[1]) < 2
    by_ms, by_joules = power.shares(8192, "zeros")
    assert by_ms - by_joules > 14
    rows = power.spent_table().rows
    assert rows[0] == ("random, 8192", "1.743, 1.726", "692, 693", "1.219, 1.191", "99.0", "97.7")
    assert [row[4:] for row in rows[1:]] == [("98.4", "98.5"), ("103.5", "89.3")]


def test_alone_20_needs_fewer_cycles_by_nvmls_clock():
    assert power.figures()["fewer cycles"] == "4.7%" and power.figures()["MHz"] == "1,350 MHz"


def test_the_picture_holds_all_that_was_seen():
    for run in power.runs():
        for seen, (_, ticks) in zip(power.seen(run).T[1:], power.BANDS, strict=True):
            assert ticks[0] <= seen.min() and seen.max() <= ticks[-1] and np.ptp(np.diff(ticks)) < 1e-9
    drawn = power.course()._repr_html_()
    assert "seconds" in drawn and "nan" not in drawn


def test_bursts_are_by_medians_of_eight_samples():
    own, theirs = (lab.sustained.of(who, 4096, "zeros", "burst").samples.ms for who in power.BOTH)
    bursts = power.bursts(4096, "zeros")
    assert len(bursts) == 2 and np.isclose(bursts[0], 100 * np.median(theirs[:8]) / np.median(own[:8]))


@pytest.mark.parametrize(("size", "places"), [(8192, [0, 5, 9]), (4096, [0, 3, 9])])
def test_20s_code_has_two_places_and_19_comes_first_elsewhere(size, places):
    """The second time as the variant whose tile is as wide as the one that 20 chooses."""
    first, again = power.KERNEL, power.AGAIN[size]
    launched = [of.resolve(operands.imagined(size, size, size, of.types), H200).kernel for of in (first, again)]
    assert launched[0].parameters == launched[1].parameters == again.parameters
    for name in copy_engine.TWICE:
        keys = [point.key for point in load(name).points if size == point.M]
        assert [keys.index(copy_engine.timed(of, size, name).key) for of in (first, again, find("19"))] == places
        assert len(keys) == 13
    assert [point.kernel[:2] for point in load("order").points if size == point.M] == ["19", "20"]


def test_gains_are_by_recording_and_by_process():
    nineteen = find("19")
    of = copy_engine.timed(nineteen, 8192, "hopper").processes[1]
    found = power.by_process(nineteen, 8192, "hopper")
    assert len(found) == 3 and np.isclose(found[1], 100 * np.median(np.divide(of.cublas.ms, of.own.ms)))
    ours = power.by_process(power.KERNEL, 8192, "order")
    assert np.allclose(power.gains(8192, nineteen)[2], np.divide(ours, power.by_process(nineteen, 8192, "order")) - 1)
    figures, rows = power.figures(), power.gains_table().rows
    assert [figures[name] for name in ("same", "lead over 19")] == ["0.5%", "1.7 to 4.0%"]
    assert rows[0] == ("8192", "19", "+2.6, +2.6, +2.8", "+1.7, +4.0, +3.2", "+2.5, +2.5, +2.6")
    assert len(rows) == 4 and [row[4] == "not timed" for row in rows] == [False, True] * 2


def test_the_median_pair_is_fair_where_the_card_slowed_down_between_samples():
    """The ratio of the medians isn't: most of 20's samples are slow, and half of cuBLAS's are quick."""
    own, theirs = (
        getattr(copy_engine.timed(power.KERNEL, 4096, "order").processes[2], who).ms for who in ("own", "cublas")
    )
    assert np.median(theirs) / np.median(own) < 0.91 and np.median(np.divide(theirs, own)) > 0.99
