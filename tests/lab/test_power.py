"""Two protocols, what NVML says of the clock, and chance."""

import numpy as np

import lab
from lab.chapters import power
from lab.records.timings import load
from sgemm_tutorial import find


def test_20_leads_where_nvml_tells_one_clock_and_has_the_lower_one_alone_on_random_numbers():
    """By the recordings as they are."""
    for size in power.SIZES:
        for run in (power.RUNS[1], power.RUNS[2], power.RUNS[4]):
            (ms, mhz), (their_ms, their_mhz) = power.both(size, *run)
            assert mhz == their_mhz < lab.card().boost_mhz and ms < their_ms
            assert size == 4096 or 1.03 < power.share(size, *run) / 100 < 1.04
        (ms, mhz), (their_ms, their_mhz) = power.both(size, *power.RUNS[5])
        assert mhz < their_mhz and ms > their_ms
    assert power.protocols_table().rows[1][-2] == "103.4%" and power.figures()
    swings = power.course()._repr_html_()
    assert "seconds" in swings and "nan" not in swings


def test_a_burst_is_at_the_highest_clock():
    for inputs in ("zeros", "normal"):
        assert power.both(8192, inputs, "burst")[:, 1].min() > 0.99 * lab.card().boost_mhz


def test_one_variant_makes_most_of_the_noise_at_8192():
    moves = lab.chapters.copy_engine.moves(8192)
    far = np.sort((moves - moves.mean()) ** 2)
    assert far[-1] > 0.7 * far.sum()
    keys = [point.key for point in load("hopper").points if point.M == 8192]
    ((_, parameters, *_), _), _ = keys[np.argmax(abs(moves - moves.mean()))]
    assert (dict(parameters)["BN"], dict(parameters)["CLUSTER"]) == (224, 1)


def test_five_timings_of_20_are_of_one_code_and_confirm_the_noise_without_that_variant():
    twentieth = find("20")
    same = [of for of in load("hopper").points if of.M == 8192 and of.digest == lab.sustained.of(twentieth).digest]
    assert sum(dict(of.parameters) == twentieth.parameters for of in same) == 2
    found = power.repeats(8192)
    assert len(found) == len(set(found)) == 5 and found.min() > 101.5 > 100 > power.by_medians()
    by_repeats = 2.776 * np.sqrt(2) * np.std(np.log(found), ddof=1)
    assert abs(by_repeats / lab.chapters.copy_engine.chance(8192) - 1) < 0.1


def test_parts_of_a_run_are_means_between_two_moments(monkeypatch):
    made = np.stack((np.arange(8), np.arange(8) ** 2), axis=1)
    monkeypatch.setattr(power, "seen", lambda who, size: made)
    assert power.part(2, 4).tolist() == [12.5] * 2
