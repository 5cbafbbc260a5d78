"""What was recorded of register banks, as the book asks for it."""

import pytest

from lab.records import banks, cards, files
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError


@pytest.fixture(autouse=True)
def card(monkeypatch):
    """A card that has this recording."""
    monkeypatch.setenv(cards.VARIABLE, next(card for card in cards.recorded() if "banks" in cards.recordings(card)))


def test_the_table_holds_what_was_recorded_and_what_models_say():
    names = ("three of one bank", "two kept")
    table = banks.table(names, {"registers read": lambda reads: sum(map(len, reads)) / len(reads)})
    assert table.columns[2:] == ("registers read", "1 warp", "2 warps", "4 warps")
    assert [row[:3] for row in table.rows] == [(names[0], "000", "3.00"), (names[1], "EO0", "1.00")]
    for name, row in zip(names, table.rows, strict=True):
        assert row[3:] == tuple(f"{banks.cycles(name, warps):.2f}" for warps in (1, 2, 4))
    made = files.load("banks", files.Recording[banks.Cycles]).provenance
    assert table.note == f"Measured on {made['gpu']}, {made['date'][:10]}."


def test_all_patterns_are_in_the_table():
    assert [row[0] for row in banks.table().rows] == list(banks.PATTERNS)


def test_what_is_not_recorded_is_an_error():
    with pytest.raises(ArgumentError, match="name, warps: got its hot loop, 4, needs what was recorded of 12"):
        banks.cycles(banks.LOOP, 4, find("12"))
    with pytest.raises(ArgumentError, match="01_naive"):
        banks.cycles(banks.LOOP, kernel=find("01"))
