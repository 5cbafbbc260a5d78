"""The scoreboard says what the recordings say, for every card."""

import pytest

import sgemm_tutorial as sg
from sgemm_tutorial import ArgumentError, predictions, profiles
from sgemm_tutorial.records import anatomy, cards
from sgemm_tutorial.records.scoreboard import PARTS


@pytest.mark.parametrize("card", cards.recorded())
def test_a_row_for_each_rung(card, monkeypatch):
    monkeypatch.setenv(cards.VARIABLE, card)
    board = sg.scoreboard("05")
    assert [row[0] for row in board.rows] == ["01", "02", "03", "04", "05"]
    for (number, predicted, ms, of_cublas, of_peak, busiest, _), kernel in zip(board.rows, sg.LADDER, strict=False):
        (point,) = sg.recorded(kernel, [4096]).points
        assert (number, ms) == (kernel.name[:2], point.ms)
        assert predicted == predictions.predicted(kernel, sg.card())[1]
        assert of_cublas == f"{point.percent_of_cublas:.1f}%"
        assert of_peak == f"{100 * 2 * 4096**3 / ms / 1e9 / sg.card().fp32_tflops:.1f}%"
        profile = profiles.measured(kernel)
        assert busiest.endswith(f" {max(profile[part] for part in PARTS):.0f}%")
    assert sg.card().name in board.title


def test_12_has_recordings_of_its_own():
    *_, row = sg.scoreboard("12").rows
    (point,) = sg.recorded("12", [4096], "squares").points
    profile = anatomy.of(sg.find("12"), (4096,) * 3).main.counts
    assert row[:4] == ("12", None, point.ms, f"{point.percent_of_cublas:.1f}%")
    assert row[5].endswith(f" {max(profile[part] for part in PARTS):.0f}%")


def test_a_kernel_off_the_ladder_is_refused():
    with pytest.raises(ArgumentError, match=r"^last: got '?13_register_l1'?, needs a rung of the ladder: 01_naive"):
        sg.scoreboard("13")
