"""The player of a kernel's lines shows their PTX, their machine code, and what the simulator counted."""

import re
from collections import Counter

import pytest

import lab
import sgemm_tutorial as sg
from sgemm_tutorial import ArgumentError
from sgemm_tutorial.compiler import ARCHITECTURE

FIRST, LAST, READS = 36, 54, 47


@pytest.fixture(scope="module")
def run():
    return sg.simulate("06", *sg.matrices(128, 64, 64, on_gpu=False))


@pytest.fixture(scope="module")
def player(run):
    return lab.draw.lowering("lines", run, (FIRST, LAST), READS)


@pytest.fixture(scope="module")
def ptx_lines(run):
    """Count the instructions of PTX's loop by line: those between the last label and the branch back."""
    text = run.kernel.build(ARCHITECTURE).ptx
    loops = re.findall(r"^(\$L\w+):\n((?:(?!^\$L).*\n)*?)\s*@%p\d+ bra\s+\1;", text, re.MULTILINE)
    ((_, loop),) = [found for found in loops if "fma.rn.f32" in found[1]]
    line, counts = 0, Counter()
    for row in map(str.strip, loop.splitlines()):
        if location := re.match(r"\.loc\s+1 (\d+)", row):
            line = int(location[1])
        elif row.endswith(";") and not row.startswith("."):
            counts[line] += 1
    counts[line] += 1  # the branch
    return counts


def test_each_line_has_its_instructions(run, player, ptx_lines):
    sass_lines = Counter(of.line for of in lab.hot_loop(lab.sass(run.kernel)))
    steps = player.controls[0].values
    assert ptx_lines.total() > 100 and sass_lines.total() > 100
    for step, label in enumerate(steps):
        line = int(label.removeprefix("line "))
        _, made = player.shown([step])
        for name, counts in (("PTX", ptx_lines), ("SASS for sm_90", sass_lines)):
            share = f"{counts[line]} of the loop's {counts.total()} instructions"
            assert f"{name}: {share}" in made.alt and share in made.body.replace("&#39;", "'")
    assert {f"line {line}" for line in ptx_lines | sass_lines} <= set(steps)


def test_each_line_did_what_was_counted(run, player):
    for step, label in enumerate(player.controls[0].values):
        counts = run.lines[int(label.removeprefix("line "))]
        source, _ = player.shown([step])
        assert f"{counts.instructions:,} instructions of PTX" in source.alt
        for noun, requests, needed in (
            ("shared load", counts.shared_load_requests, counts.shared_load_wavefronts),
            ("shared store", counts.shared_store_requests, counts.shared_store_wavefronts),
            ("global load", counts.global_load_requests, counts.global_load_sectors),
        ):
            assert (f"{requests:,} {noun}s: {needed:,} " in source.alt) == bool(requests)
        assert (f"{counts.by_class['fma']:,} multiply-adds" in source.alt) == bool(counts.by_class["fma"])


def test_all_of_the_source_is_there(run, player):
    source, _ = player.shown([0])
    shown = "".join(re.findall(r">([^<]*)</text>", source.body)).replace(" ", "")
    wanted = [text.partition("//")[0] for text in run.kernel.source.splitlines()[FIRST - 1 : LAST]]
    for text in wanted:
        assert text.replace(" ", "").replace("&", "&amp;").replace("<", "&lt;") in shown


def test_a_pointer_on_code_picks_its_line(run, player):
    """A line is marked when its place, as the picks have it, is chosen."""
    for pick in player.picks:
        for y, step in pick.at:
            figure = player.shown([step])[pick.panel]
            tops = [float(top) for top in re.findall(r"M30 ([\d.]+)L", "".join(figure.body.partition("<text")[0]))]
            assert any(top <= y <= top + 17 for top in tops), (pick.panel, y)
    assert {step for _, step in player.picks[0].at} == set(range(len(player.controls[0].values)))


def test_what_cannot_be_shown(run):
    with pytest.raises(ArgumentError, match=r"^line: got 40, needs one that something is made of: 36, 38, 39"):
        lab.draw.lowering("lines", run, (FIRST, LAST), 40)
    other = sg.simulate("07", *sg.matrices(64, 64, 16, on_gpu=False))
    with pytest.raises(ArgumentError, match=r"07_vectorized, needs a kernel with a loop of one basic block"):
        lab.draw.lowering("lines", other, (1, 80), next(iter(other.lines)))
