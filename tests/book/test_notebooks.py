"""Rules for notebooks that hold before nbval re-executes them, and for outputs that nbval would let pass.

nbval compares every stored output with a fresh one, HTML, SVG and stderr included, except PNG and JPEG, and except
in cells without an execution count. So neither may occur outside the live cells.
"""

import functools
import re
from pathlib import Path

import nbformat
import yaml

from sgemm_tutorial import CATALOGUE

from ..together import for_each

BOOK = Path(__file__).resolve().parents[2] / "book"
NOTEBOOKS = sorted([*BOOK.glob("*.ipynb"), *BOOK.glob("deeper/*.ipynb")])
assert NOTEBOOKS, "the book has no notebooks"
LIVE, RAISES = "nbval-ignore-output", "raises-exception"
LONGEST_CELL, LONGEST_FILE = 25, 30  # lines; the latter of a file that a cell writes
LARGEST_OUTPUT = 200_000  # bytes
FIGURE = re.compile(r"\d[\d.,]* ?(?:%|[TGM]FLOP/s|[TGM]B/s|ms\b|µs)")
AUTHORS = "junstar92|T4 article|GTX 1050 notes|lpha-z|vantaa89|Boehm"
WHOSE = re.compile(rf"\{{cite|\b({AUTHORS})\b|\bSuppose\b|^\*\*\d+\.\*\*")  # somebody's, supposed, or of an exercise
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(home|root|tmp|work|opt|usr|mnt|Users)/")

every = for_each(path=NOTEBOOKS)


@functools.cache
def read(path):
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def data(cell):
    """Every MIME type and text that a cell puts out."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.name, output.text
        elif output.output_type == "error":
            yield "error", output.evalue + "\n".join(output.traceback)
        else:
            yield from output.data.items()


@every
def test_is_a_valid_notebook_of_the_table_of_contents(path):
    nbformat.validate(read(path))
    contents = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter for part in contents["parts"] for chapter in part["chapters"]]
    sections = [section for chapter in chapters for section in chapter.get("sections", ())]
    files = [contents["root"], *(page["file"] for page in chapters + sections)]
    assert path.relative_to(BOOK).with_suffix("").as_posix() in files


@every
def test_ran_once_from_top_to_bottom(path):
    cells = code_cells(path)
    assert cells
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@every
def test_errors_are_on_purpose(path):
    for cell in code_cells(path):
        assert (RAISES in tags(cell)) == any(output.output_type == "error" for output in cell.outputs), cell.source


@every
def test_every_cell_is_compared_but_the_live_ones(path):
    cells = code_cells(path)
    known = {LIVE, RAISES}
    for cell in cells:
        assert not [tag for tag in tags(cell) if tag.startswith("nbval-") and tag not in known], cell.source
        assert "NBVAL_" not in cell.source and "PYTEST_VALIDATE" not in cell.source, "tag the cell instead"
        uncompared = {"image/png", "image/jpeg", "application/vnd.jupyter.widget-view+json"}
        assert LIVE in tags(cell) or not uncompared & {kind for kind, _ in data(cell)}, cell.source
    live = [cell for cell in cells if LIVE in tags(cell)]
    assert 2 * len(live) <= len(cells)


@every
def test_nothing_went_to_stderr(path):
    assert not [text for cell in code_cells(path) for kind, text in data(cell) if kind == "stderr"]


@every
def test_prose_takes_measured_figures_from_records(path):
    """A figure with a unit is glued, or printed by a cell; what others have published is cited beside it."""
    prose = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    paragraphs = [paragraph for source in prose for paragraph in re.split(r"\n\s*\n", source)]
    assert not [paragraph for paragraph in paragraphs if FIGURE.search(paragraph) and not WHOSE.search(paragraph)]


@every
def test_sources_go_by_their_names(path):
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    assert not re.findall(
        r"(?i)\b(?:one|two|some|several|four|first) of (?:our|the) (?:five )?sources\b|\bour .{0,8}sources?\b", text
    )


@every
def test_each_fold_says_what_it_holds(path):
    """Unless it is told, the theme writes *content* on it."""
    folded = [cell.metadata.get("mystnb", {}) for cell in code_cells(path) if "hide-cell" in tags(cell)]
    names = [how.get("code_prompt_show") for how in folded]
    assert all(names) and "content" not in names


@every
def test_exercises_are_graded(path):
    """Each has one to three stars. One in a kernel's chapter, or on the pages below it, is to write the kernel."""
    prose = "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    exercises = prose.partition("## Exercise")[2]
    grades = re.findall(r"(?m)^\*\*\d+\.\*\* (\S+)", exercises)
    assert all(re.fullmatch("★{1,3}", grade) for grade in grades), grades
    chapter = path.parent == BOOK
    assert grades or not chapter or not path.stem[:2].isdigit()
    if chapter and path.stem[:2] in {kernel.name[:2] for kernel in CATALOGUE}:
        assert f"python -m lab new {path.stem[:2]} " in exercises


@every
def test_names_no_place_on_a_machine(path):
    for cell in read(path).cells:
        outputs = [str(value) for _, value in data(cell)] if cell.cell_type == "code" else []
        for text in [cell.source, *outputs]:
            assert not MACHINE_PATH.search(text), text[:300]


@every
def test_cells_and_outputs_are_short(path):
    for cell in code_cells(path):
        most = LONGEST_FILE if cell.source.startswith("%%writefile") else LONGEST_CELL
        assert len(cell.source.splitlines()) <= most, cell.source
        assert cell.source.strip(), "an empty cell"
        for kind, value in data(cell):
            assert len(str(value)) <= LARGEST_OUTPUT, f"{len(value):,} bytes of {kind} from {cell.source}"


@every
def test_holds_nothing_of_the_run(path):
    """No timings, no version of somebody's Python: re-executing changes what changed and nothing else."""
    notebook = read(path)
    assert notebook.metadata.kernelspec == {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert set(notebook.metadata.get("language_info", {})) <= {"name", "pygments_lexer", "file_extension", "mimetype"}
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags", "mystnb"}, cell.metadata


@every
def test_imports_come_from_the_two_front_doors(path):
    """`lab` and `sgemm_tutorial`, and nothing deeper; the command line is a door too."""
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    code = "\n".join(source for source in cells if not source.startswith("%"))
    found = re.findall(r"(?m)^\s*(?:from|import) ((?:lab|sgemm_tutorial|ptxsim|tools)[\w.]*)", code)
    assert set(found) <= {"lab", "sgemm_tutorial", "lab.__main__"}
