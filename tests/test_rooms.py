"""The repository's rooms: imports run one way, in no circle; each root has a size budget and its front door."""

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ORDER = ("ptxsim", "sgemm_tutorial", "lab", "tools")
"""The roots, the lowest first: each may import those before it."""

IN_LAB = ("lab", "model", "records", "measure", "experiments", "draw", "chapters")
"""The lab's rooms: each may import those before it."""

STATEMENTS = {"ptxsim": 5242, "sgemm_tutorial": 1700, "lab": 9745, "tools": 800}
"""The statements that a root may have, docstrings left out. Code beyond this must earn its place, or go.

What each has beyond the least that the book needs, and what for:

- ptxsim: 1,700 for other people's kernels: calls and local memory, functions of floats, atomics, collectives of partial
  warps, named barriers, races in other orders of execution, sources read as nvcc reads them, and words for what such
  kernels do wrong; 60 of these tell stores of one value from races, and run a block again for the line of a race's
  other access. 215 for speed: it remembers what a pattern of addresses costs, does consecutive plain arithmetic as
  one step, multiplies factors without copies of them, and multiplies on tensor cores in float32 and int32, without
  what lies beyond a matrix's edges. 8 are movmatrix, with which 22 turns 16-bit sums.
- sgemm_tutorial: 220 for 22, which chooses among its tiles and four other kernels, copies A and B where it must, lets
  launches overlap and writes 16 bits too. 70 notice that a file has changed without looking at each file at each call,
  which was up to half of a call's time. 24 have 21 hand over to 13 what 13 does more quickly.
- lab: 318 judge results against float64, and name an element that is wrong; they have moved here from sgemm_tutorial,
  which needs no verdict to launch. 837 read other people's launches, and structs, and say what is wrong with
  their products. 18 fit what the commands say into a terminal's width. 400 are figures, tables and assertions of
  chapters, instead of hidden cells. 150 for what a power limit does, 150 for any number of GPUs and hosts, 110 for
  22's chapter, recordings and search, 56 for the multiprocessors' own clock, 25 for the hardware's counters,
  25 for an opponent that pads matrices, and for its lasting runs.
"""
MODULES_MOST = {"sgemm_tutorial": 22}
WORDS, WORDS_OF_A_PAGE, WORDS_BEFORE_EXERCISES = 59_000, 1_950, 1_500
"""The words of prose that the book may have, exercises and solutions included; a page; and a page without them."""
NO_PROSE = re.compile(
    r"```.*?```|\$\$.*?\$\$|\{[\w:-]+\}`[^`]*`|`[^`]*`|\$[^$]*\$|\]\([^)]*\)|^[|:][^\n]*$", re.DOTALL | re.MULTILINE
)
"""Code, formulas, roles (a term, a figure from a record), the targets of links, and tables."""

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for root in ORDER
    for path in (ROOT / root).rglob("*.py")
}


def room(module):
    """A root; of the lab, the folder within it."""
    root, *inside = module.split(".")
    return inside[0] if root == "lab" and len(inside) > 1 else root


def imported(name, tree):
    """Yield the modules of the repository that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = name.split(".")[: -node.level] if node.level else []
            base = ".".join(filter(None, [*base, node.module]))
            found = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for path in found:
            if path.partition(".")[0] in ORDER:
                yield _module(path)


def _module(path):
    """The module that a dotted path names, or a name in which it names."""
    above = path.rpartition(".")[0]
    tried = (path, f"{path}.__init__", above, f"{above}.__init__")
    return next(module for module in tried if module in MODULES)


TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
IMPORTS = {name: set(imported(name, tree)) for name, tree in TREES.items()}


def test_imports_are_seen():
    """The rules below look at something: imports that are surely there."""
    assert "sgemm_tutorial.errors" in IMPORTS["sgemm_tutorial.kernel"]
    assert "lab.draw.__init__" in IMPORTS["lab.__init__"]
    text = "from ..paths import RESULTS\ndef f():\n    from sgemm_tutorial import gpu\n    import tools.readme\n"
    assert set(imported("lab.model.sass", ast.parse(text))) == {"lab.paths", "sgemm_tutorial.gpu", "tools.readme"}


@pytest.mark.parametrize("root", ORDER)
def test_imports_run_one_way(root):
    below = ORDER[: ORDER.index(root) + 1]
    wrong = [
        f"{module} imports {other}"
        for module, found in IMPORTS.items()
        for other in found
        if module.partition(".")[0] == root and other.partition(".")[0] not in below
    ]
    assert not wrong


def test_the_labs_rooms_import_one_way():
    """The front door and the command line stand above the rooms."""
    wrong = []
    for module, found in IMPORTS.items():
        if module in ("lab.__init__", "lab.__main__") or not module.startswith("lab."):
            continue
        for other in found:
            if not other.startswith("lab."):
                continue
            here, there = IN_LAB.index(room(module)), IN_LAB.index(room(other))
            if there > here or other == "lab.__init__":
                wrong.append(f"{module} imports {other}")
    assert not wrong


def test_no_circles():
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None


def test_annotations_are_imports_too():
    """An import for type checkers alone would hide an arrow."""
    hidden = [
        module
        for module, tree in TREES.items()
        if any(getattr(node, "id", getattr(node, "attr", "")) == "TYPE_CHECKING" for node in ast.walk(tree))
    ]
    assert not hidden


NUMBERED = {"sgemm_tutorial.catalogue", "lab.records.published", "lab.model.predictions", "tools.mutants"}
"""Modules that name kernels by number: the catalogue, and those with a table by kernel. `lab.model.sass` has widths."""


def test_no_module_asks_which_kernel_it_has():
    """It asks for a fact: a template parameter, a property of the family, a group, a catalogue entry.

    Only a kernel's family, chapter and `NUMBERED` know its number, so that a kernel which moves in the book changes no
    other module.
    """
    names = {part for path in (ROOT / "kernels").glob("[0-9]*.cu") for part in (path.stem, path.stem[:2])}
    exempt = NUMBERED | {module for module in MODULES if "families" in module or room(module) == "chapters"}
    asking = [
        f"{module}, line {one.lineno}"
        for module, tree in TREES.items()
        if module not in exempt | {"lab.model.sass"}
        for one in ast.walk(tree)
        if isinstance(one, ast.Constant) and one.value in names
    ]
    assert len(names) == 46 and not asking


def test_somebody_takes_each_name_from_the_labs_front_door():
    """A page, a notebook or a test takes it, as ``lab.name`` or by ``from lab import name``."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    texts += [path.read_text(encoding="utf-8") for of in ("*.ipynb", "*.md") for path in (ROOT / "book").rglob(of)]
    taken = {name for text in texts for name in re.findall(r"\blab\.(\w+)", text)}
    for text in texts:
        for names in re.findall(r"\bfrom lab import (\([^)]*\)|[\w, ]*)", text):
            taken.update(re.findall(r"\w+", names))
    last = TREES["lab.__init__"].body[-1]  # __all__ = [...]
    offered = set(ast.literal_eval(last.value))
    assert len(offered) > 30 and not offered - taken


def test_a_modules_name_means_one_thing():
    """Rooms share a name only for one subject: what predicts it, measures it, has recorded it and tends the record."""
    rooms = defaultdict(set)
    for module in MODULES:
        if module not in ("ptxsim.errors", "ptxsim.paths", "lab.paths"):  # each root's own
            rooms[module.rpartition(".")[2]].add(room(module))
    assert not {stem for stem in rooms if stem in sys.stdlib_module_names}
    shared = {stem: found for stem, found in rooms.items() if len(found) > 1 and not stem.startswith("__")}
    assert not {
        stem: found for stem, found in shared.items() if not found <= {"model", "experiments", "records", "tools"}
    }


def reached(path):
    """Yield the roots that a module of the tests imports, itself and by way of the tests' other modules."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            named = [folder.with_suffix(".py"), *(folder / f"{alias.name}.py" for alias in node.names)]
            for other in filter(Path.is_file, named):
                yield from reached(other)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from {name.partition(".")[0] for name in names} & {*ORDER, "tests"}


def test_ptxsims_tests_need_ptxsim_alone():
    """It is a package of its own, whose tests use its own front door."""
    paths = sorted((ROOT / "tests" / "ptxsim").glob("*.py"))
    found = {path.name: sorted(set(reached(path))) for path in paths}
    assert {name: roots for name, roots in found.items() if roots not in ([], ["ptxsim"])} == {}
    assert set(reached(ROOT / "tests" / "sources.py")) == {"ptxsim", "sgemm_tutorial"}, "imports are seen"


def statements(tree):
    """Count statements, docstrings left out."""
    return sum(
        isinstance(node, ast.stmt)
        and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize("root", ORDER)
def test_each_root_keeps_its_budget(root):
    mine = {module: statements(tree) for module, tree in TREES.items() if module.partition(".")[0] == root}
    assert sum(mine.values()) <= STATEMENTS[root], sorted(mine.items(), key=lambda of: -of[1])
    assert len(mine) <= MODULES_MOST.get(root, len(mine))


def words(path):
    """Count the words of a notebook's prose: all, and those before its exercises."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    main, *_ = re.split(r"^#+ .*[Ee]xercise.*$", text, maxsplit=1, flags=re.MULTILINE)
    return [len(re.findall(r"\w+", NO_PROSE.sub(" ", part))) for part in (text, main)]


def test_the_book_keeps_its_budget():
    pages = [path for path in (ROOT / "book").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts]
    count = {path.stem: words(path) for path in pages}
    assert sum(whole for whole, _ in count.values()) <= WORDS, sorted(count.items(), key=lambda of: -of[1][0])
    assert {name: each for name, each in count.items() if each[0] > WORDS_OF_A_PAGE} == {}
    assert {name: each for name, each in count.items() if each[1] > WORDS_BEFORE_EXERCISES} == {}


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("ptxsim", ("cupy", "cuda", "sgemm_tutorial", "lab", "tools", "matplotlib")),
        ("sgemm_tutorial", ("lab", "tools", "matplotlib")),
        ("lab", ("tools",)),
    ],
)
def test_importing_a_root_brings_none_that_is_above(module, without):
    code = f"import sys, {module}; print(sorted({{name.partition('.')[0] for name in sys.modules}} & {set(without)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
