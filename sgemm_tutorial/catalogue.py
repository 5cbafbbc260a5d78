"""The catalogue of kernels, in ladder order. It drives launching, tests, benchmarks, tables and the book."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import arguments, gpu, simulator
from .dtypes import FP16, FP32, Types, named_in_cuda
from .errors import ArgumentError
from .gpus import WARP

KERNELS = Path(__file__).resolve().parent.parent / "kernels"
INCLUDED = re.compile(r'(?m)^\s*#\s*include\s*"([^"\n]+)"')


@dataclass(frozen=True)
class Kernel:
    """One kernel of the ladder: ``kernel(A, B, C=None, alpha=1.0, beta=0.0)`` computes C ← αAB + βC.

    Attributes
    ----------
    name : str
        Stem of its source file, for example ``"03_shared_tile"``.
    idea : str
        What it adds to the rung before, in one line.
    parameters : dict of str to int or str
        Template arguments in the source's order, with the field's names (BM, BN, BK, TM, TN, ...).
        A block computes a BM × BN tile of C, a thread TM × TN elements of it (1 × 1 unless given).
        T, where there is one, is the C++ name of the element type.
    least_capability : tuple of int
        Oldest compute capability the source compiles for.
    folder : Path
        Where the source file is.
    edits : tuple of (str, str)
        Changes to the text of the source file and its headers; see `edited`.
    label : str
        What was changed, by edits or parameters, in a few words; recordings tell kernels apart by it too.
    types : Types
        Of the elements of A, B and C.
    dynamic_shared : callable
        Makes of the parameters the bytes of shared memory that a launch adds to what the source declares.
    """

    name: str
    idea: str
    parameters: dict[str, int | str] = field(hash=False)
    least_capability: tuple[int, int] = (7, 5)
    folder: Path = KERNELS
    edits: tuple[tuple[str, str], ...] = ()
    label: str = ""
    types: Types = FP32
    dynamic_shared: Callable[[Mapping[str, Any]], int] = field(default=lambda of: 0, compare=False)

    @property
    def path(self) -> Path:
        """The source file."""
        return self.folder / f"{self.name}.cu"

    @property
    def source(self) -> str:
        """The text of the source file, read anew each time, with `edits` made."""
        return self.files[self.path.name]

    @property
    def files(self) -> dict[str, str]:
        """The texts of the source file and then of its headers by name, read anew each time, with `edits` made.

        Headers are what it includes between quotes, and they in their turn, from its folder or else from `KERNELS`.
        """
        files: dict[str, str] = {}
        made: set[int] = set()  # which of the edits
        names = [self.path.name]
        while names:
            name = names.pop(0)
            path = self.path if name == self.path.name else self._header(name)
            if path is None or name in files:
                continue
            text = path.read_text(encoding="utf-8")
            for number, (old, new) in enumerate(self.edits):
                if old in text:
                    text = text.replace(old, new)
                    made.add(number)
            files[name] = text
            names += INCLUDED.findall(text)
        for number, (old, _) in enumerate(self.edits):
            if number not in made:
                raise ArgumentError("edits", repr(old), f"text that {' or '.join(files)} holds")
        return files

    def _header(self, name: str) -> Path | None:
        """Return the path of a header, None if it is none of ours."""
        return next((folder / name for folder in (self.folder, KERNELS) if (folder / name).is_file()), None)

    @property
    def function(self) -> str:
        """Name of the ``__global__`` function: the file's stem without its number."""
        return self.name.lstrip("0123456789_")

    @property
    def expression(self) -> str:
        """The template instance to compile, for example ``"shared_tile<32, 32, 32>"``."""
        values = ", ".join(map(str, self.parameters.values()))
        return f"{self.function}<{values}>" if values else self.function

    @property
    def threads(self) -> int:
        """Threads per block: the tile of C divided among threads of TM × TN elements each.

        Where a warp has a tile of WM × WN and its threads have none, as on tensor cores, it is divided among warps.
        """
        of = self.parameters
        if "WM" in of and "TM" not in of:
            return WARP * of["BM"] * of["BN"] // (of["WM"] * of["WN"])
        return of["BM"] * of["BN"] // (of.get("TM", 1) * of.get("TN", 1))

    @property
    def dynamic_shared_bytes(self) -> int:
        """Bytes of shared memory per block that a launch adds to what the source declares."""
        return self.dynamic_shared(self.parameters)

    def grid(self, M: int, N: int) -> int:
        """Blocks for an M × N matrix C: one per BM × BN tile, in one dimension, row of tiles by row."""
        return -(-M // self.parameters["BM"]) * -(-N // self.parameters["BN"])

    def variant(self, **parameters: int | str) -> Kernel:
        """Return this kernel with other template arguments, for example ``variant(BM=16, BN=16)``.

        Raises
        ------
        ArgumentError
            The kernel has no template parameter of that name, or T is no element type.
        """
        for name in parameters:
            if name not in self.parameters:
                raise ArgumentError(name, "a parameter unknown to " + self.name, ", ".join(self.parameters))
        types = named_in_cuda(parameters["T"]) if "T" in parameters else self.types
        return dataclasses.replace(self, parameters=self.parameters | parameters, types=types)

    def edited(self, *changes: tuple[str, str], label: str = "") -> Kernel:
        """Return this kernel with its source changed, to compare or to break it; the file stays as it is.

        Parameters
        ----------
        *changes : tuple of (str, str)
            Text of the source file or of its headers, and what to put in its place, wherever it stands; made in this
            order.
        label : str
            What this does to the kernel, in a few words.

        Raises
        ------
        ArgumentError
            None of them holds the text.
        """
        kernel = dataclasses.replace(self, edits=self.edits + changes, label=label)
        _ = kernel.source
        return kernel

    def __call__(self, A: Any, B: Any, C: Any = None, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """Compute C ← αAB + βC with BLAS's rules, on the GPU for CuPy arrays, simulated for NumPy arrays.

        Parameters
        ----------
        A, B : array of ``types.operand``, shapes (M, K) and (K, N)
            Row-major (C-contiguous) CuPy or NumPy arrays, both of one kind.
        C : array of ``types.result``, shape (M, N), optional
            Updated in place. May be left out where β = 0; then a new array is made.
        alpha, beta : float
            Rounded to ``types.result``. β = 0 never reads C; α = 0 or K = 0 never reads A and B.

        Returns
        -------
        array of ``types.result``, shape (M, N)
            C itself if it was given.

        Raises
        ------
        ArgumentError
            Before anything is launched, naming the argument; also where the kernel wants more shared memory
            than there is.
        DeviceError
            The GPU is older than `least_capability`, was lost, or is out of memory.
        SimulationFault
            The simulated kernel reads or writes where it must not.
        """
        problem = arguments.check(A, B, C, alpha, beta, self.types)
        back_end = gpu if problem.on_gpu else simulator
        back_end.run(self, problem)
        return problem.C


LADDER = (
    Kernel("01_naive", "one thread per element of C, neighbouring threads on neighbouring rows", {"BM": 32, "BN": 8}),
    Kernel("02_coalesced", "neighbouring threads on neighbouring columns", {"BM": 8, "BN": 32}),
    Kernel("03_shared_tile", "the block stages tiles of A and B in shared memory", {"BM": 32, "BN": 32, "BK": 128}),
    Kernel(
        "04_thread_tile_1d", "each thread computes a column of TM elements", {"BM": 64, "BN": 64, "BK": 32, "TM": 16}
    ),
    Kernel(
        "05_thread_tile_2d",
        "each thread computes a tile of TM × TN elements",
        {"BM": 128, "BN": 64, "BK": 32, "TM": 8, "TN": 4},
    ),
    Kernel(
        "06_register_fragments",
        "what a thread needs at one k is read into registers first",
        {"BM": 128, "BN": 64, "BK": 32, "TM": 8, "TN": 4},
    ),
    Kernel(
        "07_vectorized",
        "four elements per access, and the tile of A transposed",
        {"BM": 128, "BN": 64, "BK": 16, "TM": 8, "TN": 4, "BLOCKS": 3},
    ),
    Kernel(
        "08_conflict_free",
        "no two lanes in different words of one bank",
        {"BM": 64, "BN": 128, "BK": 32, "TM": 8, "TN": 8, "BLOCKS": 3},
    ),
    Kernel(
        "09_warp_tile",
        "a tile of C for the warp, between the block's and the thread's",
        {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 2},
    ),
    Kernel(
        "10_double_buffer",
        "the next tiles are fetched while these are multiplied",
        {"BM": 128, "BN": 256, "BK": 8, "WM": 128, "WN": 32, "TM": 16, "TN": 8, "BLOCKS": 1},
    ),
    Kernel(
        "11_async_pipeline",
        "asynchronous copies, several tiles ahead",
        {"BM": 128, "BN": 256, "BK": 8, "WM": 64, "WN": 64, "TM": 16, "TN": 8, "STAGES": 3, "BLOCKS": 1},
        (8, 0),
    ),
)
"""The climb in FP32 on CUDA cores, towards cuBLAS's SGEMM."""


def _register_l1_tiles(of: Mapping[str, Any]) -> int:
    """Return the bytes of 13's tiles of A and B, and what it wants beside them."""
    element = named_in_cuda(of["T"]).operand.itemsize
    return of["SHARED"] * of["BK"] * (of["BM"] + of["BN"]) * element + of["EXTRA"]


def _wmma_tiles(of: Mapping[str, Any]) -> int:
    """Return the bytes of 15's tiles of A and B, eight elements of padding to a row."""
    return max(of["STAGES"], 1) * (of["BM"] * (of["BK"] + 8) + of["BK"] * (of["BN"] + 8)) * FP16.operand.itemsize


CATALOGUE = (
    *LADDER,
    Kernel(
        "13_register_l1",
        "no shared memory: what neighbouring threads share, L1 hands them",
        {
            "T": "float",
            "BM": 16,
            "BN": 512,
            "BK": 32,
            "TM": 16,
            "TN": 4,
            "SHARED": 0,
            "C_LAST": 0,
            "FETCH": 1,
            "READ": 1,
            "UNROLL": 1,
            "EXTRA": 0,
            "BLOCKS": 4,
        },
        dynamic_shared=_register_l1_tiles,
    ),
    Kernel(
        "14_wmma",
        "a warp multiplies 16 × 16 × 16 at once, on tensor cores",
        {"BM": 64, "BN": 64, "WM": 16, "WN": 16},
        types=FP16,
    ),
    Kernel(
        "15_wmma_warp_tile",
        "a warp has a tile of fragments, a block stages what its warps share",
        {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 64, "STAGES": 3, "BLOCKS": 2},
        (8, 0),
        types=FP16,
        dynamic_shared=_wmma_tiles,
    ),
)
"""Every kernel in the order of the book: the ladder's, then those that take another road or other types."""


def find(name: str) -> Kernel:
    """Return the kernel of that name; its number alone ("03") or its name without it will do.

    Raises
    ------
    ArgumentError
        There is none; the message suggests the nearest name.
    """
    for kernel in CATALOGUE:
        if name in (kernel.name, kernel.function, kernel.name.partition("_")[0]):
            return kernel
    names = [kernel.name for kernel in CATALOGUE]
    words = {key: kernel.name for kernel in CATALOGUE for key in (kernel.name, kernel.function)}
    near = difflib.get_close_matches(str(name), words, n=1, cutoff=0.4)
    hint = f"; did you mean {words[near[0]]!r}?" if near else ""
    raise ArgumentError("name", repr(name), f"one of {', '.join(names)}{hint}")
