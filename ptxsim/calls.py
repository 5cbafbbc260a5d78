"""Executes calls of functions: the module's, and the simulator's own ``printf``, ``assert`` and ``free``.

A call copies its arguments into the callee's frame, and a return copies the result back. A function that may call
itself has only one set of registers here, so the caller's are kept on the stack. The text of a ``printf`` appears at
once, with the thread that prints it. Semantics: NVIDIA, "Parallel Thread Execution ISA", "call"; "CUDA C++ Programming
Guide", "Formatted Output" and "Assertion".
"""

import math
import re
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from .execution import Step
from .lanes import Lanes
from .memory import Violation, refuse
from .modules import BUILT_IN, Function
from .ptx import Instruction, Program

FORMAT = re.compile(r"%([-+ #0]*)(\*|\d*)(?:\.(\*|\d*))?(hh|h|ll|l|z|j|t|)([diouxXeEfFgGaAcsp%])")

ZERO = np.zeros(1, np.uint32)


def step(instruction: Instruction, program: Program, reader: Callable) -> Step:
    """Decode a call; of a function of the module the step only finds which one, and the scheduler makes the call.

    Raises
    ------
    UnsupportedInstruction
        The module does not have the function.
    """
    name, arguments = instruction.operands[0].name, instruction.operands[2]
    if name in BUILT_IN:
        act = {"vprintf": _print, "__assertfail": _assert, "free": _free}[name]
        places = [np.uint64(program.local[argument.name].offset) for argument in arguments]

        def execute(batch: Any, lanes: Lanes) -> None:
            who = batch.threads.places(lanes)
            given = [batch.local.load(who, batch.local.base[who] + at, np.dtype(np.uint32), 2) for at in places]
            act(batch, who, [low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32) for low, high in given])
            for result in instruction.operands[1]:  # of printf, on which nobody relies
                batch.local.store(who, batch.local.base[who] + np.uint64(program.local[result.name].offset), [ZERO])

        return execute
    pointer, results, passed = instruction.operands
    read, functions = reader(pointer, "u64", instruction), [of for _, of in program.functions.values() if of.number]
    fit = [of.address for of in functions if len(of.parameters) == len(passed) and len(of.results) >= len(results)]

    def find(batch: Any, lanes: Lanes) -> None:
        batch.called = batch.threads.spread(read(batch, lanes), lanes)
        refuse(
            "out of bounds",
            ~np.isin(batch.called, fit),
            lambda lane: f"calls what is at {batch.called[lane]:#x}, no function of {len(passed)} arguments",
        )

    return find


def enter(batch: Any, call: Instruction, lanes: Lanes, back: int) -> Iterator[tuple[int, np.ndarray]]:
    """Let lanes call functions from the end of the basic block before `back`; yield each one's first, and its lanes."""
    every, program, local = batch.threads.places(lanes), batch.execution.program, batch.local
    for begins, callee in program.functions.values() if len(every) else ():
        who = every[batch.called == callee.address]
        if len(who):
            caller, below = _owner(program, back - 1), local.base[who]
            try:
                batch.stack.enter(who, back, (caller.frame, callee.frame), _kept(caller))
            except Violation as violation:
                raise batch.faults.complete(violation, call.line, who) from None
            _pass(batch, who, [of.name for of in call.operands[2]], callee.parameters, below, local.base[who])
            yield begins, who


def leave(batch: Any, call: Instruction, who: np.ndarray, back: int, here: int) -> None:
    """Let lanes return, from the end of a basic block, from a call that went on at another one."""
    program, above = batch.execution.program, batch.local.base[who]
    caller, callee = _owner(program, back - 1), _owner(program, here)
    results = [of.name for of in call.operands[1]]
    _pass(batch, who, callee.results[: len(results)], results, above, batch.stack.below(who))
    batch.stack.restore(who, caller.frame, _kept(caller))


def _pass(batch: Any, who: np.ndarray, given: Any, taken: Any, source: np.ndarray, to: np.ndarray) -> None:
    """Copy variables of one frame to those of another one."""
    for one, other in zip(given, taken, strict=True):
        one, other = (batch.execution.program.local[name] for name in (one, other))
        size = min(one.size, other.size)
        batch.local.copy(who, to + np.uint64(other.offset), source + np.uint64(one.offset), size)


def _owner(program: Program, block: int) -> Function:
    """Return the function to which a basic block belongs."""
    return max((of for of in program.functions.values() if of[0] <= block), key=itemgetter(0))[1]


def _kept(caller: Function) -> str:
    return f"%k{caller.number}_" * caller.recursive


def _print(batch: Any, who: np.ndarray, arguments: list[np.ndarray]) -> None:
    """Print as each lane says, with its block and thread."""
    threads, memory = batch.threads, batch.execution.memory
    for lane, form, place in zip(who.tolist(), *(argument.tolist() for argument in arguments), strict=True):
        at = place

        def take(dtype: Any, lane: int = lane) -> Any:
            nonlocal at
            size = np.dtype(dtype).itemsize
            at = -(-at // size) * size + size
            (space, there, _), *_ = batch.spaces.homes(np.array([at - size], np.uint64), np.array([lane], np.int64))
            return batch.spaces.load(space, there, np.array([lane], np.int64), np.dtype(dtype), 1)[0][0].item()

        def written(found: re.Match) -> str:
            flags, width, precision, length, kind = found.groups()
            if kind == "%":
                return "%"
            width, precision = (take(np.int32) if of == "*" else of for of in (width, precision))
            wide = length in ("l", "ll", "z", "j", "t")
            form = f"%{flags}{width}" + ("" if precision is None else f".{precision}")
            if kind in "di":
                return (form + "d") % take(np.int64 if wide else np.int32)
            if kind in "ouxX":
                number = take(np.uint64 if wide else np.uint32)
                if "#" in flags and (kind == "o" or not number):  # Python would write 0o10 and 0x0
                    digits = max(int(precision or 0), len(f"{number:o}") + (number > 0))
                    form = f"%{flags.replace('#', '')}{width}.{digits}"
                return (form + kind.replace("u", "d")) % number
            if kind in "sp":
                address = take(np.uint64)
                return (form + "s") % (memory.text(address) if kind == "s" else hex(address))
            if kind == "c":
                return (form + "c") % (take(np.uint32) & 0xFF)
            if kind in "aA":
                text = _hexadecimal(take(np.float64), None if precision is None else int(precision or 0))
                return f"%{flags}{width}s" % (text.upper() if kind == "A" else text)
            return (form + kind) % take(np.float64)

        text = FORMAT.sub(written, memory.text(form))
        block, thread = threads.block_name(threads.block[lane]), threads.thread_name(threads.thread[lane])
        print(f"[block {block}, thread {thread}] {text}", end="" if text.endswith("\n") else "\n")


def _hexadecimal(number: float, digits: int | None) -> str:
    """Return a number as C's ``%a`` has it, with so many digits behind the point, or as many as it takes if None."""
    if digits is not None and math.isfinite(number):
        fraction, exponent = math.frexp(number)
        number = math.ldexp(round(math.ldexp(fraction, 4 * digits + 1)), exponent - 4 * digits - 1)
    return re.sub(rf"(?<=\.\w{{{digits}}})\w*p" if digits else r"\.?0*p", "p", number.hex())


def _assert(batch: Any, who: np.ndarray, arguments: list[np.ndarray]) -> None:
    """Raise the Violation of an assertion that does not hold."""
    condition, file, line, function = (int(argument[0]) for argument in arguments[:4])
    text = batch.execution.memory.text
    place = f"{text(file).lstrip('/')}, line {line & 0xFFFFFFFF}, {text(function)}"
    raise Violation("assertion", 0, f"{text(condition)} does not hold in {place}")


def _free(batch: Any, who: np.ndarray, arguments: list[np.ndarray]) -> None:
    """Refuse to free what nothing has allocated, as there is no heap; the destructors of virtual classes call this."""
    (place,) = arguments
    refuse("out of bounds", place != 0, lambda lane: f"frees {place[lane]:#x}, which is of no heap")
