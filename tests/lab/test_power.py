"""Three protocols, the course of a run alone, and chance."""

import numpy as np

import lab
from lab.chapters import power
from lab.records.timings import Samples, load
from sgemm_tutorial import find


def test_20_leads_in_turns_and_has_the_lower_clock_alone():
    """By the recordings as they are."""
    for size in power.SIZES:
        ms, their_ms = power.both(size, "in turns")
        assert ms < their_ms and power.share(size, "in turns") > 100
        ms, their_ms = power.both(size, "lasting")
        clocks = power.drawn(size)[:, 0]
        assert clocks[0] < clocks[1] < lab.card().boost_mhz and ms > their_ms
        assert np.isclose(power.both(size, "burst")[0], lab.sustained.of(find("20"), size, protocol="burst").ms)
    assert power.protocols_table().rows[1][-2] == "101.0 to 103.5%" and power.figures()


def test_on_zeros_both_have_one_clock_and_20_takes_more_power():
    (clock, watts), (their_clock, their_watts) = power.drawn(8192, "zeros")
    assert clock == their_clock == 1680 and 1.15 < watts / their_watts < 1.16
    assert [round(power.share(8192, of, "zeros"), 1) for of in ("in turns", "lasting")] == [103.4, 103.5]


def test_the_picture_holds_all_that_was_seen():
    for who in power.BOTH:
        for seen, (_, ticks) in zip(power.seen(who).T[1:], power.BANDS, strict=True):
            assert ticks[0] <= seen.min() and seen.max() <= ticks[-1] and np.ptp(np.diff(ticks)) < 1e-9
    drawn = power.course()._repr_html_()
    assert "seconds" in drawn and "nan" not in drawn


def test_a_share_in_turns_is_of_pairs():
    """A drift that both samples of a pair see drops out, though the two medians are of different moments."""
    own, theirs = (Samples(ms, [None] * 3, [None] * 3) for ms in ([1.0, 2.0, 3.0], [1.1, 2.2, 1.5]))
    assert np.isclose(power.paired(own, theirs), 110)


def test_at_the_limit_the_kernel_of_more_energy_takes_longer():
    """On zeros, it doesn't."""
    rows = {row[0]: row[3:] for row in power.alone_table().rows}
    assert rows["normal, 8192"] == ("1.219, 1.191: +2.3%", "1.743, 1.726: +1.0%")
    assert [[of.partition(": ")[2][0] for of in row] for row in rows.values()] == [["+", "-"]] * 2 + [["+", "+"]] * 2
    assert power.figures()["counted"] == "699 W for 20 and 690 W for cuBLAS"
    assert power.figures()["alone"] == "99.0%"
    assert power.figures()["worked"] == "1.219 J / 700 W = 1.741 ms"
    assert power.figures()["product 8192"] == "103.5% · 1,365 / 1,425 = 99.2%"


def test_20_is_timed_first_and_fourth_and_19_tenth():
    """And 20's code is the same in both places."""
    twentieth = find("20")
    same = [of for of in load("hopper").points if of.M == 8192 and of.digest == lab.sustained.of(twentieth).digest]
    assert sum(dict(of.parameters) == twentieth.parameters for of in same) == 2
    for name in power.RECORDINGS:
        keys = [point.key for point in load(name).points if point.M == 8192]
        assert [keys.index(power.copy_engine.timed(of, 8192, name).key) for of in power.PLACES.values()] == [0, 3, 9]
        assert len(keys) == 13


def test_shares_are_by_recording_and_by_process():
    found = power.by_process(8192)
    of = power.copy_engine.timed(find("19"), 8192, "hopper_again").processes[1]
    assert found.shape == (3, 2, 3) and np.isclose(found[2, 0, 1], 100 * np.median(np.divide(of.cublas.ms, of.own.ms)))
    assert found[:2].min() > found[2].max() and (found[0] > found[1]).all()
    figures = power.figures()
    assert figures["1 2 8192"] == "0.4 to 2.4" and figures["fourth"] == "101.0 to 102.4%"
    rows = power.processes_table().rows
    assert rows[2][2:] == ("100.6, 99.4, 100.2", "100.7, 100.6, 100.7", "100.4 ± 0.5") and len(rows) == 6
