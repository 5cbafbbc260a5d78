"""Within one run of the suite, what has been simulated once is not simulated again.

A notebook is executed as it is, and once more for each other card, whose recordings change nothing of what it
simulates; and chapters run the same checks of their kernels as the tests do. A run is told by all that it depends on:
the PTX, the launch, and every bit of the arguments. The folder that holds the runs lives as long as pytest.
"""

import contextlib
import hashlib
import os
import pickle
import tempfile
import zlib
from pathlib import Path

import numpy as np

import sgemm_tutorial.kernel
from sgemm_tutorial.simulator import ptx
from sgemm_tutorial.simulator.machine import Machine
from sgemm_tutorial.simulator.memory import ALIGNMENT, GlobalMemory
from sgemm_tutorial.simulator.tensor_map import TensorMap

FOLDER = "SGEMM_TUTORIAL_TESTS_RUNS"
LARGEST = 16 << 20  # bytes of all arguments; larger ones are files with holes


class SharedMachine(Machine):
    """Runs a program, given as the text that it is read from, or takes what an earlier run of the same left."""

    def __init__(self, text, name, threads, arguments, fresh=(), trace=()):
        self.given = text, name, threads, arguments, fresh, trace
        self.left = None

    def simulate(self, blocks, only, progress):
        text, *others = self.given
        super().__init__(ptx.parse(*text), *others)
        super().run(blocks, only, progress)

    def run(self, blocks, only=None, progress=False):
        text, name, threads, arguments, fresh, trace = self.given
        arrays = {key: value for key, value in arguments.items() if isinstance(value, np.ndarray)}
        if sum(array.nbytes for array in arrays.values()) > LARGEST:
            self.simulate(blocks, only, progress)
            return
        only = only if only is None else sorted(set(only))
        launch = text[1:], name, threads, sorted(fresh), sorted(trace), blocks, only
        digest = hashlib.sha256(text[0].encode() + repr(launch).encode())
        for key, value in arguments.items():
            if isinstance(value, TensorMap):  # of one of the arrays
                digest.update(repr((key, value.array.shape, value.rows, value.columns)).encode())
                continue
            place = GlobalMemory().add(key, value) % ALIGNMENT if key in arrays else None
            digest.update(repr((key, value.dtype, value.shape, place)).encode() + value.tobytes())
        path = Path(os.environ[FOLDER], digest.hexdigest())
        if path.exists():
            self.left, changed = pickle.loads(zlib.decompress(path.read_bytes()))
            for key, value in changed.items():
                arrays[key][...] = value
        else:
            before = {key: array.tobytes() for key, array in arrays.items()}
            self.simulate(blocks, only, progress)
            self.left = super().counts(), super().trace, super().events
            changed = {key: array for key, array in arrays.items() if array.tobytes() != before[key]}
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(zlib.compress(pickle.dumps((self.left, changed)), 1))
            os.replace(file.name, path)

    def counts(self):
        return self.left[0] if self.left else super().counts()

    @property
    def trace(self):
        return self.left[1] if self.left else super().trace

    @property
    def events(self):
        return self.left[2] if self.left else super().events


def share():
    """Let kernels share their runs with whatever else pytest runs."""
    sgemm_tutorial.kernel.Machine, sgemm_tutorial.kernel.parse = SharedMachine, lambda *text: text


@contextlib.contextmanager
def sharing():
    """`share` for a while."""
    before = sgemm_tutorial.kernel.Machine, sgemm_tutorial.kernel.parse
    share()
    try:
        yield
    finally:
        sgemm_tutorial.kernel.Machine, sgemm_tutorial.kernel.parse = before


STARTUP = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from tests import shared_runs
shared_runs.share()
sys.path.pop(0)
del shared_runs, sys
"""
"""What the notebooks' kernels run first."""
