"""Within one run of the suite, what has been simulated once is not simulated again.

A notebook is executed as it is, and once more for each other card, whose recordings change nothing of what it
simulates; and chapters run the same checks of their kernels as the tests do. A run is told by all that it depends on:
the PTX, the launch, and every bit of the arguments. So is a check's verdict: by the kernel, its files, and the case.
The folder that holds both lives as long as pytest.
"""

import contextlib
import hashlib
import os
import pickle
import tempfile
import zlib
from pathlib import Path

import numpy as np

from lab import correctness
from ptxsim import BUDGET, ptx
from ptxsim.machine import Machine
from ptxsim.memory import ALIGNMENT, GlobalMemory
from ptxsim.tensor_map import TensorMap
from sgemm_tutorial import simulator
from sgemm_tutorial.compiler import ARCHITECTURE
from sgemm_tutorial.kernel import Kernel

FOLDER = "SGEMM_TUTORIAL_TESTS_RUNS"
LARGEST = 16 << 20  # bytes of all arguments; larger ones are files with holes


def left(digest, make):
    """Return the result that an earlier call has left under this digest, or make it and leave it."""
    path = Path(os.environ[FOLDER], digest.hexdigest())
    if path.exists():
        return pickle.loads(zlib.decompress(path.read_bytes()))
    made = make()
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(zlib.compress(pickle.dumps(made), 1))
    os.replace(file.name, path)
    return made


class SharedMachine(Machine):
    """Runs a program, given as the text that it is read from, or takes what an earlier run of the same left.

    Only its first run is shared. Another one goes on from what the first did, to memory that held nothing too: a first
    run that was taken from an earlier one is simulated then.
    """

    def __init__(self, text, name, threads, arguments, fresh=(), trace=(), budget=BUDGET, careful=False):
        self.budget, self.careful = budget, careful  # no budget changes what is left, unless the kernel never ends
        self.given = text, name, threads, arguments, fresh, trace
        self.left = self.first = None
        self.simulated = False

    def simulate(self, blocks, only, progress):
        if not self.simulated:
            text, *others = self.given
            super().__init__(ptx.parse(*text), *others, budget=self.budget, careful=self.careful)
            self.simulated = True
        super().run(blocks, only, progress)

    def run_on(self, blocks, only, progress):
        """Run again, after a first run that was shared."""
        if not self.simulated:
            launch, arrays, before = self.first
            now = {key: array.copy() for key, array in arrays.items()}
            for key, array in arrays.items():
                array[...] = before[key]
            self.simulate(*launch)
            for key, array in arrays.items():
                array[...] = now[key]
        self.left = None
        self.simulate(blocks, only, progress)

    def run(self, blocks, only=None, progress=False):
        text, name, threads, arguments, fresh, trace = self.given
        arrays = {key: value for key, value in arguments.items() if isinstance(value, np.ndarray)}
        if self.first:
            self.run_on(blocks, only, progress)
            return
        if sum(array.nbytes for array in arrays.values()) > LARGEST:
            self.simulate(blocks, only, progress)
            return
        self.first = (blocks, only, False), arrays, {key: array.copy() for key, array in arrays.items()}
        only = only if only is None else sorted(set(only))
        launch = text[1:], name, threads, sorted(fresh), sorted(trace), blocks, only, self.careful
        digest = hashlib.sha256(text[0].encode() + repr(launch).encode())
        for key, value in arguments.items():
            if isinstance(value, TensorMap):  # of one of the arrays
                digest.update(repr((key, value.array.shape, value.rows, value.columns)).encode())
                continue
            place = GlobalMemory().add(key, value) % ALIGNMENT if key in arrays else None
            digest.update(repr((key, value.dtype, value.shape, place)).encode() + value.tobytes())
        machine = super()

        def simulated():
            self.simulate(blocks, only, progress)
            before = self.first[2]
            changed = {key: array for key, array in arrays.items() if array.tobytes() != before[key].tobytes()}
            return (machine.counts(), self.trace, self.events, machine.notes), changed

        self.left, changed = left(digest, simulated)
        self.trace, self.events = self.left[1:3]
        for key, value in changed.items():
            arrays[key][...] = value

    def counts(self):
        return self.left[0] if self.left else super().counts()

    @property
    def notes(self):
        return self.left[3] if self.left else super().notes


judged = correctness.judged


def shared_judged(kernel, case, on_gpu=None, architecture=ARCHITECTURE):
    """Judge a kernel as `correctness.judged` does, or take what it has said of the same kernel and case."""
    kernel = correctness._callable(kernel)
    if on_gpu is not False or not isinstance(kernel, Kernel):
        return judged(kernel, case, on_gpu, architecture)
    told_by = kernel, kernel.files, kernel.dynamic_shared_bytes, type(kernel.family).__qualname__, case, architecture

    def alone():  # nobody else asks for the run of a check: its verdict is enough
        with replaced(*ALONE):
            return judged(kernel, case, on_gpu, architecture)

    return left(hashlib.sha256(repr(told_by).encode()), alone)


ALONE = simulator.Machine, simulator.parse, judged
TOGETHER = SharedMachine, lambda *text: text, shared_judged


@contextlib.contextmanager
def replaced(*by):
    """Let a machine, a parser and a judge take the place of those that there are, for a while."""
    before = simulator.Machine, simulator.parse, correctness.judged
    simulator.Machine, simulator.parse, correctness.judged = by
    try:
        yield
    finally:
        simulator.Machine, simulator.parse, correctness.judged = before


def share():
    """Let kernels share their runs, and checks their verdicts, with whatever else pytest runs."""
    simulator.Machine, simulator.parse, correctness.judged = TOGETHER


def sharing():
    """`share` for a while."""
    return replaced(*TOGETHER)


STARTUP = f"""
import gc
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from tests import shared_runs
shared_runs.share()
sys.path.pop(0)
gc.freeze()  # what is imported is no garbage
del gc, shared_runs, sys
"""
"""Code that the notebooks' kernels run first."""
