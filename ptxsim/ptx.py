"""Parses PTX text into instructions and basic blocks.

The parser reads the part of the language that NVRTC writes for kernels. Anything else raises UnsupportedInstruction
with the source line. The grammar is in NVIDIA's "Parallel Thread Execution ISA", chapters 4 to 9.
"""

import gc
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, wraps
from typing import Any

import numpy as np

from .errors import ArgumentError, UnsupportedInstruction
from .limits import THREADS_MAX, WARP
from .modules import (
    BUILT_IN,
    CALL,
    Function,
    ModuleVariable,
    Variable,
    closing_brace,
    functions,
    plain,
    shared_variables,
    used,
    variables,
)

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


part = dataclass(slots=True, unsafe_hash=True)
"""Declares a part of a program. Nothing changes a part once it is made; frozen ones take a fifth longer to read."""


@part
class Register:
    """A register or special register, for example ``%f12`` or ``%tid.x``."""

    name: str


@part
class Immediate:
    """A constant: an integer, the bits of a floating-point number, or such a number itself, as ``1.5``."""

    value: int | float


@part
class Symbol:
    """The address of a variable, or a branch target."""

    name: str


@part
class Address:
    """``[base + offset]``; the offset is in bytes."""

    base: Register | Symbol | None
    offset: int


Operand = Register | Immediate | Symbol | Address | tuple["Operand", ...]


def registers_of(operands: tuple[Operand | None, ...]) -> list[str]:
    """Return the registers of operands, including those in addresses and vectors."""
    names: list[str] = []
    for operand in operands:
        if isinstance(operand, Register):
            names.append(operand.name)
        elif isinstance(operand, Address):
            names += registers_of((operand.base,))
        elif isinstance(operand, tuple):
            names += registers_of(operand)
    return names


@part
class Instruction:
    """One PTX instruction.

    Attributes
    ----------
    opcode : str
        With all modifiers, for example ``"ld.global.f32"``.
    operands : tuple
        Destination first, as written. A vector ``{a, b}``, a pair ``a|b`` and a tensor's address
        ``[map, {column, row}]`` are tuples.
    guard : tuple of (str, bool), optional
        The predicate register, and the value that it must have for a lane to take part.
    line : int
        Line of the kernel's source file, 0 before the compiler's first location; a line of the PTX if it has no
        locations.
    text : str
        The instruction as written.
    """

    opcode: str
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None
    line: int
    text: str


@dataclass(frozen=True, eq=False)
class Program:
    """A parsed kernel.

    Attributes
    ----------
    parameters : dict of str to str
        Types of the kernel's parameters by their mangled names, in order. An array's type includes its extent:
        ``"b8[128]"``.
    shared : dict of str to Variable
        Shared variables by their mangled names.
    shared_bytes : int
        Shared memory per block, static and dynamic.
    register_types : dict of str to str
        Declared type by register prefix, for example ``{"%rd": "b64"}``.
    blocks : list of list of Instruction
        Basic blocks in program order: control enters at the first instruction and leaves at the last. A barrier of a
        thread block or of a warp ends a basic block, and so does a wait for an mbarrier or a cluster.
    targets : dict of str to int
        Basic block by label.
    cluster : int
        Thread blocks of a cluster, 1 if the kernel does not ask for clusters.
    threads : int
        How many threads a block may have: what its ``__launch_bounds__`` say, or what any block may have.
    variables : dict of str to ModuleVariable
        The module's variables that the kernel uses, by their mangled names.
    local : dict of str to Variable
        The variables in local memory of all functions, with their places in their functions' frames.
    functions : dict of str to (int, Function)
        The functions that the kernel calls, and the kernel itself by the name "", with their first basic blocks. A
        function comes after those that it calls.
    """

    parameters: dict[str, str]
    shared: dict[str, Variable]
    shared_bytes: int
    register_types: dict[str, str]
    blocks: list[list[Instruction]]
    targets: dict[str, int]
    cluster: int
    threads: int
    variables: dict[str, ModuleVariable]
    local: dict[str, Variable]
    functions: dict[str, tuple[int, Function]]

    @property
    def entry(self) -> int:
        """The basic block at which the kernel begins."""
        return self.functions[""][0]

    def address(self, parameter: str) -> int:
        """Return the address of a parameter that is a tensor map."""
        return PARAMETER_WINDOW + MAP_BYTES * list(self.parameters).index(parameter)


@cache
def meeting(opcode: str) -> str:
    """Return a barrier's kind, of a block or a warp: "warp", "sync", "arrive" or "red.popc"; "" for other opcodes."""
    found = BARRIER.fullmatch(opcode)
    return (found[1] or found[2]) if found else ""


@cache
def ends(opcode: str) -> bool:
    """Return whether an instruction ends a basic block."""
    return opcode in LEAVES or opcode.startswith((WAITS, CLUSTER_WAITS)) or bool(meeting(opcode))


REFUSED = {
    r".*%clock.*": "time passes differently here",
    r".*%globaltimer.*": "time passes differently here, by which cuda::barrier and a shared cuda::pipeline wait too",
    r"cp\.async\.mbarrier\..*": "cp.async arrives at no mbarrier here: wait for it with wait_group, and then arrive",
    r"mbarrier\.(pending_count|arrive\S*noComplete)\..*": "the tokens of mbarriers are numbers of phases here, no more",
    r"(w|wg)?mma\..*": (
        "of tensor cores it knows FP16, BF16, TF32, INT8 and FP64, in the shapes and sums that its README lists"
    ),
    r".*%(smid|nsmid|warpid|nwarpid|gridid)\b.*": "blocks and warps have no places on a chip here",
    r"(tex|tld4|suld|sust|sured|txq|suq)\..*": "it has no textures and surfaces",
    r".*%envreg.*": "there are no launches for which a grid's blocks wait for each other",
    r".*%reserved_smem.*": "tiles of cooperative groups have at most 32 threads here",
    r"call.*\bmalloc\b.*": "it has no heap",
    r"cout": "std::cout is the host's alone: a kernel prints by printf",
    r"v(add|sub|absdiff|min|max|avrg|shl|shr|mad|set)[24]?\..*": (
        "it has few video instructions: take the bytes apart with shifts"
    ),
    r"(brkpt|pmevent).*": "there is no debugger to go to",
}
"""The instructions that the simulator refuses for a reason, by their texts."""


def unsupported(instruction: Instruction, why: str = "") -> UnsupportedInstruction:
    """Return the exception that refuses an instruction: for that reason, or for one that its text tells."""
    why = why or next((why for form, why in REFUSED.items() if re.fullmatch(form, instruction.text)), "")
    what = "grid.sync()" if "%envreg" in instruction.text else instruction.text  # which reads where blocks wait
    what += f", as {why}" if why else ""
    return UnsupportedInstruction(f"line {instruction.line}: the simulator does not know: {what}")


def reject(instruction: Instruction, when: Any) -> None:
    """Raise the exception that refuses an instruction if `when` is true."""
    if when:
        raise unsupported(instruction)


LEAVES = {"bra", "bra.uni", "call", "return", "ret", "exit"}
"""The opcodes that end a basic block, beside barriers and those with the two prefixes below; "return" is ``ret`` in a
function."""
BARRIER = re.compile(
    r"bar(?:\.(warp)\.sync|(?:rier)?(?:\.cta)?\.(sync|arrive|red\.(?:popc|and|or))(?:\.aligned)?(?:\.u32|\.pred)?)"
)
EVERYONE = (Immediate(0),)
"""The operands of a barrier for the whole block."""
WAITS = "mbarrier.try_wait."
CLUSTER_WAITS = "barrier.cluster.wait"
"""Prefixes of opcodes that end a basic block because a thread may have to wait there for others."""
TESTS = "mbarrier.test_wait."
"""The prefix of those that ask and do not wait."""

MAP_BYTES = 128
TENSOR_MAP = f"b8[{MAP_BYTES}]"
"""The type of a parameter that is a tensor map."""
PARAMETER_WINDOW = 0x10_0000_0000
"""The first generic address of parameters."""

PARAMETER = re.compile(r"\.param(?:\s+\.align\s+\d+)?\s+\.(\w+)(?:\s+\.ptr\s[^,]*?\.align\s+\d+)?\s+([\w$]+)(\[\d+\])?")
SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?$")
LOCATION = re.compile(r"\.loc (\d+) (\d+) \d+(?:.* inlined_at (\d+) (\d+) \d+)?")
BOUNDS = re.compile(r"\.(?:max|req)ntid\s+([\d, ]+)")
CLUSTER = re.compile(r"\.reqnctapercluster (\d+), (\d+), (\d+)")
TENSOR = re.compile(r"(\[\s*[%\w.$]+)\s*,\s*(\{[^}]*\})\s*\]")
ADDRESS = re.compile(r"\[\s*([%\w.$]+)\s*(?:\+\s*(-?(?:0x[0-9a-fA-F]+|\d+))\s*)?\]")
DYNAMIC = re.compile(r"\.extern\s+\.shared\s+\.align\s+(\d+)\s+\.\w+\s+([\w$]+)\[\]")
STATEMENT = re.compile(r"[\s{}]*(?:[\w$]+ ?:|\.(?:loc|version|target|address_size|maxntid|file)\b[^\n]*)|[^;]+")
"""A statement: up to a semicolon, or, without one, a label or one of some directives."""
BRACES = re.compile(r"^([} ]+(?=\.)|[{} ]+(?=\.reg \.\w+ %|\.(?:param|loc)|[^{} .]))")
INSTRUCTION = re.compile(r"(?:@(!?)(%\w+) )?([a-z][\w.:]*) ?(.*)")
OPERAND = re.compile(r"(?! )(?:[^,\[{]+|\[[^\]]*\]|\{[^}]*\})+")
"""An operand: up to a comma that is not inside brackets."""
IGNORED = (
    ".version",
    ".target",
    ".address_size",
    ".maxntid",
    ".minnctapersm",
    ".pragma",
    ".file",
    ".section",
    ".call",
    ".local",
    ".param",
)  # `functions` has read the last two


def uncollected(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that creates very many lasting objects run without garbage collection."""

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
        The module.
    entry : str
        The mangled name of the kernel.
    dynamic_shared_bytes : int
        Shared memory that the launch adds to what the kernel declares: the size of its ``extern`` array.

    Raises
    ------
    ArgumentError
        The module has no such kernel.
    UnsupportedInstruction
        The simulator does not know something in it.
    """
    ptx = re.sub(r"//[^\n]*", "", ptx)
    found = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(", ptx)
    if not found:
        names = re.findall(r"\.entry\s+([\w$]+)", ptx)
        raise ArgumentError("entry", repr(entry), " or ".join(names) or "a module with an entry point")
    before, rest = ptx[: found.start()], ptx[found.end() :]
    signature, _, rest = rest.partition(")")
    parameters = {name: kind + extent for kind, name, extent in PARAMETER.findall(signature)}
    start, end = rest.index("{") + 1, closing_brace(rest)
    cluster, *others = CLUSTER.findall(rest[: rest.index("{")]) or [("1", "1", "1")]
    if others or cluster[1:] != ("1", "1"):
        raise UnsupportedInstruction(f"the simulator knows clusters of one dimension, not of {' × '.join(cluster)}")

    bounds = re.findall(r"\d+", "".join(BOUNDS.findall(rest[: rest.index("{")])))
    reader, sizes = _Reader(), {kind: dtype.itemsize for kind, dtype in DTYPES.items()}
    called = functions(ptx, rest[start:end], sizes)
    places = {name: place or len(ptx) - len(rest) + start for name, (place, _) in called.items()}
    bodies = {
        name: reader.read(called[name][1], ptx.count("\n", 0, places[name]) + 1)
        for name in dict.fromkeys(("", *called))  # the kernel first: its first location is in the kernel's own file
    }
    blocks: list[list[Instruction]] = []
    targets: dict[str, int] = {}
    entries, local = {}, {}
    for name, (_, function) in called.items():
        entries[name] = len(blocks), function
        targets |= {label: number + len(blocks) for label, number in bodies[name][1].items()}
        blocks += bodies[name][0]
        local |= function.local
    texts = [of.body for _, of in called.values()]
    for name, declaration in shared_variables(ptx, texts).items():
        if name not in reader.shared:
            reader.declare(" ".join(declaration.split()))
    shared, shared_bytes = reader.shared, reader.shared_bytes
    if dynamic := DYNAMIC.findall(before):  # one array under several names
        align = max(int(align) for align, _ in dynamic)
        start = -(-shared_bytes // align) * align
        names = [name for _, name in dynamic if used(name, texts)]
        shared |= {name: Variable(plain(name), start, dynamic_shared_bytes) for name in names}
        shared_bytes = start + dynamic_shared_bytes
    return Program(
        parameters,
        shared,
        shared_bytes,
        reader.register_types,
        blocks,
        targets,
        int(cluster[0]),
        int(np.prod([int(number) for number in bounds])) if bounds else THREADS_MAX,
        variables(ptx, texts, sizes, {name: of.address for name, (_, of) in called.items()}),
        local,
        entries,
    )


class _Reader:
    """Reads the bodies of a kernel and of the functions that it calls."""

    def __init__(self) -> None:
        self.shared: dict[str, Variable] = {}
        self.shared_bytes = 0
        self.register_types: dict[str, str] = {}
        self.home = ""  # the number of the kernel's own file: that of the first location
        self.located = False  # whether lines are those of the PTX, as the kernel has no locations

    def read(self, function: Function, start: int) -> tuple[list[list[Instruction]], dict[str, int]]:
        """Return a body's basic blocks, and the basic blocks of its labels; it starts in that line of the PTX."""
        blocks: list[list[Instruction]] = [[]]
        targets: dict[str, int] = {}
        line, body = 0, function.body
        if not self.home and not re.search(r"\.loc\s", body):
            self.located = True
        if self.located:
            body = _located(body, start)
        callers: dict[tuple[str, str], int] = {}  # the line of that file into which a header's line was last inlined
        for statement in _statements(body):
            if statement.endswith(":"):
                if blocks[-1]:
                    blocks.append([])
                targets[statement[:-1]] = len(blocks) - 1
            elif not statement.startswith("."):
                instruction = _instruction(statement, line, function.number)
                blocks[-1].append(instruction)
                if ends(instruction.opcode):
                    blocks.append([])
            elif location := LOCATION.match(statement):
                file, inner, outer_file, outer = location.groups()
                self.home = self.home or file
                if file == self.home:
                    line = int(inner) or line
                elif outer_file:  # a header's function, inlined, perhaps into another one
                    line = int(outer) if outer_file == self.home else callers.get((outer_file, outer), line)
                    callers[file, inner] = line
            elif statement.startswith(".reg"):
                _, kind, names = statement.split(maxsplit=2)
                for name in re.split(", ?", names):
                    if self.register_types.setdefault(name.partition("<")[0], kind[1:]) != kind[1:]:
                        raise UnsupportedInstruction(f"line {line}: {name} has another type before: {statement}")
            elif not (self.declare(statement) or statement.startswith(IGNORED)):
                raise UnsupportedInstruction(f"line {line}: the simulator does not know the directive: {statement}")
        if not blocks[-1]:
            blocks.pop()
        return blocks, targets

    def declare(self, statement: str) -> bool:
        """Place a variable in shared memory behind the others; return whether the statement declares one."""
        if variable := SHARED.fullmatch(statement):
            align, kind, name, count = variable.groups()
            self.shared_bytes = -(-self.shared_bytes // int(align)) * int(align)
            size = DTYPES[kind].itemsize * int(count or 1)
            self.shared[name] = Variable(plain(name), self.shared_bytes, size)
            self.shared_bytes += size
        return variable is not None


def _located(body: str, line: int) -> str:
    """Return the body with a location before each statement that starts a line: the line of the PTX itself."""
    lines, complete = [], True
    for number, text in enumerate(body.split("\n"), line):
        lines += [f".loc 1 {number} 0"] * (complete and bool(text.strip())) + [text]
        complete = text.rstrip().endswith((";", ":", "{", "}")) if text.strip() else complete
    return "\n".join(lines)


def _statements(body: str) -> Iterator[str]:
    """Split into statements, with single spaces for white space.

    Braces that inline assembly puts around instructions are removed, and around a declaration of a register whose name
    begins with %: it is set before it is used in every pair of braces. Before other declarations braces stay, and such
    a statement is refused.
    """
    for text in STATEMENT.findall(body):
        if statement := BRACES.sub("", " ".join(text.split())):
            yield statement


def _instruction(statement: str, line: int, number: int) -> Instruction:
    """Return an instruction of the function of that number."""
    match = INSTRUCTION.fullmatch(statement)
    if not match:
        raise UnsupportedInstruction(f"line {line}: the simulator cannot read: {statement}")
    negated, predicate, opcode, operands = match.groups()
    guard = (predicate, not negated) if predicate else None
    if "call" in opcode and (call := CALL.fullmatch(statement.partition(" ")[2] if predicate else statement)):
        result, name, arguments = call.groups()
        passed = tuple(Symbol(of.strip()) for of in (arguments or "").split(",") if of.strip())
        opcode = f"call.{name}" if name in BUILT_IN else "call"
        return Instruction(opcode, (_operand(name), (Symbol(result),) * bool(result), passed), guard, line, statement)
    if opcode.startswith("createpolicy."):  # one for caches, which has no effect on results: 0 stands for it
        opcode, operands = "mov.b64", operands.partition(",")[0] + ", 0"
    if opcode == "ret" and number:
        opcode = "return"
    try:
        parsed = tuple(map(_operand, OPERAND.findall(operands)))
    except ValueError:
        raise UnsupportedInstruction(f"line {line}: the simulator cannot read: {statement}") from None
    return Instruction(sys.intern(opcode), parsed, guard, line, statement)


@lru_cache(maxsize=1 << 14)
def _operand(text: str) -> Operand:
    """Parse an operand; the same text gives the same object."""
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
        return Address(None, int(base, 0)) if base[0].isdigit() else Address(_operand(base), int(offset, 0))
    if "|" in text:  # a shuffle's result, and whether it is valid
        first, _, second = text.partition("|")
        return _operand(first), _operand(second)
    if text.startswith("%"):
        return Register(text)
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}", text):
        return Immediate(int(text[2:], 16))
    if re.fullmatch(r"-?\d+\.\d*(?:[eE][-+]?\d+)?", text):
        return Immediate(float(text))
    if text == "WARP_SZ":
        return Immediate(WARP)
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
        return Immediate(int(text.rstrip("U"), 0))
    if re.fullmatch(r"[A-Za-z_$][\w$]*", text):
        return Symbol(text)
    raise ValueError(text)
