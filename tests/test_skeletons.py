"""A rung's skeleton compiles, is told wrong, and is right once the lines that it leaves out are back."""

import dataclasses
import difflib

import pytest

from sgemm_tutorial import CATALOGUE, ArgumentError, find, kernel_from, matrices, simulate
from sgemm_tutorial.catalogue import CHOOSING
from sgemm_tutorial.compiler import PTX_ALONE
from sgemm_tutorial.correctness import counted
from sgemm_tutorial.own import unfinished
from sgemm_tutorial.skeletons import GAPS, skeleton

each = pytest.mark.parametrize("kernel", [find(name) for name in GAPS], ids=lambda kernel: kernel.name)


def written(folder, name, text):
    path = folder / f"{name}.cu"
    path.write_text(text, encoding="utf-8")
    return kernel_from(path)


def right(kernel, **case):
    """What `check` says, for which PTX is enough here: ptxas has the rung itself, and its skeleton."""
    return counted(kernel, **case, on_gpu=False, architecture=PTX_ALONE)[0].passed


def verdicts(kernel):
    """Of a whole tile, and of one that hangs over every edge; or of tiles that are shared, of a kernel for that."""
    if kernel.trials:
        return [right(kernel, **case) for case in kernel.trials[:2]]
    BM, BN, BK = (kernel.parameters.get(name, 8) for name in ("BM", "BN", "BK"))
    whole = {"M": BM, "N": BN, "K": 2 * BK, "alpha": 1.0, "beta": 0.0}
    ragged = {"M": BM + 1, "N": BN + 1, "K": BK + 1, "alpha": -1.5, "beta": 0.75}
    return [right(kernel, **case) for case in (whole, ragged)]


def conflicts(kernel):
    total = simulate(kernel, *matrices(128, 128, 32, on_gpu=False, types=kernel.types)).total
    return total.shared_store_conflicts + total.shared_load_conflicts


@each
def test_unfinished_it_compiles_and_fails_and_finished_it_passes(kernel, tmp_path):
    mine = written(tmp_path, "mine", skeleton(kernel))
    assert mine.build().cubin
    assert verdicts(mine) == [False, False]
    assert len(unfinished(mine)) >= len(GAPS[kernel.name])

    text = mine.path.read_text().splitlines()
    solution = skeleton(kernel, ()).splitlines()
    changes = difflib.SequenceMatcher(None, text, solution, autojunk=False).get_opcodes()
    for _, first, last, start, end in reversed([change for change in changes if change[0] != "equal"]):
        text[first:last] = solution[start:end]
    finished = written(tmp_path, "mine", "\n".join(text))
    assert verdicts(finished) == [True, True]
    assert unfinished(finished) == []


@each
def test_each_gap_is_one(kernel, tmp_path):
    """With any one of them left, the kernel is wrong, or its lanes meet in banks where the rung's do not."""
    for number, gap in enumerate(GAPS[kernel.name]):
        mine = written(tmp_path, f"mine_{number}", skeleton(kernel, [gap]))
        BM, BN, BK = (kernel.parameters.get(name, 8) for name in ("BM", "BN", "BK"))
        sizes = {"M": BM, "N": BN, "K": 5 * BK}  # more tiles than there are stages
        assert not right(mine, **next(iter(kernel.trials), sizes)) or conflicts(mine) > conflicts(kernel), gap


@each
def test_it_is_the_rung_itself_but_for_the_gaps(kernel, tmp_path):
    """The same parameters, which are defaults now; no line is long."""
    mine = written(tmp_path, "mine", skeleton(kernel))
    assert mine.parameters.items() >= kernel.parameters.items()
    for what in ("types", "threads", "function", "dynamic_shared_bytes"):
        assert getattr(mine, what) == getattr(kernel, what)
    kept = set(kernel.source.splitlines())
    put = [line for line in mine.source.splitlines() if line not in kept]
    assert len(put) <= 3 * len(GAPS[kernel.name]) + 2  # and those of the template
    assert max(map(len, put)) <= 120


def test_every_rung_has_one_and_a_file_has_none(tmp_path):
    assert list(GAPS) == sorted(kernel.name for kernel in (*CATALOGUE, *CHOOSING))
    with pytest.raises(ArgumentError, match=r"^rung: got mine, needs one with a skeleton: 01_naive, "):
        skeleton(written(tmp_path, "mine", skeleton("01")))


def test_a_file_that_was_changed_has_none(tmp_path):
    """Rather than one with the wrong lines left out."""
    changed = dataclasses.replace(find("03"), folder=tmp_path)
    changed.path.write_text(find("03").source.replace("// nobody reads them", "// nobody needs them"))
    with pytest.raises(
        ArgumentError, match=r"rung: got 03_shared_tile\.cu without a line '// nobody reads them any more'"
    ):
        skeleton(changed)
