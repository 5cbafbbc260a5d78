"""Two protocols, what NVML says of the clock, and chance."""

import dataclasses

import numpy as np

import lab
from lab.chapters import power
from sgemm_tutorial import cublas, find


def test_20_leads_where_nvml_tells_one_clock_and_has_the_lower_one_alone_on_random_numbers():
    """By the recordings as they are."""
    for size in power.SIZES:
        for run in power.RUNS[:3]:
            (ms, mhz), (their_ms, their_mhz) = power.both(size, *run)[:, :2]
            assert mhz == their_mhz < lab.card().boost_mhz and ms < their_ms
            assert size == 4096 or 1.03 < power.share(size, *run)[0] / 100 < 1.04
        (ms, mhz, wrong), (their_ms, their_mhz, _) = power.both(size, *power.RUNS[3])
        assert mhz < their_mhz and ms > their_ms and ms * mhz < their_ms * their_mhz and 0 < wrong < 0.02 * ms
    assert len(power.clocks_table().rows) == 4 and power.figures()
    swings = power.course()._repr_html_()
    assert "seconds" in swings and "nan" not in swings


def test_the_same_code_twice_in_a_recording_differs_by_less_than_the_noise():
    """Nearly always."""
    found = power.twins()
    assert found.shape == (18, 2) and np.count_nonzero(found[:, 0] > found[:, 1]) < 3


def test_a_cap_is_one_of_the_reasons_for_a_clock():
    run = lab.sustained.of(find("16"), 8192, "zeros")
    assert power.capped(dataclasses.replace(run, reasons=[0, 4, 1, 6])) == (2, 4)


def test_nvml_names_a_power_cap_far_below_the_limit():
    """For 20 and cuBLAS on zeros, and hardly for 16, which draws more."""
    limit = power.recording().provenance["power_limit_watts"]
    for who in (find("20"), cublas.gemm_ex):
        run = lab.sustained.of(who, 8192, "zeros")
        with_cap, samples = power.capped(run)
        assert with_cap > 0.95 * samples and max(run.samples.watts) < 0.7 * limit
    sixteen = lab.sustained.of(find("16"), 8192, "zeros")
    assert sixteen.watts > run.watts and sixteen.sm_mhz == lab.card().boost_mhz
    assert power.capped(sixteen)[0] < 0.1 * len(sixteen.reasons)


def test_one_variant_makes_most_of_the_noise_at_8192():
    moves = np.array([*lab.chapters.copy_engine.moves(8192).values()])
    far = np.sort((moves - moves.mean()) ** 2)
    assert far[-1] > 0.7 * far.sum()
    ((_, parameters, *_), _), _ = [*lab.chapters.copy_engine.moves(8192)][np.argmax(abs(moves - moves.mean()))]
    assert (dict(parameters)["BN"], dict(parameters)["CLUSTER"]) == (224, 1)
