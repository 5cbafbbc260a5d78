"""Three protocols, the course of a run alone, and chance."""

import numpy as np
import pytest

import lab
from lab.chapters import copy_engine, power
from lab.records.timings import load
from sgemm_tutorial import find, operands
from sgemm_tutorial.launch import Place

H200 = Place("sm_90", 132)


def test_20_leads_in_turns_and_has_the_lower_clock_alone():
    """The recordings as they are show both."""
    for size in power.SIZES:
        ms, their_ms = power.both(size, "in turns")
        assert ms < their_ms and power.shares(size, "in turns") > 100
        ms, their_ms = power.both(size, "lasting")
        clocks = power.settled(size)[1]
        assert clocks[0] < min(clocks[1:3]) < lab.card().boost_mhz and ms > their_ms
        assert np.isclose(power.both(size, "burst")[0], lab.sustained.of(find("20"), size, protocol="burst").ms)
    assert power.protocols_table().rows[:2] == [
        ("8192, zeros", "100.4, 99.9", "103.4", "103.3", "103.5"),
        ("8192, random", "98.1, 98.1", "103.5", "100.8, 101.9", "98.4, 99.4"),
    ]


def test_on_zeros_both_have_one_clock_and_20_takes_more_power():
    _, (clock, their_clock), (watts, their_watts) = power.settled(8192, "zeros")
    assert clock == their_clock == 1680 and 1.15 < watts / their_watts < 1.16
    assert [power.shares(8192, of, "zeros").round(1).tolist() for of in ("in turns", "lasting")] == [[103.4], [103.5]]


def test_the_picture_holds_all_that_was_seen():
    for run in power.runs()[:2]:
        for seen, (_, ticks) in zip(power.seen(run).T[1:], power.BANDS, strict=True):
            assert ticks[0] <= seen.min() and seen.max() <= ticks[-1] and np.ptp(np.diff(ticks)) < 1e-9
    drawn = power.course()._repr_html_()
    assert "seconds" in drawn and "nan" not in drawn


def test_bursts_are_by_medians_of_eight_samples():
    own, theirs = (lab.sustained.of(who, 4096, "zeros", "burst").samples.ms for who in power.BOTH)
    bursts = power.bursts(4096, "zeros")
    assert len(bursts) == 2 and np.isclose(bursts[0], 100 * np.median(theirs[:8]) / np.median(own[:8]))


def test_alone_20_has_the_lower_clock_and_all_values_are_medians():
    found = {row[0]: row[1:] for row in power.clocks_table().rows}
    again = lab.sustained.of(power.BOTH[1], 8192, recording="lasting")
    ms, mhz, watts = (
        np.median(of[len(of) // 2 :]) for of in (again.samples.ms, again.samples.sm_mhz, again.samples.watts)
    )
    assert found["random, alone, 2 to 4 s"] == (
        f"1.748, 1.721, {ms:.3f}",
        f"1,365, 1,425, {mhz:,.0f}",
        f"695, 700, {watts:.0f}",
    )
    assert found["zeros, alone, 2 to 4 s"][0] == "1.432, 1.482" and found["random, in turns"][2] == "739, 739"
    ms, clock, watts = power.early()
    runs = [power.seen(of) for of in power.runs()]
    chosen = [run[(run[:, 0] > 0.25) & (run[:, 0] <= 0.4)] for run in runs]
    assert np.allclose(ms, [np.median(of[:, 1]) for of in chosen]) and ms[0] < ms[1]
    assert watts.min() > 700 and clock[0] < clock[1]


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
    assert [figures[name] for name in ("same 8192", "lead 8192")] == ["0.5%", "1.7%"]
    assert rows[0] == ("8192", "19", "+2.6, +2.6, +2.8", "+1.7, +4.0, +3.2", "+2.5, +2.5, +2.6")
    assert len(rows) == 4 and [row[4] == "not timed" for row in rows] == [False, True] * 2


def test_the_median_pair_is_fair_where_the_card_slowed_down_between_samples():
    """The ratio of the medians isn't: most of 20's samples are slow, and half of cuBLAS's are quick."""
    own, theirs = (
        getattr(copy_engine.timed(power.KERNEL, 4096, "order").processes[2], who).ms for who in ("own", "cublas")
    )
    assert np.median(theirs) / np.median(own) < 0.91 and np.median(np.divide(theirs, own)) > 0.99
