"""The recorded ceilings of a GPU, and the kernels that they are measured with, each of which does one thing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.hardware import limits_of
from sgemm_tutorial.kernel import Kernel

from ..boards import Gpu, find_gpu
from ..model.ceilings import (
    ARITHMETIC,
    DRAM,
    L2,
    MMA_FP16,
    MMA_TF32,
    READ,
    SHARED,
    Ceiling,
    Ceilings,
)
from . import cards, files
from .files import Measured, Recording

CHAINS, THREADS = 8, 256
MULTIPLY_ADD = Kernel("multiply_add", "multiply-adds and nothing else", {"CHAINS": CHAINS})
SHARED_READ = Kernel("shared_read", "reads of shared memory and nothing else", {"THREADS": THREADS})
COPY = Kernel("copy", "copies an array", {})
READS = Kernel("read", "reads an array", {})
PRODUCTS = Kernel("multiply_fragments", "products of fragments and nothing else", {"TF32": 0, "CHAINS": CHAINS}, (8, 0))
KERNELS = {ARITHMETIC: MULTIPLY_ADD, SHARED: SHARED_READ, L2: COPY, DRAM: COPY}
LATER = {READ: READS, MMA_FP16: PRODUCTS, MMA_TF32: PRODUCTS.variant(TF32=1)}
"""Measured of cards that were recorded since there are these."""


@dataclass(frozen=True)
class Rate(Ceiling, Measured):
    """One ceiling, with the kernel that reached it."""

    PROBLEM = ("name",)


def load(path: str | Path = "ceilings") -> Ceilings:
    """Read the recording.

    Raises
    ------
    ArgumentError
        It is missing or malformed, or of other code.
    """
    recording = files.load(path, Recording[Rate])
    later = {rate.name: LATER[rate.name] for rate in recording.points if rate.name in LATER}
    found = {name: files.point(path, Rate, kernel, name) for name, kernel in (KERNELS | later).items()}
    return Ceilings(recording.provenance, found)


def card() -> Gpu:
    """Return the board whose recordings the book shows.

    Its data sheet, if `boards.GPUS` has it; else what CUDA says of it, with the bandwidth that was measured.

    Raises
    ------
    ArgumentError
        The recording is missing or malformed, or of an architecture that `hardware` doesn't know.
    """
    recorded = load()
    of = recorded.provenance
    try:
        return find_gpu(cards.slug(of["gpu"]).replace("-", " "))
    except ArgumentError:
        return Gpu(
            of["gpu"],
            limits_of("sm_" + of["compute_capability"].replace(".", "")),
            of["multiprocessors"],
            of["sm_clock_max_mhz"],
            round(1000 * recorded[DRAM].tera_per_second),
            of["l2_bytes"],
        )
