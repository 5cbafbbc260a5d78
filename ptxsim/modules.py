"""Reads a PTX module's declarations beside its kernels: variables in global and constant memory, and functions.

Each variable has an address of its own from the start, as one variable's initial value may be the address of another.
Semantics: NVIDIA, "Parallel Thread Execution ISA", "State Spaces, Types, and Variables" and ".func".
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from .errors import UnsupportedInstruction

VARIABLES = 1 << 50
"""The address of a module's first variable, far above those of the kernel's arguments."""
APART = 1 << 40
"""The distance between variables."""
CODE = 1 << 48
"""The address of a module's functions, below those of variables. Nothing can be read there."""
FRAME = 16
"""Each function's variables in local memory begin at a multiple of this."""

VARIABLE = re.compile(
    r"(?m)^[ \t]*((?:\.(?:visible|extern|weak|common)\s+)*)\.(const|global)\s+"
    r"(?:\.attribute\(\.managed\)\s+)?(?:\.align\s+\d+\s+)?"
    r"(\.\w+)\s+([\w$]+)((?:\[\d*\])*)\s*(?:=\s*([^;]+))?;"
)
SHARED = re.compile(r"(?m)^[ \t]*(?:\.(?:visible|weak)\s+)*(\.shared\s+\.align\s+\d+\s+\.\w+\s+([\w$]+)(?:\[\d+\])?);")
FUNCTION = re.compile(r"\.func\s+(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?[\s.\w]*(?=\{)")
LOCAL = re.compile(r"\.(?:local|param)\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?")
CALL = re.compile(
    r"call(?:\.uni)?\s+(?:\(\s*([\w$]+)\s*\)\s*,\s*)?(%?[\w$]+)\s*(?:,\s*\(([^)]*)\)\s*)?(?:,\s*[\w$]+\s*)?"
)
"""A call: its result, the function or the register that holds its address, arguments, and a prototype."""
DECLARED = re.compile(r"\.reg\s+\.\w+\s+%(\w+)")
SCOPE = re.compile(r"\{(?=\s*(?:\.loc[^\n]*\s*)?\.reg\s)")
PASSED = re.compile(r"\b((?:func_)?(?:param|retval)\d+)\b")
BUILT_IN = ("vprintf", "__assertfail", "free")
"""The functions that the simulator has itself."""


@dataclass(frozen=True)
class Variable:
    """An array in shared or local memory: its name in the source, its offset and size in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class ModuleVariable:
    """A variable in global or constant memory: its name in the source, its address and its first bytes."""

    name: str
    address: int
    data: bytes


@dataclass(frozen=True)
class Function:
    """A function that is called.

    Attributes
    ----------
    number : int
        Its place in the order in which functions are read: each after those that it calls, the kernel as number 0.
    body : str
        Its text, with names that no other function has.
    results, parameters : tuple of str
        The names of its variables for them.
    local : dict of str to Variable
        Its variables in local memory, with their places in its frame.
    recursive : bool
        Whether it may call itself, perhaps by way of others.
    """

    number: int
    body: str
    results: tuple[str, ...]
    parameters: tuple[str, ...]
    local: dict[str, Variable]
    recursive: bool

    @property
    def frame(self) -> int:
        """Bytes of local memory that its variables take."""
        return sum(variable.size for variable in self.local.values())

    @property
    def address(self) -> int:
        """The value of a pointer to it."""
        return CODE + FRAME * self.number


def variables(ptx: str, bodies: list[str], sizes: dict[str, int], known: dict[str, int]) -> dict[str, ModuleVariable]:
    """Return the variables that functions of these bodies use, by their names.

    `sizes` are those of PTX's types, and `known` the addresses of functions.

    Raises
    ------
    UnsupportedInstruction
        A variable is defined elsewhere, or its initial value is of a kind that the simulator does not know.
    """
    found = {match[4]: match for match in VARIABLE.finditer(ptx)}
    addresses = known | {name: VARIABLES + i * APART for i, name in enumerate(found)}
    made = {}
    todo = [name for name in found if used(name, bodies)]
    while todo:
        name = todo.pop()
        linkage, _, kind, _, extents, value = found[name].groups()
        itemsize = sizes[kind[1:]]
        count = int(np.prod([int(extent or 0) for extent in re.findall(r"\[(\d*)\]", extents)], dtype=np.int64))
        if "extern" in linkage:
            raise UnsupportedInstruction(f"the simulator has no value of the variable {name}, defined elsewhere")
        data, words = b"", [word.strip(" {}\n\t") for word in (value or "").split(",") if value]
        for word in words:
            pointer = re.fullmatch(r"(?:generic\(([\w$]+)\)|([A-Za-z_$][\w$]*))(?:\s*\+\s*(\d+))?", word)
            if pointer and (of := pointer[1] or pointer[2]) in addresses:
                number = addresses[of] + int(pointer[3] or 0)
                todo += [of] * (of in found and of not in made and of != name)
            elif re.fullmatch(r"-?(?:0[xX][\da-fA-F]+|\d+)U?|0[fFdD][\da-fA-F]+", word):
                number = int(word[2:], 16) if word[1:2] in tuple("fFdD") else int(word.rstrip("U"), 0)
            else:
                raise UnsupportedInstruction(f"the simulator does not know the initial value {word} of {name}")
            data += (number % (1 << 8 * itemsize)).to_bytes(itemsize, "little")
        made[name] = ModuleVariable(plain(name), addresses[name], data.ljust(itemsize * count, b"\0"))
    return made


def shared_variables(ptx: str, bodies: list[str]) -> dict[str, str]:
    """Return the declarations of variables in shared memory that functions of these bodies use, by their names.

    A variable that belongs to a function used twice, or by two kernels, stands beside the kernels. Of those that stand
    in a kernel, a body uses only its own.
    """
    return {name: text for text, name in SHARED.findall(ptx) if used(name, bodies)}


def used(name: str, bodies: list[str]) -> bool:
    """Whether a function of these bodies uses a name."""
    return any(name in body and re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", body) for body in bodies)


def plain(name: str) -> str:
    """Return the name in the source of a variable or a kernel: w for ``_ZL1w`` or ``_ZN4here1wE``."""
    if match := re.search(r"^_ZZ\w*?E(\d+)([A-Za-z_]\w*?)(?:_(?:\$_)?\d+)?$", name):
        return match[2][: int(match[1])]
    nested, rest = name.startswith("_ZN"), re.sub("^_ZN?", "", name) if name.startswith("_Z") else ""
    found = name
    while match := re.match(r"L?(\d+)", rest):
        end = match.end() + int(match[1])
        found, rest = rest[match.end() : end], rest[end:] if nested else ""  # what follows may be a parameter's type
    return found


def functions(ptx: str, kernel: str, sizes: dict[str, int]) -> dict[str, tuple[int, Function]]:
    """Return the functions that a kernel calls, each after those it calls, with the place of its text in the module.

    The kernel is the last, by the name "". What calls by a pointer may call every function whose address is taken.
    """
    found = {match[2]: match for match in FUNCTION.finditer(ptx)} if "call" in kernel else {}
    bodies = {name: ptx[match.end() + 1 : closing_brace(ptx, match.end())] for name, match in found.items()}
    bodies[""] = kernel
    elsewhere = CALL.sub("", ptx) if ".call" in ptx else ""  # a prototype, or a list of functions to call
    taken = {name for name in found if re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$]|\s*\()", elsewhere)}
    calls = {
        name: {match[2] for match in CALL.finditer(body)} & bodies.keys() | (taken if ".call" in body else set())
        for name, body in bodies.items()
    }
    order: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        for other in sorted(calls[name] - {*above, name, *order}):
            visit(other, (*above, name))
        order.extend([name] * (name not in order))

    visit("", ())
    made = {}
    for number, name in enumerate(order, 1):
        results, parameters = ("", "") if not name else (found[name][1] or "", found[name][3] or "")
        number = number if name else 0
        texts = [_own(text, number) for text in (results, parameters, bodies[name])]
        local = _local_variables("".join(texts), sizes)
        names = (tuple(match[2] for match in LOCAL.finditer(text)) for text in texts[:2])
        place = found[name].end() + 1 if name else 0
        made[name] = place, Function(number, texts[2], *names, local, name in _reached(calls, name))
    return made


def _local_variables(text: str, sizes: dict[str, int]) -> dict[str, Variable]:
    """Return a function's variables in local memory; one that is declared several times is as large as any of them."""
    largest: dict[str, int] = {}
    for kind, name, count in LOCAL.findall(text):
        size = -(-sizes.get(kind, 0) * int(count or 1) // FRAME) * FRAME
        largest[name] = max(size, largest.get(name, 0))
    offsets = accumulate(largest.values(), initial=0)
    return {name: Variable(name, offset, size) for (name, size), offset in zip(largest.items(), offsets, strict=False)}


def closing_brace(text: str, start: int = 0) -> int:
    """Return the place of the brace that closes the first one from a place on."""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    raise UnsupportedInstruction("the PTX ends inside a function")


def _own(text: str, number: int) -> str:
    """Return a function's text with names for its registers and for what it passes that no other function has."""
    text = _scoped(re.sub(r"\.reg(?=\.)", ".reg ", text.replace(".reg .b32 temp_param_reg;", "")), number)
    if not number:
        return text
    names = "|".join(sorted(set(DECLARED.findall(text)), key=len, reverse=True)) or "%"
    return PASSED.sub(rf"\1${number}", re.sub(rf"%({names})(?=\d*\b|<)", rf"%k{number}_\1", text))


def _scoped(text: str, number: int) -> str:
    """Return a function's text with names of their own for what is declared within braces, as inline assembly does.

    Names such as %temp stay: they are set before they are used in every pair of braces.
    """
    for scope in reversed([*SCOPE.finditer(text)]):  # one within another comes first
        start, end = scope.start(), closing_brace(text, scope.start())
        part = text[start:end]
        declared = [name.strip() for names in re.findall(r"\.reg\s+\.\w+\s([^;]*)", part) for name in names.split(",")]
        labels = re.findall(r"(?m)(?:^|[;{}])\s*([A-Za-z_$][\w$]*):(?!:)", part)
        if labels or len(declared) > 1 or not re.fullmatch(r"%[A-Za-z_]+", declared[0]):
            if any("<" in name for name in declared):
                raise UnsupportedInstruction(f"the simulator does not know this scope: {' '.join(part.split())[:60]}")
            for name in {*declared, *labels}:
                new = f"$scope{number}_{start}_{name}" if name in labels else f"%s{number}_{start}_{name.strip('%')}_"
                part = re.sub(rf"(?<![\w$.%]){re.escape(name)}(?![\w$])", lambda _, new=new: new, part)
            text = text[:start] + part + text[end:]
    return text


def _reached(calls: dict[str, set[str]], start: str) -> set[str]:
    """Return the functions that one calls, itself or by way of others."""
    reached: set[str] = set()
    todo: Iterable[str] = [start]
    while todo:
        todo = set().union(*(calls[name] for name in todo)) - reached
        reached |= todo
    return reached
