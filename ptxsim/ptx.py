"""Reads the PTX that NVRTC writes: text in, instructions and basic blocks out.

Only what a kernel of this book can contain is read; anything else raises UnsupportedInstruction with the
line of the kernel's source. The grammar is that of NVIDIA's "Parallel Thread Execution ISA", chapters 4 to 9.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Any

import msgspec
import numpy as np

from .errors import UnsupportedInstruction

DTYPES = {
    "pred": np.dtype(bool),
    "b16": np.dtype(np.uint16),
    "u16": np.dtype(np.uint16),
    "s16": np.dtype(np.int16),
    "f16": np.dtype(np.float16),
    "b32": np.dtype(np.uint32),
    "u32": np.dtype(np.uint32),
    "s32": np.dtype(np.int32),
    "f32": np.dtype(np.float32),
    "b64": np.dtype(np.uint64),
    "u64": np.dtype(np.uint64),
    "s64": np.dtype(np.int64),
    "f64": np.dtype(np.float64),
    "b8": np.dtype(np.uint8),
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
}
"""The NumPy type of each of PTX's types."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """Part of a program: there are very many, quickly made and compared, and none is ever part of a circle."""


class Register(Part):
    """A register or special register, for example ``%f12`` or ``%tid.x``."""

    name: str


class Immediate(Part):
    """A constant: an integer, or the bits of a floating-point number."""

    value: int


class Symbol(Part):
    """The address of a variable, or a branch target."""

    name: str


class Address(Part):
    """``[base + offset]``; the offset is in bytes."""

    base: Register | Symbol | None
    offset: int


Operand = Register | Immediate | Symbol | Address | tuple["Operand", ...]


class Instruction(Part):
    """One PTX instruction.

    Attributes
    ----------
    opcode : str
        With all modifiers, for example ``"ld.global.f32"``.
    operands : tuple
        Destination first, as written; a vector ``{a, b}`` is a tuple, and so are a pair ``a|b`` and a tensor's address
        ``[map, {column, row}]``.
    guard : tuple of (str, bool), optional
        Predicate register and the value it must have for a lane to take part.
    line : int
        Line of the kernel's source file, 0 where the compiler names none.
    text : str
        As written.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None
    line: int
    text: str


@dataclass(frozen=True)
class Variable:
    """A ``.shared`` array: its name in the source, its offset and size in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, eq=False)
class Program:
    """A kernel's PTX, read.

    Attributes
    ----------
    parameters : dict of str to str
        Types of the kernel's parameters by their mangled names, in order; of an array with its extent, ``"b8[128]"``.
    shared : dict of str to Variable
        Shared variables by their mangled names.
    shared_bytes : int
        Shared memory per block, static and dynamic.
    register_types : dict of str to str
        Declared type by register prefix, for example ``{"%rd": "b64"}``.
    blocks : list of list of Instruction
        Basic blocks in program order: control enters at the first instruction and leaves at the last.
        A barrier ends a block, be it a thread block's or a warp's, and so does a wait for an mbarrier or a cluster.
    targets : dict of str to int
        Basic block by label.
    cluster : int
        Thread blocks of a cluster, 1 where the kernel asks for none.
    """

    parameters: dict[str, str]
    shared: dict[str, Variable]
    shared_bytes: int
    register_types: dict[str, str]
    blocks: list[list[Instruction]]
    targets: dict[str, int]
    cluster: int

    def address(self, parameter: str) -> int:
        """Return where a parameter lies that is a tensor map."""
        return PARAMETER_WINDOW + MAP_BYTES * list(self.parameters).index(parameter)


def unsupported(instruction: Instruction) -> UnsupportedInstruction:
    """Return the refusal of an instruction, with its line."""
    return UnsupportedInstruction(f"line {instruction.line}: the simulator does not know: {instruction.text}")


LEAVES = {"bra", "bra.uni", "ret", "exit", "bar.sync", "bar.warp.sync"}
"""The opcodes that end a basic block: all the control flow there is, but for these two."""
WAITS = "mbarrier.try_wait."
CLUSTER_WAITS = "barrier.cluster.wait"
"""How the opcodes begin that end a basic block because a thread may have to wait there for others."""

MAP_BYTES = 128
TENSOR_MAP = f"b8[{MAP_BYTES}]"
"""The type of a parameter that is a tensor map."""
PARAMETER_WINDOW = 0x10_0000_0000
"""Where generic addresses of parameters begin."""

PARAMETER = re.compile(r"\.param(?:\s+\.align\s+\d+)?\s+\.(\w+)(?:\s+\.ptr\s[^,]*?\.align\s+\d+)?\s+([\w$]+)(\[\d+\])?")
SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?$")
LOCATION = re.compile(r"\.loc (\d+) (\d+) \d+(?:.* inlined_at (\d+) (\d+) \d+)?")
CLUSTER = re.compile(r"\.reqnctapercluster (\d+), (\d+), (\d+)")
TENSOR = re.compile(r"(\[\s*[%\w.$]+)\s*,\s*(\{[^}]*\})\s*\]")
ADDRESS = re.compile(r"\[\s*([%\w.$]+)\s*(?:\+\s*(-?\d+)\s*)?\]")
DYNAMIC = re.compile(r"\.extern\s+\.shared\s+\.align\s+(\d+)\s+\.\w+\s+([\w$]+)\[\]")
STATEMENT = re.compile(r"[\s{}]*(?:[\w$]+:|\.(?:loc|version|target|address_size|maxntid|file)\b[^\n]*)|[^;]+")
"""Up to a semicolon, or to the end of what takes none: labels and some directives."""
BRACES = re.compile(r"^([} ]+(?=\.)|[{} ]+(?=\.reg \.\w+ %|[^{} .]))")
INSTRUCTION = re.compile(r"(?:@(!?)(%\w+) )?([a-z][\w.:]*) ?(.*)")
OPERAND = re.compile(r"(?! )(?:[^,\[{]+|\[[^\]]*\]|\{[^}]*\})+")
"""Up to a comma that is not inside brackets."""
IGNORED = (
    ".version",
    ".target",
    ".address_size",
    ".maxntid",
    ".minnctapersm",
    ".pragma",
    ".file",
    ".section",
    ".local",
)  # what uses local memory is refused where it does


def uncollected(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that makes very many things that stay do so without Python looking for garbage all the time."""

    @wraps(make)
    def made(*arguments: Any) -> Any:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return make(*arguments)
        finally:
            if enabled:
                gc.enable()

    return made


@lru_cache(maxsize=16)
@uncollected
def parse(ptx: str, entry: str, dynamic_shared_bytes: int = 0) -> Program:
    """Read one entry point of a PTX module.

    Parameters
    ----------
    ptx : str
        The module, as NVRTC returns it.
    entry : str
        The mangled name of the kernel.
    dynamic_shared_bytes : int
        Shared memory that the launch adds to what the kernel declares; its ``extern`` array has as many bytes.

    Raises
    ------
    UnsupportedInstruction
        Something is not understood.
    """
    ptx = re.sub(r"//[^\n]*", "", ptx)
    before, _, rest = ptx.partition(f".entry {entry}(")
    signature, _, rest = rest.partition(")")
    parameters = {name: kind + extent for kind, name, extent in PARAMETER.findall(signature)}
    body = rest[rest.index("{") + 1 : _closing_brace(rest)]
    cluster, *others = CLUSTER.findall(rest[: rest.index("{")]) or [("1", "1", "1")]
    if others or cluster[1:] != ("1", "1"):
        raise UnsupportedInstruction(f"the simulator knows clusters of one dimension, not of {' × '.join(cluster)}")

    shared: dict[str, Variable] = {}
    shared_bytes = 0
    register_types: dict[str, str] = {}
    blocks: list[list[Instruction]] = [[]]
    targets: dict[str, int] = {}
    line = 0
    home = ""  # the number of the kernel's own file, which the first location is in
    callers: dict[tuple[str, str], int] = {}  # the line of that file which a header's line was last inlined at
    for statement in _statements(body):
        if statement.endswith(":"):
            if blocks[-1]:
                blocks.append([])
            targets[statement[:-1]] = len(blocks) - 1
        elif not statement.startswith("."):
            instruction = _instruction(statement, line)
            blocks[-1].append(instruction)
            if instruction.opcode in LEAVES or instruction.opcode.startswith((WAITS, CLUSTER_WAITS)):
                blocks.append([])
        elif location := LOCATION.match(statement):
            file, inner, outer_file, outer = location.groups()
            home = home or file
            if file == home:
                line = int(inner) or line
            elif outer_file:  # a header's function, inlined, maybe into another one
                line = int(outer) if outer_file == home else callers.get((outer_file, outer), line)
                callers[file, inner] = line
        elif statement.startswith(".reg"):
            _, kind, name = statement.split()
            if register_types.setdefault(name.partition("<")[0], kind[1:]) != kind[1:]:
                raise UnsupportedInstruction(f"line {line}: the simulator knows {name} as another type: {statement}")
        elif variable := SHARED.fullmatch(statement):
            align, kind, name, count = variable.groups()
            shared_bytes = -(-shared_bytes // int(align)) * int(align)
            size = DTYPES[kind].itemsize * int(count or 1)
            shared[name] = Variable(_source_name(name), shared_bytes, size)
            shared_bytes += size
        elif not statement.startswith(IGNORED):
            raise UnsupportedInstruction(f"line {line}: the simulator does not know the directive: {statement}")
    if not blocks[-1]:
        blocks.pop()
    if dynamic := DYNAMIC.findall(before):  # one array, whatever its names
        align = max(int(align) for align, _ in dynamic)
        start = -(-shared_bytes // align) * align
        shared |= {name: Variable(_source_name(name), start, dynamic_shared_bytes) for _, name in dynamic}
        shared_bytes = start + dynamic_shared_bytes
    return Program(parameters, shared, shared_bytes, register_types, blocks, targets, int(cluster[0]))


def _closing_brace(text: str) -> int:
    depth = 0
    for brace in re.finditer(r"[{}]", text):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    raise UnsupportedInstruction("the PTX ends inside a function")


def _statements(body: str) -> Iterator[str]:
    """Split into statements, with a space where white space is.

    Braces that inline assembly puts round instructions go, and round a register of theirs that begins with %: it is set
    before it is used, in every pair of braces. Before other declarations they stay, and nothing can read that.
    """
    for text in STATEMENT.findall(body):
        statement = " ".join(text.split())
        if statement.startswith(("{", "}")):
            statement = BRACES.sub("", statement)
        if statement:
            yield statement


def _instruction(statement: str, line: int) -> Instruction:
    match = INSTRUCTION.fullmatch(statement)
    if not match:
        raise UnsupportedInstruction(f"line {line}: the simulator cannot read: {statement}")
    negated, predicate, opcode, operands = match.groups()
    guard = (predicate, not negated) if predicate else None
    try:
        parsed = tuple(map(_operand, OPERAND.findall(operands)))
    except ValueError:
        raise UnsupportedInstruction(f"line {line}: the simulator cannot read: {statement}") from None
    return Instruction(sys.intern(opcode), parsed, guard, line, statement)


@lru_cache(maxsize=1 << 14)
def _operand(text: str) -> Operand:
    """Read an operand; the same text is the same object."""
    text = text.strip()
    if text.startswith("{"):
        return tuple(_operand(part) for part in OPERAND.findall(text[1:-1]))
    if text.startswith("["):
        if match := TENSOR.fullmatch(text):
            return _operand(match[1] + "]"), _operand(match[2])
        match = ADDRESS.fullmatch(text)
        if not match:
            raise ValueError(text)
        base, offset = match.groups(default="0")
        if base[0].isdigit():
            return Address(None, int(base, 0))
        return Address(_operand(base), int(offset))
    if text.startswith("%"):
        first, _, second = text.partition("|")  # a shuffle's result, and whether it is one
        return (Register(first), Register(second)) if second else Register(text)
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}", text):
        return Immediate(int(text[2:], 16))
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
        return Immediate(int(text.rstrip("U"), 0))
    if re.fullmatch(r"[A-Za-z_$][\w$]*", text):
        return Symbol(text)
    raise ValueError(text)


def _source_name(mangled: str) -> str:
    """Name of a function's local variable from its Itanium mangling: ``_ZZ...E2As`` is As."""
    match = re.search(r"E(\d+)([A-Za-z_]\w*?)(?:_\d+)?$", mangled)
    return match[2][: int(match[1])] if match else mangled
