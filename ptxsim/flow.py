"""Analyses the control flow of a program: finds the branches at which lanes may leave a loop."""

from collections.abc import Callable
from functools import reduce
from operator import and_

from .ptx import Program


def loop_exits(program: Program) -> frozenset[int]:
    """Return the basic blocks whose branch leads out of a natural loop that holds them in one direction only.

    A natural loop belongs to an edge back to a block that dominates its source: A. V. Aho et al., "Compilers", 2nd ed.,
    Addison-Wesley 2006, §9.6.
    """
    successors = [_successors(program, number) for number in range(len(program.blocks))]
    predecessors: list[list[int]] = [[] for _ in successors]
    for block, following in enumerate(successors):
        for after in following:
            predecessors[after].append(block)
    dominators = _dominators(predecessors)
    exits: set[int] = set()
    for tail, following in enumerate(successors):
        for head in following:
            if not dominators[tail] >> head & 1:
                continue
            loop, todo = {head}, [tail]
            while todo:
                block = todo.pop()
                if block not in loop:
                    loop.add(block)
                    todo += predecessors[block]
            exits |= {block for block in loop if 0 < len(set(successors[block]) - loop) < len(set(successors[block]))}
    return frozenset(exits)


def _successors(program: Program, number: int) -> list[int]:
    """Return the basic blocks to which control may go from one."""
    last = program.blocks[number][-1]
    targets = [program.targets[last.operands[0].name]] if last.opcode.startswith("bra") else []
    ends = bool(targets) or last.opcode in ("ret", "exit")
    return targets + [number + 1] * (number + 1 < len(program.blocks) and bool(last.guard or not ends))


def _dominators(predecessors: list[list[int]]) -> list[int]:
    """Return for each basic block those on every path to it from the first one, as bits; all of them if none leads."""
    every = (1 << len(predecessors)) - 1
    dominators = [1] + [every] * (len(predecessors) - 1)
    changed = True
    while changed:
        changed = False
        for block in range(1, len(predecessors)):
            common = reduce(and_, (dominators[before] for before in predecessors[block]), every) | 1 << block
            if common != dominators[block]:
                dominators[block], changed = common, True
    return dominators


def spins(program: Program, watches: Callable[[str], bool]) -> frozenset[int]:
    """Return the basic blocks that end in a branch back over an instruction whose opcode `watches` a word of memory."""
    back = {
        tail: program.blocks[program.targets[block[-1].operands[0].name] : tail + 1]
        for tail, block in enumerate(program.blocks)
        if block[-1].opcode.startswith("bra")
    }
    return frozenset(tail for tail, loop in back.items() if any(watches(of.opcode) for block in loop for of in block))
