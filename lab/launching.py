"""A launch by hand: a few lines of CUDA C++ of one's own, compiled and run on the GPU or on the simulator."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import cupy
import numpy as np

import ptxsim
from ptxsim import Access
from sgemm_tutorial import gpu
from sgemm_tutorial.compiler import Instance, build
from sgemm_tutorial.errors import ArgumentError


@dataclass(frozen=True)
class Launched:
    """A launch, and what the simulator saw of it.

    Attributes
    ----------
    name : str
        Of the function.
    blocks, threads : int
        Blocks of the grid, and threads of each.
    trace : list of Access
        The accesses of the traced blocks, in order; none of a launch on a GPU.
    """

    name: str
    blocks: int
    threads: int
    trace: list[Access] = field(default_factory=list, repr=False)


def launch(
    source: str,
    name: str,
    blocks: int,
    threads: int,
    arguments: Mapping[str, Any],
    trace: Collection[int] = (),
) -> Launched:
    """Compile CUDA C++ and launch a function of it: on the GPU if it is given CuPy arrays, else on the simulator.

    Parameters
    ----------
    source : str
        Holds a ``__global__`` function, not a template.
    name : str
        The function's.
    blocks, threads : int
        Of the grid, and of each block, both of one dimension.
    arguments : mapping of str to array or scalar
        In the function's order, by the names to use in messages. Arrays are used in place; scalars are NumPy scalars of
        the type declared.
    trace : collection of int
        Blocks whose accesses the simulator is to keep.

    Raises
    ------
    ArgumentError
        `blocks` or `threads` is not positive, or the arguments are not what the function takes.
    CompileError
        The source does not compile.
    SimulationFault, UnsupportedInstruction
        As for `simulate`.
    """
    for what, number in (("blocks", blocks), ("threads", threads)):
        if number < 1:
            raise ArgumentError(what, str(number), "1 or more")
    for what, value in arguments.items():
        if not isinstance(value, np.ndarray | np.generic | cupy.ndarray | list | tuple):
            kind = type(value).__name__
            raise ArgumentError(
                what, f"{kind} {value!r}", f"an array, or a scalar of the type declared: np.int32({value!r})"
            )
    instance = Instance(name, ((f"{name}.cu", source),), name, threads, (6, 0), 0)
    if any(isinstance(value, cupy.ndarray) for value in arguments.values()):
        gpu.load(instance)((blocks,), (threads,), tuple(arguments.values()))
        return Launched(name, blocks, threads)
    arrays = {what: np.asarray(value) if np.ndim(value) else value for what, value in arguments.items()}
    binary = build(instance)
    run = ptxsim.run(binary.ptx, binary.entry, blocks, threads, arrays, name=name, trace=trace)
    return Launched(name, blocks, threads, run.trace)
