"""Products queued on several GPUs, which are played here: streams run in any order that events allow, and all is right.

The queues are CUDA's: what is queued on a stream runs in its order, a wait for an event is for what was queued before
the event's last record, and a copy reads what is there when it runs. A wait that is missing shows as NaN.
"""

import contextlib
import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lab import several
from sgemm_tutorial.operands import FP32

from ..examples import floats

ROOT = Path(__file__).resolve().parent.parent.parent


class Machine:
    """Streams, whose work is done when `run` is called."""

    def __init__(self, seed):
        self.streams, self.random, self.memory = [], random.Random(seed), {}
        self.Stream = lambda non_blocking=False: Stream(self)
        self.here = Stream(self)

    def run(self):
        while ready := [stream for stream in self.streams if stream.queue and stream.queue[0][0]()]:
            stream = self.random.choice(ready)
            stream.queue.pop(0)[1]()
        assert not any(stream.queue for stream in self.streams), "they wait for each other"


class Stream:
    def __init__(self, machine):
        self.queue, self.ptr = [], len(machine.streams)
        self.machine = machine
        machine.streams.append(self)

    def add(self, what, ready=lambda: True):
        self.queue.append((ready, what))

    def wait_event(self, event):
        assert event.last is not None, "CUDA would not wait for an event that nothing recorded"
        self.add(lambda: None, lambda last=event.last: last["done"])

    def __enter__(self):
        self.machine.current = self

    def __exit__(self, *_):
        self.machine.current = self.machine.here


class Event:
    last = None

    def __init__(self, disable_timing):
        pass

    def record(self, stream):
        self.last = {"done": False}
        stream.add(lambda last=self.last: last.update(done=True))


class Kernel:
    types = FP32
    name = "matmul"

    def __init__(self, machine):
        self.machine = machine

    def launcher(self, problem):
        def product():
            problem.C[...] = problem.A @ problem.B + (problem.beta * problem.C if problem.beta else 0)

        return lambda: self.machine.current.add(product)


@pytest.fixture
def machine(monkeypatch, request):
    """Let CuPy's streams, events and copies between GPUs be the machine's; arrays are NumPy's."""
    machine = Machine(request.param)

    def copy(to, to_device, source, source_device, size, stream):
        target, array = machine.memory[to], machine.memory[source]
        assert target.nbytes == size
        machine.streams[stream].add(lambda: target.__setitem__(..., array))

    runtime = SimpleNamespace(memcpyPeerAsync=copy)
    cuda = SimpleNamespace(
        Event=Event,
        Device=lambda number: contextlib.nullcontext(),
        get_current_stream=lambda: machine.here,
        runtime=runtime,
    )
    monkeypatch.setattr(several, "cupy", SimpleNamespace(cuda=cuda, ndarray=()))
    monkeypatch.setattr(several, "reaches", lambda one, other: True)
    streams = {}
    monkeypatch.setattr(
        several, "_streams", lambda device: streams.setdefault(device, [machine.Stream(), machine.Stream()])
    )
    return machine


class Array(np.ndarray):
    """A NumPy array that has an address as CuPy's have."""

    @property
    def data(self):
        return SimpleNamespace(ptr=id(self))


def parts_of(machine, shape, gpus, way):
    M, N, K = shape
    A, B = floats(M, K), floats(K, N, seed=2)
    found = []
    for part in several.spread(A, B, np.zeros((M, N), np.float32), gpus, way, FP32):
        arrays = {side: tuple(one.view(Array) for one in getattr(part, side)) for side in "AB"}
        machine.memory |= {id(one): one.view(np.ndarray) for of in arrays.values() for one in of}
        found.append(several.replace(part, device=part.number, **arrays))
    return found, A @ B


def own_of(part, way):
    """Return the panels that a GPU has before anything comes."""
    order, of = several.rings(part.number, part.gpus, way)
    a, b = (set(order if way == "held" else order[: of[side][0]]) for side in "AB")
    return [*(part.A if len(part.A) == 1 else [part.A[q] for q in a]), *(part.B[q] for q in b)]


@pytest.mark.parametrize("way", [way for way in several.WAYS if way != "gathered"])
@pytest.mark.parametrize("gpus", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("machine", range(4), indirect=True)
def test_in_any_order_that_the_events_allow(monkeypatch, machine, way, gpus):
    """Before anything runs, all is queued: a launch, other values for A and B, a launch, and a look at C.

    With β = 1 each launch adds its product.
    """
    monkeypatch.setattr(several.operands, "check", lambda A, B, C, alpha, beta, types: SimpleNamespace(**locals()))
    parts, product = parts_of(machine, (7, 9, 12), gpus, way)
    launch, found = several.launch(Kernel(machine), parts, way, beta=1.0), []
    own = [array for part in parts for array in own_of(part, way)]
    launch()
    machine.here.add(lambda: [np.multiply(array, 2, out=array) for array in own])
    launch()
    machine.here.add(lambda: found.extend(np.concatenate(part.C, axis=1) for part in parts))
    machine.run()
    for part, got in zip(parts, found, strict=True):
        assert np.allclose(got, 5 * product[part.rows, part.columns], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("machine", range(8), indirect=True)
def test_on_two_of_the_chapter_in_any_order_that_the_events_allow(machine):
    """The function as the page shows it, after its imports. What it waits for at its end is all that was queued."""
    cells = json.loads((ROOT / "book" / "several_gpus.ipynb").read_text(encoding="utf-8"))["cells"]
    (lines,) = [cell["source"] for cell in cells if cell.get("id") == "two-gpus-alone"]

    class Device(contextlib.nullcontext):
        def synchronize(self):
            machine.run()

    def kernel(A, B, C):
        machine.current.add(lambda: np.matmul(A, B, out=C))

    names = {
        "several": several,
        "Device": Device,
        "Stream": machine.Stream,
        "Event": lambda: Event(disable_timing=True),
        "memcpyPeerAsync": several.cupy.cuda.runtime.memcpyPeerAsync,
    }
    exec("".join(line for line in lines if not line.startswith("from ")), names)
    parts, product = parts_of(machine, (7, 9, 12), 2, "columns")
    names["on_two"](kernel, parts)
    for part in parts:
        assert np.allclose(np.concatenate(part.C, axis=1), product[part.rows], rtol=1e-5, atol=1e-5)
