"""Two clocks, three protocols, what NVML says of the clock, and chance."""

import dataclasses

import numpy as np

import lab
from lab.chapters import power
from sgemm_tutorial import cublas, find


def test_what_the_page_says_of_20_and_cublas_holds():
    """By the recordings as they are."""
    runs = {run: power.both(*run) for run in power.RUNS}
    assert [theirs[0] > ours[0] for ours, theirs in runs.values()] == [True, False, False, True, True, True]
    assert runs["zeros", "lasting"][0][1] == runs["zeros", "lasting"][1][1] < lab.card().boost_mhz
    assert runs["normal", "lasting"][0][1] < runs["normal", "lasting"][1][1], "20 has the lower clock"
    assert all(ours[1] == theirs[1] for (_, how), (ours, theirs) in runs.items() if how == "in turns")
    shares = [theirs[0] / ours[0] for ours, theirs in runs.values()]
    assert all(1.03 < share < 1.04 for share in (shares[0], *shares[3:5])) and abs(shares[5] - 1) < 0.01
    assert len(power.protocols_table().rows) == len(power.RUNS) and power.figures()
    swings = power.course()._repr_html_()
    assert "seconds" in swings and "nan" not in swings


def test_the_same_code_twice_in_a_recording_differs_by_less_than_the_noise():
    """Nearly always."""
    found = power.twins()
    assert found.shape == (18, 2) and np.count_nonzero(found[:, 0] > found[:, 1]) < 3


def test_a_lasting_run_has_a_plateau_and_then_a_mean_with_an_error():
    (ours, wrong), (flat, watts) = power.settled(power.KERNEL), power.plateau(power.KERNEL)
    assert 0 < wrong < 0.02 * ours and flat < ours and watts > power.recording().provenance["power_limit_watts"]


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


def test_20_leads_in_turns_with_cublas_alone_only():
    shares = power.repeats()
    assert all(abs(at_4096 - 100) < 1 and at_8192 > 101 for at_4096, at_8192 in list(shares.values())[:3])
    assert max(*shares["added"], *shares["two_gpus"]) < 100 and len(power.repeats_table().rows) == len(shares) == 5


def test_one_variant_makes_most_of_the_noise_at_8192():
    moves = np.array([*lab.chapters.copy_engine.moves(8192).values()])
    far = np.sort((moves - moves.mean()) ** 2)
    assert far[-1] > 0.7 * far.sum()
    ((_, parameters, *_), _), _ = [*lab.chapters.copy_engine.moves(8192)][np.argmax(abs(moves - moves.mean()))]
    assert (dict(parameters)["BN"], dict(parameters)["CLUSTER"]) == (224, 1)
