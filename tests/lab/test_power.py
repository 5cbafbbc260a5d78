"""Two clocks, which lasting runs of the recording slow down, and when a spell counts as one."""

import dataclasses

import numpy as np
import pytest

import lab
from lab.chapters import power
from sgemm_tutorial import find

RUN = lab.sustained.of(find("16"), 4096, "zeros")
N = 400  # samples of an even run: one each 10 ms


def run(slow, watts=500):
    """Return an even run whose samples of these numbers take half as long again."""
    ms = np.where(np.isin(np.arange(N), slow), 1.5, 1.0)
    samples = dataclasses.replace(RUN.samples, ms=ms.tolist(), sm_mhz=[1980] * N, watts=[watts] * N)
    return dataclasses.replace(RUN, samples=samples)


def test_times_of_a_run_add_up_to_its_seconds():
    ends = power.seconds(run([]))
    assert ends[-1] == lab.sustained.SECONDS == 4 and ends[99] == pytest.approx(1)


@pytest.mark.parametrize(
    ("slow", "longer"),
    [([], 0), ([95], 0), (range(95, 98), 0.5), (range(95, 110), 0.5), (range(20, 30), 0), (range(300, 320), 0)],
)
def test_a_spell_is_most_of_five_samples_after_the_steady_part(slow, longer):
    assert power.slowing(run(slow, 650)) == (650, longer)
    assert power.rise(run(slow)) == 0
    assert power.rise(run(range(80, 140))) == 0.5


def test_the_limit_divides_the_runs_that_slow_down_from_the_others():
    """As the page says, without exception."""
    found, limit = power.lasting(), power.recording().provenance["power_limit_watts"]
    over = [longer for watts, longer in found.values() if watts > limit]
    under = [longer for watts, longer in found.values() if watts <= limit]
    assert len(over) == 17 and len(under) == 25 and max(under) < 0.02 < 0.06 < min(over)
    assert power.slowed().alt.startswith("Points for 42 lasting runs. Only those that drew 708 W")


def test_nvml_tells_more_than_the_own_clock_of_kernels_on_tensor_cores_alone():
    """As the page says; figures may move a little with each recording."""
    assert abs(power.lower("13", "normal")) < 0.01
    assert all(0.05 < power.lower(*each) < 0.15 for each in power.CLOCKS[1:])
    table = power.clocks_table()
    assert [row[:2] for row in table.rows[:3]] == [
        ("13_autotuned", "random"),
        ("16_mma", "random"),
        ("16_mma", "zeros"),
    ]
    assert all(row[-1].endswith("%") for row in table.rows)


def test_what_the_page_says_of_20_and_cublas_holds():
    """By the recordings as they are."""
    runs = {run: power.both(*run) for run in power.RUNS}
    assert [theirs[0] > ours[0] for ours, theirs in runs.values()] == [True, False, False, True, True, True]
    assert runs["zeros", "lasting"][0][1] == runs["zeros", "lasting"][1][1] < lab.card().boost_mhz
    assert runs["normal", "lasting"][0][1] < runs["normal", "lasting"][1][1], "20 has the lower clock"
    assert all(ours[1] == theirs[1] for (_, how), (ours, theirs) in runs.items() if how == "in turns")
    figures = power.figures()
    assert figures["lasting expected"].endswith(" = 99.2%") and figures["worst"] == "1.6%"
    assert figures["by cycles"] == power.predictions_table().rows[0][1]
    cycles = [int(figures[f"by {source}"].replace(",", "")) for source in ("own", "nsight", "nvml")]
    assert cycles == sorted(set(cycles))


def test_20_leads_in_turns_with_cublas_alone_only():
    shares = power.repeats()
    assert all(abs(at_4096 - 100) < 1 and at_8192 > 101 for at_4096, at_8192 in list(shares.values())[:3])
    assert max(*shares["added"], *shares["two_gpus"]) < 100 and len(power.repeats_table().rows) == len(shares) == 5


def test_one_variant_makes_most_of_the_noise_at_8192():
    moves = np.array([*lab.chapters.copy_engine.moves(8192).values()])
    far = np.sort((moves - moves.mean()) ** 2)
    assert far[-1] > 0.7 * far.sum()
