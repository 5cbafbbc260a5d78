"""Runs a launch on NumPy arrays, with no GPU: this is the simulator as a back end."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from ptxsim import BUDGET, Machine, TensorMap, parse

from . import compiler
from .compiler import Instance
from .errors import SimulationFault, UnsupportedInstruction
from .launch import Launch
from .operands import Problem


def run(
    launch: Launch,
    problem: Problem,
    *,
    trace: Collection[int] = (),
    blocks: Collection[int] | None = None,
    progress: bool | None = False,
    unwritten: Collection[str] = (),
    races: bool = False,
    budget: int = BUDGET,
) -> Machine:
    """Run a launch on a problem of NumPy arrays, updating ``problem.C``.

    Parameters
    ----------
    launch : Launch
    problem : Problem
        Of the launch's shape.
    trace, blocks, progress
        As for `simulate`.
    unwritten : collection of str
        Those of A, B and C that hold nothing: reading them before the kernel has written them is a fault.
    races : bool
        Whether to look for races in global memory too, which takes two to six times as long.
    budget : int
        Instructions that a thread may execute.

    Returns
    -------
    Machine
        With what was counted and traced.

    Raises
    ------
    CompileError, SimulationFault, UnsupportedInstruction
        As for `simulate`.
    """
    architecture, arguments = launch.place.architecture, given(launch, problem)
    compiler.require(launch.instance, architecture)
    binary = compiler.build(launch.instance, architecture.replace("sm", "compute"))  # the same PTX
    fresh = {*unwritten, "workspace"} | ({"C"} if problem.fresh_C and not launch.kernel.family.zeroed else set())
    try:
        program = parse(binary.ptx, binary.entry, launch.instance.dynamic_shared_bytes)
        machine = Machine(
            program,
            launch.kernel.name,
            launch.block,
            arguments,
            fresh=fresh,
            trace=trace,
            budget=budget,
            careful=races,
        )
        machine.run(launch.grid, blocks, progress)
    except UnsupportedInstruction as error:
        raise UnsupportedInstruction(f"{launch.kernel.path.name}: {error}") from None
    if blocks is None:
        if launch.division.arrived and arguments["arrived"].any():
            raise SimulationFault("left behind", launch.kernel.name, "counters in `arrived` that are not zero again")
        launch.kernel.family.finish(launch, problem)(arguments.get("workspace"))
    return machine


def queue(instance: Instance, blocks: int, arguments: Mapping[str, Any]) -> Callable[..., None]:
    """Return a function that runs a kernel which is no matrix product, on NumPy arrays by name.

    What the function is given takes the place of the argument that is None. Arrays named "copy…" hold nothing yet.
    """

    def run(given: Any = None) -> None:
        binary, fresh = compiler.build(instance), {name for name in arguments if name.startswith("copy")}
        values = {name: given if value is None else value for name, value in arguments.items()}
        program = parse(binary.ptx, binary.entry)
        Machine(program, instance.kernel, (instance.threads,), values, fresh=fresh).run((blocks,))

    return run


def given(launch: Launch, problem: Problem) -> dict[str, Any]:
    """Return a launch's arguments for a problem of NumPy arrays, by name; a C made for it is filled."""
    division, family = launch.division, launch.kernel.family
    if problem.fresh_C:
        problem.C.fill(0 if family.zeroed else np.nan)
    problem, copy = family.fetchable(problem)
    copy()
    arguments = family.arguments_of(problem)
    arguments |= {box.argument: TensorMap(arguments[box.matrix], box.rows, box.columns) for box in launch.boxes}
    if division.counts:
        workspace, arrived = np.full(division.workspace, np.nan, np.float32), np.zeros(division.arrived, np.uint32)
        arguments |= dict(zip(family.scratch, (workspace, arrived), strict=False))
        arguments |= {name: np.uint32(count) for name, count in division.counts.items()}
    return arguments
