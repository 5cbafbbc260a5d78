"""A kernel's machine code, for any architecture and without a GPU, as nvdisasm from its pip wheel reads it.

All counts are static: how often an instruction is written, not how often it runs.
"""

import hashlib
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cuda.pathfinder import find_nvidia_binary_utility

from ptxsim.cache import cached
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.compiler import ARCHITECTURE, Binary
from sgemm_tutorial.errors import CompileError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from . import compiled

OPTIONS = ("--print-code", "--print-line-info-inline", "--no-dataflow")
"""The options of nvdisasm. Its analysis of data flow takes a quarter of its time, and the listing needs none."""


@dataclass(frozen=True)
class SassInstruction:
    """One machine instruction.

    Attributes
    ----------
    address : int
        Byte offset in the function; an instruction is 16 bytes.
    opcode : str
        With its modifiers, for example ``"LDS.128"``.
    text : str
        The whole instruction: predicate, opcode and operands.
    file, line : str and int
        Where it is written, in the kernel's source or in a header; line 0 where the compiler does not tell. What is
        written in CUDA's own headers comes from the line that calls it.
    target : int or None
        The address a branch goes to.
    """

    address: int
    opcode: str
    text: str
    file: str
    line: int
    target: int | None = None

    def __str__(self) -> str:
        return f"{self.address:04x}  {self.text}"


def sass(kernel: Kernel | str, architecture: str = ARCHITECTURE) -> list[SassInstruction]:
    """Return the kernel's machine code in order, without the padding after its end.

    Raises
    ------
    CompileError
        The source does not compile, or nvdisasm is missing or cannot read the result.
    """
    kernel = find(kernel)
    return list(disassembled(kernel.build(architecture), tuple(kernel.files)))


@lru_cache(maxsize=32)
def disassembled(binary: Binary, files: tuple[str, ...] = ()) -> tuple[SassInstruction, ...]:
    """Return a binary's machine code; lines are those of `files`. Raises what `sass` does."""
    nvdisasm = find_nvidia_binary_utility("nvdisasm")
    if nvdisasm is None:
        raise CompileError("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    key = ("nvdisasm", _digest(Path(nvdisasm)), OPTIONS, binary.cubin.decode("latin-1"))
    (listing,) = cached(key, lambda: (_listing(nvdisasm, binary),))
    code = _parse_sass(listing, binary.entry, files)
    if not code:
        raise CompileError(f"nvdisasm finds no code in {binary.kernel} for {binary.architecture}")
    return code


def _listing(nvdisasm: str, binary: Binary) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(binary.cubin)
        result = subprocess.run([nvdisasm, *OPTIONS, str(file)], capture_output=True, text=True, check=False)
    if result.returncode:
        raise CompileError(f"nvdisasm cannot read {binary.kernel} for {binary.architecture}: {result.stderr.strip()}")
    return result.stdout


@lru_cache(maxsize=1)
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


_SOURCE = re.compile(r'\s*//## File "([^"]*)", line (\d+)( inlined at)?')
_LABEL = re.compile(r"(\.L_\w+):")
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+((?:@!?\w+\s+)?([A-Z]\w*[\w.]*).*?)\s*;")


def _parse_sass(text: str, entry: str, files: tuple[str, ...]) -> tuple[SassInstruction, ...]:
    """Read nvdisasm's listing of one function, putting addresses for labels.

    Where code is inlined, the listing gives a line for each level, the innermost first; the first in one of the
    kernel's `files` is taken.
    """
    _, _, text = text.partition(f"\n.text.{entry}:\n")
    text, _, _ = text.partition("\t.section\t")
    labels: dict[str, int] = {}
    found: list[tuple[int, str, str, str, int]] = []
    file, line, deeper = "", 0, False
    for row in text.splitlines():
        if match := _SOURCE.match(row):
            if not (deeper and file in files):
                file, line = Path(match[1]).name, int(match[2])
            deeper = bool(match[3])  # the next row says from where
        elif match := _LABEL.match(row):
            labels[match[1]] = found[-1][0] + 16 if found else 0
        elif match := _INSTRUCTION.match(row):
            found.append((int(match[1], 16), match[3], match[2], file, line))

    code = []
    for address, opcode, instruction, file, line in found:
        label = re.search(r"`\((\.L_\w+)\)", instruction)
        target = labels.get(label[1]) if label else None
        if target is not None:
            instruction = instruction.replace(label[0], f"{target:#x}")
        code.append(SassInstruction(address, opcode, instruction, file, line, target))
    while code and (code[-1].opcode == "NOP" or code[-1].target == code[-1].address):
        code.pop()  # after the last EXIT: a branch to itself and NOPs, a guard that never runs
    return tuple(code)


# Opcodes by class, without modifiers, in the order in which tables show them. NVIDIA lists the opcodes
# in "CUDA Binary Utilities", chapter "Instruction Set Reference".
_CLASSES = {
    "FFMA": "FFMA FFMA32I",
    "FFMA2": "FFMA2",
    "other FP32": "FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FMNMX FMNMX3 FCHK FSWZADD",
    "FP64": "DFMA DADD DMUL",
    "FP16": "HFMA2 HADD2 HMUL2 HMNMX2",
    "conversion, special function": "MUFU I2F I2FP F2I F2F F2FP I2I I2IP FRND",
    "integer, address": "IADD IADD3 IADD32I IMAD IMAD32I LEA LOP LOP3 LOP32I SHF SHL SHR VIADD VIADDMNMX VIMNMX "
    "VIMNMX3 IABS IMNMX POPC FLO BREV BMSK SGXT PRMT IDP",
    "predicate": "ISETP FSETP DSETP HSETP2 PLOP3 PSETP P2R R2P",
    "move, select": "MOV MOV32I SEL FSEL S2R CS2R S2UR R2UR",
    "LDC": "LDC LDCU",
    "LD": "LD",
    "LDG": "LDG",
    "STG": "STG",
    "LDGSTS": "LDGSTS",
    "LDS": "LDS",
    "STS": "STS",
    "LDSM": "LDSM",
    "LDL": "LDL",
    "STL": "STL",
    "shuffle, vote": "SHFL VOTE VOTEU MATCH REDUX",
    "barrier": "BAR DEPBAR LDGDEPBAR MEMBAR ERRBAR FENCE SYNCS ARRIVES",
    "branch, control": "BRA BRX JMP EXIT RET CALL BSSY BSYNC BREAK BMOV WARPSYNC YIELD NANOSLEEP NOP",
}
_CLASS_OF = {opcode: name for name, opcodes in _CLASSES.items() for opcode in opcodes.split()}
_ORDER = list(_CLASSES)
_MULTIPLY_ADDS = {"FFMA": 1, "FFMA2": 2, "DFMA": 1, "HFMA2": 2, "HMMA": 32, "HGMMA": 512}


def sass_class(instruction: SassInstruction) -> str:
    """Return the class that an instruction is counted under; an unknown opcode is a class of its own.

    Loads and stores carry their width where it is not 32 bits: ``"LDS.128"``. Constants and copies that
    ptxas writes as arithmetic, to keep another pipe busy (``IMAD.MOV``, ``HFMA2 R2, -RZ, RZ, 0, 0``), are moves.
    """
    base, *modifiers = instruction.opcode.split(".")
    if "MOV" in modifiers or (base == "HFMA2" and ", -RZ, RZ, " in instruction.text):
        return "move, select"
    name = _CLASS_OF.get(base) or (base[0] == "U" and _CLASS_OF.get(base[1:])) or base  # U: the uniform datapath
    widths = [word for word in modifiers if word in ("U8", "S8", "U16", "S16", "64", "128", "256")]
    return f"{name}.{widths[-1]}" if widths and base[:2] in ("LD", "ST") and name != "LDC" else name


def multiply_adds(instruction: SassInstruction) -> int:
    """Return how often per thread an instruction multiplies and adds; of tensor cores' at least so often."""
    often = _MULTIPLY_ADDS.get(instruction.opcode.partition(".")[0], 0)
    return 0 if often and sass_class(instruction) == "move, select" else often


def hot_loop(code: Sequence[SassInstruction]) -> list[SassInstruction]:
    """Return the body of the innermost loop with the most multiply-adds; nothing if no loop has any.

    A loop is what lies between a backward branch and its target, if there is no way to the branch but through the
    target: what the compiler moves behind the end of a kernel branches back too. A multiply-add counts for the
    smallest loop round it.
    """
    ends: dict[int, int] = {}
    for instruction in code:
        start = instruction.target
        if start is not None and start <= instruction.address and instruction.address not in _reached(code, start):
            ends[start] = instruction.address  # the last branch back closes the loop
    weights = Counter()
    for instruction in code:
        if often := multiply_adds(instruction):
            round_it = [(end - start, start) for start, end in ends.items() if start <= instruction.address <= end]
            if round_it:
                weights[min(round_it)] += often
    if not weights:
        return []
    size, start = min(weights, key=lambda loop: (-weights[loop], loop))
    return [instruction for instruction in code if start <= instruction.address <= start + size]


def _reached(code: Sequence[SassInstruction], barred: int) -> set[int]:
    """Return the addresses that control can come to from the first instruction, but not through a barred one."""
    at = {instruction.address: instruction for instruction in code}
    reached, left = {barred}, [code[0].address]
    while left:
        address = left.pop()
        if address in at and address not in reached:
            reached.add(address)
            instruction = at[address]
            left += [instruction.target] if instruction.target is not None else []
            if instruction.opcode not in ("EXIT", "BRA") or instruction.text.startswith("@") or "," in instruction.text:
                left.append(address + 16)
    return reached - {barred}


class Operands(NamedTuple):
    """The registers of an FFMA: the one it writes, the three it reads, and which of those are marked ``.reuse``."""

    target: int
    sources: tuple[int, int, int]
    kept: tuple[bool, bool, bool]


@lru_cache(maxsize=4096)
def _ffma(text: str) -> list[Operands]:
    """Return the registers of an instruction, if it is an FFMA that reads three."""
    return [
        Operands(int(to), tuple(map(int, rest[::2])), tuple(map(bool, rest[1::2])))
        for to, *rest in re.findall(r"\AFFMA R(\d+)" + r", R(\d+)(\.reuse)?" * 3 + r"\Z", text)
    ]


def operands(code: Iterable[SassInstruction]) -> list[Operands]:
    """Return the registers of the FFMAs among some instructions, of those that read three, in order."""
    return [of for instruction in code for of in _ffma(instruction.text)]


def read_anew(sequence: Iterable[Operands]) -> list[set[int]]:
    """Return the registers that each FFMA must read: all but what the one before has kept in the same place."""
    found, kept = [], {}
    for of in sequence:
        found.append({register for place, register in enumerate(of.sources) if kept.get(place) != register})
        kept = {place: register for place, register in enumerate(of.sources) if of.kept[place]}
    return found


def sass_mix(kernel: Kernel | str, architecture: str = ARCHITECTURE) -> dict[str, dict[str, int]]:
    """Count the kernel's machine instructions by class.

    Returns
    -------
    dict
        ``"kernel"``: class to count for all of it; ``"loop"``: the same for its hot loop (`hot_loop`).
    """
    kernel = find(kernel)
    known = compiled.recorded(kernel.instance, architecture)
    if known and known.mix:
        return {part: dict(counts) for part, counts in known.mix.items()}
    return mixed(sass(kernel, architecture))


def mixed(code: Sequence[SassInstruction]) -> dict[str, dict[str, int]]:
    """Return the instructions of machine code as `sass_mix` does, whatever is recorded."""
    return {"kernel": _count(code), "loop": _count(hot_loop(code))}


def _count(code: Iterable[SassInstruction]) -> dict[str, int]:
    """Count instructions by class, in the order of `_CLASSES`, narrow before wide, unknown ones last."""

    def rank(name: str) -> tuple[int, int, str]:
        base, _, width = name.partition(".")
        digits = re.sub(r"\D", "", width)
        return _ORDER.index(base) if base in _ORDER else len(_ORDER), int(digits or 32), name

    counts = Counter(map(sass_class, code))
    return {name: counts[name] for name in sorted(counts, key=rank)}


def sass_table(kernel: Kernel | str, architecture: str = ARCHITECTURE) -> Table:
    """Return the instruction mix: a row per class, for the kernel and for its hot loop (`hot_loop`)."""
    kernel = find(kernel)
    mix = sass_mix(kernel, architecture)
    loop = {**mix["loop"], "all": sum(mix["loop"].values())}
    kernel_counts = {**mix["kernel"], "all": sum(mix["kernel"].values())}
    ffmas = loop.get("FFMA", 0)
    rows = [
        (name, count, loop.get(name), f"{loop[name] / ffmas:.2f}" if ffmas and name in loop else None)
        for name, count in kernel_counts.items()
    ]
    known = compiled.recorded(kernel.instance, architecture)
    note = known.note if known else None
    return Table(
        ("Instructions", "Whole kernel", "Hot loop", "Per FFMA of the loop"),
        rows,
        title=f"{kernel.name} for {architecture}: machine instructions by class",
        note=placed(sass(kernel, architecture)) if note is None else note,
    )


def placed(code: Sequence[SassInstruction]) -> str:
    """Return in a sentence where the hot loop of machine code is; nothing if it has none."""
    lines = Counter((of.line, of.file) for of in hot_loop(code) if multiply_adds(of)).most_common(1)
    return "The hot loop is the one round line {} of {}.".format(*lines[0][0]) if lines else ""
