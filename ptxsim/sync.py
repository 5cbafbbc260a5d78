"""Decodes the instructions that order asynchronous work, such as those of mbarriers, clusters and proxy fences.

Shared memory is reached through two proxies: threads' loads and stores use the generic proxy, the copy engine and
``wgmma`` use the async proxy, and ``fence.proxy.async`` makes a thread's earlier stores visible to the latter.
``setmaxnreg``, ``prefetch`` and ``griddepcontrol`` change no result, as each grid begins when the one before
it has ended. Of the first, only the rule that a warp executes it as one is checked.
Semantics: NVIDIA, "Parallel Thread Execution ISA", "mbarrier", "barrier.cluster", "membar/fence" and "setmaxnreg".
"""

import re
from collections.abc import Callable

import numpy as np

from .batch import Batch
from .execution import Step
from .lanes import Lanes
from .mbarriers import MbarrierWait
from .ptx import (
    CLUSTER_WAITS,
    Immediate,
    Instruction,
    Register,
    Symbol,
    reject,
    unsupported,
)
from .warps import of_whole_warps

OPERATION = re.compile(
    r"mbarrier\.((?:init|inval)(?=\.shared(?:::cta)?\.b64)|arrive(?:_drop)?(?:\.expect_tx)?(?!\.relaxed)|(?:expect|complete)_tx(?!\.release))"
    r"(?:\.(?:release|relaxed)\.(?:cta|cluster))?\.shared(?:::cta|(::cluster))?\.b64"
)
WAIT = re.compile(r"mbarrier\.(?:try|(test))_wait(\.parity)?(?:\.acquire\.(?:cta|cluster))?\.shared(?:::cta)?\.b64")
MEETING = re.compile(r"barrier\.cluster\.(?:arrive(?:\.release|(\.relaxed))?|wait(?:\.acquire)?)(\.aligned)?")
FENCES = (
    "fence.proxy.async",
    "fence.proxy.async.shared::cta",
    "fence.mbarrier_init.release.cluster",
)
PREFETCH = re.compile(r"prefetch\.(?:tensormap|(?:(?:global|local)\.)?L[12](?:::evict_\w+)?)")
GRIDS = ("griddepcontrol.launch_dependents", "griddepcontrol.wait")
REGISTERS = re.compile(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32")
OPERANDS = {
    "init": (2,),
    "inval": (1,),
    "arrive": (2, 3),
    "arrive_drop": (2, 3),
    "arrive.expect_tx": (3,),
    "expect_tx": (2,),
    "complete_tx": (2,),
}
"""The number of operands of each operation."""


def step(instruction: Instruction, reader: Callable, address: Callable) -> Step | None:
    """Decode one of this module's instructions; None where it has no effect.

    Parameters
    ----------
    instruction : Instruction
    reader, address : callable
        Methods of `Decoder` that turn an operand into a function.

    Raises
    ------
    UnsupportedInstruction
        The form of the instruction is not known.
    """
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in FENCES and not operands:
        return _proxy_fence if opcode.startswith("fence.proxy") else _init_fence
    if REGISTERS.fullmatch(opcode) and len(operands) == 1 and isinstance(operands[0], Immediate):
        reject(instruction, operands[0].value % 8 or not 24 <= operands[0].value <= 256)
        return of_whole_warps(lambda batch, lanes: None, "setmaxnreg")
    if (PREFETCH.fullmatch(opcode) and len(operands) == 1) or (opcode in GRIDS and not operands):
        return None
    if (
        (match := WAIT.fullmatch(opcode))
        and len(operands) in (3, 3 if match[1] else 4)
        and isinstance(operands[0], Register)
        and (match[1] or not instruction.guard)
    ):
        return _wait(instruction, reader, address, tests=bool(match[1]), by_parity=bool(match[2]))
    if (match := MEETING.fullmatch(opcode)) and not operands and not instruction.guard:
        return _meeting(instruction, relaxed=bool(match[1]), aligned=bool(match[2]))
    if (match := OPERATION.fullmatch(opcode)) and len(operands) in OPERANDS[match[1]]:
        return _operation(instruction, reader, address, match[1], far=bool(match[2]))
    raise unsupported(instruction)


def _proxy_fence(batch: Batch, lanes: Lanes) -> None:
    """Make the active lanes' stores and mbarriers visible to the async proxy."""
    who = batch.threads.places(lanes)
    batch.barriers.tell(who, "fenced")
    if batch.proxy:
        batch.proxy.fence(who)


def _init_fence(batch: Batch, lanes: Lanes) -> None:
    """Make the active lanes' new mbarriers visible to the copy engine and to the cluster."""
    who = batch.threads.places(lanes)
    batch.barriers.tell(who, "fenced")
    batch.barriers.tell(who, "shown")


def _meeting(instruction: Instruction, relaxed: bool, aligned: bool) -> Step:
    """Decode an arrival at the barrier of the cluster, or a wait there."""
    waits, line = instruction.opcode.startswith(CLUSTER_WAITS), instruction.line

    def execute(batch: Batch, lanes: Lanes) -> None:
        who = batch.threads.places(lanes)
        if aligned:
            batch.convergence.require_all(who, "the cluster's barrier")
        if waits:
            batch.wait = batch.clusters.wait(who, line)
        else:
            batch.clusters.arrive(who, relaxed)

    return execute


def _operation(instruction: Instruction, reader: Callable, address: Callable, name: str, far: bool) -> Step:
    """Decode ``init [at], arrivals``, ``arrive token, [at], times`` and the like; a token is the number of a phase."""
    operands = instruction.operands
    if name.startswith("arrive"):
        token, *operands = operands
        reject(instruction, token != Symbol("_") and (far or not isinstance(token, Register)))
    locate, line = address(operands[0], instruction), instruction.line
    read = reader(operands[1] if len(operands) > 1 else Immediate(1), "u32", instruction)

    def execute(batch: Batch, lanes: Lanes) -> None:
        who = batch.threads.places(lanes)
        where, number = (batch.threads.spread(get(batch, lanes), lanes) for get in (locate, read))
        number = number.astype(np.int64)
        if name == "init":
            batch.barriers.make(who, where, number)
            return
        places = batch.barriers.find(who, where, far)
        if name.endswith("expect_tx"):
            batch.barriers.expect(places, number)
        if name == "complete_tx":
            batch.barriers.receive(places, number)
        if name == "inval":
            batch.barriers.state[places] = 0
        if name == "arrive_drop":
            np.subtract.at(batch.barriers.state["count"], places, number)
        if name.startswith("arrive"):
            phases = batch.barriers.arrive(who, places, np.ones_like(number) if name.endswith("tx") else number)
            if token != Symbol("_"):
                batch.registers.write(token.name, phases, lanes)
            batch.tracer.event(line, "arrive", lanes, where)

    return execute


def _wait(instruction: Instruction, reader: Callable, address: Callable, tests: bool, by_parity: bool) -> Step:
    """Decode ``try_wait.parity done, [at], parity``, which here always waits until the phase is over, or ``test_wait``.

    Without ``.parity`` they take a token. A time limit behind it says nothing here, where time doesn't pass.
    """
    target, where, phase, *_ = instruction.operands
    locate, line = address(where, instruction), instruction.line
    read = reader(phase, "u32" if by_parity else "b64", instruction)

    def execute(batch: Batch, lanes: Lanes) -> None:
        who = batch.threads.places(lanes)
        addresses, parities = (batch.threads.spread(get(batch, lanes), lanes) for get in (locate, read))
        places = batch.barriers.find(who, addresses)
        batch.tracer.event(line, "ask", lanes, addresses)
        batch.wait = MbarrierWait(target.name, who, places, parities.astype(np.int64) & 1, addresses, line)
        if tests:
            if batch.proxy:
                batch.proxy.land(places)
            batch.registers.write(target.name, batch.barriers.passed(batch.wait), lanes)

    return execute
