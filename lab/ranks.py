"""One process for each GPU, on one host or several: ranks that find each other, and send each other panels.

A launcher tells each process its rank: ``srun``, ``mpiexec``, ``torchrun``, or a loop of the shell::

    for RANK in 0 1 2; do RANK=$RANK WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 python product.py & done; wait

In ``product.py`` every rank has the same operands, memory-mapped files for instance, and reads only its own part::

    with ranks.join() as team:
        several.multiply("03", A, B, C, way="columns", team=team)

Panels go through sockets; those of a GPU go through the host's memory too. If a rank fails or dies, all end, and one of
them says why: the one that failed, or else the lowest that lives.
"""

import contextlib
import json
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any, NoReturn

import cupy
import numpy as np

from sgemm_tutorial.errors import ArgumentError, DeviceError

from . import several

NAMES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
"""The names that launchers have for a rank and the number of ranks; ``mpiexec`` in a job of Slurm sets both pairs."""
LOOPBACK = ("127.0.0.1", "localhost")
PANEL, FAILED, GONE, LEFT = b"p", b"x", b"g", b"e"
"""The first byte of a message. What follows is a panel, a rank's error, the number of one that died, or nothing."""


def place(environment: Mapping[str, str]) -> tuple[int, int, str, int]:
    """Return the rank, the number of ranks, and the address and the port where rank 0 waits.

    Raises
    ------
    ArgumentError
        The environment has no rank, or something else where a number belongs.
    """
    for rank, size in NAMES:
        if rank in environment and size in environment:
            first = re.sub(r"\[(\w+)[^]]*\]", r"\1", environment.get("SLURM_JOB_NODELIST", LOOPBACK[0])).split(",")[0]
            found = [environment[rank], environment[size], environment.get("MASTER_PORT", "29500")]
            if not all(map(str.isdecimal, found)) or not int(found[0]) < int(found[1]):
                raise ArgumentError(f"{rank}, {size}, MASTER_PORT", ", ".join(found), "a rank, how many, and a port")
            return int(found[0]), int(found[1]), environment.get("MASTER_ADDR", first), int(found[2])
    raise ArgumentError("environment", "no rank", "RANK and WORLD_SIZE, or a start by srun or mpiexec")


def join(environment: Mapping[str, str] = os.environ, patience: float = 10.0) -> "Team":
    """Wait until all ranks are there, and return the team.

    Parameters
    ----------
    environment : mapping of str to str
        As `place` reads it.
    patience : float
        Seconds after which to give up.

    Raises
    ------
    ArgumentError
        As for `place`.
    DeviceError
        The port is in use, or not all ranks came in time.
    """
    rank, size, address, port = place(environment)
    until, peers = time.monotonic() + patience, {}
    try:
        with socket.create_server((LOOPBACK[0] if address in LOOPBACK else "", 0 if rank else port)) as server:
            mine = [rank, size, socket.gethostname(), several.count(), server.getsockname()[1]]
            if rank:
                peers[0] = _called(address, port, mine, until)
                table = _heard(peers[0], until)
                for other in range(1, rank):
                    peers[other] = _called(*table[other][-2:], mine, until)
            found = [mine]
            while len(peers) < size - 1:
                server.settimeout(max(0.01, until - time.monotonic()))
                caller, (host, _) = server.accept()
                theirs = _heard(line := Connection(caller.detach()), until)
                peers[range(size)[theirs[0]]] = line  # a rank of a larger team has no place here
                found.append([*theirs[:-1], host, theirs[-1]])
            if not rank:
                table = sorted(found)
                for line in peers.values():
                    line.send_bytes(json.dumps(table).encode())
    except (OSError, EOFError, ValueError, TypeError, LookupError) as error:
        why = getattr(error, "strerror", None) or "not all came in time"
        raise DeviceError(f"rank {rank}: {size} ranks did not meet at {address}:{port}: {why}") from error
    return Team(rank, [(of[2], of[3]) for of in table], peers)


def _called(address: str, port: int, mine: Sequence[Any], until: float) -> Connection:
    """Return a connection with a rank that waits there, and say who calls; try until then."""
    while True:
        try:
            caller = socket.create_connection((address, port), timeout=1)
            caller.settimeout(None)
            line = Connection(caller.detach())
            line.send_bytes(json.dumps(mine).encode())
            return line
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _heard(line: Connection, until: float) -> Any:
    """Return what a rank says while it joins."""
    if not line.poll(max(0.0, until - time.monotonic())):
        raise TimeoutError
    return json.loads(line.recv_bytes(1 << 20))  # what is longer comes from a stranger


class Team(contextlib.AbstractContextManager):
    """The ranks of a product, as one of them sees it. Panels that come are kept until they are wanted.

    Attributes
    ----------
    rank, size : int
        Which of how many.
    sent : list of (int, int, int)
        This rank, the receiver and the bytes of each panel sent.
    """

    def __init__(self, rank: int, hosts: Sequence[tuple[str, int]], peers: Mapping[int, Connection]) -> None:
        self.rank, self.size, self.sent = rank, len(hosts), []
        self._hosts, self._peers, self._last, self._quiet = hosts, peers, b"", False
        self._come: dict[int, SimpleQueue] = {peer: SimpleQueue() for peer in peers}
        for peer in peers:
            Thread(target=self._read, args=(peer,), daemon=True).start()

    def _read(self, peer: int) -> None:
        """Keep what a rank sends. What ends the team is told to whoever waits, for whichever rank."""
        try:
            while (message := self._peers[peer].recv_bytes()).startswith(PANEL):
                self._come[peer].put(message)
        except (EOFError, OSError):
            message = GONE + str(peer).encode()
        for other in [peer] if message == LEFT else self._come:
            self._come[other].put(message)

    def _next(self, peer: int) -> memoryview:
        """Return what a rank sent next, or raise what ended the team."""
        message = self._come[peer].get()
        kind, text = message[:1], message[1:]
        if kind == PANEL:
            return memoryview(message)[1:]
        self._last, self._quiet = message if text else b"", kind == FAILED
        if kind == GONE:
            self._quiet = self.rank != (text == b"0")
            raise DeviceError(f"rank {text.decode()} is gone; all others end")
        raise DeviceError(text.decode() or f"rank {peer} has left, and a panel of it is wanted")

    def _tell(self, message: bytes, peer: int) -> None:
        with contextlib.suppress(OSError):  # if it is gone, `_next` says so, and why
            self._peers[peer].send_bytes(message)

    def send(self, source: int, target: int, array: Any) -> None:
        """Send an array to another rank; `source` is this one."""
        self.sent.append((source, target, array.nbytes))
        self._tell(PANEL + array.tobytes(), target)

    def take(self, source: int, target: int, into: Any) -> None:
        """Wait for what comes next from a rank and put it into an array; `target` is this rank."""
        come = np.frombuffer(self._next(source), into.dtype).reshape(into.shape)
        into[...] = cupy.asarray(come) if isinstance(into, cupy.ndarray) else come

    def agree(self, *facts: Any) -> None:
        """Let all ranks go on if they say the same.

        Raises
        ------
        ArgumentError
            One says something else than rank 0.
        """
        for peer in self._peers:
            self._tell(PANEL + json.dumps(facts).encode(), peer)
        said = {peer: json.loads(bytes(self._next(peer))) for peer in self._peers} | {self.rank: list(facts)}
        for other in range(self.size):
            if said[other] != said[0]:
                self._blame(other, ArgumentError(f"rank {other}", str(said[other]), f"{said[0]}, as rank 0 has it"))

    def device(self) -> int:
        """Return the number of this rank's GPU on its host.

        Raises
        ------
        DeviceError
            A host has more ranks than GPUs.
        """
        names = [name for name, _ in self._hosts]
        local = [names[:rank].count(name) for rank, name in enumerate(names)]
        for rank, (name, gpus) in enumerate(self._hosts):
            if local[rank] >= gpus:
                self._blame(rank, DeviceError(f"rank {rank}: {name} has {gpus} GPUs for {names.count(name)} ranks"))
        return local[self.rank]

    def _blame(self, rank: int, error: Exception) -> NoReturn:
        """Raise an error that all ranks find. The one to blame reports it."""
        self._quiet, self._last = self.rank != rank, LEFT if self.rank != rank else b""
        raise error

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        """Tell the others that this rank is done, or why it failed. If another reports the error, exit quietly."""
        for peer in self._peers:
            self._tell(self._last or (FAILED + f"rank {self.rank}: {error}".encode() if error else LEFT), peer)
        if error and self._quiet:
            raise SystemExit(1)
