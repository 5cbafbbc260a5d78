"""Two recordings are held against each other: only what both have, and only what the spread allows to be said."""

import dataclasses

import pytest

from lab.records import files
from lab.records.compare import compare, verdict
from sgemm_tutorial import ArgumentError, find

from .test_timings import POINT, in_processes, record


def timed(ms, spread=0.01, **more):
    return dataclasses.replace(POINT, ms=ms, ms_p10=ms * (1 - spread), ms_p90=ms * (1 + spread), **more)


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (timed(2.0), timed(1.0), "faster"),
        (timed(1.0), timed(2.0), "slower"),
        (timed(1.0), timed(1.01), "within the spread"),
        (timed(1.01), timed(1.0), "within the spread"),
        (timed(1.0, 0.5), timed(0.6, 0.0), "within the spread"),
        (timed(1.0, 0.5), timed(0.4, 0.0), "faster"),
    ],
)
def test_a_change_is_one_only_beyond_the_spread(before, now, said):
    assert verdict(before, now) == said


def test_a_change_is_one_only_beyond_the_noise():
    assert verdict(timed(1.05), timed(1.0), noise=0.03) == "faster"
    assert verdict(timed(1.05), timed(1.0), noise=0.06) == "within the spread"
    assert verdict(timed(1.0), timed(1.05), noise=0.03) == "slower"
    old, new = record(in_processes(1.03, 1.0, 1.06)), record(in_processes(1.0))
    assert compare(old, new).rows[0][5] == "within the spread"
    assert f"Between processes, {old.noise:.1%} is noise." in compare(old, new).note


def test_each_point_meets_its_own():
    old = record(timed(4.0), timed(1.0, M=128, N=128, K=128), timed(9.0, label="changed"))
    new = record(timed(1.0, M=128, N=128, K=128, digest="other"), timed(2.0), timed(3.0, **files.fields(find("03"))))
    table = compare(old, new)
    assert [row[:5] for row in table.rows] == [
        ["02_coalesced", "128×128×128", 1.0, 1.0, "+0.0%"],
        ["02_coalesced", "4096×4096×2048", 4.0, 2.0, "+100.0%"],
    ]
    assert "Of 2 points in both, 1 are of code that has changed." in table.note
    assert "1 and 1 points are in one recording alone" in table.note


def test_arguments_are_told_apart():
    one, other = timed(4.0), timed(1.0, parameters={"BM": 64, "BN": 32}, label="wide")
    table = compare(record(one, other), record(other, one))
    assert table.columns[1] == "arguments"
    assert [(row[1], row[3]) for row in table.rows] == [("wide, 64, 32", 1.0), ("8, 32", 4.0)]


def test_nothing_in_common():
    with pytest.raises(ArgumentError, match="new: got no kernel and size that are in the other recording"):
        compare(record(timed(1.0)), record(timed(1.0, K=1)))
