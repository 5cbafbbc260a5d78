"""The rooms and places that CONTRIBUTING.md names are there, and have the jobs that it says."""

import functools
import importlib
import re
from pathlib import Path

import pytest

from .test_rooms import IMPORTS, IN_LAB, ORDER, TREES, statements
from .together import for_each

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def rows(heading):
    """Return the cells of the table below a heading."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line][2:]


def test_every_room_and_its_job():
    """The lowest room stands last."""
    rooms = {name.strip("`"): job for name, job in rows("Rooms")}
    lab = [f"lab.{room}" for room in reversed(IN_LAB[1:])]
    assert set(rooms) == {*ORDER, *lab}
    assert [room for room in rooms if "." not in room] == list(reversed(ORDER))
    for room, job in rooms.items():
        assert importlib.import_module(room).__doc__.splitlines()[0] == job


def brought(module, found):
    """Add to `found` the modules that importing a module brings."""
    for other in IMPORTS[module] - found:
        found.add(other)
        brought(other, found)
    return found


@functools.cache
def floors(module):
    """The modules of the longest chain of imports from a module on, within its root."""
    root = module.partition(".")[0]
    return 1 + max((floors(other) for other in IMPORTS[module] if other.partition(".")[0] == root), default=0)


@pytest.mark.parametrize("row", rows("How much there is"), ids=lambda row: row[0].strip("`"))
def test_how_much_there_is(row):
    root, *said = (cell.strip("`").replace(",", "") for cell in row)
    mine = [module for module in IMPORTS if module.partition(".")[0] == root]
    now = [sum(statements(TREES[module]) for module in mine), len(mine), sum(len(IMPORTS[module]) for module in mine)]
    now.append(max(map(floors, mine)))
    if root != "tools":  # which nobody imports
        now.append(len(brought(f"{root}.__init__", set())))
    assert all(of <= int(figure) <= 1.1 * of for of, figure in zip(now, filter(None, said), strict=True)), now


@for_each(place=sorted(set(re.findall(r"`((?:lab|tools|sgemm_tutorial|ptxsim)\.[\w.]+\w)`", TEXT))))
def test_every_place_is_there(place):
    module, _, name = place.rpartition(".")
    try:
        importlib.import_module(place)
    except ModuleNotFoundError:
        assert hasattr(importlib.import_module(module), name)


def test_every_folder_is_there():
    folders = re.findall(r"`([\w/]+/)`", " ".join(cell for row in rows("What to add where") for cell in row[1:]))
    assert len(folders) > 3 and all((ROOT / folder).is_dir() for folder in folders)


def test_every_file_is_there():
    """The first page's files may stand without the folder that it has named before."""
    named = set(re.findall(r"`([\w/]+\.(?:py|cu|md|toml|txt))`", TEXT)) - {"kernels/NN_name.toml"}
    folders = [ROOT, ROOT / "sgemm_tutorial", ROOT / "kernels"]
    assert len(named) > 15 and not {name for name in named if not any((of / name).is_file() for of in folders)}
