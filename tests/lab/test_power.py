"""Three protocols, the course of a run alone, and chance."""

import numpy as np

import lab
from lab.chapters import power
from lab.records.timings import load
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
    assert power.protocols_table().rows[1][-2] == "101.9 to 103.5%" and power.figures()


def test_on_zeros_both_have_one_clock_and_20_takes_more_power():
    (clock, watts), (their_clock, their_watts) = power.drawn(8192, "zeros")
    assert clock == their_clock == 1680 and 1.15 < watts / their_watts < 1.16
    assert [round(power.share(8192, of, "zeros"), 1) for of in ("in turns", "lasting")] == [103.4, 103.5]


def test_parts_of_a_run_alone_are_by_mean_times():
    assert len(power.parts(1)) == 4 and len(power.parts(0.25)) == 16
    assert np.isclose(np.mean(power.parts(1)[2:]), power.share(8192, "lasting"), atol=0.1)


def test_the_picture_holds_all_that_was_seen():
    for who in power.BOTH:
        for seen, (_, ticks) in zip(power.seen(who).T[1:], power.BANDS, strict=True):
            assert ticks[0] <= seen.min() and seen.max() <= ticks[-1] and np.ptp(np.diff(ticks)) < 1e-9
    drawn = power.course()._repr_html_()
    assert "seconds" in drawn and "nan" not in drawn


def test_one_variant_makes_the_noise_at_8192():
    then, now = power.recorded(8192)
    moves = 100 * now / then - 100
    far = np.sort(abs(moves))
    assert far[-1] > 5 and far[-2] < 1.5
    keys = [point.key for point in load(power.RECORDINGS[0]).points if point.M == 8192]
    ((_, parameters, *_), _), _ = keys[np.argmax(abs(moves))]
    assert (dict(parameters)["BN"], dict(parameters)["CLUSTER"]) == (224, 1)


def test_five_timings_of_20_are_of_one_code():
    twentieth = find("20")
    same = [of for of in load("hopper").points if of.M == 8192 and of.digest == lab.sustained.of(twentieth).digest]
    assert sum(dict(of.parameters) == twentieth.parameters for of in same) == 2
    found = power.persistent.shares(power.TWICE, [8192])
    assert found.shape == (2, 1, 2) and len({*found.flat}) == 4 and found.min() > 101.5


def test_gains_and_order_are_by_recording_and_by_process():
    """By the shares of the recordings' points, and the medians of their processes."""
    shares = {
        name: [power.copy_engine.timed(of, 4096, name).percent_of_cublas for of in power.TWICE]
        for name in power.RECORDINGS
    }
    before = [power.copy_engine.timed(power.BEFORE, 4096, name).percent_of_cublas for name in power.RECORDINGS]
    for gains, own, old in zip(power.gains(4096), shares.values(), before, strict=True):
        assert np.allclose(gains, 100 * np.divide(own, old) - 100)
    first, fourth = (power.copy_engine.timed(of, 8192, "hopper_again").processes[1] for of in power.TWICE)
    ratio = (
        np.median(first.cublas.ms) / np.median(first.own.ms) / np.median(fourth.cublas.ms) * np.median(fourth.own.ms)
    )
    assert len(power.order(8192)) == 6 and np.isclose(power.order(8192)[1], 100 * (ratio - 1))


def test_20_is_timed_first_and_once_more():
    for name in power.RECORDINGS:
        keys = [point.key for point in load(name).points if point.M == 8192]
        assert [keys.index(power.copy_engine.timed(of, 8192, name).key) for of in power.TWICE] == [0, 3]
