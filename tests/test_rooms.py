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

STATEMENTS = {"ptxsim": 5151, "sgemm_tutorial": 1994, "lab": 9410, "tools": 850}
"""How many statements a root may have, docstrings left out. What is over this must earn its place, or go.

ptxsim has 1,400 more than a simulator of this book's kernels would need, for other people's: calls and local memory,
functions of floats, atomics, collectives of partial warps, named barriers, races in other orders of execution, and the
reading of CUDA sources. The lab has 450 for the launches of other people's matrix products, and their mistakes, 150
for what a power limit does to bursts, lasting runs and turns, and 150 for products on any number of GPUs and hosts:
rings and a division in two dimensions, and a process for each GPU with sockets between them. Another 400 are figures
and tables that chapters compute from recordings, with assertions that a sentence which compares them is true; most
were hidden cells of the notebooks before, which have 345 statements less. 56 read the multiprocessors' own clock
beside NVML's. Kernel 22 brings sgemm_tutorial 80, for its choice, its copies of A and B, and launches that overlap,
and the lab 50, for its chapter and recording. ptxsim has 28 for products on tensor cores in float32 and int32: of
256³, 16 takes 0.7 of the time, and 17 takes 0.6. Another 24 of sgemm_tutorial have kernel 21 hand over to 13 what 13
does more quickly, and keep checks and recordings of 21 so. And 70 notice that a file has changed without looking at
each file at each call, which was up to half of a call's time. Another 159 of ptxsim make the simulated suites of 09 to
22 faster: it remembers what a pattern of addresses costs, does consecutive plain arithmetic as one step, computes an
operand's exponents once for all its products, and leaves out products of the zeros beyond a matrix's edges. And 65 of
sgemm_tutorial are for 22's thin products, which another kernel does up to three times as quickly, and for a C of 16
bits; 30 of the lab tell of them in 22's chapter. Another 30 of the lab search 22's settings too, whose table brings a
hundredth to squares and a thirtieth to other shapes, and try it at random products; 25 read the
hardware's counters of any kernel. And 22 of sgemm_tutorial choose two more kernels, for vectors and pairs of them,
which are up to twice as quick; 52 choose one for a small C with a long K, which takes a ninth less time there. 300 of
the lab read launches in host code as C++ has them, say what is wrong with more of other people's products, and take
transposed matrices and sizes under other names.
Another 169 of ptxsim tell other people what their kernels do wrong: 97 follow the values that a shuffle leaves
undefined, 40 take structs with the addresses of arrays, and the others name read-only arrays, misaligned places, and
what loops and races lack.
Another 100 of ptxsim take other people's sources as nvcc does: annotations in macros, variables of the host, aligned
structs, classes that kernels use, and shared memory of functions. And 33 have it find no race where an mbarrier or
a fence orders shared memory, and take atomics in clusters, hints for caches, and tokens that nobody reads.
"""
MODULES_MOST = {"sgemm_tutorial": 22}
WORDS, WORDS_OF_A_PAGE, WORDS_BEFORE_EXERCISES = 59_050, 1_950, 1_500
"""How many words of prose the book may have, exercises and solutions included; a page; and a page without them."""
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
    """That the rules below look at something: imports that are surely there."""
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
    """What is imported for type checkers alone would hide an arrow."""
    hidden = [
        module
        for module, tree in TREES.items()
        if any(getattr(node, "id", getattr(node, "attr", "")) == "TYPE_CHECKING" for node in ast.walk(tree))
    ]
    assert not hidden


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
