"""A new environment with CUDA 12, set up by the cell that the book gives for Colab: it is enough to run kernels.

These tests fetch packages, for which `make test` has no time; `make test-fresh` and continuous integration run them.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from ptxsim import nvrtc
from sgemm_tutorial import matrices, simulate

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "3.13"
"""Colab's; where this machine has none, the suite's own stands in for it."""
PREINSTALLED = (
    "cupy-cuda12x==14.2.0",
    "ipython",
    "numpy==2.0.2; python_version < '3.13'",
    "numpy==2.1.3; python_version >= '3.13'",
)
"""The packages of Colab's machines that the cell relies on; NumPy is older than ours, and 2.0 is none for 3.13."""
MOST = 120
"""Seconds that the cell may take."""
SAME = ("01", "03", "05", "09")
"""Kernels whose results, compiled for older cards, are compared with those that CUDA 13's compiler gives."""

USE = """
import hashlib
import importlib.util
import json

import lab
import sgemm_tutorial as sg
from ptxsim import nvrtc


def compiled(architecture, capability):
    kernels = [kernel for kernel in sg.CATALOGUE if kernel.least_capability <= capability]
    return [kernel.name[:2] for kernel in kernels if kernel.build(architecture).cubin[:4] == b"\\x7fELF"]


def digest(name, architecture):
    A, B = sg.matrices(130, 129, 40, on_gpu=False)
    C = A[:, :1] * B[:1]
    sg.simulate(name, A, B, C, 1.5, 0.5, architecture=architecture)
    return hashlib.sha256(C.tobytes()).hexdigest()


def refusal(name, architecture):
    try:
        sg.find(name).build(architecture)
    except sg.ArgumentError as error:
        return str(error)


told = {
    "cell": taken,
    "python": sys.version.partition(" ")[0],
    "compiler": nvrtc.toolchain()[2:],
    "installed": [name for name in ("cupy", "matplotlib", "sphinx", "nbformat") if importlib.util.find_spec(name)],
    "pascal": compiled("sm_61", (6, 1)),
    "volta": compiled("sm_70", (7, 0)),
    "digests": [[digest(name, age) for age in ("compute_60", "compute_70", "compute_75")] for name in SAME],
    "bytes": lab.checksums.same_bytes("07"),
    "passed": bool(lab.check("05", 40, 50, 60, on_gpu=False)),
    "refused": [refusal("11", "sm_70"), refusal("14", "sm_61")],
}
"""


def cell():
    """Return the cell that the page gives for Colab."""
    pages = json.loads((ROOT / "book" / "how_to_read.ipynb").read_text(encoding="utf-8"))["cells"]
    (found,) = re.findall(
        r"```\n(REPOSITORY = .*?)\n```", "".join("".join(page["source"]) for page in pages), re.DOTALL
    )
    return found


def python():
    """Return an interpreter of Colab's version, on the path or among pyenv's, or else the suite's own."""
    for path in (f"python{PYTHON}", *Path.home().glob(f".pyenv/versions/{PYTHON}.*/bin/python")):
        with contextlib.suppress(OSError):  # there is none
            if (
                subprocess.run([path, "--version"], capture_output=True).returncode == 0
            ):  # pyenv's shim may lead nowhere
                return path
    return sys.executable


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a new environment in `env`, in which the cell has run, and what it was used for, in told.json."""
    folder = tmp_path_factory.mktemp("colab")
    subprocess.run([python(), "-m", "venv", "env"], cwd=folder, check=True)
    pip = [folder / "env/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PREINSTALLED], cwd=folder, check=True)
    (folder / "gitconfig").write_text("[safe]\n\tdirectory = *\n")  # root may look into a checkout of someone else's
    first, *rest = cell().splitlines()
    assert first.startswith('REPOSITORY = "https://')
    script = ["import json, sys, time", "begun = time.time()", f"REPOSITORY = {('file://' + str(ROOT))!r}", *rest]
    script += ["taken = time.time() - begun", f"SAME = {SAME}", USE]
    script += [f"open({str(folder / 'told.json')!r}, 'w').write(json.dumps(told))"]
    (folder / "page.ipy").write_text("\n".join(script))
    here = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "IPYTHON", "SGEMM"))}
    here |= {"GIT_CONFIG_GLOBAL": str(folder / "gitconfig"), "XDG_CACHE_HOME": str(folder), "IPYTHONDIR": str(folder)}
    done = subprocess.run(["env/bin/ipython", "page.ipy"], cwd=folder, env=here, capture_output=True, text=True)
    assert (folder / "told.json").exists(), done.stdout + done.stderr
    return folder


@pytest.fixture
def told(folder):
    return json.loads((folder / "told.json").read_text())


def test_it_takes_less_than_two_minutes(told, record_property):
    record_property("summary", f"the cell for Colab took {told['cell']:.0f} s with Python {told['python']}")
    assert told["cell"] < MOST


def test_it_is_colabs_python_where_there_is_one(told):
    assert told["python"].startswith(PYTHON) or python() == sys.executable


def test_neither_sphinx_nor_matplotlib_is_needed(told):
    """Nor any other CuPy or compiler than those of CUDA 12."""
    assert told["installed"] == ["cupy"]
    assert [name.partition(" ")[0] for name in told["compiler"]] == list(nvrtc.WHEELS[12])
    assert not [name for name in told["compiler"] if "not installed" in name]


def test_kernels_compile_for_cards_that_cuda_13_does_not_know(told):
    assert told["pascal"] == ["01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "23"]
    assert told["volta"] == sorted([*told["pascal"], "14"])
    assert "needs sm_80 or later for 11_async_pipeline" in told["refused"][0]
    assert "needs sm_70 or later for 14_wmma" in told["refused"][1]


@pytest.mark.parametrize("name", SAME)
def test_the_bits_are_those_of_cuda_13(told, name):
    A, B = matrices(130, 129, 40, on_gpu=False)
    C = A[:, :1] * B[:1]
    simulate(name, A, B, C, 1.5, 0.5)
    assert set(told["digests"][SAME.index(name)]) == {sha256(C.tobytes()).hexdigest()}


def test_results_are_right_and_those_of_a_gpu(told):
    assert told["passed"] and told["bytes"].startswith("9 of 9 products have the same bytes")


def test_the_command_line_runs_there(folder):
    command = [folder / "env/bin/sgemm-tutorial", "check", "01", "--simulate"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"XDG_CACHE_HOME": str(folder)})
    assert done.returncode == 0, done.stdout + done.stderr
