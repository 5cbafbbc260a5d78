"""Published figures are read as they stand, and held against the right cuBLAS."""

import pytest

import sgemm_tutorial as sg
from lab import published
from lab.records.published import Result
from sgemm_tutorial import ArgumentError


def test_every_kernel_named_is_in_the_file():
    listed = {(result.source, result.kernel) for result in published.load() if result.table == "ladder"}
    assert {(source, name) for source, names in published.RUNGS.items() for name in names} <= listed


def test_the_file_is_read_once():
    assert published.load() is published.load()


def test_every_rung_named_is_in_the_ladder():
    assert {rung for names in published.RUNGS.values() for rung in names.values()} <= {k.name[:2] for k in sg.LADDER}


def test_a_share_is_of_the_same_sources_cublas():
    ours = Result("junstar92", "card", "ladder", "SMEM SGEMM", 4096, 40.0, None)
    results = [
        ours,
        Result("junstar92", "card", "ladder", "cuBLAS", 4096, 10.0, None),
        Result("siboehm", "other", "ladder", "cuBLAS", 4096, None, 200.0),
        Result("siboehm", "other", "ladder", "1: Naive", 4096, None, 3.0),
        Result("vantaa89", "third", "ladder", "Naive", 4096, None, 3.0),
        Result("junstar92", "card", "sweep", "SMEM SGEMM", 4096, 1.0, None),
    ]
    assert published.shares(results) == {"CARD, junstar92": {"03": 25.0}, "OTHER, Boehm": {"01": 1.5}}


def test_the_source_whose_table_is_wrong_by_its_own_figures():
    """It says 89.19% of its warp tile."""
    assert published.shares(published.load())["RTX 3080, junstar92"]["09"] == pytest.approx(78.2, abs=0.05)


def test_a_malformed_file_is_named(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("source,gpu\nsomebody,something\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"results\.csv"):
        published.load(path)
    with pytest.raises(ArgumentError, match="none"):
        published.load(tmp_path / "none.csv")
