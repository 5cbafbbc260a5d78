"""A launch is made once, holds all that a run takes, and is made again when a file has changed."""

import dataclasses
import time

import numpy as np
import pytest

from sgemm_tutorial import CATALOGUE, CompileError, Kernel, find, gpu, kernel, operands, paths, simulator
from sgemm_tutorial.launch import SIMULATOR, Place
from sgemm_tutorial.paths import KERNELS

from .examples import floats
from .together import for_each

PROBE = """template <int BM, int BN>
__global__ void probe(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    C[blockIdx.x * BN + threadIdx.x] = 1;
}
"""


@pytest.fixture
def probe(tmp_path):
    """A kernel whose file was written long ago."""
    (tmp_path / "00_probe.cu").write_text(PROBE)
    found = Kernel("00_probe", "", {"BM": 1, "BN": 32}, folder=tmp_path)
    time.sleep(paths.FRESH)
    return found


def problem(of, M=8, N=32, K=4):
    return operands.check(np.zeros((M, K), np.float32), np.zeros((K, N), np.float32), None, 1.0, 0.0, of.types)


def test_it_is_remembered_and_an_edit_counts_at_once(probe):
    first = probe.resolve(problem(probe))
    for _ in range(3):
        assert probe.resolve(problem(probe)) is first
    assert (probe(floats(8, 4), floats(4, 32)) == 1).all()
    probe.path.write_text(PROBE.replace("= 1;", "= 2;"))  # as long as before
    assert probe.resolve(problem(probe)) is not first
    assert (probe(floats(8, 4), floats(4, 32)) == 2).all()


def test_a_file_that_was_just_written_is_read_again(probe):
    """Two changes within the precision of a file's time would look like one."""
    probe.path.write_text(PROBE)
    assert probe.resolve(problem(probe)) is not probe.resolve(problem(probe))


def test_an_edit_of_a_header_counts(tmp_path):
    (tmp_path / "part.cuh").write_text("constexpr float VALUE = 1;\n")
    (tmp_path / "00_probe.cu").write_text('#include "part.cuh"\n' + PROBE.replace("= 1;", "= VALUE;"))
    mine = Kernel("00_probe", "", {"BM": 1, "BN": 32}, folder=tmp_path)
    time.sleep(paths.FRESH)
    assert (mine(floats(8, 4), floats(4, 32)) == 1).all()
    (tmp_path / "part.cuh").write_text("constexpr float VALUE = 3;\n")
    assert (mine(floats(8, 4), floats(4, 32)) == 3).all()


def test_a_header_that_was_missing_or_comes_first_counts(probe):
    """Its own folder comes before the book's; and what did not compile for want of a header does when there is one."""
    probe.path.write_text('#include "edges.cuh"\n#include "part.cuh"\n' + PROBE.replace("= 1;", "= VALUE;"))
    time.sleep(paths.FRESH)
    for _ in range(3):
        with pytest.raises(CompileError):
            probe(floats(8, 4), floats(4, 32))
    (probe.folder / "part.cuh").write_text("constexpr float VALUE = 3;\n")
    time.sleep(paths.FRESH)
    for _ in range(3):
        assert (probe(floats(8, 4), floats(4, 32)) == 3).all()
    (probe.folder / "edges.cuh").write_text("constexpr float VALUE = 4;\n")
    (probe.folder / "part.cuh").write_text("")
    assert (probe(floats(8, 4), floats(4, 32)) == 4).all()


@pytest.mark.skipif(bool(paths._watch().unseen([KERNELS / "edges.cuh"])), reason="files cannot be watched here")
@pytest.mark.parametrize("of", CATALOGUE, ids=lambda of: of.name)
def test_a_later_call_asks_for_no_file_of_the_book(of, monkeypatch):
    """It would take 2 µs each, and some kernels have nine."""
    shape, asked = operands.imagined(256, 256, 256, of.types), []
    launch = of.resolve(shape)
    monkeypatch.setattr(paths, "state_of", asked.append)
    assert of.resolve(shape) is launch and asked == []


def test_what_tells_launches_apart(probe):
    """Shape, alignment and place; not the matrices' contents or scalars."""
    here = probe.resolve(problem(probe))
    assert probe.resolve(problem(probe, K=5)) is not here
    assert probe.resolve(problem(probe), Place("compute_90", 1)) is not here
    A = np.zeros(8 * 4 + 1, np.float32)[1:].reshape(8, 4)
    shifted = operands.check(A, floats(4, 32), None, 1.0, 0.0)
    assert shifted.alignment == (4, 0, 0) and probe.resolve(shifted) is not here
    scaled = operands.check(floats(8, 4), floats(4, 32), floats(8, 32), 3.0, 2.0)
    assert probe.resolve(scaled) is here


def test_it_cannot_be_changed(probe):
    launch = probe.resolve(problem(probe))
    with pytest.raises(dataclasses.FrozenInstanceError):
        launch.shape = (1, 2, 3)


def test_only_so_many_are_remembered(probe, monkeypatch):
    monkeypatch.setattr(kernel, "REMEMBERED", 3)
    for M in range(1, 9):
        probe.resolve(problem(probe, M=M))
    assert 1 <= len(probe._launches) <= 3


@for_each(of=CATALOGUE)
def test_every_kernel_of_the_catalogue_resolves(of):
    """It has as many blocks for an H200 as for the simulator, unless the GPU's driver or tables would be asked."""
    shape = operands.imagined(256, 256, 256, of.types)
    simulated, elsewhere = (of.resolve(shape, place) for place in (SIMULATOR, Place("sm_90", 132)))
    assert simulated.grid == elsewhere.grid and simulated.blocks > 0 and simulated.block == elsewhere.block
    assert simulated.shape == (256, 256, 256) and simulated.kernel.name in (of.name, "16_mma", "13_autotuned")


def test_both_back_ends_are_given_the_same(monkeypatch):
    """The arguments of a launch on a GPU, in the order in which the simulator has them."""
    given = []
    monkeypatch.setattr(gpu, "load", lambda instance: lambda *what: given.append(what))
    monkeypatch.setattr(gpu, "_scratch", lambda division, device: ("workspace", "arrived"))
    monkeypatch.setattr(simulator, "Machine", lambda program, name, threads, arguments, **_: given.append(arguments))
    of = operands.check(floats(64, 4096), floats(4096, 64), None, 1.0, 0.0)
    launch = find("13").resolve(of)
    gpu._bound.cache_clear()
    gpu.launcher(launch, of)()
    with pytest.raises(AttributeError):  # there is no machine to run
        simulator.run(launch, of)
    (_, _, values, _), arguments = given
    gpu._bound.cache_clear()
    assert len(values) == len(arguments) and list(arguments)[:8] == ["M", "N", "K", "alpha", "A", "B", "beta", "C"]
    assert values[:4] == tuple(arguments.values())[:4] and values[10:] == tuple(arguments.values())[10:]
