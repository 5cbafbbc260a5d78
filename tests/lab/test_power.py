"""Three protocols, the course of a run alone, and chance."""

import numpy as np

import lab
from lab.chapters import persistent, power
from lab.records.timings import Process, Samples, load
from sgemm_tutorial import find


def test_20_leads_in_turns_and_has_the_lower_clock_alone():
    """By the recordings as they are."""
    for size in power.SIZES:
        ms, their_ms = power.both(size, "in turns")
        assert ms < their_ms and power.share(size, "in turns") > 100
        ms, their_ms = power.both(size, "lasting")
        clocks = [persistent.lasting(who, size)[1] for who in power.BOTH]
        assert clocks[0] < clocks[1] < lab.card().boost_mhz and ms > their_ms
    assert power.protocols_table().rows[1][-2] == "103.5%" and power.figures()


def test_the_picture_holds_all_that_was_seen():
    for who in power.BOTH:
        for seen, (_, ticks) in zip(power.seen(who).T[1:], power.BANDS, strict=True):
            assert ticks[0] <= seen.min() and seen.max() <= ticks[-1] and np.ptp(np.diff(ticks)) < 1e-9
    drawn = power.course()._repr_html_()
    assert "seconds" in drawn and "nan" not in drawn


def test_a_share_in_turns_pairs_samples_and_joins_processes():
    runs = [
        Process(Samples([1, 2, 4], [], []), Samples([1, 4, 4], [], [])),
        Process(Samples([2], [], []), Samples([6], [], [])),
    ]
    assert power.paired(runs[0]) == 100 and power.paired(*runs) == 150


def test_one_variant_makes_the_noise_at_8192():
    then, now = power.days(8192)
    moves = 100 * now / then
    moves -= np.median(moves)
    far = np.sort(abs(moves))
    assert far[-1] > 3.5 and 0.75 < far[-2] < 0.85
    keys = [point.key for point in load(power.DAYS[0]).points if point.M == 8192]
    ((_, parameters, *_), _), _ = keys[np.argmax(abs(moves))]
    assert (dict(parameters)["BN"], dict(parameters)["CLUSTER"]) == (224, 1)


def test_five_timings_of_20_are_of_one_code():
    twentieth = find("20")
    same = [of for of in load("hopper").points if of.M == 8192 and of.digest == lab.sustained.of(twentieth).digest]
    assert sum(dict(of.parameters) == twentieth.parameters for of in same) == 2
    found = power.timed(8192, *power.TWICE)
    assert found.shape == (2, 2) and len({*found.flat}) == 4 and found.min() > 101.5


def test_parts_of_a_run_are_means_between_two_moments(monkeypatch):
    made = np.stack((np.arange(8), np.arange(8) ** 2, np.arange(8), np.ones(8)), axis=1)
    monkeypatch.setattr(power, "seen", lambda who, size: made)
    assert power.part(2, 4).tolist() == [[12.5, 3.5, 1]] * 2
