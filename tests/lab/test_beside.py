"""The files beside the kernels: each is a kernel's, holds nothing unknown, and refers to text that is there."""

import json
from pathlib import Path

import pytest

from lab import beside as module
from lab import variants
from lab.beside import Beside, beside, names
from sgemm_tutorial import ArgumentError, find, kernel_from

from ..together import for_each


def test_each_file_is_a_kernels():
    assert [find(name).name for name in names()] == names()
    assert beside("no_kernel") == Beside()


@for_each(name=names())
def test_every_edit_finds_its_text(name):
    """`Kernel.files` refuses an edit of text that none of the files holds."""
    made = variants._read(name)
    assert len(made) >= len(beside(name).variant)
    for _, kernel in made:
        assert kernel.name == name and (kernel.files == find(name).files) == (not kernel.edits)


def test_every_group_is_listed_once():
    groups = {entry.group for entry, _ in variants._ALL}
    assert groups == {
        *("variants", "resident", "any shape", "steps", "steps not counted", "steps tested", "FP64", "fragments"),
        *("padded", "tensor", "hopper steps", "hopper widths", "hopper", "BF16", "added", "compiled", "split errors"),
        *("your kernel", "narrow"),
    }


PAGE = Path(__file__).parents[2] / "book" / "your_kernel.ipynb"
FILES = {"repaired.cu": 0, "pointers.cu": 1, "two_loops.cu": 2}
"""Files that the page writes, and which of `variants.YOUR_KERNEL` times each."""


@pytest.mark.parametrize("name", FILES)
def test_the_timed_variants_are_the_code_that_the_page_writes(name, tmp_path):
    """But for the function's name, which a variant has from 02."""
    cells = ["".join(cell["source"]) for cell in json.loads(PAGE.read_text(encoding="utf-8"))["cells"]]
    (text,) = (text for text in cells if text.startswith(f"%%writefile {name}\n"))
    (tmp_path / name).write_text(text.partition("\n")[2], encoding="utf-8")
    theirs, timed = kernel_from(tmp_path / name), variants.YOUR_KERNEL[FILES[name]]
    assert theirs.edited(("tall(", "coalesced(")).digest == timed.digest
    assert (theirs.parameters, theirs.threads) == (timed.parameters, timed.threads)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Put a text beside 01, and read it."""

    def read(text):
        (tmp_path / "01_naive.toml").write_text(text, encoding="utf-8")
        monkeypatch.setattr(module, "KERNELS", tmp_path)
        beside.cache_clear()
        return beside("01_naive")

    yield read
    beside.cache_clear()


VARIANTS = """
[[variant]]
group = "some"
label = "one"
parameters = [{ BM = 16 }, { BM = 8, BN = 64 }]
edits = [["= result;", "= result + 1;"]]

[[variant]]
group = "some"
label = "{after} and two"
after = ["one"]
edits = [["beta != 0.0f", "true"]]
shared_bytes = 7
"""


def test_a_variant_may_start_from_others(written):
    written(VARIANTS)
    naive, made = find("01"), [kernel for _, kernel in variants._read("01_naive")]
    first, second = ("= result;", "= result + 1;"), ("beta != 0.0f", "true")
    ones = [naive.variant(**of).edited(first, label="one") for of in ({"BM": 16}, {"BM": 8, "BN": 64})]
    assert made == [*ones, *(kernel.edited(second, label="one and two") for kernel in ones)]
    assert [kernel.dynamic_shared_bytes for kernel in made] == [0, 0, 7, 7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[variant]]\nlabel = 'x'", "missing required field `group`"),
        ("[[variant]]\ngroup = 'x'\nparameter = [{}]", "unknown field `parameter`"),
        ("[[gap]]\nfirst = 1\nlast = ''\nput = ''", r"\$.gap\[0\].first"),
        ("[[equivalent]\n", "malformed"),
    ],
)
def test_a_malformed_file_is_refused(written, text, message):
    with pytest.raises(ArgumentError, match=message):
        written(text)
