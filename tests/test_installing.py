"""The wheel: what `pip install .` installs works far from the checkout."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from ptxsim import nvrtc
from ptxsim.cache import VARIABLE

ROOT = Path(__file__).resolve().parents[1]
INSTALLED = ("ptxsim", "sgemm_tutorial", "lab")

USE = """
import numpy as np
import lab
import sgemm_tutorial as sg
from lab.__main__ import main

assert "target" in sg.__file__, sg.__file__
A, B = sg.matrices(33, 20, 17, on_gpu=False)
assert np.allclose(sg.find("03")(A, B), A @ B, atol=1e-4)
assert sg.find("09").path.with_name("edges.cuh").is_file()
for kernel in sg.CATALOGUE:
    assert kernel.build("compute_90").ptx
assert lab.recorded().points
assert lab.published.load()
print(lab.show("01"))
assert main(["trace", "01", "--size", "32"]) == 0
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """Folder into which a wheel is installed that was built from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("install")
    source, wheels, target = folder / "source", folder / "wheels", folder / "target"
    for name in (*INSTALLED, "kernels", "book/results"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip(folder, "wheel", "--no-build-isolation", "--wheel-dir", wheels, source)
    pip(folder, "install", "--target", target, *wheels.glob("*.whl"))
    return target


def pip(folder, command, *options):
    start = [sys.executable, "-m", "pip", command, "--quiet", "--no-deps", "--no-index", *map(str, options)]
    done = subprocess.run(start, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def run(target, folder, *arguments):
    """Run Python in another folder with the installed package before all others.

    What has been compiled of the same files before is not compiled again.
    """
    environment = {"PYTHONPATH": str(target), "PATH": "", "HOME": str(folder)}
    environment |= {name: os.environ[name] for name in [VARIABLE] if name in os.environ}
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, env=environment)


def test_works_from_another_folder(target, tmp_path):
    done = run(target, tmp_path, "-c", USE)
    assert done.returncode == 0, done.stderr
    shown, _, traced = done.stdout.partition("01_naive, C of")
    assert shown.strip() == (ROOT / "kernels" / "01_naive.cu").read_text().strip()
    assert "global requests" in traced


def test_carries_every_kernel_and_recording(target):
    for folder, checkout in (("sgemm_tutorial/kernels", ROOT / "kernels"), ("lab/results", ROOT / "book" / "results")):
        names = {path.relative_to(checkout) for path in checkout.rglob("*.*") if ".partial" not in path.suffixes}
        assert names
        assert {name for name in names if not (target / folder / name).is_file()} == set()


def test_all_parts_of_the_package_are_in_it(target):
    parts = {path.relative_to(ROOT) for root in INSTALLED for path in (ROOT / root).rglob("*.py")}
    assert {part for part in parts if not (target / part).is_file()} == set()


def plain(name):
    return re.split(r"[^\w-]", name.lower().replace("_", "-"))[0]


def wanted(extra):
    """Return the packages that an installation with that extra asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {plain(name) for name in (*project["dependencies"], *project["optional-dependencies"][extra])}


def pinned(file):
    return {plain(line) for line in (ROOT / file).read_text().splitlines() if re.match(r"\w", line)}


@pytest.mark.parametrize("cuda", [12, 13])
def test_an_extra_for_each_cuda_asks_for_what_make_installs(cuda):
    for extra in (f"cuda{cuda}", f"gpu{cuda}"):
        assert wanted(extra) - wanted("charts") == pinned(f"requirements/{extra}.txt")
    assert set(nvrtc.WHEELS[cuda]) < wanted(f"cuda{cuda}")


SAYS = {
    "": 13,  # there is no nvidia-smi, or no GPU
    "580.159.04, 9.0": 13,
    "1000.2, 12.1": 13,
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.": 13,
    "570.86.10, 9.0": 12,
    "580.95.05, 7.0": 12,
    "580.95.05, 9.0\n580.95.05, 6.1": 12,
    'Field "compute_cap" is not a valid field to query.': 12,  # a driver from before 2022
}


@pytest.mark.parametrize("says", SAYS)
def test_make_chooses_the_cuda_for_driver_and_gpu(tmp_path, says):
    """Unless .venv has one already, or one is asked for."""

    def chosen(*options):
        command = ["make", "-s", *options, "--eval", "show: ; @echo $(CUDA)", "show"]
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=path).stdout.strip()

    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\ncat <<'end'\n{says}\nend\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert chosen() == str(SAYS[says]) and chosen("CUDA=12") == "12" and chosen("CUDA=11") == ""
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "cuda").write_text("12\n")
    assert chosen() == "12" and chosen("CUDA=13") == "13"


def test_asks_for_what_it_imports():
    """Its extras are CUDA 13 and charts. Maintainers' tools need a checkout and its requirements.txt besides."""
    asked = wanted("cuda13") | wanted("charts")
    assert asked - pinned("requirements.txt") - pinned("requirements/cuda13.txt") <= {"cuda-pathfinder"}  # CuPy's
    imported = set()
    for path in (path for root in INSTALLED for path in (ROOT / root).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
    packages = packages_distributions()
    assert {"numpy", "cupy"} <= imported
    for name in imported - sys.stdlib_module_names - {*INSTALLED}:
        assert asked & set(map(plain, packages.get(name, ()))), name
