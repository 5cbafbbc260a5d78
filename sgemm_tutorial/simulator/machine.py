"""Executes a PTX program, the lanes of many blocks as one array.

Lanes that wait at the same basic block run it together, the block that comes first in the program first, so that
lanes that parted meet again where their paths join. A lane at a barrier waits for its block's other lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..errors import ArgumentError, SimulationFault, UnsupportedInstruction
from ..progress import bar
from . import counters
from .counters import WARP, Counts
from .instructions import DTYPES, OPERATIONS
from .memory import GlobalMemory, SharedMemory, Violation
from .ptx import LEAVES, WIDTHS, Address, Immediate, Instruction, Operand, Program, Register, Symbol

LANES = 1 << 15
"""Lanes executed together: enough to spread Python's cost per instruction, few enough for the caches."""

THREADS_MAX = 1024  # per block, on every GPU

Lanes = np.ndarray | None
"""Active lanes of a batch: their places in ascending order, or None for all."""


SPECIAL = frozenset(f"%{name}.{axis}" for name in ("tid", "ctaid", "ntid", "nctaid") for axis in "xyz") | {"%laneid"}
"""The special registers that a kernel may read."""


@dataclass(frozen=True)
class Access:
    """One execution of one load or store by a traced block.

    Attributes
    ----------
    line : int
        Line of the kernel's source.
    space, kind : str
        "global" or "shared"; "load" or "store".
    array : str
        The kernel's parameter, or the shared variable, that is accessed.
    width : int
        Bytes per thread.
    block : int
        Linear block index.
    threads : array of int
        Linear indices in the block of the threads that take part.
    offsets : array of int
        Each thread's byte offset in `array`.
    """

    line: int
    space: str
    kind: str
    array: str
    width: int
    block: int
    threads: np.ndarray
    offsets: np.ndarray


class Machine:
    """Runs one program over a grid of one dimension.

    Parameters
    ----------
    program : Program
    name : str
        The kernel's name, for messages.
    threads : int
        Threads per block.
    arguments : mapping of str to array or scalar
        The kernel's arguments in order; arrays are used in place. Scalars are NumPy scalars of the type declared.
    fresh : collection of str
        Names of the arrays that hold nothing yet.
    trace : collection of int
        Blocks whose accesses are kept.
    """

    def __init__(self, program: Program, name: str, threads: int, arguments: Mapping[str, np.ndarray | np.generic],
                 fresh: Collection[str] = (), trace: Collection[int] = ()) -> None:  # fmt: skip
        if threads > THREADS_MAX:
            raise ArgumentError("parameters", f"{threads} threads per block", f"at most {THREADS_MAX}")
        if len(arguments) != len(program.parameters):
            raise ArgumentError("arguments", str(len(arguments)), f"{len(program.parameters)}, as {name} takes")
        self.program, self.name, self.threads = program, name, threads
        self.memory = GlobalMemory()
        self.parameters: dict[str, np.ndarray] = {}
        for (mangled, kind), (argument, value) in zip(program.parameters.items(), arguments.items(), strict=True):
            if isinstance(value, np.ndarray):
                value = np.uint64(self.memory.add(argument, value, argument not in fresh))
            if value.dtype.itemsize != WIDTHS[kind]:
                raise ArgumentError(argument, str(value.dtype), f"{WIDTHS[kind]} bytes, as the kernel declares")
            self.parameters[mangled] = np.array([value])
        self.traced = frozenset(trace)
        self.trace: list[Access] = []
        instructions = [instruction for block in program.blocks for instruction in block]
        self.tallies = [Counts() for _ in instructions]
        self.warps_through = np.zeros(len(program.blocks), np.int64)
        self.threads_through = np.zeros(len(program.blocks), np.int64)
        self.granule = min([4, *(_access(i)[2].itemsize for i in instructions
                                 if i.opcode.startswith(("ld.shared.", "st.shared.")))])  # fmt: skip
        decoded = [[(i, self._decode(i)) for i in block] for block in program.blocks]
        self.steps = [[partial(self._guarded, i, step) if i.guard else step for i, step in block if step]
                      for block in decoded]  # fmt: skip

    def run(self, blocks: int, only: Collection[int] | None = None, progress: bool | None = False) -> None:
        """Execute a grid of that many blocks, or only some blocks of it; see `bar` for `progress`.

        Raises
        ------
        SimulationFault
            A check failed.
        """
        todo = np.arange(blocks) if only is None else np.array(sorted(set(only)))
        at_once = max(LANES // self.threads, 1)
        with np.errstate(all="ignore"):
            for start in bar(range(0, len(todo), at_once), show=progress, unit="batch"):
                _Batch(self, todo[start : start + at_once], blocks).run()

    def counts(self) -> dict[int, Counts]:
        """Return what was counted, by source line."""
        lines: dict[int, Counts] = {}
        for i, block in enumerate(self.program.blocks):
            for instruction in block:
                tally = self.tallies[instruction.index]
                kind, flops = _class(instruction), _flops(instruction)
                tally += Counts(
                    instructions=int(self.warps_through[i]),
                    thread_instructions=int(self.threads_through[i]),
                    flops=flops * int(self.threads_through[i]),
                )
                tally.by_class[kind] = int(self.warps_through[i])
                lines[instruction.line] = lines.get(instruction.line, Counts()) + tally
        return dict(sorted(lines.items()))

    # Decoding: an instruction becomes a function of the batch and its active lanes.

    def _decode(self, instruction: Instruction) -> Callable[[_Batch, Lanes], None] | None:
        """Return None for what only ends a basic block: that is the batch's business."""
        opcode = instruction.opcode
        if opcode in OPERATIONS:
            return self._arithmetic(instruction)
        if opcode.startswith("ld.param."):
            return self._load_parameter(instruction)
        if opcode.startswith(("ld.", "st.")):
            return self._memory(instruction)
        partly = opcode == "bar.sync" and (instruction.operands != (Immediate(0),) or instruction.guard)
        if opcode not in LEAVES or partly:  # of the barriers, only __syncthreads()
            raise _unsupported(instruction)
        return None

    def _arithmetic(self, instruction: Instruction) -> Callable[[_Batch, Lanes], None]:
        operation = OPERATIONS[instruction.opcode]
        target, *sources = instruction.operands
        if len(sources) != len(operation.operands) or not isinstance(target, Register):
            raise _unsupported(instruction)
        reads = [self._reader(source, kind, instruction) for source, kind in
                 zip(sources, operation.operands, strict=True)]  # fmt: skip
        function, name = operation.function, target.name
        widened = self._widener(target, DTYPES[operation.result], instruction)

        def execute(batch: _Batch, lanes: Lanes) -> None:
            batch.write(name, widened(function(*[read(batch, lanes) for read in reads])), lanes)

        def divide(batch: _Batch, lanes: Lanes) -> None:
            divisor = reads[1](batch, lanes)
            if not divisor.all():
                lane = np.flatnonzero(divisor == 0)[0]
                raise batch.fault(Violation("division by zero", lane, instruction.text), instruction, lanes)
            execute(batch, lanes)

        return divide if instruction.opcode.startswith(("div.", "rem.")) else execute

    def _reader(self, operand: Operand, kind: str, instruction: Instruction) -> Callable[[_Batch, Lanes], np.ndarray]:
        """Return a function that fetches an operand as an array: one element, or one per active lane."""
        dtype = DTYPES[kind]
        if isinstance(operand, Register):
            name = operand.name
            if self._declared(name) is None and name not in SPECIAL:
                raise _unsupported(instruction)
            return lambda batch, lanes: batch.read(name, dtype, lanes, instruction)
        if isinstance(operand, Immediate):
            if dtype.kind == "b":
                constant = np.array([operand.value != 0])
            else:
                bits = operand.value & ((1 << 8 * dtype.itemsize) - 1)
                constant = np.array([bits], f"u{dtype.itemsize}").view(dtype)
        elif isinstance(operand, Symbol) and operand.name in self.program.shared:
            constant = np.array([self.program.shared[operand.name].offset], dtype)
        else:
            raise _unsupported(instruction)
        return lambda batch, lanes: constant

    def _load_parameter(self, instruction: Instruction) -> Callable[[_Batch, Lanes], None]:
        target, source = instruction.operands
        dtype = DTYPES[instruction.opcode.rpartition(".")[2]]
        value = self.parameters[source.base.name].view(dtype)
        if source.offset:
            raise _unsupported(instruction)
        value = self._widener(target, dtype, instruction)(value)
        return lambda batch, lanes: batch.write(target.name, value, lanes)

    def _declared(self, register: str) -> np.dtype | None:
        """Return a register's declared type, None if there is none."""
        return DTYPES.get(self.program.register_types.get(register.rstrip("0123456789")))

    def _widener(self, target: Operand, dtype: np.dtype, instruction: Instruction
                 ) -> Callable[[np.ndarray], np.ndarray]:  # fmt: skip
        """Return the function that extends a value to the register's width, with the sign if the type has one."""
        declared = self._declared(target.name) if isinstance(target, Register) else None
        if declared is None or declared.itemsize < dtype.itemsize:
            raise _unsupported(instruction)
        if declared.itemsize == dtype.itemsize:
            return lambda value: value
        wide = np.dtype(f"{dtype.kind}{declared.itemsize}")
        return lambda value: value.astype(wide)

    def _memory(self, instruction: Instruction) -> Callable[[_Batch, Lanes], None]:
        space, kind, dtype, count = _access(instruction)
        address, values = instruction.operands if kind == "store" else instruction.operands[::-1]
        values = values if isinstance(values, tuple) else (values,)
        if not isinstance(address, Address) or len(values) != count:
            raise _unsupported(instruction)
        width = dtype.itemsize * count
        narrow = isinstance(address.base, Register) and self._declared(address.base.name) == np.uint32
        base = self._reader(Immediate(0) if address.base is None else address.base, "u32" if narrow else "u64",
                            instruction)  # fmt: skip
        offset = np.uint64(address.offset & (2**64 - 1))
        reads = [self._reader(value, instruction.opcode.rpartition(".")[2], instruction) for value in values]
        targets = [(value.name, self._widener(value, dtype, instruction)) for value in values] if kind == "load" else []
        tally = self.tallies[instruction.index]

        def execute(batch: _Batch, lanes: Lanes) -> None:
            addresses = base(batch, lanes) + offset
            try:
                if kind == "load":
                    loaded = batch.load(space, addresses, lanes, dtype, count)
                    for (name, widened), value in zip(targets, loaded, strict=True):
                        batch.write(name, widened(value), lanes)
                else:
                    batch.store(space, addresses, lanes, [read(batch, lanes) for read in reads])
            except Violation as violation:
                raise batch.fault(violation, instruction, lanes) from None
            batch.tally(tally, space, kind, addresses, lanes, width)
            if self.traced:
                self.trace += batch.traced(instruction, space, kind, addresses, lanes, width)

        return execute

    @staticmethod
    def _guarded(instruction: Instruction, step: Callable[[_Batch, Lanes], None], batch: _Batch, lanes: Lanes) -> None:
        taking, _ = batch.split(instruction, lanes)
        if taking is None or len(taking):
            step(batch, taking)


class _Batch:
    """Some blocks' lanes on their way through the program.

    A register is an array with an element per lane, or one element where all lanes hold the same.
    """

    def __init__(self, machine: Machine, blocks: np.ndarray, grid: int) -> None:
        self.machine, self.blocks = machine, blocks
        threads = machine.threads
        self.size = len(blocks) * threads
        self.block = np.repeat(np.arange(len(blocks)), threads)  # each lane's block within the batch
        self.thread = np.tile(np.arange(threads), len(blocks))
        warps_per_block = -(-threads // WARP)
        self.warps = len(blocks) * warps_per_block
        self.slot = (self.block * warps_per_block + self.thread // WARP) * WARP + self.thread % WARP
        self.full = threads % WARP == 0
        program = machine.program
        self.shared = SharedMemory(program.shared.values(), program.shared_bytes, len(blocks), machine.granule)
        zero = np.zeros(1, np.uint32)
        self.registers: dict[str, np.ndarray] = {
            "%tid.x": self.thread.astype(np.uint32), "%tid.y": zero, "%tid.z": zero,
            "%ctaid.x": blocks.astype(np.uint32)[self.block], "%ctaid.y": zero, "%ctaid.z": zero,
            "%ntid.x": np.array([threads], np.uint32), "%ntid.y": zero + 1, "%ntid.z": zero + 1,
            "%nctaid.x": np.array([grid], np.uint32), "%nctaid.y": zero + 1, "%nctaid.z": zero + 1,
            "%laneid": (self.thread % WARP).astype(np.uint32),
        }  # fmt: skip
        self.waiting: dict[int, Lanes] = {0: None}  # lanes by the basic block they are to run next
        self.barrier: np.ndarray | None = None  # where lanes stand at a barrier: its basic block, else -1

    def run(self) -> None:
        """Execute until every lane has left the kernel."""
        program, steps = self.machine.program, self.machine.steps
        while self.waiting:
            here = min(self.waiting)
            lanes = self.waiting.pop(here)
            self.machine.warps_through[here] += self._count_warps(lanes)
            self.machine.threads_through[here] += self.size if lanes is None else len(lanes)
            for step in steps[here]:
                step(self, lanes)
            for target, going in self._leave(program, program.blocks[here][-1], here, lanes):
                self._arrive(target, going)
        if self.barrier is not None and (self.barrier >= 0).any():
            self._report_stuck()

    def _leave(self, program: Program, last: Instruction, here: int, lanes: Lanes) -> Iterator[tuple[int, Lanes]]:
        """Yield where the lanes go from the end of a basic block, and which."""
        if last.opcode == "bar.sync":
            yield from self._meet(here, lanes)
            return
        taking, staying = (lanes, np.empty(0, np.int64))
        if last.guard:
            taking, staying = self.split(last, lanes)
        if last.opcode.startswith("bra"):
            yield program.targets[last.operands[0].name], taking
        elif last.opcode not in ("ret", "exit"):
            staying = lanes
        yield here + 1, staying

    def _arrive(self, target: int, lanes: Lanes) -> None:
        if lanes is not None and len(lanes) == 0:
            return
        if target in self.waiting:
            lanes = np.sort(np.concatenate([self.waiting[target], lanes]))
        self.waiting[target] = None if lanes is None or len(lanes) == self.size else lanes

    def _meet(self, here: int, lanes: Lanes) -> Iterator[tuple[int, Lanes]]:
        """Take lanes into the barrier; yield on those whose block is complete."""
        if lanes is None:
            self.shared.interval += 1
            yield here + 1, None
            return
        if self.barrier is None:
            self.barrier = np.full(self.size, -1)
        self.barrier[lanes] = here
        complete = (self.barrier.reshape(len(self.blocks), -1) == here).all(axis=1)
        self.shared.interval[complete] += 1
        released = np.flatnonzero(complete[self.block])
        self.barrier[released] = -1
        yield here + 1, released

    def _report_stuck(self) -> None:
        lane = int(np.flatnonzero(self.barrier >= 0)[0])
        mates = np.flatnonzero((self.block == self.block[lane]) & (self.barrier != self.barrier[lane]))
        other = int(mates[0])
        bar = self.machine.program.blocks[self.barrier[lane]][-1]
        place = "has left the kernel"
        if self.barrier[other] >= 0:
            place = f"waits at line {self.machine.program.blocks[self.barrier[other]][-1].line}"
        detail = f"waits at a barrier that thread {self.thread[other]} of its block never reaches: that one {place}"
        raise self.fault(Violation("barrier", lane, detail), bar, None)

    def split(self, instruction: Instruction, lanes: Lanes) -> tuple[Lanes, Lanes]:
        """Return the lanes whose guard holds, and the others."""
        name, wanted = instruction.guard
        holds = self.read(name, DTYPES["pred"], lanes, instruction) == wanted
        none = np.empty(0, np.int64)
        if holds.all():
            return lanes, none
        if not holds.any():
            return none, lanes
        lanes = np.arange(self.size) if lanes is None else lanes
        return lanes[holds], lanes[~holds]

    def read(self, name: str, dtype: np.dtype, lanes: Lanes, instruction: Instruction) -> np.ndarray:
        """Return the value of a register that the instruction reads, as that type."""
        value = self.registers.get(name)
        if value is None:
            raise UnsupportedInstruction(
                f"line {instruction.line}: reads {name}, which nothing wrote: {instruction.text}")
        if value.dtype is not dtype:
            if value.dtype.itemsize > dtype.itemsize:  # PTX takes the low bits of a wider register
                value = value.astype(f"u{dtype.itemsize}")
            value = value.view(dtype)
        return value if lanes is None or value.size == 1 else value[lanes]

    def write(self, name: str, value: np.ndarray, lanes: Lanes) -> None:
        """Give a register a value in the active lanes."""
        if lanes is not None:
            before = self.registers.get(name)
            if before is None:
                before = np.zeros(1, value.dtype)
            whole = np.array(np.broadcast_to(before.view(value.dtype), self.size))
            whole[lanes] = value
            value = whole
        self.registers[name] = value

    def load(self, space: str, addresses: np.ndarray, lanes: Lanes, dtype: np.dtype, count: int) -> list[np.ndarray]:
        """Load `count` elements behind each address."""
        if space == "global":
            return self.machine.memory.load(addresses, dtype, count)
        addresses, block, thread = self._spread(addresses, lanes)
        return self.shared.load(addresses, block, thread, dtype, count)

    def store(self, space: str, addresses: np.ndarray, lanes: Lanes, values: list[np.ndarray]) -> None:
        """Store one element per value behind each address."""
        addresses, block, thread = self._spread(addresses, lanes)
        if space == "global":
            self.machine.memory.store(addresses, values)
        else:
            self.shared.store(addresses, block, thread, values)

    def tally(self, tally: Counts, space: str, kind: str, addresses: np.ndarray, lanes: Lanes, width: int) -> None:
        """Count one access."""
        slots = None if lanes is None and self.full else self._lanes(self.slot, lanes)
        rows = counters.by_warp(slots, addresses.astype(np.int64), self.warps)
        total = (self.size if lanes is None else len(lanes)) * width
        count = {"requests": len(rows), "bytes": total}
        if space == "global":
            count["sectors"] = counters.sectors(rows)
        else:
            count["wavefronts"], count["conflicts"] = counters.wavefronts(rows, width, kind)
        for what, number in count.items():
            name = f"{space}_{kind}_{what}"
            setattr(tally, name, getattr(tally, name) + number)

    def traced(self, instruction: Instruction, space: str, kind: str, addresses: np.ndarray, lanes: Lanes, width: int
               ) -> Iterator[Access]:  # fmt: skip
        """Yield the access as each traced block made it."""
        addresses, block, thread = self._spread(addresses, lanes)
        for number in np.flatnonzero(np.isin(self.blocks, list(self.machine.traced))):
            mine = block == number
            if mine.any():
                first = int(addresses[mine][0])
                if space == "global":
                    array, offset = self.machine.memory.name(first)
                else:
                    array, offset = next((v.name, first - v.offset) for v in self.machine.program.shared.values()
                                         if v.offset <= first < v.offset + v.size)  # fmt: skip
                yield Access(instruction.line, space, kind, array, width, int(self.blocks[number]), thread[mine],
                             addresses[mine].astype(np.int64) - (first - offset))  # fmt: skip

    def fault(self, violation: Violation, instruction: Instruction, lanes: Lanes) -> SimulationFault:
        """Complete a violation with kernel, block, thread and source line."""
        lane = violation.lane if lanes is None else lanes[violation.lane]
        block, thread = int(self.blocks[self.block[lane]]), int(self.thread[lane])
        return SimulationFault(violation.kind, self.machine.name, block, thread, instruction.line, violation.detail)

    def _spread(self, addresses: np.ndarray, lanes: Lanes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return address, block within the batch, and thread of each active lane."""
        block = self._lanes(self.block, lanes)
        return np.broadcast_to(addresses, block.shape), block, self._lanes(self.thread, lanes)

    @staticmethod
    def _lanes(values: np.ndarray, lanes: Lanes) -> np.ndarray:
        return values if lanes is None else values[lanes]

    def _count_warps(self, lanes: Lanes) -> int:
        if lanes is None:
            return self.warps
        warp = self.slot[lanes] // WARP
        return 1 + int(np.count_nonzero(warp[1:] != warp[:-1]))


def _access(instruction: Instruction) -> tuple[str, str, np.dtype, int]:
    """Return space, kind, element type and elements per lane of a load or store."""
    head, *modifiers, kind = instruction.opcode.split(".")
    space = modifiers.pop(0) if modifiers else "generic"
    if space == "global" and modifiers[:1] == ["nc"]:
        modifiers.pop(0)
    count = {(): 1, ("v2",): 2, ("v4",): 4}.get(tuple(modifiers))
    if space not in ("global", "shared") or count is None or kind not in DTYPES or kind == "pred":
        raise _unsupported(instruction)
    return space, {"ld": "load", "st": "store"}[head], DTYPES[kind], count


def _class(instruction: Instruction) -> str:
    opcode = instruction.opcode
    if opcode in OPERATIONS:
        return OPERATIONS[opcode].kind
    if opcode.startswith("ld.param"):
        return "parameter"
    if opcode.startswith(("ld.", "st.")):
        return " ".join(_access(instruction)[:2])
    return "barrier" if opcode.startswith("bar") else "branch"


def _flops(instruction: Instruction) -> int:
    return OPERATIONS[instruction.opcode].flops if instruction.opcode in OPERATIONS else 0


def _unsupported(instruction: Instruction) -> UnsupportedInstruction:
    return UnsupportedInstruction(f"line {instruction.line}: the simulator does not know: {instruction.text}")
