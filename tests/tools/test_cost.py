"""What the instruments cost is measured, read and recorded; and it grows as the work does."""

from itertools import pairwise

import pytest

import sgemm_tutorial as sg
from lab.records import cards, files
from lab.records import cost as recorded
from lab.records.cost import Cost, File
from tools import cost


def test_the_suites_times_are_added_by_file(tmp_path, monkeypatch):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.test_a" time="1.5"/><testcase '
        'classname="tests.test_a" time="0.25"/><testcase classname="book/x.ipynb" time="4"/>'
        "</testsuite></testsuites>",
        encoding="utf-8",
    )
    before = recorded.load()
    monkeypatch.setattr(cards, "RESULTS", tmp_path)
    monkeypatch.setenv(cards.VARIABLE, "mine")
    files.write(tmp_path / "mine" / "cost.json", before)
    cost.main(str(report))
    after = files.load("cost", Cost)
    assert after.suite == [File("book/x.ipynb", 1, 4.0), File("tests.test_a", 2, 1.75)]
    assert after.points == before.points and after.provenance == before.provenance


@pytest.mark.parametrize("kernel", sg.LADDER, ids=lambda kernel: kernel.name)
def test_recorded_time_grows_with_the_work_and_no_faster(kernel):
    """Eight times the work takes at most twelve times the time, and in the end at least three."""
    times = {size: seconds for (_, size), seconds in recorded.seconds([kernel]).items()}
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
    step = max(32, kernel.parameters.get("BK", 0))  # as many tiles as there are stages, or more

    def executed(M, N, K):
        return sg.simulate(kernel, *sg.matrices(M, N, K, on_gpu=False)).total.instructions

    start, *further = (executed(BM, BN, K) for K in (step, 2 * step, 3 * step))
    assert further[1] - further[0] == further[0] - start > 0
    assert executed(2 * BM, 2 * BN, step) == 4 * start
