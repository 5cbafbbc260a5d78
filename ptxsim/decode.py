"""Decodes a program once for all runs: each instruction becomes a function of a batch and its active lanes."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache, cached_property, lru_cache
from itertools import groupby
from types import ModuleType

import numpy as np

from . import atomics, calls, copies, exchange, mma, sync, tensor, tma, wgmma
from .batch import Batch
from .execution import Code, Step
from .flow import loop_exits, spins
from .functions import CARRY, CARRYING, FUNCTIONS
from .lanes import Lanes
from .memory import Violation, of_part, refuse
from .ptx import (
    DTYPES,
    EVERYONE,
    LEAVES,
    TENSOR_MAP,
    TESTS,
    Address,
    Immediate,
    Instruction,
    Operand,
    Program,
    Register,
    Symbol,
    meeting,
    registers_of,
    reject,
    uncollected,
    unsupported,
)
from .registers import SPECIAL
from .spaces import CLUSTER

TOGETHER = 1 << 15
"""The most elements of several FMAs to compute as one array: more would not fit the caches."""

DIVISION = re.compile(r"(?:div|rem)\.[us]\d+")
"""Operations on integers that must not divide by 0."""

FMAS = ("fma.rn.f32", "fma.rn.f64")

ACCESS = re.compile(
    r"(ld|st)(?:\.(?:weak|volatile|(?:relaxed|acquire|release)\.(?:cta|cluster|gpu|sys)))?"
    r"(?:\.(global|const|local|param|shared(?:::cta|::cluster)?))?"
    r"(?:\.(?:nc|ca|cg|cs|lu|cv|wb|wt|L[12]::\w+))*(?:\.v([24]))?\.(\w+)"
)
"""A load or store: head, state space, elements and type. Hints for caches and orders are ignored."""

STRONG = re.compile(r"(?:ld|st)\.(?:volatile|(relaxed|acquire|release)\.(\w+))")

SIGNAL = re.compile(r"membar\.|fence\.|(?:ld|st|atom|red)\S*\.(?:volatile|relaxed|acquire|release|acq_rel)\b")
"""Instructions that may order accesses, beside barriers and mbarriers."""

MODULES = {
    "wmma.mma.": mma,
    "wmma.": tensor,
    "mma.": mma,
    "ldmatrix.": mma,
    "stmatrix.": mma,
    "movmatrix.": mma,
    "wgmma.": wgmma,
    "cp.async.bulk.": tma,
    "mbarrier.": sync,
    "barrier.cluster.": sync,
    "prefetch.": sync,
    "griddepcontrol.": sync,
    "setmaxnreg.": sync,
    "shfl.": exchange,
    "vote.": exchange,
    "match.": exchange,
    "redux.": exchange,
    "elect.": exchange,
    "activemask.": exchange,
    "atom.": atomics,
    "red.": atomics,
    "membar.": atomics,
    "fence.sc.": atomics,
    "fence.acq": atomics,
    "fence.release.": atomics,
    "fence.": sync,
}
"""The module that decodes the opcodes with a prefix."""

CLASSES = {
    "wgmma.fence.": "fence",
    "wgmma.commit_group.": "commit",
    "wgmma.wait_group.": "wait",
    "ldmatrix.": "shared load",
    "stmatrix.": "shared store",
    "mbarrier.try_wait.": "wait",
    "mbarrier.": "arrive",
    "barrier.cluster.": "cluster barrier",
    "prefetch.": "prefetch",
    "setmaxnreg.": "registers",
    "shfl.": "shuffle",
    "nanosleep.": "sleep",
    **copies.GROUPS,
    "cp.async.": "copy",
    **dict.fromkeys(("wmma.", "mma.", "wgmma."), "tensor"),
    **dict.fromkeys(("vote.", "match.", "redux.", "elect.", "activemask."), "vote"),
    **dict.fromkeys(("atom.", "red."), "atomic"),
    **dict.fromkeys(("membar.", "fence.", "griddepcontrol."), "fence"),
}
"""The classes of opcodes by their prefixes, for the counters: the first that fits counts."""


@lru_cache(maxsize=16)
@uncollected
def decode(program: Program) -> Code:
    """Decode a program; the result is cached.

    Raises
    ------
    UnsupportedInstruction
        The simulator does not know an instruction.
    """
    decoder, every = Decoder(program), [instruction for block in program.blocks for instruction in block]
    opcodes = {instruction.opcode for instruction in every}
    proxies = any(_module(opcode) in (tma, wgmma) for opcode in opcodes)
    clustered = program.cluster > 1 or any(opcode.startswith("barrier.cluster.") for opcode in opcodes)
    steps = [decoder.steps(block, proxies or clustered) for block in program.blocks]
    shared = [opcode for opcode in opcodes if opcode.startswith(("ld.shared", "st.shared"))]
    barriers = [
        "block" if (meeting(of.opcode), of.operands) == ("sync", EVERYONE) else meeting(of.opcode)
        for *_, of in program.blocks
    ]
    flags = any(
        re.match(r"(atom|red)\..*shared|(ld|st)\.(relaxed|acquire|release).*shared", opcode)
        or (opcode.startswith("mbarrier.") and not proxies)
        for opcode in opcodes
    ) or any(how in ("sync", "arrive") for how in barriers)
    return Code(
        steps,
        mix=[_mix(block) for block in program.blocks],
        granule=min([4, *(_access(opcode)[2].itemsize for opcode in shared)]),
        finest=min([4, *(found[2].itemsize for found in map(_access, opcodes) if found and found[0] != "param")]),
        flags=flags,
        signals=not flags and not proxies and any(SIGNAL.match(opcode) for opcode in opcodes),
        barriers=barriers,
        spins=spins(program, lambda opcode: bool(STRONG.match(opcode)) or opcode.startswith(("atom.", TESTS))),
        warpwise=any(
            opcode.startswith(("bar.warp.", "wmma.", "ldmatrix.", "stmatrix.", "mbarrier.")) for opcode in opcodes
        ),
        proxies=proxies,
        clustered=clustered,
        loop_exits=loop_exits(program) if any(".aligned" in of for of in opcodes) else None,
    )


class Decoder:
    """Decodes a program's instructions. Some steps refer to it, so it refers to no step: that would be a circle."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._types: dict[str, np.dtype | None] = {}
        self._uses = Counter(name for block in program.blocks for of in block for name in registers_of(of.operands))

    @cached_property
    def used(self) -> set[str]:
        """The registers that instructions read to do something else than to store them."""
        return {
            name
            for block in self.program.blocks
            for of in block
            if not of.opcode.startswith("st.")
            for name in registers_of(of.operands[1:])
        }

    def steps(self, block: list[Instruction], in_order: bool) -> list[tuple[Instruction, Step, list[Instruction]]]:
        """Return the steps of a basic block, as in `Code`; the scheduler handles the branch or barrier at its end."""
        steps, chains = [], []
        for run in _runs(block, in_order):
            if chains and (ordered := self._next(chains[-1][-1], run)):
                chains[-1].append(ordered)
            elif len(run) > 1 or run[0] is not block[-1] or self._step(run[0]):
                chains.append([run])
        for plain, alike in groupby(chains, self._is_plain):
            for chain in [[[of for (run,) in alike for of in run]]] if plain else alike:
                run = [of for run in chain for of in run]
                decoded = (
                    self._arithmetic(run, follows=True)
                    if plain
                    else self._run(chain)
                    if len(run) > 1
                    else self._step(run[0])
                )
                if decoded:
                    steps.append((run[0], decoded, [] if plain else run))
        return steps

    def _next(self, before: list[Instruction], run: list[Instruction]) -> list[Instruction]:
        """Return a grid of FMAs in the order of the one before it, if it has as many factors and adds to its sums.

        The sums between are in no register then, so nothing else may read them. Otherwise return none.
        """
        place = {of.operands[:1]: at for at, of in enumerate(before)}
        ordered = sorted(run, key=lambda of: place.get(of.operands[-1:], 0))
        goes_on = (
            len(run) > 1
            and run[0].opcode in FMAS
            and [(of.opcode, of.line, of.operands[-1:]) for of in ordered]
            == [(run[0].opcode, run[0].line, of.operands[:1]) for of in before]
            and before[0].opcode == run[0].opcode
            and before[0].line == run[0].line
            and _grid(ordered) == ordered
            and len({of.operands[2] for of in before}) == len({of.operands[2] for of in run})
            and all(self._uses[of.name] == 2 for (of,) in place)
        )
        return ordered if goes_on else []

    @staticmethod
    def _is_plain(chain: list[list[Instruction]]) -> bool:
        """Return whether it is one instruction of arithmetic, for all lanes, with no vector."""
        only = chain[0][0]
        return (
            len(chain[0]) == 1
            and not only.guard
            and only.opcode in FUNCTIONS
            and not any(isinstance(of, tuple) for of in only.operands)
        )

    def _arithmetic(self, run: list[Instruction], follows: bool) -> Step:
        """Decode consecutive instructions of arithmetic as one step, which spares what a step each would cost.

        The step looks itself at operands that may be undefined if it `follows` them.
        """
        plan = []
        for instruction in run:
            operation = FUNCTIONS[instruction.opcode]
            target, *sources = instruction.operands
            reject(instruction, len(sources) != len(operation.operands) or not isinstance(target, Register))
            reads = [
                (of.name, DTYPES[kind]) if isinstance(of, Register) else ("", self._reader(of, kind, instruction))
                for of, kind in zip(sources, operation.operands, strict=True)
            ]
            reject(instruction, not all(self._known(name) for name, _ in reads if name))
            widened = self._widener(target, DTYPES[operation.result], instruction)
            divides = DIVISION.fullmatch(instruction.opcode)
            function = _dividing(operation.function, instruction.text) if divides else operation.function
            plan.append((instruction, function, reads, target.name, widened))

        def execute(batch: Batch, lanes: Lanes) -> None:
            registers = batch.registers
            known = registers.values if lanes is None else {}  # to look there first is quicker
            tainted = follows and bool(batch.taint.of)
            for instruction, function, reads, target, widened in plan:
                if tainted:
                    batch.taint.follow([instruction], lanes)
                try:
                    values = [
                        (
                            value
                            if (value := known.get(name)) is not None and value.dtype is of
                            else registers.read(name, of, lanes, instruction)
                        )
                        if name
                        else of(batch, lanes)
                        for name, of in reads
                    ]
                    result = function(*values)
                except Violation as violation:
                    raise batch.faults.complete(violation, instruction.line, lanes) from None
                registers.write(target, result if widened is _as_it_is else widened(result), lanes)

        return execute

    def _step(self, instruction: Instruction) -> Step | None:
        """Return an instruction's step, or None if it only ends a basic block."""
        opcode = instruction.opcode
        if opcode.startswith("call"):
            return calls.step(instruction, self.program, self._reader)
        if meeting(opcode):
            return self._barrier(instruction)
        if opcode in (*LEAVES, "nanosleep.u32", "trap"):
            return {"ret": _exit, "exit": _exit, "trap": _trap}.get(opcode)
        if opcode in ("mov.b32", "mov.b64") and any(isinstance(operand, tuple) for operand in instruction.operands):
            return self._pack(instruction)
        if opcode in FUNCTIONS:
            return self._arithmetic([instruction], follows=False)
        if opcode in CARRYING:
            return self._carry(instruction)
        if opcode.startswith("ld.param.") and instruction.operands[1].base.name in self.program.parameters:
            return self._load_parameter(instruction)
        if opcode.startswith(("ld.", "st.")):
            return self._memory(instruction)
        if module := _module(opcode):
            return module.step(instruction, self._reader, self._address)
        if opcode in copies.WIDTHS:
            return self._copy(instruction)
        if opcode in copies.GROUPS:
            return self._copy_group(instruction)
        raise unsupported(instruction)

    def _barrier(self, instruction: Instruction) -> Step | None:
        """Decode what a lane brings to a barrier: its number, how many threads it is for, and a predicate.

        The scheduler does the rest. Nothing is brought to the barrier of a whole block.
        """
        action, operands = meeting(instruction.opcode), instruction.operands
        result, brought = operands[: action.startswith("red")], operands[action.startswith("red") :]
        if action == "sync" and brought == EVERYONE and not instruction.guard:
            return None
        counts = {"warp": (1,), "sync": (1, 2), "arrive": (2,)}.get(action, (2, 3))
        reject(
            instruction,
            instruction.guard or len(brought) not in counts or not all(isinstance(of, Register) for of in result),
        )
        kinds = ["u32"] * len(brought)
        if result:
            kinds[-1] = "pred"
        reads = [self._reader(of, kind, instruction) for of, kind in zip(brought, kinds, strict=True)]

        def execute(batch: Batch, lanes: Lanes) -> None:
            values = [batch.threads.spread(read(batch, lanes), lanes) for read in reads]
            vote = values.pop() if result else None
            batch.brought = values[0], values[1] if len(values) > 1 else None, vote

        return execute

    def _carry(self, instruction: Instruction) -> Step:
        """Decode an operation with the carry flag, which is a register of its own here."""
        target, *sources = instruction.operands
        function, count = CARRYING[instruction.opcode]
        reject(instruction, len(sources) != count)
        kind = instruction.opcode.rpartition(".")[2]
        reads = [self._reader(source, kind, instruction) for source in sources]
        widened, keeps = self._widener(target, DTYPES[kind], instruction), ".cc" in instruction.opcode

        def execute(batch: Batch, lanes: Lanes) -> None:
            numbers = [read(batch, lanes) for read in reads]
            flag = np.full(1, instruction.opcode.startswith("sub."), np.uint32)
            if instruction.opcode.partition(".")[0][-1] == "c":
                flag = batch.registers.read(CARRY, flag.dtype, lanes, instruction)
            result, carry = function(*numbers, flag)
            batch.registers.write(target.name, widened(result), lanes)
            if keeps:
                batch.registers.write(CARRY, carry.astype(np.uint32), lanes)

        return execute

    def _pack(self, instruction: Instruction) -> Step:
        """Decode ``mov whole, {parts}`` or ``mov {parts}, whole``; the first part has the lowest bits."""
        target, source = instruction.operands
        whole = DTYPES[instruction.opcode.rpartition(".")[2]]
        count = len(target if isinstance(target, tuple) else source)
        part = f"b{8 * whole.itemsize // count}"
        reject(instruction, isinstance(target, tuple) == isinstance(source, tuple) or part not in DTYPES)
        if isinstance(source, tuple):
            reads = [_or_zero(of, self._reader(of, part, instruction), DTYPES[part]) for of in source]
            widened = self._widener(target, whole, instruction)

            def execute(batch: Batch, lanes: Lanes) -> None:
                parts = np.stack(np.broadcast_arrays(*[read(batch, lanes) for read in reads]), axis=-1)
                batch.registers.write(target.name, widened(parts.view(whole)[:, 0]), lanes)
        else:
            read = self._reader(source, instruction.opcode.rpartition(".")[2], instruction)
            targets = [(operand.name, self._widener(operand, DTYPES[part], instruction)) for operand in target]

            def execute(batch: Batch, lanes: Lanes) -> None:
                parts = np.ascontiguousarray(read(batch, lanes)).view(DTYPES[part]).reshape(-1, count)
                for (name, widened), value in zip(targets, parts.T, strict=True):
                    batch.registers.write(name, widened(np.ascontiguousarray(value)), lanes)

        return execute

    def _run(self, chain: list[list[Instruction]]) -> Step:
        """Decode instructions, none of which needs another's result, or a chain of such, as one step.

        That is far faster for few lanes.
        """
        if chain[0][0].opcode in FMAS:
            return self._multiply_adds(chain)
        products = chain[0][0].opcode in mma.KINDS
        return mma.products(chain[0], self._reader) if products else self._shared_loads(chain[0])

    def _multiply_adds(self, chain: list[list[Instruction]]) -> Step:
        """Decode grids of FMAs, each of which adds to the sums of the one before it."""
        first, kind = chain[0][0], chain[0][0].opcode.rpartition(".")[2]
        for instruction in (of for run in chain for of in run):
            widened = self._widener(instruction.operands[0], DTYPES[kind], instruction)
            reject(instruction, widened is not _as_it_is)
        function, names = FUNCTIONS[first.opcode].function, [of.operands[0].name for of in chain[-1]]
        operands = [
            [of.operands[3] for of in chain[0]],
            *(dict.fromkeys(of.operands[place] for of in run) for run in chain for place in (1, 2)),
        ]
        reads = [[self._reader(operand, kind, first) for operand in each] for each in operands]
        at_once = max(TOGETHER // len(names), 1)

        def execute(batch: Batch, lanes: Lanes) -> None:
            rows = [[batch.threads.spread(read(batch, lanes), lanes) for read in each] for each in reads]
            sums = []
            for start in range(0, rows[0][0].size, at_once):
                part = ([row[start : start + at_once] for row in each] for each in rows)
                total, *factors = (np.concatenate(of, dtype=np.float64).reshape(len(of), -1) for of in part)
                for left, right in zip(factors[::2], factors[1::2], strict=True):
                    total = function(left[:, None], right, total.reshape(len(left), len(right), -1))
                sums.append(total.reshape(len(names), -1))
            batch.registers.write_all(names, np.concatenate(sums, axis=1), lanes)

        return execute

    def _reader(self, operand: Operand, kind: str, instruction: Instruction) -> Callable[[Batch, Lanes], np.ndarray]:
        """Return a function that fetches an operand as an array: one element, or one per active lane."""
        dtype = DTYPES[kind]
        if isinstance(operand, Register):
            name = operand.name
            reject(instruction, not self._known(name))

            def fetch(batch: Batch, lanes: Lanes) -> np.ndarray:
                if lanes is None:
                    value = batch.registers.values.get(name)
                    if value is not None and value.dtype.itemsize == dtype.itemsize:
                        return value if value.dtype is dtype else value.view(dtype)
                return batch.registers.read(name, dtype, lanes, instruction)

            return fetch
        constant = self._constant(operand, dtype)
        if constant is not None:
            return lambda batch, lanes: constant
        if isinstance(operand, Symbol) and operand.name in self.program.shared:
            offset = np.array([self.program.shared[operand.name].offset], dtype)
            return lambda batch, lanes: offset + batch.threads.pick(batch.spaces.window, lanes).astype(dtype)
        if isinstance(operand, Symbol) and operand.name in self.program.local:
            offset = np.uint64(self.program.local[operand.name].offset)
            return lambda batch, lanes: (batch.threads.pick(batch.local.base, lanes) + offset).astype(dtype)
        raise unsupported(instruction)

    def _constant(self, operand: Operand, dtype: np.dtype) -> np.ndarray | None:
        """Return the one element that an operand is for all lanes, or None."""
        if isinstance(operand, Immediate):
            if isinstance(operand.value, float):
                return np.array([operand.value], dtype) if dtype.kind == "f" else None
            if dtype.kind == "b":
                return np.array([operand.value != 0])
            return np.array([operand.value & ((1 << 8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)
        name = operand.name if isinstance(operand, Symbol) else None
        if name in self.program.shared:
            return np.array([self.program.shared[name].offset], dtype) if self.program.cluster == 1 else None
        if placed := self.program.variables.get(name) or self.program.functions.get(name, (0, None))[1]:
            return np.array([placed.address], np.uint64).astype(dtype)
        if name not in self.program.local and self.program.parameters.get(name) == TENSOR_MAP:
            return np.array([self.program.address(name)], dtype)
        return None

    def _known(self, register: str) -> bool:
        return self._declared(register) is not None or register in SPECIAL

    def _load_parameter(self, instruction: Instruction) -> Step:
        targets, source = instruction.operands
        targets = targets if isinstance(targets, tuple) else (targets,)
        _, _, dtype, count = _access(instruction.opcode) or (None, None, None, 0)
        reject(instruction, count != len(targets))
        parts = [(of.name, self._widener(of, dtype, instruction)) for of in targets]

        def execute(batch: Batch, lanes: Lanes) -> None:
            data = batch.execution.parameters[source.base.name].view(np.uint8)
            for i, (name, widened) in enumerate(parts):
                start = source.offset + i * dtype.itemsize
                value = data[start : start + dtype.itemsize].copy().view(dtype)
                reject(instruction, not len(value))
                batch.registers.write(name, widened(value), lanes)

        return execute

    def _declared(self, register: str) -> np.dtype | None:
        """Return a register's declared type, None if there is none."""
        if register not in self._types:
            self._types[register] = DTYPES.get(self.program.register_types.get(register.rstrip("0123456789")))
        return self._types[register]

    def _widener(
        self, target: Operand, dtype: np.dtype, instruction: Instruction
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function that extends a value to the register's width, with the sign if the type has one."""
        declared = self._declared(target.name) if isinstance(target, Register) else None
        reject(instruction, declared is None or declared.itemsize < dtype.itemsize)
        if declared.itemsize == dtype.itemsize:
            return _as_it_is
        wide = np.dtype(f"{dtype.kind}{declared.itemsize}")
        return lambda value: value.astype(wide)

    def _memory(self, instruction: Instruction) -> Step:
        access = _access(instruction.opcode)
        reject(instruction, access is None)
        space, kind, dtype, count = access
        operands = instruction.operands[: -1 if "::cache_hint" in instruction.opcode else None]
        reject(instruction, len(operands) != 2)
        address, values = operands if kind == "store" else operands[::-1]
        values = values if isinstance(values, tuple) else (values,)
        reject(instruction, len(values) != count)
        width, line = dtype.itemsize * count, instruction.line
        locate = self._address(address, instruction)
        reads = [self._reader(value, instruction.opcode.rpartition(".")[2], instruction) for value in values]
        whole = count > 1 and dtype.kind in "iu"  # as a struct is copied, whose padding may have any value
        if space == "param" or whole:
            reads = [_or_zero(value, read, dtype) for value, read in zip(values, reads, strict=True)]
        padding = whole and dtype.itemsize < 4 and self.used.isdisjoint(registers_of((values,)))
        unwritten = "all" if padding else "some" if dtype.kind in "iu" else "none"
        targets = [(value.name, self._widener(value, dtype, instruction)) for value in values] if kind == "load" else []

        def act(batch: Batch, lanes: Lanes, space: str, addresses: np.ndarray) -> None:
            if kind == "load":
                loaded = batch.spaces.load(space, addresses, lanes, dtype, count, unwritten=unwritten)
                for (name, widened), value in zip(targets, loaded, strict=True):
                    batch.registers.write(name, widened(value), lanes)
            else:
                batch.spaces.store(space, addresses, lanes, [read(batch, lanes) for read in reads])
            if space in ("global", "shared"):
                batch.counter.count(line, space, kind, addresses, lanes, width)
                batch.tracer.access(line, space, kind, addresses, lanes, width)

        def execute(batch: Batch, lanes: Lanes) -> None:
            addresses = locate(batch, lanes)
            if space != "generic":
                act(batch, lanes, space, addresses)
                return
            for home, there, part in batch.spaces.homes(addresses, lanes):
                with of_part(part):
                    act(batch, batch.threads.at(lanes, part), home, there)

        strong = STRONG.match(instruction.opcode)
        if not strong:
            return execute

        def execute_strongly(batch: Batch, lanes: Lanes) -> None:
            with batch.strong(strong[1] or "relaxed", strong[2] or "sys"):
                execute(batch, lanes)
                batch.spaces.pass_on(locate(batch, lanes), lanes, kind == "load", kind == "store")

        return execute_strongly

    def _shared_loads(self, run: list[Instruction]) -> Step:
        """Decode loads from shared memory, those with one base as one access; a fault names the first that is wrong."""
        alone = [self._memory(instruction) for instruction in run]
        groups: dict[tuple, list[Instruction]] = {}
        for instruction in run:
            width = _access(instruction.opcode)[2].itemsize * _access(instruction.opcode)[3]
            address = instruction.operands[1]
            groups.setdefault((instruction.opcode, address.base, address.offset % width), []).append(instruction)
        together = [
            self._loads_behind(sorted(group, key=lambda load: load.operands[1].offset)) for group in groups.values()
        ]

        def execute(batch: Batch, lanes: Lanes) -> None:
            if not len(batch.tracer.blocks) and not batch.history:
                try:
                    for load in together:
                        load(batch, lanes)
                    return
                except Violation:
                    pass
            for instruction, load in zip(run, alone, strict=True):
                batch.do(instruction, load, lanes)

        return execute

    def _loads_behind(self, group: list[Instruction]) -> Callable[[Batch, Lanes], None]:
        """Return a function that executes loads with one base, in ascending order."""
        _, _, dtype, count = _access(group[0].opcode)
        parts = []
        for load in group:
            targets = load.operands[0] if isinstance(load.operands[0], tuple) else (load.operands[0],)
            reject(load, len(targets) != count)
            parts.append([(target.name, self._widener(target, dtype, load)) for target in targets])
        locates = [self._address(load.operands[1], load) for load in group]
        offsets = [load.operands[1].offset for load in group]
        lines = [load.line for load in group]

        def execute(batch: Batch, lanes: Lanes) -> None:
            at_once = max(TOGETHER // (batch.threads.size if lanes is None else len(lanes)), 1)
            for start in range(0, len(group), at_once):
                these = slice(start, start + at_once)
                addresses = locates[start](batch, lanes)
                behind = [offset - offsets[start] for offset in offsets[these]]
                loaded = batch.spaces.load("shared", addresses, lanes, dtype, count, behind)
                targets = [target for part in parts[these] for target in part]
                loaded = [widened(value) for (_, widened), value in zip(targets, loaded, strict=True)]
                batch.registers.write_all([name for name, _ in targets], loaded, lanes)
                for line, times in Counter(lines[these]).items():  # each takes as many wavefronts, as banks repeat
                    batch.counter.count(line, "shared", "load", addresses, lanes, dtype.itemsize * count, times=times)

        return execute

    def _address(self, operand: Operand, instruction: Instruction) -> Callable[[Batch, Lanes], np.ndarray]:
        """Return a function that computes the address ``[base + offset]``: one uint64, or one per active lane."""
        reject(instruction, not isinstance(operand, Address))
        narrow = isinstance(operand.base, Register) and self._declared(operand.base.name) == np.uint32
        base = self._reader(
            Immediate(0) if operand.base is None else operand.base, "u32" if narrow else "u64", instruction
        )
        offset = np.uint64(operand.offset & (2**64 - 1))
        return lambda batch, lanes: base(batch, lanes) + offset

    def _copy(self, instruction: Instruction) -> Step:
        """Decode ``cp.async [to], [from], width, size``, which reads `size` bytes, or all if it is not given."""
        reject(instruction, len(instruction.operands) not in (3, 4))
        to, source, width, *sizes = instruction.operands
        size = sizes[0] if sizes else width
        reject(instruction, not isinstance(width, Immediate) or width.value not in copies.WIDTHS[instruction.opcode])
        kind = self._declared(size.name) if isinstance(size, Register) else None
        reject(instruction, not isinstance(size, Immediate) and kind != np.uint32)
        goes, comes = self._address(to, instruction), self._address(source, instruction)
        read, width, line = self._reader(size, "u32", instruction), width.value, instruction.line

        def execute(batch: Batch, lanes: Lanes) -> None:
            target, origin, sizes = (batch.threads.spread(get(batch, lanes), lanes) for get in (goes, comes, read))
            words = copies.fetch(batch.execution.memory, origin, sizes, width)
            batch.copies.issue(target, batch.threads.places(lanes), words)
            reading = batch.threads.among(lanes, sizes > 0)
            if reading is None or len(reading):
                batch.counter.count(
                    line, "global", "load", origin[sizes > 0], reading, width, int(sizes.sum(dtype=np.int64))
                )
            batch.counter.count(line, "shared", "store", target, lanes, width)
            if len(batch.tracer.blocks):
                for size in np.unique(sizes[sizes > 0]).tolist():
                    alike = sizes == size
                    batch.tracer.access(line, "global", "load", origin[alike], batch.threads.among(lanes, alike), size)
                batch.tracer.access(line, "shared", "store", target, lanes, width)

        return execute

    def _copy_group(self, instruction: Instruction) -> Step:
        """Decode the end of a group of asynchronous copies, a wait for groups, or both: a wait for all."""
        line, opcode, operands = instruction.line, instruction.opcode, instruction.operands
        numbered = opcode == "cp.async.wait_group"
        reject(
            instruction,
            len(operands) != numbered or not all(isinstance(of, Immediate) and of.value >= 0 for of in operands),
        )
        pending = operands[0].value if numbered else 0

        def execute(batch: Batch, lanes: Lanes) -> None:
            if not numbered:
                batch.tracer.event(line, "commit copies", lanes)
                batch.copies.commit(batch.threads.places(lanes))
            if opcode != "cp.async.commit_group":
                batch.tracer.event(line, "wait for copies", lanes, pending=pending)
                batch.copies.wait(batch.threads.places(lanes), pending)

        return execute


def _grid(run: list[Instruction]) -> list[Instruction]:
    """Return FMAs by left and right factor, if each left one meets each right one; otherwise none."""
    if len(run) < 2 or run[0].opcode not in FMAS or any(len(of.operands) != 4 for of in run):
        return []
    left, right = ({of: at for at, of in enumerate(dict.fromkeys(i.operands[of] for i in run))} for of in (1, 2))
    pairs = {(left[i.operands[1]], right[i.operands[2]]): i for i in run}
    return [pairs[pair] for pair in sorted(pairs)] if len(left) * len(right) == len(pairs) == len(run) else []


def _as_it_is(value: np.ndarray) -> np.ndarray:
    return value


def _or_zero(operand: Operand, read: Callable, dtype: np.dtype) -> Callable[[Batch, Lanes], np.ndarray]:
    """Return the function that fetches an operand, or 0 where it is a register that nothing wrote."""
    name, zero = getattr(operand, "name", None), np.zeros(1, dtype)
    return lambda batch, lanes: read(batch, lanes) if not name or batch.registers.has(name) else zero


def _dividing(function: Callable[..., np.ndarray], text: str) -> Callable[..., np.ndarray]:
    """Return a division that refuses to divide by 0; `text` is the instruction's."""

    def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        refuse("division by zero", b == 0, text)
        return function(a, b)

    return divide


def _trap(batch: Batch, lanes: Lanes) -> None:
    raise Violation("trap", 0, "executes trap")


def _exit(batch: Batch, lanes: Lanes) -> None:
    batch.left[batch.threads.pick(batch.threads.slot, lanes)] = True
    if batch.clusters:
        batch.clusters.leave(batch.threads.places(lanes))


def _mix(block: list[Instruction]) -> dict[int, tuple[Counter[str], int]]:
    lines: dict[int, tuple[Counter[str], int]] = {}
    for (line, opcode), count in Counter((instruction.line, instruction.opcode) for instruction in block).items():
        classes, flops = lines.get(line) or (Counter(), 0)
        classes[_class(opcode)] += count
        lines[line] = classes, flops + count * _flops(opcode)
    return lines


@cache
def _access(opcode: str) -> tuple[str, str, np.dtype, int] | None:
    """Return space, kind, element type and elements per lane of a load or store, None if it is not known."""
    found = ACCESS.fullmatch(opcode)
    if not found or found[4] not in DTYPES or found[4] == "pred":
        return None
    space = (found[2] or "generic").replace("::cta", "")
    return space, {"ld": "load", "st": "store"}[found[1]], DTYPES[found[4]], int(found[3] or 1)


@cache
def _module(opcode: str) -> ModuleType | None:
    """Return the module that decodes an instruction, None if this one does."""
    return next((module for begins, module in MODULES.items() if opcode.startswith(begins)), None)


@cache
def _class(opcode: str) -> str:
    if opcode in FUNCTIONS or opcode in CARRYING:
        return FUNCTIONS[opcode].kind if opcode in FUNCTIONS else "integer"
    if opcode.startswith("ld.param") or meeting(opcode):
        return "parameter" if opcode.startswith("ld") else "warp barrier" if meeting(opcode) == "warp" else "barrier"
    if opcode.startswith(("ld.", "st.")):
        space, kind, *_ = _access(opcode)
        return f"{'cluster' if space == CLUSTER else space} {kind}"
    if transfer := tensor.TRANSFER.fullmatch(opcode):
        return f"{transfer['space'] or 'generic'} {transfer['action']}"
    return next((kind for begins, kind in CLASSES.items() if opcode.startswith(begins)), "branch")


@cache
def _flops(opcode: str) -> int:
    if opcode in FUNCTIONS:
        return FUNCTIONS[opcode].flops
    module = _module(opcode)
    return module.flops(opcode) if module in (mma, wgmma) else 0


ALONE, LOADS, MULTIPLY_ADDS, PRODUCTS, IN_ORDER = range(5)
"""The order in which a round does its instructions, none of which needs another's result."""

START = 0, ALONE


@cache
def _turn(opcode: str, guarded: bool, in_order: bool) -> int:
    if opcode in FMAS and not guarded:
        return MULTIPLY_ADDS
    if in_order:
        return IN_ORDER
    if opcode.startswith("ld.param.") or (opcode in FUNCTIONS and not DIVISION.fullmatch(opcode)):
        return ALONE
    if opcode.startswith("ld.shared.") and opcode.endswith(("32", "64")) and not guarded:
        return LOADS
    return PRODUCTS if opcode in mma.KINDS and not guarded else IN_ORDER


def _runs(block: list[Instruction], in_order: bool) -> list[list[Instruction]]:
    """Split a basic block into runs of instructions that can be done as one step, or of one instruction each.

    Arithmetic moves to the first round in which its operands are ready, and loads from shared memory go ahead of it.
    All other instructions keep their order among themselves and among those loads. If `in_order`, everything except
    consecutive FMAs does.
    """
    turns = [_turn(instruction.opcode, bool(instruction.guard), in_order) for instruction in block]
    if sum(turn not in (ALONE, IN_ORDER) for turn in turns) < 2:
        return [[instruction] for instruction in block]
    rounds: defaultdict[tuple[int, int, str], list[Instruction]] = defaultdict(list)  # by round, turn and opcode
    wrote: dict[str, tuple[int, int]] = {}  # round and turn of the last write of each register
    read: dict[str, tuple[int, int]] = {}  # and of the last read since
    last = START  # the last instruction that keeps its order
    for instruction, turn in zip(block, turns, strict=True):
        target, sources = instruction.operands[:1], instruction.operands[1:]
        if target and isinstance(target[0], Address):
            target, sources = (), instruction.operands
        writes, reads = registers_of(target), registers_of(sources)
        if instruction.guard:
            reads.append(instruction.guard[0])
        here = 0
        for name in (*reads, *writes):
            place, before = wrote.get(name, START)
            here = max(here, place + (turn < before or (turn == before and turn not in (ALONE, IN_ORDER))))
        for name in writes:
            place, before = read.get(name, START)
            here = max(here, place + (turn < before or turn == before == LOADS))
        if in_order or turn in (LOADS, PRODUCTS, IN_ORDER):
            here = max(here, last[0] + (turn < last[1]))
            last = here, turn
        for name in reads:
            read[name] = max(read.get(name, START), (here, turn))
        for name in writes:
            wrote[name] = here, turn
            read.pop(name, None)
        rounds[here, turn, instruction.opcode if turn in (MULTIPLY_ADDS, PRODUCTS) else ""].append(instruction)
    runs: list[list[Instruction]] = []
    for (_, turn, _), together in sorted(rounds.items(), key=lambda item: item[0]):
        grid = _grid(together) if turn == MULTIPLY_ADDS else together if turn in (LOADS, PRODUCTS) else []
        runs += [grid] if grid else [[instruction] for instruction in together]
    return runs
