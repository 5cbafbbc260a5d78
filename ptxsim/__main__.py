"""Runs a kernel: ``python -m ptxsim run kernel.cu --grid 4,4 --block 16,16 --arg out=zeros:float32:64 --arg int32:5``.

An argument may have a name for messages, as `out` here.
"""

import argparse
import re
import sys
from pathlib import Path

import numpy as np

from .compiling import ARCHITECTURE, compile
from .errors import ArgumentError, Error, SimulationFault
from .machine import BUDGET, Run, run

ARGUMENT = (
    "zeros, ones, arange, random or empty with a type and a size: A=zeros:float32:64x64; or a number: 5 or int64:5; or "
    "null, a null pointer (structs are for ptxsim.run in Python only)"
)
MAKE = {
    "zeros": lambda size: np.zeros(size),
    "empty": lambda size: np.zeros(size),  # the simulator takes reading it for a fault
    "ones": lambda size: np.ones(size),
    "arange": lambda size: np.arange(size, dtype=np.float64),
    "random": lambda size: np.random.default_rng(0).standard_normal(size),
}
ENTRIES = re.compile(r"\.entry\s+([\w$]+)")
SHOWN = 8  # elements of an array
COLUMNS = {
    "warps": lambda of: of.instructions,
    "threads": lambda of: of.thread_instructions,
    "sectors read": lambda of: of.global_load_sectors,
    "written": lambda of: of.global_store_sectors,
    "conflicts": lambda of: of.shared_load_conflicts + of.shared_store_conflicts,
}


def argument(text: str) -> np.ndarray | np.generic | int | float | None:
    """Return the argument that a text describes."""
    try:
        kind, *parts = text.split(":")
        if text == "null":
            return None
        if not parts:
            return float(kind) if "." in kind else int(kind, 0)
        if kind in MAKE:
            dtype, extents = parts
            shape = [int(extent) for extent in extents.split("x")]
            return MAKE[kind](int(np.prod(shape, dtype=np.int64))).astype(dtype).reshape(shape)
        return np.dtype(kind).type(*(map(int, parts) if kind == "bool" else parts))
    except (TypeError, ValueError):
        raise ArgumentError("--arg", repr(text), ARGUMENT) from None


def extent(text: str) -> tuple[int, ...]:
    """Return an extent given as ``4`` or ``4,4``."""
    return tuple(map(int, text.split(",")))


def report(ran: Run, source: list[str]) -> str:
    """Return the counts by line as a table."""
    texts = {line: text.strip() for line, text in enumerate(source, 1)}
    rows = [("line", *COLUMNS, "source")] + [
        (str(line), *(f"{number(counts):,}" for number in COLUMNS.values()), texts.get(line, ""))
        for line, counts in [*ran.lines.items(), ("all", ran.total)]
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)) + f"  {row[-1]}".rstrip()
        for row in rows
    )


def main(words: list[str] | None = None) -> int:
    """Run a command; return the exit status: 1 if the kernel is at fault, 2 if it cannot be run."""
    parser = argparse.ArgumentParser("ptxsim", description="Runs CUDA kernels without a GPU, counts and checks.")
    command = parser.add_subparsers(required=True).add_parser("run", help="run a .cu or .ptx file")
    command.add_argument("file", type=Path)
    command.add_argument("--kernel", help="its name, or the instance of a template: 'scale<float>'")
    command.add_argument("--grid", type=extent, default=(1,), help="blocks along x, y and z: 4,4")
    command.add_argument("--block", type=extent, default=(32,), help="threads along x, y and z: 16,16")
    command.add_argument("--arg", action="append", default=[], help=ARGUMENT)
    command.add_argument("--shared", type=int, default=0, help="bytes of dynamic shared memory")
    command.add_argument("--budget", type=int, default=BUDGET, help="instructions that a thread may execute")
    command.add_argument("--orders", type=int, default=0, help="in how many other orders to run it, for races")
    command.add_argument("--arch", default=ARCHITECTURE, help="virtual architecture to compile for")
    options = parser.parse_args(words)
    try:
        text = options.file.read_text(encoding="utf-8")
        if options.file.suffix == ".ptx":
            ptx, entry = text, options.kernel or "".join(ENTRIES.findall(text)[:1])
        else:
            ptx, entry = compile(options.file, options.kernel, architecture=options.arch)
        texts = [of.rpartition("=") for of in options.arg]
        given = {name or f"argument {i}": of for i, (name, _, of) in enumerate(texts, 1)}
        arguments = {name: argument(of) for name, of in given.items()}
        ran = run(
            ptx,
            entry,
            options.grid,
            options.block,
            arguments,
            options.shared,
            fresh=[name for name, of in given.items() if of.startswith("empty:")],
            budget=options.budget,
            orders=options.orders,
        )
    except SimulationFault as fault:
        source = text.splitlines()
        shown = source[fault.line - 1].strip() if fault.line and fault.line <= len(source) else ""
        print(fault, *[f"    {shown}"] * bool(shown), sep="\n")
        return 1
    except (Error, OSError, UnicodeError) as error:
        print(error, file=sys.stderr)
        return 2
    print(report(ran, text.splitlines()))
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            print(f"{name}: {np.array2string(value.reshape(-1)[:SHOWN])}{' …' * (value.size > SHOWN)}")
    print(*ran.findings, "No fault found.", sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
