import dataclasses
import re
from html import unescape

import pytest
import rich.console

from lab import diff, show
from sgemm_tutorial import ArgumentError, catalogue
from sgemm_tutorial.paths import KERNELS

from ..together import for_each

NAIVE, COALESCED, TILE = map(catalogue.find, ("01", "02", "03"))


def text_of(html: str) -> str:
    """The code that a browser would show and copy: no style, no caption, no line numbers."""
    html = re.sub(r'<span class="linenos">.*?</span>', "", html)
    code = re.search(r"<pre>(.*)</pre>", html, re.DOTALL)[1]
    return unescape(re.sub(r"<[^>]*>", "", code))


@for_each(kernel=catalogue.LADDER)
def test_the_whole_file_is_shown(kernel):
    assert repr(show(kernel)) == kernel.source.rstrip("\n")
    assert text_of(show(kernel)._repr_html_()) == kernel.source


def test_the_html_is_coloured_by_classes_and_numbered():
    html = show(TILE)._repr_html_()
    assert '<div class="highlight">' in html
    assert re.search(r'<span class="k\w?">__shared__</span>', html)  # the CUDA lexer, not plain C++
    assert "<span style=" not in html
    numbers = re.findall(r'<span class="linenos"> *(\d+)</span>', html)
    assert numbers == [str(1 + i) for i in range(len(TILE.source.splitlines()))]
    assert "kernels/03_shared_tile.cu" in html


def test_a_part_keeps_its_line_numbers():
    part = show(TILE, lines=(15, 16))
    assert repr(part).splitlines() == TILE.source.splitlines()[14:16]
    assert re.findall(r'<span class="linenos"> *(\d+)</span>', part._repr_html_()) == ["15", "16"]


def test_the_file_is_read_anew(tmp_path):
    mine = dataclasses.replace(NAIVE, folder=tmp_path)
    for text in ("// one", "// two"):
        mine.path.write_text(text + "\n")
        assert repr(show(mine)) == text


def test_a_header_is_shown():
    kernel = catalogue.find("07")
    part = show(kernel, lines=(2, 4), header="edges.cuh")
    assert repr(part).splitlines() == (KERNELS / "edges.cuh").read_text().splitlines()[1:4]
    assert "kernels/edges.cuh" in part._repr_html_()
    with pytest.raises(
        ArgumentError, match=r"^header: got 'no.cuh', needs one that 07_vectorized\.cu includes, of 07_"
    ):
        show(kernel, header="no.cuh")


@pytest.mark.parametrize(
    ("kernel", "begins", "first", "last"),
    [
        ("03", "for (int k = 0", "        for (int k = 0; k < BK; ++k)", "acc += As[tileRow][k] * Bs[k][tileCol];"),
        ("04", "#pragma unroll 2", "        #pragma unroll 2", "        }"),
        ("05", "float acc", "    float acc[TM][TN] = {};", "float acc[TM][TN] = {};"),
        ("07", "auto fetch", "        auto fetch = [&](bool whole) {", "        };"),
    ],
)
def test_a_statement_is_shown_to_its_end(kernel, begins, first, last):
    part = repr(show(kernel, begins)).splitlines()
    assert part[0].startswith(first)
    assert part[-1].endswith(last)
    assert all(line.startswith("   ") or not line for line in part)
    assert sum(line.count("{") - line.count("}") for line in part) == 0


def test_several_statements_are_shown_from_the_first_to_the_end_of_the_last():
    both, last = (repr(show("07", lines)).splitlines() for lines in (("float acc", "auto fetch"), "auto fetch"))
    assert both[0] == repr(show("07", "float acc")) and both[-len(last) :] == last and len(both) > len(last)
    with pytest.raises(ArgumentError, match=r"^lines: got .* in 0 lines"):
        show("07", ("float acc", "float4 nowhere"))
    with pytest.raises(ArgumentError, match=r"^lines: got .* first and last line"):
        show("07", ("auto fetch", "float acc"))


@pytest.mark.parametrize("begins", ["float4 nowhere", "for ("])
def test_a_statement_must_be_one(begins):
    with pytest.raises(ArgumentError, match=r"^lines: got .* in \d+ lines, needs what stands in one line of 05_"):
        show("05", begins)


@pytest.mark.parametrize("lines", [(0, 3), (5, 4), (1, 10_000)])
def test_lines_that_are_not_there_are_refused(lines):
    with pytest.raises(ArgumentError, match=r"^lines: got .* of 01_naive\.cu"):
        show(NAIVE, lines=lines)


def test_the_difference_of_two_rungs():
    changes = diff(NAIVE, COALESCED)
    lines = repr(changes).splitlines()
    assert lines[:2] == ["--- 01_naive.cu", "+++ 02_coalesced.cu"]
    removed = {line[1:] for line in lines[2:] if line.startswith("-")}
    added = {line[1:] for line in lines[2:] if line.startswith("+")}
    assert removed == set(NAIVE.source.splitlines()) - set(COALESCED.source.splitlines())
    assert added == set(COALESCED.source.splitlines()) - set(NAIVE.source.splitlines())
    html = changes._repr_html_()
    assert text_of(html).rstrip("\n") == repr(changes)
    assert html.count('class="gi"') == sum(line.startswith("+") for line in lines)
    assert not repr(diff(NAIVE, NAIVE))


@pytest.mark.parametrize("width", [200, 60])
def test_a_terminal_shows_every_line_in_full(width):
    console = rich.console.Console(width=width, file=open("/dev/null", "w"), record=True)  # noqa: SIM115
    console.print(show(TILE).rich())
    shown = "".join(console.export_text().split())  # a narrow terminal wraps
    for number, line in enumerate(TILE.source.splitlines(), start=1):
        assert str(number) + "".join(line.split()) in shown
