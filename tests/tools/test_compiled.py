"""The record of machine code equals what today's compiler makes, for the same source and options alone."""

import dataclasses

import pytest

from lab import resources, sass_mix, sass_table
from lab.model import compiled as records
from lab.model import resources as model
from ptxsim import nvrtc
from sgemm_tutorial import compiler, find
from tools import compiled

pytestmark = pytest.mark.slow

RECORDED = compiled.load()
NAIVE = find("01")


@pytest.fixture(scope="module")
def missing():
    """Items without a record, which the tests that ask for them compile."""
    return compiled.missing()


@pytest.fixture(scope="module")
def sampled():
    """Items that are compiled again."""
    return compiled.sampled()


def test_little_is_compiled_for_want_of_a_record(missing, record_property):
    """Another compiler, such as another kind of processor's, compiles everything: nothing was recorded with it."""
    if len(missing) == len(compiled.plan()):
        record_property("summary", "book/results/compiled.json is of another compiler, and of no use here")
        return
    assert len(missing) <= compiled.LIMIT, f"run `make compiled`: {len(missing)} are not recorded as they are now"


def test_only_what_is_planned_is_recorded():
    assert RECORDED.keys() <= {compiled.name_of(*item) for item in compiled.plan()}


@pytest.mark.parametrize("number", range(compiled.SAMPLE))
def test_a_sample_is_compiled_again(number, sampled, missing):
    if sampled[number] not in missing:
        assert compiled.compiled(*sampled[number]) == RECORDED[compiled.name_of(*sampled[number])]


def test_the_sample_is_the_same_each_time(sampled):
    assert compiled.sampled() == sampled and len(set(sampled)) == compiled.SAMPLE


@pytest.fixture
def recording(tmp_path, monkeypatch):
    """A recording of one kernel with figures that no compiler gives, and where it is."""
    figures = dataclasses.replace(model.allotted(NAIVE, "sm_90"), registers=7)
    digest = records.digest(NAIVE.instance, "sm_90")
    mix = {"kernel": {"FFMA": 9}, "loop": {"FFMA": 8}}
    recorded = {digest: records.Compiled(digest, figures, mix, "Nowhere.")}
    monkeypatch.setattr(records, "known", lambda: recorded)
    return figures


def test_what_is_recorded_is_not_compiled(recording, monkeypatch):
    monkeypatch.setattr(compiler, "_compile", None)
    assert resources(NAIVE, "sm_90") == recording
    assert sass_mix(NAIVE, "sm_90") == {"kernel": {"FFMA": 9}, "loop": {"FFMA": 8}}
    assert sass_table(NAIVE, "sm_90").note == "Nowhere."
    compiler.require(NAIVE.instance, "sm_90")


def test_of_anything_else_the_compiler_is_asked(recording, tmp_path, monkeypatch):
    copy = dataclasses.replace(NAIVE, folder=tmp_path)
    copy.path.write_text(NAIVE.source)
    assert resources(copy) == recording
    copy.path.write_text(NAIVE.source + "\n")
    other = NAIVE.parameters["BM"] // 2
    for kernel, architecture in ((copy, "sm_90"), (NAIVE, "sm_80"), (NAIVE.variant(BM=other), "sm_90")):
        assert resources(kernel, architecture).registers > 7
        assert sum(sass_mix(kernel, architecture)["kernel"].values()) > 9
        assert sass_table(kernel, architecture).note.startswith("The hot loop is")
    monkeypatch.setattr(nvrtc, "toolchain", lambda: ("another",))
    assert resources(NAIVE).registers > 7


def test_recording_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    plan = [(NAIVE, "sm_80"), (NAIVE, "sm_90"), (find("02"), "sm_90")]
    made = []

    def interrupted(kernel, architecture):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append((kernel, architecture))
        return dataclasses.replace(
            RECORDED[compiled.name_of(NAIVE, "sm_90")], digest=records.digest(kernel.instance, architecture)
        )

    monkeypatch.setattr(records, "RECORD", tmp_path / "compiled.json")
    monkeypatch.setattr(compiled, "plan", lambda: plan)
    monkeypatch.setattr(compiled, "compiled", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiled.main()
    assert made == plan[:2] and compiled.missing() == plan[2:]
    monkeypatch.setattr(compiled, "compiled", lambda *item: made.pop() and interrupted(*item))
    compiled.main()
    assert compiled.missing() == [] and list(compiled.load()) == [compiled.name_of(*item) for item in plan]
    monkeypatch.setattr(compiled, "plan", lambda: plan[1:])
    compiled.main()
    assert list(compiled.load()) == [compiled.name_of(*item) for item in plan[1:]]
