"""The scoreboard says what the recordings say, for every card."""

import pytest

import lab
import sgemm_tutorial as sg
from lab import predictions, profiles
from lab.experiments import anatomy
from lab.experiments.scoreboard import PARTS
from lab.records import cards
from sgemm_tutorial import ArgumentError


@pytest.mark.parametrize("card", cards.recorded())
def test_a_row_for_each_rung(card, monkeypatch):
    monkeypatch.setenv(cards.VARIABLE, card)
    board = lab.scoreboard("05")
    assert [row[0] for row in board.rows] == ["01", "02", "03", "04", "05"]
    for (number, predicted, ms, of_cublas, of_peak, busiest, _), kernel in zip(board.rows, sg.LADDER, strict=False):
        (point,) = lab.recorded(kernel, [4096]).points
        assert (number, ms) == (kernel.name[:2], point.ms)
        assert predicted == predictions.predicted(kernel, lab.card())[1]
        assert of_cublas == f"{point.percent_of_cublas:.1f}%"
        assert of_peak == f"{100 * 2 * 4096**3 / ms / 1e9 / lab.card().fp32_tflops:.1f}%"
        profile = profiles.measured(kernel)
        assert busiest.endswith(f" {max(profile[part] for part in PARTS):.0f}%")
    assert lab.card().name in board.title


def test_13_has_recordings_of_its_own():
    *_, row = lab.scoreboard("13").rows
    (point,) = lab.recorded("13", [4096], "squares").points
    profile = anatomy.of(sg.find("13"), (4096,) * 3).main.counts
    assert row[:4] == ("13", None, point.ms, f"{point.percent_of_cublas:.1f}%")
    assert row[5].endswith(f" {max(profile[part] for part in PARTS):.0f}%")


def test_what_is_no_rung_is_refused(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(sg.find("02").source)
    with pytest.raises(ArgumentError, match=r"^last: got mine, needs a rung of the ladder: 01_naive, .*13_aut"):
        lab.scoreboard(sg.kernel_from(path, BM=8, BN=32))
    with pytest.raises(ArgumentError, match=r"^last: got 16_mma, needs a rung of the ladder"):
        lab.scoreboard("16")
