"""The book shows one card, and its data sheet is found by the name in the recording of the ladder."""

import dataclasses

import pytest

from sgemm_tutorial import ArgumentError, card
from sgemm_tutorial.records import timings


def recorded_on(name, monkeypatch):
    ladder = timings.load("ladder")
    there = dataclasses.replace(ladder, provenance=ladder.provenance | {"gpu": name})
    monkeypatch.setattr(timings, "load", lambda _: there)


@pytest.mark.parametrize(
    ("name", "board"), [("NVIDIA H100 80GB HBM3", "H100 SXM"), ("NVIDIA H200", "H200 SXM"), ("NVIDIA B200", "B200")]
)
def test_the_card_is_the_one_recorded(name, board, monkeypatch):
    recorded_on(name, monkeypatch)
    assert card().name == board


def test_a_card_without_a_data_sheet_is_refused(monkeypatch):
    recorded_on("NVIDIA H800", monkeypatch)
    with pytest.raises(ArgumentError, match="got 'H800'"):
        card()


def test_the_books_card_agrees_with_its_recordings():
    found, board = timings.load("ladder").provenance, card()
    assert found["multiprocessors"] == board.sms
    assert found["l2_bytes"] == board.l2_bytes
    assert found["sm_clock_max_mhz"] == board.boost_mhz
