"""The README shows what the recording says, its commands exist, and it stays short."""

import dataclasses
import re
import shlex

import pytest

from lab import climb, recorded, sustained
from lab.__main__ import _parser
from lab.records import timings
from sgemm_tutorial import CATALOGUE, LADDER, ArgumentError, find
from tools import readme

STALE = "stale: run python -m tools.readme"
TEXT = readme.README.read_text(encoding="utf-8")
OTHERS = timings.load(readme.OTHERS)


def test_the_table_is_the_recordings():
    assert readme.written(TEXT, climb(), OTHERS) == TEXT, STALE
    rows = re.findall(r"^\| \[(\w+)\]\(\S+\) \| .+ \| (?:[\d.]+%?|–) \| [\d.]+% \|$", TEXT, re.MULTILINE)
    assert rows == sorted(kernel.name for kernel in CATALOGUE)
    ms, share = sustained.lasted(find("20"))
    assert f"| FP16 | {2 * readme.SIZE**3 / ms / 1e9:.1f} | {share:.1%} |" in TEXT, "alone first, in turns second"


def test_the_picture_is_the_recordings(tmp_path):
    readme.picture(climb()).save(tmp_path / "ladder.svg")
    assert (tmp_path / "ladder.svg").read_bytes() == readme.PICTURE.read_bytes(), STALE


def test_another_recording_makes_another_readme(tmp_path):
    record = climb()
    (last,) = recorded(LADDER[-1], [readme.SIZE]).points
    others = [point for point in record.points if point != last]
    other = dataclasses.replace(record, points=[*others, dataclasses.replace(last, ms=last.cublas_ms, processes=[])])
    assert readme.written(TEXT, other, OTHERS).count("| 100.0% |") == 2
    assert TEXT.count("| 100.0% |") == 1
    readme.picture(other).save(tmp_path / "ladder.svg")
    assert (tmp_path / "ladder.svg").read_bytes() != readme.PICTURE.read_bytes()


def test_main_repairs_both(tmp_path):
    page, picture = tmp_path / "README.md", tmp_path / "ladder.svg"
    page.write_text(TEXT.replace("TFLOP/s", "parsecs"), encoding="utf-8")
    readme.main(page, picture)
    assert page.read_text(encoding="utf-8") == TEXT
    assert picture.read_bytes() == readme.PICTURE.read_bytes()


@pytest.mark.parametrize("text", ["", readme.START, f"{readme.END} {readme.START}", 2 * (readme.START + readme.END)])
def test_marks_that_are_not_a_pair_are_refused(text):
    with pytest.raises(ArgumentError, match="one <!-- ladder"):
        readme.written(text, climb(), OTHERS)


def test_its_commands_are_understood():
    commands = re.findall(r"^\.venv/bin/python -m lab (.*?)(?:#.*)?$", TEXT, re.MULTILINE)
    assert {shlex.split(command)[0] for command in commands} == {
        "list",
        "show",
        "check",
        "trace",
        "counters",
        "bench",
        "compare",
        "tune",
        "new",
    }
    for command in commands:
        assert callable(_parser().parse_args(shlex.split(command)).run)
    targets = (readme.ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", TEXT):
        assert f"\n{target}:" in targets


def test_its_python_runs():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names = {}
    exec(code.replace("256", "16"), names)
    assert abs(names["C"] - names["A"] @ names["B"]).max() < 1e-4


def test_its_links_lead_somewhere():
    links = re.findall(r"\]\((?!http)([^)]+)\)", TEXT)
    assert len(links) > 5
    assert not [link for link in links if not (readme.ROOT / link).exists()]


def test_is_under_two_screens():
    lines = sum(-(-len(line) // 160) or 1 for line in TEXT.splitlines())
    assert lines < 90
