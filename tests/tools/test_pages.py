"""A book with its repository's address links there, roles are mended, and the workflow runs our commands."""

import re
import shlex
from pathlib import Path

import nbformat
import pytest
import yaml
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "https://github.com/someone/sgemm"


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Return a function that builds a book of one notebook with the extension, and returns the page."""
    source = tmp_path / "source"
    source.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A page")]), source / "index.ipynb")

    def build(address):
        monkeypatch.setenv("REPOSITORY", address)
        out = tmp_path / ("with" if address else "without")
        overrides = {
            "extensions": ["myst_nb", "sphinx_book_theme", "tools.pages"],
            "html_theme": "sphinx_book_theme",
            "html_theme_options": {},
            "nb_execution_mode": "off",
        }
        app = Sphinx(source, None, out, out / "trees", "html", confoverrides=overrides, status=None, freshenv=True)
        app.build()
        assert not app.statuscode
        return (out / "index.html").read_text(encoding="utf-8")

    return build


def test_pages_lead_to_the_repository_where_it_is_known(built):
    page = built(ADDRESS + "/")
    links = set(re.findall(r'href="(https://[^"]*sgemm[^"]*)"', page))
    assert links == {
        ADDRESS,
        f"{ADDRESS}/blob/main/book/index.ipynb?plain=1",
        f"{ADDRESS}/edit/main/book/index.ipynb",
        "https://colab.research.google.com/github/someone/sgemm/blob/main/book/index.ipynb",
    }


def test_pages_name_no_address_where_none_is_known(built):
    page = built("")
    assert "colab" not in page and "/edit/" not in page and "github" not in page


def test_the_workflow_runs_what_we_run():
    """Each command is a target of the Makefile or a program that is here, and what it uploads is what that makes."""
    text = (ROOT / ".github" / "workflows" / "book.yml").read_text()
    workflow = yaml.safe_load(text)
    assert {"push", "pull_request"} <= set(workflow[True])  # YAML takes `on` for true
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert len(commands) == 2
    for command in commands:
        program, *arguments = [word for word in shlex.split(command) if word != "sudo" and not word.startswith("--")]
        if program == "make":
            assert arguments[0] in targets and all("REPOSITORY=" in word for word in arguments[1:2])
        else:
            assert (ROOT / program).stat().st_mode & 0o100
    (path,) = re.findall(r"path: (\S+)", text)
    assert f"{path}/index.html" in (ROOT / "Makefile").read_text()
    uses = re.findall(r"uses: (\S+)", text)
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in uses)
    assert workflow["jobs"]["publish"]["needs"] == "test"
