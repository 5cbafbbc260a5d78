"""Re-executing notebooks in place: what changes, what stays, and what an error or Ctrl-C leaves behind."""

import os
import signal
import subprocess
import sys
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from sgemm_tutorial import gpu
from tools import live


def notebook(*sources, live_output=None):
    cells = [new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(sources)]
    if live_output is not None:
        output = new_output("stream", name="stdout", text=live_output)
        cells.append(new_code_cell("print('here')", id="live", outputs=[output], metadata={"tags": [live.LIVE_TAG]}))
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return new_notebook(cells=[new_markdown_cell("# Title", id="title"), *cells], metadata=metadata)


@pytest.fixture(autouse=True)
def plain_kernels(monkeypatch, tmp_path_factory):
    """Kernels without what conftest.py has those of the book's notebooks run first."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))


@pytest.fixture
def written(tmp_path):
    def write(name, *sources, **options):
        path = tmp_path / name
        nbformat.write(notebook(*sources, **options), path)
        return path

    return write


def test_runs_in_order_and_twice_gives_the_same_file(written):
    twice = "import sys\nprint('out')\nsys.stdout.flush()\nprint(x)"
    path = written("a.ipynb", "x = 6", twice, "x * 7", live_output="")
    assert live.main(["--keep-live", str(path)]) == 0
    first = path.read_bytes()
    assert live.main(["--keep-live", str(path)]) == 0
    assert path.read_bytes() == first
    result = nbformat.read(path, as_version=4)
    code = [cell for cell in result.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4]
    assert [output.text for output in code[1].outputs] == ["out\n6\n"]
    assert code[2].outputs[0].data["text/plain"] == "42"
    assert all(set(cell.metadata) <= {"tags"} for cell in result.cells)
    assert result.metadata == notebook().metadata
    assert os.listdir(path.parent) == ["a.ipynb"]


def test_an_error_on_purpose_keeps_its_message_alone(written):
    path = written("a.ipynb", "import json\njson.loads('?')")
    shown = nbformat.read(path, as_version=4)
    shown.cells[1].metadata["tags"] = ["raises-exception"]
    nbformat.write(shown, path)
    assert live.main(["--keep-live", str(path)]) == 0
    (output,) = nbformat.read(path, as_version=4).cells[1].outputs
    assert output.evalue.startswith("Expecting value")
    (line,) = output.traceback
    assert "JSONDecodeError" in line and "json/" not in line


@pytest.mark.parametrize(("keep", "text"), [(True, "on a GPU\n"), (False, "here\n")])
def test_live_cells_keep_their_outputs_only_when_asked(written, monkeypatch, keep, text):
    monkeypatch.setattr(gpu, "available", lambda: True)
    path = written("a.ipynb", "1", live_output="on a GPU\n")
    assert live.main([str(path), *(["--keep-live"] if keep else [])]) == 0
    assert nbformat.read(path, as_version=4).cells[-1].outputs[0].text == text


def test_nothing_stays_of_a_bar_that_is_gone(written):
    """It blanks itself out, which is no reason for the book to say that a cell wrote to stderr."""
    bar = "import sys\nprint('\\r  ', end='\\r', file=sys.stderr)"
    path = written("a.ipynb", bar, "import sys\nprint('so', file=sys.stderr)")
    assert live.main(["--keep-live", str(path)]) == 0
    outputs = [cell.outputs for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert outputs[0] == [] and [output.text for output in outputs[1]] == ["so\n"]


def test_refuses_without_a_gpu(written, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "available", lambda: False)
    path = written("a.ipynb", "1")
    before = path.read_bytes()
    with pytest.raises(SystemExit):
        live.main([str(path)])
    assert "no GPU" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_cell_that_raises_leaves_its_notebook_and_keeps_those_before(written, capsys):
    good, bad = written("a.ipynb", "1 + 1"), written("b.ipynb", "1 / 0")
    before = bad.read_bytes()
    assert live.main(["--keep-live", str(good), str(bad)]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert bad.read_bytes() == before
    assert nbformat.read(good, as_version=4).cells[1].outputs[0].data["text/plain"] == "2"


def test_ctrl_c_leaves_the_notebook_in_progress_and_keeps_those_before(written):
    good = written("a.ipynb", "1 + 1")
    slow = written("b.ipynb", "open('started', 'w').close()\nimport time\ntime.sleep(60)")
    before = slow.read_bytes()
    command = [sys.executable, "-m", "tools.live", "--keep-live", str(good), str(slow)]

    def heed():  # even where the tests themselves run in the background, to which shells make Ctrl-C nothing
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    try:
        deadline = time.monotonic() + 60
        while not (slow.parent / "started").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "b.ipynb is as it was; the 1 before it are written" in errors
    assert slow.read_bytes() == before
    assert nbformat.read(good, as_version=4).cells[1].outputs[0].data["text/plain"] == "2"
    assert sorted(os.listdir(slow.parent)) == ["a.ipynb", "b.ipynb", "started"]
