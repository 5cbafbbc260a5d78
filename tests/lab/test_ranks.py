"""Ranks on the loopback: each a process of its own, they send what was computed, and end together."""

import contextlib
import multiprocessing
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from lab import ranks, several
from lab.correctness import excess
from sgemm_tutorial import ArgumentError, DeviceError, TutorialError, find, matrices
from sgemm_tutorial.operands import FP32

from ..examples import floats
from ..together import for_each

ROOT = Path(__file__).resolve().parents[2]
WAYS = [way for way in several.WAYS if way != "direct"]
SHAPE = 7, 9, 11
SOON = 8.0
"""Seconds in which processes that cannot go on have ended, on a machine that does other things besides."""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def environment(rank, size, port):
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def in_threads(size, run):
    """Run ranks as threads of this process and return what each returns."""
    port, found = free_port(), {}

    def rank(number):
        with ranks.join(environment(number, size, port)) as team:
            found[number] = run(team)

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(size)]


@for_each(size=[1, 2, 3, 4, 6], way=WAYS)
def test_ranks_send_what_was_computed(way, size):
    """Every link carries the messages and bytes that `traffic` says."""
    A, B = matrices(*SHAPE, on_gpu=False)

    def run(team):
        (part,) = several.spread(A, B, None, size, way, FP32, team.rank)
        for _ in several.work(lambda A, B, C, alpha, beta: np.copyto(C, A @ B + (C if beta else 0)), part, way,
                              team):  # fmt: skip
            pass
        return part, team.sent

    parts, sent = zip(*in_threads(size, run), strict=True)
    links = {}
    for source, target, length in (message for of in sent for message in of):
        messages, total = links.get((source, target), (0, 0))
        links[source, target] = messages + 1, total + length
    assert links == several.traffic(way, size, *SHAPE, 4)
    for part in parts:
        assert np.allclose(np.concatenate(part.C, axis=1), (A @ B)[part.rows, part.columns], atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_computes_its_block(way):
    """The block of the caller's C is as one GPU computes it."""
    A, B = matrices(*SHAPE, on_gpu=False)
    C = floats(*SHAPE[:2], seed=3)
    together = C.copy()

    def run(team):
        return several.multiply("03", A, B, together, 1.5, -0.5, way=way, team=team)

    assert all(got is together for got in in_threads(3, run))
    assert (excess(together, A, B, C, 1.5, -0.5) <= 1).all()


# Processes


def start(size, run, port=None):
    """Fork a process for each rank, and return their exit statuses, their messages, and the seconds that they took."""
    context, port, begin = multiprocessing.get_context("fork"), port or free_port(), time.monotonic()
    queue = context.SimpleQueue()

    def rank(number):
        try:
            with ranks.join(environment(number, size, port), patience=1.0) as team:
                run(team)
        except TutorialError as error:
            queue.put(str(error))
            os._exit(2)

    processes = [context.Process(target=rank, args=(number,)) for number in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    messages = []
    while not queue.empty():
        messages.append(queue.get())
    return [process.exitcode for process in processes], messages, time.monotonic() - begin


def product(team, shapes=(SHAPE, SHAPE, SHAPE, SHAPE), die=None, at=0):
    """Multiply in a team; one rank may have other shapes, and one dies before one of its steps."""
    A, B = matrices(*shapes[team.rank], on_gpu=False)
    if team.rank == die:
        step, send = count(), team.send

        def dying(*arguments):
            if next(step) == at:
                os.kill(os.getpid(), signal.SIGKILL)
            send(*arguments)

        team.send = dying
    several.multiply("03", A, B, way="columns", team=team)


def test_processes_end_well():
    assert start(3, product)[:2] == ([0, 0, 0], [])


@pytest.mark.parametrize("die", [0, 1, 3])
@pytest.mark.parametrize("at", [0, 2])
def test_a_rank_that_dies(die, at):
    """All others end soon, and one of them says why."""
    statuses, messages, seconds = start(4, lambda team: product(team, die=die, at=at))
    assert messages == [f"rank {die} is gone; all others end"]
    assert statuses.pop(die) == -signal.SIGKILL and statuses == [2, 1, 1] and seconds < SOON


def test_a_wrong_shape_on_one_rank():
    shapes = SHAPE, SHAPE, (7, 9, 12), SHAPE
    statuses, messages, seconds = start(4, lambda team: product(team, shapes))
    text = r"rank 2: got \['03_shared_tile', 7, 9, 12, .*\], needs \['03_shared_tile', 7, 9, 11, .*, as rank 0 has it"
    assert len(messages) == 1 and re.match(text, messages[0])
    assert statuses == [1, 1, 2, 1] and seconds < SOON


def test_what_one_rank_alone_finds_wrong():
    def run(team):
        A, B = matrices(*SHAPE, on_gpu=False)
        several.multiply("03", A, B if team.rank else B.T, team=team)

    statuses, messages, seconds = start(3, run)
    assert len(messages) == 1 and messages[0].startswith("B: got ")
    assert statuses == [2, 1, 1] and seconds < SOON


@pytest.mark.parametrize("gpus", [0, 2])
def test_more_ranks_than_gpus(monkeypatch, gpus):
    monkeypatch.setattr(several, "count", lambda: gpus)
    statuses, messages, seconds = start(4, lambda team: team.device())
    assert messages == [f"rank {gpus}: {socket.gethostname()} has {gpus} GPUs for 4 ranks"]
    assert statuses == [1] * gpus + [2] + [1] * (3 - gpus) and seconds < SOON


def test_each_rank_has_a_gpu_of_its_host():
    """Counted on each host by itself, however the ranks are dealt out to the hosts."""
    hosts = [("one", 2), ("other", 3), ("other", 3), ("one", 2), ("other", 3)]
    assert [ranks.Team(rank, hosts, {}).device() for rank in range(5)] == [0, 0, 1, 1, 2]


def test_a_port_in_use():
    """Rank 0 says so, and the others find nobody there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        statuses, messages, seconds = start(2, product, port)
    meeting = f"2 ranks did not meet at 127.0.0.1:{port}: "
    first, second = sorted(messages)
    assert first.startswith(f"rank 0: {meeting}Address already in use") and "\n" not in first
    assert second == f"rank 1: {meeting}not all came in time"
    assert statuses == [2, 2] and seconds < SOON


def test_a_rank_that_does_not_come():
    begin, port = time.monotonic(), free_port()
    with pytest.raises(
        DeviceError, match=rf"^rank 0: 2 ranks did not meet at 127\.0\.0\.1:{port}: not all came in time$"
    ):
        ranks.join(environment(0, 2, port), patience=0.3)
    with pytest.raises(
        DeviceError, match=rf"^rank 1: 2 ranks did not meet at 127\.0\.0\.1:{port}: Connection refused$"
    ):
        ranks.join(environment(1, 2, port), patience=0.3)
    assert time.monotonic() - begin < SOON


def test_a_loop_of_the_shell(tmp_path):
    """Processes that share nothing but a file of each matrix."""
    A, B = matrices(40, 30, 50, on_gpu=False)
    for name, array in (("A", A), ("B", B), ("C", np.zeros((40, 30), np.float32))):
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "product.py").write_text(
        "import numpy as np\n"
        "from lab import ranks, several\n"
        "A, B, C = (np.load(f'{name}.npy', mmap_mode=mode) for name, mode in (('A', 'r'), ('B', 'r'), ('C', 'r+')))\n"
        "with ranks.join(patience=60) as team:\n"
        "    several.multiply('03', A, B, C, way='columns', team=team)\n"
        "    assert len(team.sent) == 1\n"
    )
    loop = f'for RANK in 0 1; do RANK=$RANK WORLD_SIZE=2 "{sys.executable}" product.py & all="$all $!"; done; '
    loop += "for one in $all; do wait $one || exit 1; done"
    own = {**os.environ, "PYTHONPATH": str(ROOT), "MASTER_PORT": str(free_port()), "MASTER_ADDR": "127.0.0.1"}
    done = subprocess.run(["bash", "-c", loop], cwd=tmp_path, env=own, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert np.load(tmp_path / "C.npy").tobytes() == find("03")(A, B).tobytes()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"RANK": "1", "WORLD_SIZE": "4"}, (1, 4, "127.0.0.1", 29500)),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "head", "MASTER_PORT": "1234"}, (0, 2, "head", 1234)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "MASTER_ADDR": "head"}, (2, 3, "head", 29500)),
        ({"PMI_RANK": "2", "PMI_SIZE": "3"}, (2, 3, "127.0.0.1", 29500)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_JOB_NODELIST": "gpu[07-09,12],x"}, (5, 8, "gpu07", 29500)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_JOB_NODELIST": "n3"}, (0, 1, "n3", 29500)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "9", "SLURM_JOB_NODELIST": "a[1-2]-ib"}, (0, 9, "a1-ib", 29500)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "PMI_RANK": "2", "PMI_SIZE": "3"}, (2, 3, "127.0.0.1", 29500)),
    ],
)
def test_launchers(given, found):
    assert ranks.place(given) == found


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "^environment: got no rank, needs RANK and WORLD_SIZE, or a start by srun or mpiexec"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "^RANK, WORLD_SIZE, MASTER_PORT: got 2, 2, 29500, needs a rank"),
        ({"PMI_RANK": "one", "PMI_SIZE": "2"}, "^PMI_RANK, PMI_SIZE, MASTER_PORT: got one, 2, 29500"),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "-1"}, "got 0, 1, -1"),
    ],
)
def test_no_rank(given, text):
    with pytest.raises(ArgumentError, match=text):
        ranks.place(given)


def test_direct_needs_one_process():
    A, B = matrices(*SHAPE, on_gpu=False)
    with pytest.raises(ArgumentError, match=r"^way: got 'direct', needs another one: a process has no address"):
        several.spread(A, B, None, 2, "direct", FP32, 0)


def message(said):
    return struct.pack("!i", len(said)) + said


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\n\r\n", message(b"{}"), message(b"7"), message(b"[2, 3, 0, 0, 0]"), message(b"\xff")]
)
def test_a_stranger_is_not_waited_for(sent):
    """A caller that is no rank of this team ends the attempt, whatever it sends."""
    port = free_port()

    def call():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(sent)
            stranger.recv(1)

    caller = threading.Timer(0.1, call)
    caller.start()
    with pytest.raises(DeviceError, match=r"^rank 0: 2 ranks did not meet"):
        ranks.join(environment(0, 2, port), patience=2)
    caller.join()
