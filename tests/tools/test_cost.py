"""What the instruments cost is measured, read and recorded; and it grows as the work does."""

import json
from itertools import pairwise

import numpy as np
import pytest

import sgemm_tutorial as sg
from sgemm_tutorial.tools import cost

RECORD = json.loads(cost.RECORD.read_text(encoding="utf-8"))


def test_prints_a_table_and_json(capsys):
    cost.main(["--sizes", "8", "16"])
    table = capsys.readouterr().out
    assert all(kernel.name in table for kernel in sg.LADDER)
    cost.main(["--sizes", "8", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [(row["kernel"], row["size"]) for row in rows] == [(kernel.name, 8) for kernel in sg.LADDER]
    assert all(0 < row["seconds"] < 5 for row in rows)


def test_records_both(tmp_path, monkeypatch):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.test_a" time="1.5"/><testcase '
        'classname="tests.test_a" time="0.25"/><testcase classname="book/x.ipynb" time="4"/>'
        "</testsuite></testsuites>",
        encoding="utf-8",
    )
    monkeypatch.setattr(cost, "RECORD", tmp_path / "cost.json")
    cost.main(["--sizes", "8", "--record", str(report)])
    found = json.loads(cost.RECORD.read_text(encoding="utf-8"))
    assert found["suite"] == [
        {"file": "book/x.ipynb", "tests": 1, "seconds": 4.0},
        {"file": "tests.test_a", "tests": 2, "seconds": 1.75},
    ]
    assert len(found["simulator"]) == len(sg.LADDER)
    assert found["provenance"]["numpy"] == np.__version__


@pytest.mark.parametrize("kernel", sg.LADDER, ids=lambda kernel: kernel.name)
def test_recorded_time_grows_with_the_work_and_no_faster(kernel):
    """Eight times the work takes at most twelve times the time, and in the end at least three."""
    times = {row["size"]: row["seconds"] for row in RECORD["simulator"] if row["kernel"] == kernel.name}
    sizes = sorted(times)
    assert sizes[-1] >= 1024
    growth = [times[large] / times[small] for small, large in pairwise(sizes)]
    assert [large / small for small, large in pairwise(sizes)] == [2] * (len(sizes) - 1)
    assert max(growth) < 12
    assert growth[-1] > 3


@pytest.mark.parametrize("kernel", sg.LADDER, ids=lambda kernel: kernel.name)
def test_simulated_instructions_grow_with_the_work(kernel):
    """Twice K is twice the steps, and twice M and N are four times the blocks."""
    BM, BN = kernel.parameters["BM"], kernel.parameters["BN"]

    def executed(M, N, K):
        return sg.simulate(kernel, *sg.matrices(M, N, K, on_gpu=False)).total.instructions

    start, *further = (executed(BM, BN, K) for K in (128, 256, 384))
    assert further[1] - further[0] == further[0] - start > 0
    assert executed(2 * BM, 2 * BN, 128) == 4 * start
