"""Defines a kernel: its source file, the template arguments of an instance, and the way to call it."""

import dataclasses
import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, Self

from ptxsim import THREADS_MAX
from ptxsim.cuda_source import blanked
from ptxsim.nvrtc import INCLUDE

from . import compiler, gpu, operands, simulator
from .compiler import ARCHITECTURE, Binary, Instance
from .errors import ArgumentError
from .launch import SIMULATOR, Family, Launch, Place
from .operands import FP32, Problem, Types, named_in_cuda, sized
from .paths import KERNELS, Files, read

POSITIVE = ("BM", "BN", "BK", "WM", "WN", "TM", "TN", "SLICES", "CLUSTER")
"""Template parameters that are 1 or more: rows and columns of a tile, slices of its depth, and blocks of a cluster."""
TILES = Family()
"""The family of kernels with a block for each tile of C."""
REMEMBERED = 256
"""Launches that a kernel remembers at most."""


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
        A block computes a BM × BN tile of C, a thread TM × TN elements of it (1 × 1 unless given); `threads` says more.
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
    entry : str
        Name of the ``__global__`` function: the file's stem without its number, unless given.
    family : Family
        How its launches are chosen and divided.
    settled : bool
        Whether the parameters are more than a default, so that the family only fits them to a problem: a `variant` is.
    division : tuple of int, optional
        How many tiles have a block each, and how many blocks share the others, where the family is not to choose that.
    exact : bool
        Whether it is for `least_capability` alone, whose own instructions it has.
    """

    name: str
    idea: str
    parameters: dict[str, int | str] = field(hash=False)
    least_capability: tuple[int, int] = (6, 0)
    folder: Path = KERNELS
    edits: tuple[tuple[str, str], ...] = ()
    label: str = ""
    types: Types = FP32
    entry: str = ""
    family: Family = field(default=TILES, compare=False, repr=False)
    settled: bool = False
    division: tuple[int, int] | None = None
    exact: bool = False
    _launches: dict[Any, tuple[Files, Launch]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in self.parameters.items():
            least = 1 if name in POSITIVE else 0
            if not (name == "T" and isinstance(value, str)) and (
                isinstance(value, bool) or not isinstance(value, Integral) or value < least
            ):
                raise ArgumentError(name, repr(value), f"a whole number, {least} or more")
        object.__setattr__(
            self, "parameters", {n: v if isinstance(v, str) else int(v) for n, v in self.parameters.items()}
        )

    @property
    def path(self) -> Path:
        """The source file."""
        return self.folder / f"{self.name}.cu"

    @property
    def source(self) -> str:
        """The text of the source file, read again each time, with `edits` made."""
        return self.files[self.path.name]

    @property
    def files(self) -> dict[str, str]:
        """The texts of the source file and then of its headers by name, read again each time, with `edits` made.

        Headers are what it includes between quotes, and they in their turn, from its folder or else from `KERNELS`.

        Raises
        ------
        ArgumentError
            A file cannot be read, or none of them holds what `edits` change.
        """
        files: dict[str, str] = {}
        made: set[int] = set()  # which of the edits
        names = [self.path.name]
        for name in names:  # those that are found come behind it
            path = self.path if name == self.path.name else next(filter(Path.is_file, self._places(name)), None)
            if path is None or name in files:
                continue
            text = read(path)
            for number, (old, new) in enumerate(self.edits):
                if old in text:
                    text = text.replace(old, new)
                    made.add(number)
            files[name] = text
            names += [header for _, header in INCLUDE.findall(text)]  # those of edits too
        for number, (old, _) in enumerate(self.edits):
            if number not in made:
                raise ArgumentError("edits", repr(old), f"text that {' or '.join(files)} holds")
        return files

    @property
    def paths(self) -> list[Path]:
        """The source file, and wherever its headers are looked for: not all of these are there."""
        names = [name for text in self.files.values() for _, name in INCLUDE.findall(text)]
        return [self.path, *(place for name in dict.fromkeys(names) for place in self._places(name))]

    def _places(self, name: str) -> tuple[Path, ...]:
        """Return where a header may be, the first place first."""
        return self.folder / name, KERNELS / name

    @property
    def function(self) -> str:
        """Name of the ``__global__`` function."""
        return self.entry or self.name.lstrip("0123456789_")

    @property
    def expression(self) -> str:
        """The template instance to compile, for example ``"shared_tile<32, 32, 32>"``."""
        values = ", ".join(map(str, self.parameters.values()))
        return f"{self.function}<{values}>" if values else self.function

    @property
    def threads(self) -> int:
        """Threads per block; see `Family.block`."""
        return math.prod(self.family.block(self.parameters))

    @property
    def dynamic_shared_bytes(self) -> int:
        """Bytes of shared memory per block that a launch adds to what the source declares."""
        return self.family.shared_bytes(self.parameters)

    @property
    def instance(self) -> Instance:
        """The description of this kernel that the compiler and the GPU need.

        Raises
        ------
        ArgumentError
            Its file cannot be read or does not hold what `edits` change, or a block has too many threads or none.
        """
        if not 1 <= self.threads <= THREADS_MAX:
            raise ArgumentError(
                "parameters", f"{self.threads:,} threads per block of {self.expression}", f"1 to {THREADS_MAX:,}"
            )
        return Instance(
            self.name,
            self.family.prepared(tuple(self.files.items())),
            self.expression,
            self.threads,
            self.least_capability,
            self.dynamic_shared_bytes,
            self.exact,
        )

    @property
    def digest(self) -> str:
        """A digest of the code, headers included, that tells its versions apart: 12 digits of a SHA-256.

        Comments, assertions at compile time and spacing are left out: they make no difference to what runs.
        """
        text = "\n".join(self.files.values())
        code = " ".join(re.sub(r"static_assert\([^;]*;", "", blanked(text, strings=False)).split())
        return hashlib.sha256(code.encode()).hexdigest()[:12]

    def build(self, architecture: str = ARCHITECTURE) -> Binary:
        """Compile the source file as it is now; see `compiler.build`."""
        return compiler.build(self.instance, architecture)

    def grid(self, M: int, N: int) -> int:
        """Blocks for an M × N matrix C: one per BM × BN tile, in one dimension, row of tiles by row.

        Raises
        ------
        ArgumentError
            The parameters don't name that tile.
        """
        of = self.parameters
        if not {"BM", "BN"} <= of.keys():
            raise ArgumentError("parameters", ", ".join(of) or "none", "BM and BN, a block's rows and columns of C")
        return -(-M // of["BM"]) * -(-N // of["BN"])

    def variant(self, **parameters: int | str) -> Self:
        """Return this kernel with other template arguments, for example ``variant(BM=16, BN=16)``.

        A kernel that chooses its own still does if only types are given: T, of elements, or BITS, of an element of C.

        Raises
        ------
        ArgumentError
            The kernel has no template parameter of that name, T is no element type that it takes, or another parameter
            is no whole number, or 0 where that makes no tile.
        """
        for name in parameters:
            if name not in self.parameters:
                raise ArgumentError(name, "a parameter unknown to " + self.name, ", ".join(self.parameters))
        types, bits = self.types, (self.parameters | parameters).get("BITS")
        if "T" in parameters and isinstance(self.parameters["T"], str):
            types = named_in_cuda(parameters["T"], sized(types, 32))
        if bits is not None:
            types = sized(types, bits)
        of_type = parameters and parameters.keys() <= {"T", "BITS"}
        settled = self.settled or (self.family.chooses and not of_type)
        least = max(self.least_capability, types.least_capability)
        return dataclasses.replace(
            self, parameters=self.parameters | parameters, types=types, settled=settled, least_capability=least
        )

    def divided(self, whole: int, shares: int) -> Self:
        """Return this kernel with its work divided so; a problem for which that does not add up is an ArgumentError.

        Parameters
        ----------
        whole : int
            Tiles that have a block each.
        shares : int
            Blocks that share the others.
        """
        return dataclasses.replace(self, division=(whole, shares))

    def edited(self, *changes: tuple[str, str], label: str = "") -> Self:
        """Return this kernel with its source changed, to compare or to break it; the file stays as it is.

        Parameters
        ----------
        *changes : tuple of (str, str)
            Text of the source file or of its headers, and what to put in its place, wherever it stands; made in this
            order.
        label : str
            What this does to the kernel, in a few words.

        Notes
        -----
        The files are read when the source is asked for, and not before; text that none of them holds is an
        ArgumentError then.
        """
        return dataclasses.replace(self, edits=self.edits + changes, label=label)

    def __call__(self, A: Any, B: Any, C: Any = None, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """Compute C ← αAB + βC with BLAS's rules, on the GPU for CuPy arrays, simulated for NumPy arrays.

        Parameters
        ----------
        A, B : array of ``types.operand``, shapes (M, K) and (K, N)
            Row-major (C-contiguous) CuPy or NumPy arrays, both of one kind.
        C : array of ``types.result``, shape (M, N), optional
            Updated in place. May be left out where β = 0; then a new array is made.
        alpha, beta : float
            Rounded to ``types.scalar``. β = 0 never reads C; α = 0 or K = 0 never reads A and B.

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
        problem = operands.check(A, B, C, alpha, beta, self.types)
        if problem.on_gpu:
            with gpu.reported(self.name):
                self.launcher(problem)()
        else:
            simulator.run(self.resolve(problem, SIMULATOR), problem)
        return problem.C

    def resolve(self, problem: Problem, place: Place = SIMULATOR) -> Launch:
        """Return all that it takes to run this kernel on a problem.

        It is made once for each shape, alignment and place, and again when a file that it depends on has changed.

        Raises
        ------
        ArgumentError
            The source cannot be read, or the template arguments do not suit the problem.
        """
        tables = self.family.tables(place)
        key = problem.shape, problem.alignment, place, tables
        files, launch = self._launches.get(key, (None, None))
        if files and files.same():
            return launch
        chosen = self.family.choose(self, problem, place)
        division = chosen.family.divide(chosen, problem, place)
        launch = Launch(
            chosen, place, chosen.instance, problem.shape, division, chosen.family.boxes(chosen.parameters, problem)
        )
        files = Files((*chosen.paths, self.path, *tables))
        if files.settled:
            if len(self._launches) >= REMEMBERED:
                self._launches.clear()
            self._launches[key] = files, launch
        return launch

    def launcher(self, problem: Problem) -> Callable[[], None]:
        """Return a function that launches the kernel on a problem on the GPU, with nothing left to check or compile.

        Raises
        ------
        ArgumentError, DeviceError
            As for calling the kernel.
        """
        return gpu.launcher(self.resolve(problem, gpu.place()), problem)
