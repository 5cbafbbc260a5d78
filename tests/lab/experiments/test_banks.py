"""nvdisasm reads back the registers that were written into machine code."""

import pytest

import lab
import sgemm_tutorial as sg
from lab.experiments import banks
from lab.experiments.banks import LENGTH, LOOP, PATTERNS, PROBES, sequence
from lab.model.sass import SassInstruction, disassembled, operands, read_anew
from lab.records import cards
from sgemm_tutorial.errors import ArgumentError, CompileError


def written(kernel, name, warps):
    """Return what is wanted, and the registers that the FFMAs of the machine code have then."""
    wanted = sequence(kernel, name)
    return wanted, operands(disassembled(banks.patched(PROBES[warps].build(), wanted)))


@pytest.mark.parametrize("name", ["one kept, two of one bank, the banks in turn", "any three"])
def test_a_pattern_is_written_with_its_banks_and_marks(name):
    wanted, found = written(PROBES[4], name, 4)
    assert len(found) == LENGTH
    for ours, theirs in zip(wanted, found, strict=True):
        assert ours.kept == theirs.kept
        assert [register % 4 for register in ours.sources] == [register % 4 for register in theirs.sources]
    assert list(map(len, read_anew(wanted))) == list(map(len, read_anew(found)))


def test_the_loop_of_a_rung_is_written_in_its_order():
    wanted, found = written(sg.find("05"), LOOP, 4)
    assert wanted[:-1] == (8 * operands(lab.hot_loop(lab.sass("05"))))[:-1]
    assert [of.kept for of in wanted] == [of.kept for of in found]
    ours, theirs = (
        [register for of in sequence for register in (of.target, *of.sources)] for sequence in (wanted, found)
    )
    assert len({*zip(ours, theirs, strict=True)}) == len({*ours}) == len({*theirs}) > 64


def test_the_largest_loop_has_room():
    for kernel in ("10", "11", "13"):
        assert banks.patched(PROBES[2].build(), sequence(sg.find(kernel), LOOP))
    with pytest.raises(CompileError, match="has 28 registers of number 0 modulo 4, not 48"):
        banks.patched(PROBES[4].build(), sequence(sg.find("13"), LOOP))


def test_what_is_written_wrong_is_noticed(monkeypatch):
    monkeypatch.setattr(banks, "PLACES", (4, 3, 8))
    with pytest.raises(CompileError, match="nvdisasm does not read in register_banks what was written for sm_90"):
        banks.patched(PROBES[4].build(), sequence(PROBES[4], "one kept, one of each bank"))


@pytest.mark.parametrize(
    ("name", "banks_of_each"),
    [
        ("one register thrice", {(0,)}),
        ("one register twice, of one bank", {(0, 0)}),
        ("three of one bank, the banks in turn", {(0, 0, 0), (1, 1, 1)}),
        ("two of one bank", {(0, 0, 1)}),
        ("two of one bank, but not of one in four", {(0, 1, 2)}),
        ("one kept, two of one bank", {(1, 1)}),
        ("two kept", {(0,)}),
    ],
)
def test_patterns_read_what_their_names_say(name, banks_of_each):
    """After the first, which finds nothing kept."""
    found = {tuple(sorted(register % 4 for register in read)) for read in read_anew(sequence(PROBES[4], name))[1:]}
    assert found == banks_of_each


def test_every_pattern_is_another():
    assert len(set(PATTERNS.values())) == len(PATTERNS) == len({tuple(sequence(PROBES[4], name)) for name in PATTERNS})


def test_what_was_kept_in_the_same_place_is_not_read_anew():
    texts = (
        "FFMA R9, R1.reuse, R2, R3",
        "FFMA R8, R1, R2.reuse, R1",
        "IADD3 R1, R2, R3, RZ",
        "FFMA R7, R2, R1, 1",
        "FFMA R6, R2, R2, R4.reuse",
    )
    code = [SassInstruction(16 * i, text.split()[0], text, "", 0) for i, text in enumerate(texts)]
    assert [of.target for of in operands(code)] == [9, 8, 6]
    assert read_anew(operands(code)) == [{1, 2, 3}, {2, 1}, {2, 4}]


# The recording, as the book asks for it.


@pytest.fixture
def card(monkeypatch):
    """A card that has this recording."""
    monkeypatch.setenv(cards.VARIABLE, next(card for card in cards.recorded() if "banks" in cards.recordings(card)))


def test_what_is_not_recorded_is_an_error(card):
    with pytest.raises(ArgumentError, match="name, warps: got its hot loop, 4, needs what was recorded of 13"):
        banks.cycles(banks.LOOP, 4, sg.find("13"))
    with pytest.raises(ArgumentError, match="01_naive"):
        banks.cycles(banks.LOOP, kernel=sg.find("01"))
