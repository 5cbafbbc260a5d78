"""What CONTRIBUTING.md says of the rooms, and of where things go, is so."""

import importlib
import re
from pathlib import Path

import pytest

import sgemm_tutorial

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "sgemm_tutorial"


def rows(heading):
    """Return the cells of the table below a heading."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line][2:]


def test_every_room_and_its_job():
    rooms = {name.strip("`"): job for name, job in rows("Rooms")}
    there = {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}
    assert rooms.keys() == there | {"sgemm_tutorial"}
    for room, job in rooms.items():
        name = "sgemm_tutorial" if room == "sgemm_tutorial" else f"sgemm_tutorial.{room}"
        assert importlib.import_module(name).__doc__.splitlines()[0] == job


@pytest.mark.parametrize(
    "place",
    sorted(
        {name for row in rows("What to add where") for cell in row[1:] for name in re.findall(r"`([\w.]+\.\w+)`", cell)}
    ),
)
def test_every_place_is_there(place):
    module, _, name = place.rpartition(".")
    assert hasattr(importlib.import_module(f"{sgemm_tutorial.__name__}.{module}"), name)


def test_every_folder_is_there():
    for row in rows("What to add where"):
        for folder in re.findall(r"`(\w+/)`", " ".join(row[1:])):
            assert (ROOT / folder).is_dir() or (PACKAGE / folder).is_dir()
