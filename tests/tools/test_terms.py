"""Every term of the glossary is linked where a page first uses it."""

import pytest

from tools.terms import BOOK, GLOSSARY, linked, pages, terms

KNOWN = terms("""
```{glossary}
warp
  32 threads.

bank
  A slice.

bank conflict
  Two words.

SM
multiprocessor
  A part.

BM, BN
  Extents.
```
""")


def test_terms_and_how_they_are_written():
    assert {"warp", "warps", "SM", "multiprocessors", "BN"} <= KNOWN.keys()
    assert KNOWN["warps"] == "warp"
    assert KNOWN["BN"] == "BM, BN"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a warp, a warp", "a {term}`warp`, a warp"),
        ("Warps wait.", "{term}`Warps <warp>` wait."),
        ("**warps**", "**{term}`warps <warp>`**"),
        ("bank conflicts in a bank", "{term}`bank conflicts <bank conflict>` in a {term}`bank`"),
        ("BM × BN", "{term}`BM <BM, BN>` × BN"),
        ("`warp` $warp$ [warp](x) {doc}`warp` a warp", "`warp` $warp$ [warp](x) {doc}`warp` a {term}`warp`"),
        ("# A warp\n\nA warp", "# A warp\n\nA {term}`warp`"),
        ("```\nwarp\n```\nwarp", "```\nwarp\n```\n{term}`warp`"),
        ("a {term}`group <warp>` is a warp", "a {term}`group <warp>` is a warp"),
        ("warped, sub-warp, SMs", "warped, sub-warp, {term}`SMs <SM>`"),
        ("sm and Sm and SM", "sm and Sm and {term}`SM`"),
        ("k < 0\n\n```\nk >= 0; warp\n```\na warp", "k < 0\n\n```\nk >= 0; warp\n```\na {term}`warp`"),
    ],
)
def test_prose_is_linked_and_nothing_else(before, after):
    assert linked([before], KNOWN) == [after]
    assert linked([after], KNOWN) == [after]


def test_a_page_is_all_its_cells():
    assert linked(["a warp", "a warp", "a bank"], KNOWN) == ["a {term}`warp`", "a warp", "a {term}`bank`"]


def test_pages_are_linked():
    found = pages(sorted([*BOOK.glob("*.ipynb"), *BOOK.glob("deeper/*.ipynb")]))
    assert not {path.stem: corrections for path, _, corrections in found if corrections}, "python -m tools.terms"


def test_the_glossary_has_terms():
    assert len(terms(GLOSSARY.read_text(encoding="utf-8"))) > 100
