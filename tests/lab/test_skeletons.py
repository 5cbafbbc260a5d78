"""A rung's skeleton compiles, is told wrong, and is right once the lines that it leaves out are back."""

import dataclasses
import re

import pytest

from lab.correctness import Case, judged
from lab.skeletons import GAPS, skeleton, unfinished
from sgemm_tutorial import CATALOGUE, LADDER, ArgumentError, find, kernel_from
from sgemm_tutorial.compiler import PTX_ALONE
from tools.mutants import instances

from ..together import for_each

pytestmark = pytest.mark.slow

each = pytest.mark.parametrize("kernel", [find(name) for name in GAPS], ids=lambda kernel: kernel.name)


def written(folder, name, text):
    path = folder / f"{name}.cu"
    path.write_text(text, encoding="utf-8")
    return kernel_from(path)


TRIAL = {"13_autotuned": 9, "20_persistent": 8, "21_tf32x3_wgmma": 1, "22_any_shape": 2}
"""A kernel's trials that show each of its gaps, where these follow from no tile."""


def verdict(kernel, case):
    """Return whether it is wrong, and then how often its lanes meet in banks, for which PTX is enough."""
    result, counts = judged(kernel, Case(**case), on_gpu=False, architecture=PTX_ALONE)
    return not result.passed, counts.shared_store_conflicts + counts.shared_load_conflicts


@each
def test_unfinished_it_compiles_and_fails(kernel, tmp_path):
    """It has all of its gaps, or any one: it is wrong, or its lanes meet in banks where the rung's do not."""
    small, gaps = instances(kernel)[0], GAPS[kernel.name]
    BM, BN, BK = (small.parameters.get(name, 8) for name in ("BM", "BN", "BK"))
    case = {"M": BM, "N": BN, "K": 5 * BK}  # more tiles than there are stages
    if kernel.name in TRIAL:
        case = kernel.family.trials[TRIAL[kernel.name]]
    assert not any("asm" in gap.put for gap in gaps)  # C++ alone, in which ptxas refuses nothing that NVRTC takes
    wrong, conflicts = verdict(small, case)
    assert not wrong
    for left in dict.fromkeys((gaps, *((gap,) for gap in gaps))):
        mine = written(tmp_path, "mine", skeleton(small, left))
        assert len(unfinished(mine)) >= len(left)
        assert verdict(mine, case) > (wrong, conflicts), left


@each
def test_finished_it_is_the_rung_itself(kernel, tmp_path):
    """So it is as right. Only parameters are defaults now, as in the unfinished one, with which that compiles."""
    finished = written(tmp_path, "mine", skeleton(kernel, ()))
    ours, its = (re.sub(r"template <[^>]*>", "", of.source) for of in (finished, kernel))
    assert ours == its
    assert unfinished(finished) == []


@for_each(kernel=[find(name) for name in GAPS])
def test_but_for_the_gaps_it_is_the_rung_itself(kernel, tmp_path):
    """The same launches; no line is long."""
    mine = written(tmp_path, "mine", skeleton(kernel))
    assert mine.parameters.items() >= kernel.parameters.items()
    for what in ("types", "threads", "function", "dynamic_shared_bytes", "exact"):
        assert getattr(mine, what) == getattr(kernel, what)
    assert kernel.family.trials == mine.family.trials and kernel.family.chooses == mine.family.chooses
    kept = set(kernel.source.splitlines())
    put = [line for line in mine.source.splitlines() if line not in kept]
    assert len(put) <= 3 * len(GAPS[kernel.name]) + 2  # and those of the template
    assert max(map(len, put)) <= 120


def test_rungs_have_one_and_a_file_has_none(tmp_path):
    """A new kernel may do without; those of the ladder may not."""
    assert list(GAPS) == sorted(GAPS)
    assert {kernel.name for kernel in LADDER} < GAPS.keys() <= {kernel.name for kernel in CATALOGUE}
    with pytest.raises(ArgumentError, match=r"^rung: got mine, needs one with a skeleton: 01_naive, "):
        skeleton(written(tmp_path, "mine", skeleton("01")))


def test_a_file_that_was_changed_has_none(tmp_path):
    """Rather than one with the wrong lines left out."""
    changed = dataclasses.replace(find("03"), folder=tmp_path)
    changed.path.write_text(find("03").source.replace("// all threads have read them", "// all threads need them"))
    with pytest.raises(
        ArgumentError, match=r"rung: got 03_shared_tile\.cu without a line '// all threads have read them'"
    ):
        skeleton(changed)
