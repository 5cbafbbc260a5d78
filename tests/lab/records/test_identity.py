"""A recording knows a kernel by all but the number in front of its name."""

import dataclasses

import pytest

import lab
from lab import counters, profiles
from lab.experiments.recordings import RECORDINGS
from lab.records import files
from lab.records.compare import compare
from lab.records.timings import load
from sgemm_tutorial import LADDER, ArgumentError, catalogue, find
from tools import mutants


@pytest.fixture
def renumbered(tmp_path):
    """Return a copy of a kernel, in a file of another number."""

    def copy(kernel):
        kernel = find(kernel)
        copied = dataclasses.replace(kernel, name=f"77_{files.unnumbered(kernel.name)}", folder=tmp_path)
        copied.path.write_text(kernel.source, encoding="utf-8")
        return copied

    return copy


@pytest.mark.parametrize("kernel", LADDER[:-1], ids=lambda kernel: kernel.name)
def test_a_kernel_with_another_number_finds_its_recordings(kernel, renumbered):
    copied = renumbered(kernel)
    assert copied.name != kernel.name and files.identity(copied) == files.identity(kernel)
    ours, theirs = (lab.recorded(of, [4096]).points for of in (copied, kernel))
    assert ours == [dataclasses.replace(point, kernel=copied.name) for point in theirs]
    assert counters.measured(copied, 256, 256, 256) == counters.measured(kernel, 256, 256, 256)
    assert profiles.states(copied) == profiles.states(kernel)


def test_nothing_of_it_is_measured_again(renumbered):
    plan = RECORDINGS["ladder"]()
    moved = dataclasses.replace(plan, items=[(renumbered(kernel), *size) for kernel, *size in plan.items])
    assert moved.missing(load("ladder").points, plan.processes) == []


def test_two_recordings_of_it_are_compared(renumbered):
    record = load("ladder").select([find("02")])
    moved = record.select([renumbered("02")])
    assert {point.kernel for point in moved.points} == {"77_coalesced"}
    assert len(compare(record, moved).rows) == len(record.points)


def test_another_name_or_other_code_finds_nothing(renumbered):
    copied = renumbered("02")
    with pytest.raises(ArgumentError, match="recorded of other code"):
        lab.recorded(copied.edited(("acc += ", "acc += 0 + ")))
    other = dataclasses.replace(copied, name="02_other", entry="coalesced")
    other.path.write_text(copied.source, encoding="utf-8")
    with pytest.raises(ArgumentError, match="not in the recording"):
        lab.recorded(other)


def test_names_without_numbers_are_unique():
    names = [files.unnumbered(name) for name in lab.beside.names()]
    assert len(set(names)) == len(names) and all(names)


def test_verdicts_on_mutants_follow_it_too(monkeypatch, tmp_path):
    judged = mutants.Judged("code", "judge", "nvrtc", {"barrier removed: x": None})
    files.write(tmp_path / "mutants.json", {"77_shared_tile": judged})
    monkeypatch.setattr(mutants, "RECORD", tmp_path / "mutants.json")
    assert mutants.load() == {catalogue.find("03").name: judged}
