"""Two protocols, what NVML says of the clock, and chance."""

import numpy as np

import lab
from lab.chapters import power
from lab.records.timings import load
from sgemm_tutorial import find


def test_20_leads_where_nvml_tells_one_clock_and_has_the_lower_one_alone_on_random_numbers():
    """By the recordings as they are."""
    for size in power.SIZES:
        for run in power.RUNS[:3]:
            (ms, mhz), (their_ms, their_mhz) = power.both(size, *run)
            assert mhz == their_mhz < lab.card().boost_mhz and ms < their_ms
            assert size == 4096 or 1.03 < power.share(size, *run) / 100 < 1.04
        (ms, mhz), (their_ms, their_mhz) = power.both(size, *power.RUNS[3])
        assert mhz < their_mhz and ms > their_ms
    assert power.protocols_table().rows[0][-1] == "103.4%" and power.figures()
    swings = power.course()._repr_html_()
    assert "seconds" in swings and "nan" not in swings


def test_a_burst_is_at_the_highest_clock():
    for inputs in ("zeros", "normal"):
        assert power.both(8192, inputs, "burst")[:, 1].min() > 0.99 * lab.card().boost_mhz


def test_swings_return_when_they_are_made_to(monkeypatch):
    passed = np.arange(0, 4, 0.012)
    made = np.stack((passed, 2 + np.sin(passed * 2 * np.pi / 0.75), passed, passed), axis=1)
    monkeypatch.setattr(power, "seen", lambda who, size: made)
    assert abs(power.period(find("20"), 8192) - 0.75) < 0.02


def test_one_variant_makes_most_of_the_noise_at_8192():
    moves = lab.chapters.copy_engine.moves(8192)
    far = np.sort((moves - moves.mean()) ** 2)
    assert far[-1] > 0.7 * far.sum()
    keys = [point.key for point in load("hopper").points if point.M == 8192]
    ((_, parameters, *_), _), _ = keys[np.argmax(abs(moves - moves.mean()))]
    assert (dict(parameters)["BN"], dict(parameters)["CLUSTER"]) == (224, 1)


def test_by_the_median_move_that_variant_adds_little_noise():
    (noise, _, by_median, _), (less, _, less_by_median, _) = power.noises(8192), power.noises(4096)
    assert by_median < 0.6 * noise
    assert 0.8 * less < less_by_median < less
