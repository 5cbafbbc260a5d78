"""Runs that are shared within one run of the suite: the same bits as simulated, and only of the very same launch."""

import subprocess
import sys

import numpy as np
import pytest

from lab import check
from ptxsim.machine import Machine
from sgemm_tutorial import SimulationFault, find, matrices, operands, simulate, simulator
from sgemm_tutorial.launch import Place

from . import shared_runs
from .examples import floats
from .sources import probe

TILE = find("03").variant(BM=32, BN=32, BK=32)


@pytest.fixture
def ran(share_runs, tmp_path, monkeypatch):
    """The launches that were simulated, in an empty folder."""
    monkeypatch.setenv(shared_runs.FOLDER, str(tmp_path))
    runs, run = [], Machine.run

    def counting(machine, *arguments):
        runs.append(machine)
        return run(machine, *arguments)

    monkeypatch.setattr(Machine, "run", counting)
    return runs


def same(one, other):
    assert one.C.tobytes() == other.C.tobytes()
    assert one.lines == other.lines
    assert len(one.trace) == len(other.trace)
    for here, there in zip(one.trace, other.trace, strict=True):
        assert (here.line, here.space, here.kind, here.array, here.block) == (
            there.line,
            there.space,
            there.kind,
            there.array,
            there.block,
        )
        assert np.array_equal(here.threads, there.threads) and np.array_equal(here.offsets, there.offsets)


def test_a_second_run_is_the_first(ran):
    A, B, C = floats(40, 33), floats(33, 35), floats(40, 35)
    with shared_runs.sharing():
        first = simulate(TILE, A, B, C.copy(), 0.5, 2.0, trace=[1])
        second = simulate(TILE, A, B, C.copy(), 0.5, 2.0, trace=[1])
    assert len(ran) == 1 and first.trace
    same(first, second)


def test_whatever_differs_is_simulated(ran, tmp_path):
    A, B, C = floats(40, 33), floats(33, 35), floats(40, 35)
    other, shifted = A.copy(), np.zeros(A.size + 1, np.float32)[1:].reshape(A.shape)
    other[3, 4] += 1
    shifted[:] = A
    launches = [
        lambda: simulate(TILE, A, B, C.copy(), 0.5, 2.0),
        lambda: simulate(TILE, A, B, C.copy(), 0.5, 3.0),
        lambda: simulate(TILE, other, B, C.copy(), 0.5, 2.0),
        lambda: simulate(TILE, shifted, B, C.copy(), 0.5, 2.0),
        lambda: simulate(TILE, A, B, C.copy(), 0.5, 2.0, trace=[0]),
        lambda: simulate(TILE, A, B, C.copy(), 0.5, 2.0, blocks=[0]),
        lambda: simulate(TILE, A, B, C.copy(), 0.5, 2.0, blocks=[]),
        lambda: simulate(TILE, A, B, None, 0.5),
        lambda: simulate(TILE.variant(BK=64), A, B, C.copy(), 0.5, 2.0),
        lambda: simulate(probe(tmp_path, "C[t] = 1;"), floats(1, 1), floats(1, 32)),
        lambda: simulate(probe(tmp_path, "C[t] = 2;"), floats(1, 1), floats(1, 32)),
    ]
    with shared_runs.sharing():
        first = [launch() for launch in launches]
        assert len(ran) == len(launches)
        for run, launch in zip(first, launches, strict=True):
            same(run, launch())
    assert len(ran) == len(launches)


def test_a_machine_runs_on_from_where_it_is(ran):
    """Blocks of 12, run one by one, find what those before them left in the workspace, which holds nothing at first."""
    kernel = find("12").variant(BM=16, BN=32, BK=32, WM=16, WN=32, TM=4, TN=4)
    problem = operands.check(floats(16, 96), floats(96, 32), None, 1.0, 0.0)
    launch = kernel.resolve(problem, Place(multiprocessors=3))
    binary = kernel.build(launch.place.architecture)
    counts, results = [], []
    with shared_runs.sharing():
        for _ in range(2):
            arguments = simulator.given(launch, problem)
            program = simulator.parse(binary.ptx, binary.entry)
            made = simulator.Machine(program, kernel.name, launch.block, arguments, fresh={"workspace", "C"})
            for block in (1, 2, 0):
                made.run(launch.grid, [block])
            counts.append(made.counts())
            results.append(problem.C.copy())
    assert counts[0] == counts[1] == simulate(kernel, problem.A, problem.B, multiprocessors=3).lines
    assert np.array_equal(*results) and np.allclose(results[0], problem.A @ problem.B, atol=1e-4)


def test_a_fault_is_found_again(ran, tmp_path):
    kernel = probe(tmp_path, "C[t + 1] = 1;")
    for _ in range(2):
        with pytest.raises(SimulationFault, match="out of bounds"):
            simulate(kernel, floats(1, 1), floats(1, 32))
    assert len(ran) == 2


def test_a_second_verdict_is_the_first(ran, tmp_path):
    """But of another kernel, or in another case, it is one of its own; and what is none is asked each time."""
    broken, own = TILE.edited(("acc += As", "acc -= As")), probe(tmp_path, "C[t] = 1;")
    cases = [(kernel, {}) for kernel in (TILE, broken, own)]
    cases += [(TILE, more) for more in ({"alpha": 2.0}, {"seed": 1}, {"last_tile": True})]
    first, second = ([check(kernel, 33, 20, 40, on_gpu=False, **more) for kernel, more in cases] for _ in range(2))
    assert first == second and len(ran) == len(cases)
    assert [result.passed for result in first] == [True, False, False, True, True, True]
    probe(tmp_path, "C[t] = 2;")
    assert not check(own, 33, 20, 40, on_gpu=False).passed
    assert len(ran) == len(cases) + 1

    asked = []
    for _ in range(2):
        check(lambda A, B, C, alpha, beta: asked.append(A.shape), 2, 3, 4, on_gpu=False)
    assert asked == [(2, 4)] * 2


def test_a_check_leaves_its_verdict_alone(ran, tmp_path):
    """Nobody asks for its run, which would take as long to keep again; what is run after it is shared as before."""
    assert check(TILE, 33, 20, 40, on_gpu=False).passed
    assert len(list(tmp_path.iterdir())) == 1
    simulate(TILE, floats(40, 33), floats(33, 35))
    assert len(list(tmp_path.iterdir())) == 2


def test_notebooks_share_theirs(tmp_path, monkeypatch):
    """Where `conftest` says so, a kernel takes what another process has left."""
    monkeypatch.setenv(shared_runs.FOLDER, str(tmp_path))
    code = "import sgemm_tutorial as sg; sg.find('01')(*sg.matrices(8, 8, 8, on_gpu=False))"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-m", "IPython", "-c", code], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
        (left,) = tmp_path.iterdir()
    with shared_runs.sharing():
        find("01")(*matrices(8, 8, 8, on_gpu=False))
    assert list(tmp_path.iterdir()) == [left]
