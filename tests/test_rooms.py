"""The package's rooms: imports run downward only, in no circle, and a module's name means one thing."""

import ast
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

from sgemm_tutorial.paths import PACKAGE

ALLOWED = {
    "top": {"top", "simulator"},
    "simulator": {"simulator"},
    "model": {"model", "top", "simulator"},
    "records": {"records", "top", "simulator", "model"},
    "draw": {"draw", "top", "simulator", "model", "records"},
    "measure": {"measure", "top", "simulator", "model", "records"},
    "tools": {"tools", "measure", "draw", "records", "model", "top", "simulator"},
}
"""Which rooms a room may import from; modules of the package's top are a room too."""

SIMULATOR_TAKES = {"errors", "hardware", "progress", "table"}
"""Modules of the top that the simulator may import: none that knows a `Kernel`."""

FRONT_DOORS = {"__init__", "__main__"}
"""Modules of the top that are above all rooms."""

MODULES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}


def room(module):
    """The folder, or "top"."""
    return module.partition(".")[0] if "." in module else "top"


def imported(name, tree):
    """Yield the modules of the package that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = name.split(".")[: -node.level] + (node.module or "").split(".")
            base = ".".join(["sgemm_tutorial", *filter(None, base)])
            found = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for path in found:
            package, _, inside = path.partition(".")
            if package == "sgemm_tutorial":
                yield _module(inside)


def _module(path):
    """The module that a dotted path names, or a name in which it names."""
    above = path.rpartition(".")[0]
    tried = (path, f"{path}.__init__".strip("."), above, f"{above}.__init__".strip("."))
    return next(module for module in tried if module in MODULES)


TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
IMPORTS = {name: set(imported(name, tree)) for name, tree in TREES.items()}


def test_imports_are_seen():
    """That the rules below look at something: imports that are surely there."""
    assert "errors" in IMPORTS["kernel"] and "simulator.machine" in IMPORTS["kernel"]
    assert "model.roofline" in IMPORTS["__init__"] and "draw.__init__" in IMPORTS["__init__"]
    tree = ast.parse(
        "from ..kernel import Kernel\ndef f():\n    from .. import gpu\n    import sgemm_tutorial.tools.cost\n"
    )
    assert set(imported("model.sass", tree)) == {"kernel", "gpu", "tools.cost"}


def test_imports_run_downward():
    wrong = []
    for module, found in IMPORTS.items():
        if module in FRONT_DOORS:
            continue
        for other in found:
            fine = room(other) in ALLOWED[room(module)] and other not in FRONT_DOORS
            if room(module) == "simulator" and room(other) == "top":
                fine = other in SIMULATOR_TAKES
            if not fine:
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
        rooms[module.rpartition(".")[2]].add(room(module))
    assert not {stem for stem in rooms if stem in sys.stdlib_module_names}
    shared = {stem: found for stem, found in rooms.items() if len(found) > 1 and not stem.startswith("__")}
    assert not {stem: found for stem, found in shared.items() if not found <= {"model", "measure", "records", "tools"}}
