"""Every notebook's statements about measurements hold for every recorded card: cells run, assertions pass."""

import gc
import sys

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from lab.records import cards

from .. import heap
from .test_notebooks import NOTEBOOKS, RAISES

pytestmark = pytest.mark.slow

OTHERS = sorted(set(cards.recorded()) - {cards.shown()})


@pytest.fixture
def shell(monkeypatch):
    """A shell of its own for each notebook, as if in the book's folder."""
    monkeypatch.chdir(NOTEBOOKS[0].parent)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # which the shell takes for itself
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.display_formatter.format = lambda *_, **__: ({}, {})  # what a formatter raises would not count
    gc.freeze()
    forget()
    yield shell
    forget()
    shell.user_ns.clear()
    InteractiveShell.clear_instance()
    heap.give_back()  # what the notebook held, and nothing older
    gc.unfreeze()


def forget():
    """Forget what chapters have read of a card's recordings."""
    for name, module in list(sys.modules.items()):
        if name.startswith("lab.chapters."):
            for cached in vars(module).values():
                getattr(cached, "cache_clear", lambda: None)()


def failures(path, shell):
    """Run a notebook's cells and yield what goes wrong, with its cell."""
    for cell in nbformat.read(path, as_version=nbformat.NO_CONVERT).cells:
        if cell.cell_type == "code":
            with capture_output():
                result = shell.run_cell(cell.source)
            error = result.error_before_exec or result.error_in_exec
            if error and RAISES not in cell.metadata.get("tags", []):
                yield f"{error!r} in\n{cell.source}"


@pytest.mark.parametrize("card", OTHERS)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_claims_hold_for_another_card(path, card, shell, monkeypatch, share_runs):
    monkeypatch.setenv(cards.VARIABLE, card)
    assert not list(failures(path, shell))


def test_there_is_another_card():
    assert OTHERS


def test_a_claim_that_fails_is_noticed(tmp_path, shell):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in ("x = 1", "assert x == 2")])
    nbformat.write(notebook, tmp_path / "false.ipynb")
    assert list(failures(tmp_path / "false.ipynb", shell)) == ["AssertionError() in\nassert x == 2"]
