"""A kernel: its source file, the template arguments that make an instance of it, and the calling of it."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from ptxsim.machine import Machine
from ptxsim.ptx import parse
from ptxsim.tensor_map import TensorMap

from . import compiler, gpu, operands
from .compiler import ARCHITECTURE, PTX_ALONE, Binary, Instance
from .errors import ArgumentError, SimulationFault, UnsupportedInstruction
from .hardware import THREADS_MAX, WARP
from .operands import FP32, Division, Problem, Types, named_in_cuda
from .paths import KERNELS

EXTENTS = ("BM", "BN", "BK", "WM", "WN", "TM", "TN")
"""Template parameters that are rows or columns of a tile."""
MULTIPROCESSORS = 132
"""Among which the simulator divides the work where a kernel asks: those of the recorded measurements' cards."""


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
    dynamic_shared : callable
        Makes of the parameters the bytes of shared memory that a launch adds to what the source declares: SHARED_BYTES,
        unless given, or none.
    entry : str
        Name of the ``__global__`` function: the file's stem without its number, unless given.
    choose : callable, optional
        Makes of the kernel, a problem, an architecture and a number of multiprocessors the kernel with the template
        arguments for that problem.
    settled : bool
        Whether the parameters are more than a default, so that `choose` only fits them to a problem: a `variant` is.
    divide : callable, optional
        Makes of the parameters, (M, N, K), an architecture and a number of multiprocessors the `Division` of a launch,
        where that is not a tile of C for each block.
    exact : bool
        Whether it is for `least_capability` alone, whose own instructions it has.
    maps : callable, optional
        Makes of the parameters and a problem the tensor maps that a launch is given after C, by name. A kernel that has
        them fetches rows that begin at multiples of 16 bytes.
    trials : sequence of dict
        Cases of `correctness.suite` beside those that follow from the tile, for a kernel that has many of them.
    """

    name: str
    idea: str
    parameters: dict[str, int | str] = field(hash=False)
    least_capability: tuple[int, int] = (7, 5)
    folder: Path = KERNELS
    edits: tuple[tuple[str, str], ...] = ()
    label: str = ""
    types: Types = FP32
    dynamic_shared: Callable[[Mapping[str, Any]], int] = field(
        default=lambda of: of.get("SHARED_BYTES", 0), compare=False, repr=False
    )
    entry: str = ""
    choose: Callable[[Kernel, Problem, str, int], Kernel] | None = field(default=None, compare=False, repr=False)
    settled: bool = False
    divide: Callable[[Mapping[str, Any], tuple[int, int, int], str, int], Division] | None = field(
        default=None, compare=False, repr=False
    )
    exact: bool = False
    maps: Callable[[Mapping[str, Any], Problem], dict[str, TensorMap]] | None = field(
        default=None, compare=False, repr=False
    )
    trials: Sequence[Mapping[str, Any]] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, value in self.parameters.items():
            least = 1 if name in EXTENTS else 0
            if name != "T" and (isinstance(value, bool) or not isinstance(value, Integral) or value < least):
                raise ArgumentError(name, repr(value), f"a whole number, {least} or more")
        object.__setattr__(self, "parameters", {n: v if n == "T" else int(v) for n, v in self.parameters.items()})

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

        Raises
        ------
        ArgumentError
            A file cannot be read, or none of them holds what `edits` change.
        """
        files: dict[str, str] = {}
        made: set[int] = set()  # which of the edits
        names = [self.path.name]
        while names:
            name = names.pop(0)
            path = self.path if name == self.path.name else self._header(name)
            if path is None or name in files:
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ArgumentError(
                    "kernel", f"{self.name}, whose file {name} cannot be read ({error})", "its source"
                ) from None
            for number, (old, new) in enumerate(self.edits):
                if old in text:
                    text = text.replace(old, new)
                    made.add(number)
            files[name] = text
            names += [header for _, header in compiler.INCLUDE.findall(text)]  # those of edits too
        for number, (old, _) in enumerate(self.edits):
            if number not in made:
                raise ArgumentError("edits", repr(old), f"text that {' or '.join(files)} holds")
        return files

    def _header(self, name: str) -> Path | None:
        """Return the path of a header, None if it is none of ours."""
        return next((folder / name for folder in (self.folder, KERNELS) if (folder / name).is_file()), None)

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
        """Threads per block, the tile of C being divided among threads of TM × TN elements each.

        Where a warp has a tile of WM × WN, it is divided among warps, and there may be several SLICES of them. Where
        there is a parameter THREADS, it says how many there are.
        """
        of = self.parameters
        if "THREADS" in of:
            return of["THREADS"]
        if "WM" in of:
            return WARP * of["BM"] * of["BN"] // (of["WM"] * of["WN"]) * of.get("SLICES", 1)
        return of.get("BM", 1) * of.get("BN", 1) // (of.get("TM", 1) * of.get("TN", 1))

    @property
    def dynamic_shared_bytes(self) -> int:
        """Bytes of shared memory per block that a launch adds to what the source declares."""
        return self.dynamic_shared(self.parameters)

    @property
    def instance(self) -> Instance:
        """What the compiler and the GPU need to know of it.

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
            tuple(self.files.items()),
            self.expression,
            self.threads,
            self.least_capability,
            self.dynamic_shared_bytes,
            self.exact,
        )

    @property
    def digest(self) -> str:
        """What tells versions of the code apart, headers included, 12 digits of a SHA-256.

        Comments, assertions at compile time and spacing are left out: they make no difference to what runs.
        """
        text = "\n".join(self.files.values())
        code = " ".join(re.sub(r"//[^\n]*|static_assert\([^;]*;", "", text).split())
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

    def variant(self, **parameters: int | str) -> Kernel:
        """Return this kernel with other template arguments, for example ``variant(BM=16, BN=16)``.

        A kernel that chooses its own still does if only T, the type of its elements, is given.

        Raises
        ------
        ArgumentError
            The kernel has no template parameter of that name, T is no element type that it takes, or another parameter
            is no whole number, or 0 where that makes no tile.
        """
        for name in parameters:
            if name not in self.parameters:
                raise ArgumentError(name, "a parameter unknown to " + self.name, ", ".join(self.parameters))
        types = named_in_cuda(parameters["T"], self.types) if "T" in parameters else self.types
        settled = self.settled or (self.choose is not None and parameters.keys() != {"T"})
        least = max(self.least_capability, types.least_capability)
        return dataclasses.replace(
            self, parameters=self.parameters | parameters, types=types, settled=settled, least_capability=least
        )

    def chosen(
        self, problem: Problem, architecture: str = ARCHITECTURE, multiprocessors: int = MULTIPROCESSORS
    ) -> Kernel:
        """Return the variant that is launched for a problem: this kernel itself unless it has a choice."""
        return self.choose(self, problem, architecture, multiprocessors) if self.choose else self

    def division(
        self, problem: Problem, architecture: str = ARCHITECTURE, multiprocessors: int = MULTIPROCESSORS
    ) -> Division:
        """Return how a launch divides a problem among blocks.

        Raises
        ------
        ArgumentError
            The parameters don't name a tile.
        """
        M, N, K = problem.M, problem.N, problem.K
        if self.divide is None:
            return Division(self.grid(M, N))
        return self.divide(self.parameters, (M, N, K), architecture, multiprocessors)

    def tensor_maps(self, problem: Problem) -> dict[str, TensorMap]:
        """Return what a launch is given after C, by name: see `maps`."""
        return self.maps(self.parameters, problem) if self.maps else {}

    def edited(self, *changes: tuple[str, str], label: str = "") -> Kernel:
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
        problem = operands.check(A, B, C, alpha, beta, self.types)
        if problem.on_gpu:
            with gpu.reported(self.name):
                self.launcher(problem)()
        else:
            self.simulated(problem)
        return problem.C

    def launcher(self, problem: Problem) -> Callable[[], None]:
        """Return a function that launches the kernel on a problem, with nothing left to check, compile or load.

        Raises
        ------
        ArgumentError, DeviceError
            As for calling the kernel.
        """
        where = gpu.place() if self.choose or self.divide else ()
        kernel = self.chosen(problem, *where)
        maps = kernel.tensor_maps(problem).values()
        return gpu.launcher(kernel.instance, kernel.division(problem, *where), problem, tuple(maps))

    def simulated(
        self,
        problem: Problem,
        architecture: str = PTX_ALONE,
        trace: Collection[int] = (),
        blocks: Collection[int] | None = None,
        progress: bool | None = False,
        multiprocessors: int = MULTIPROCESSORS,
        unwritten: Collection[str] = (),
    ) -> Machine:
        """Run the kernel on the simulator, updating ``problem.C``; see `simulate` for the parameters.

        Reading what `unwritten` names of A, B and C is a fault, until the kernel has written it.

        Returns
        -------
        Machine
            With what was counted and traced.
        """
        kernel = self.chosen(problem, architecture, multiprocessors)
        compiler.require(kernel.instance, architecture)
        instance, binary = kernel.instance, kernel.build(architecture.replace("sm", "compute"))  # the same PTX
        division = kernel.division(problem, architecture, multiprocessors)
        if problem.fresh_C:
            problem.C.fill(np.nan)
        fresh = {*unwritten, "workspace"} | ({"C"} if problem.fresh_C else set())
        arguments = problem.arguments | kernel.tensor_maps(problem)
        if division.counts:
            arguments["workspace"] = np.full(division.workspace, np.nan, np.float32)
            arguments["arrived"] = np.zeros(division.arrived, np.uint32)
            arguments |= {name: np.uint32(count) for name, count in division.counts.items()}
        try:
            program = parse(binary.ptx, binary.entry, instance.dynamic_shared_bytes)
            machine = Machine(program, self.name, instance.threads, arguments, fresh=fresh, trace=trace)
            machine.run(division.blocks, blocks, progress)
        except UnsupportedInstruction as error:
            raise UnsupportedInstruction(f"{self.path.name}: {error}") from None
        if blocks is None and division.arrived and arguments["arrived"].any():
            raise SimulationFault("left behind", self.name, "counters in `arrived` that are not zero again")
        return machine
