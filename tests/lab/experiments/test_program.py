"""The program that Nsight Compute and compute-sanitizer run launches the items that it is asked for."""

import subprocess
import sys

import numpy as np
import pytest

from lab.experiments import program
from lab.experiments.recordings import COUNTS, RECORDINGS
from lab.measure import nsight
from lab.paths import ROOT


@pytest.fixture
def launched(monkeypatch):
    """Return what is launched, and how."""
    seen = []
    monkeypatch.setattr(
        program, "LAUNCH", {name: lambda items, n=name: seen.append((n, items)) for name in program.LAUNCH}
    )
    monkeypatch.setattr(nsight, "launch", lambda items: seen.append(("kernels", items)))
    return seen


@pytest.mark.parametrize("name", [*COUNTS, "sanitizer"])
def test_the_items_at_these_places(launched, name):
    items = RECORDINGS[name]().items
    program.main(*nsight.program(name, 2, 0)[2:])
    program.main(*nsight.program(name)[2:])
    assert [how for how, _ in launched] == [name if name in program.LAUNCH else "kernels"] * 2
    assert [found for _, found in launched] == [[items[2], items[0]], items]


def test_kernels_are_launched_on_their_sizes(monkeypatch):
    monkeypatch.setattr(nsight, "matrices", lambda M, N, K, types: (np.zeros((M, K)), np.zeros((K, N))))
    seen = []

    class Kernel:
        types = None

        def __call__(self, A, B):
            seen.append((A.shape, B.shape))

    nsight.launch([(Kernel(), (2, 3, 4)), (Kernel(), (5, 6, 7))])
    assert seen == [((2, 4), (4, 3)), ((5, 7), (7, 6))]


def test_it_is_a_program():
    command = [sys.executable, *nsight.program("nothing")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "KeyError: 'nothing'" in done.stderr and "RuntimeWarning" not in done.stderr
