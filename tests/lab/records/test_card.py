"""The board whose recordings the book shows: its data sheet, or what CUDA and the ceilings say of it."""

import dataclasses

import pytest

from lab import card
from lab.experiments import ceilings
from lab.records import cards, files
from lab.records.files import Recording


def recorded_on(name, monkeypatch):
    recording = files.load("ceilings", Recording[ceilings.Rate])
    there = dataclasses.replace(recording, provenance=recording.provenance | {"gpu": name})
    monkeypatch.setattr(files, "load", lambda *_: there)
    return ceilings.load()


@pytest.mark.parametrize(
    ("name", "board"),
    [("NVIDIA H100 80GB HBM3", "H100 SXM"), ("NVIDIA H200", "H200 SXM"), ("NVIDIA GeForce RTX 3080", "RTX 3080")],
)
def test_the_card_is_the_one_recorded(name, board, monkeypatch):
    recorded_on(name, monkeypatch)
    assert card().name == board


def test_a_card_without_a_data_sheet_is_what_it_says_of_itself(monkeypatch):
    there = recorded_on("NVIDIA H800", monkeypatch)
    assert card().name == "NVIDIA H800"
    assert card().architecture == "sm_90"
    assert card().bandwidth_gbs == round(1000 * there["DRAM"].tera_per_second)


@pytest.mark.parametrize("shown", cards.recorded())
def test_the_books_cards_agree_with_their_recordings(shown, monkeypatch):
    monkeypatch.setenv(cards.VARIABLE, shown)
    found, board = ceilings.load().provenance, card()
    assert found["multiprocessors"] == board.sms
    assert found["l2_bytes"] == board.l2_bytes
    assert found["sm_clock_max_mhz"] == board.boost_mhz
