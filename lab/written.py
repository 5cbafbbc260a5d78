"""Kernels that keep no contract: launched by the rule that their author gives, with his arguments in his order."""

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxsim.compiling import prepared
from ptxsim.cuda_source import evaluate, extents
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.launch import Division, Family, Place
from sgemm_tutorial.operands import Problem

from .host_code import unpacked

SCALARS = {
    "int": np.int32,
    "unsigned": np.uint32,
    "size_t": np.uint64,
    "long long": np.int64,
    "short": np.int16,
    "bool": np.bool_,
    "char": np.int8,
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
}
"""NumPy's types of what is passed by value."""
ROLES = ("A", "B", "C", "M", "N", "K", "alpha", "beta", "lda", "ldb", "ldc")
WIDEST = 512  # rows or columns of a tile, where its size is looked for
UNTILED = 64  # rows or columns to test with where the grid does not depend on them


@dataclass(frozen=True)
class Rule:
    """A kernel's launch, in the words of its author.

    Attributes
    ----------
    grid, block : str
        Up to three numbers of blocks and threads: ``"(cdiv(N, 16), cdiv(M, 16))"``.
    arguments : tuple of str
        What each argument is: one of `ROLES`, or a number.
    types : tuple of str
        Of the arguments.
    shared : str
        Bytes of dynamic shared memory.
    column_major : bool
        Whether the matrices lie column by column. Then the kernel is given Bᵀ and Aᵀ, which lie in memory as B and A
        do row by row, and computes Cᵀ.
    transposed : str
        ``"A"``, ``"B"`` or ``"A B"``: these matrices of the kernel lie transposed. It is then given a copy that does,
        so that row by row B has N rows of K elements.
    multiples : tuple of int
        M, N and K have to be multiples of these.
    square : bool
        Whether M, N and K have to be equal.
    strict : bool
        Whether BLAS's rules hold: β = 0 never reads C, and α = 0 or K = 0 never read A and B. Otherwise C holds zeros
        where β = 0.
    names : dict of str to str
        Macros and constants of the source.
    """

    grid: str
    block: str
    arguments: tuple[str, ...]
    types: tuple[str, ...]
    shared: str = "0"
    column_major: bool = False
    transposed: str = ""
    multiples: tuple[int, int, int] = (1, 1, 1)
    square: bool = False
    strict: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [f"grid = {self.grid}", f"block = {self.block}", f"arguments = {' '.join(self.arguments)}"]
        said += [f"shared = {self.shared}"] * (self.shared != "0") + ["layout = column-major"] * self.column_major
        said += [f"transposed = {self.transposed}"] * bool(self.transposed)
        said += [f"multiples = {self.multiples}"] * (self.multiples != (1, 1, 1)) + ["sizes = square"] * self.square
        return ", ".join(said + ["rules = BLAS"] * self.strict)


def in_place(text: str, names: Mapping[str, str]) -> str:
    """Return a text in which M, N and K are what they are called in `names`, if they are there."""
    return re.sub(r"\b[MNK]\b", lambda of: names.get(of[0], of[0]), text)


def exchanged(rule: Rule, one: str, other: str) -> Rule:
    """Return a rule in which two sizes have exchanged their roles."""
    to = {one: other, other: one}
    fields = {name: in_place(getattr(rule, name), to) for name in ("grid", "block", "shared")}
    names = {name: in_place(text, to) for name, text in rule.names.items()}
    return dataclasses.replace(
        rule, arguments=tuple(to.get(role, role) for role in rule.arguments), names=names, **fields
    )


class Written(Family):
    """A kernel with a rule of its own.

    Parameters
    ----------
    rule : Rule
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__()
        self.rule = rule
        self.zeroed = not rule.strict

    def block(self, of: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the threads of a block along x, y and z."""
        return extents(self.rule.block, {**self.rule.names, **of})

    def shared_bytes(self, of: Mapping[str, Any]) -> int:
        """Return the bytes of shared memory that a launch adds to what the source declares."""
        return evaluate(self.rule.shared, {**self.rule.names, **of})

    def prepared(self, files: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """Return the source without host code, its kernel with arguments of its own for what structs hold."""
        (name, text), *headers = files
        return prepared(((name, unpacked(text)), *headers))

    def grid(self, of: Mapping[str, Any], M: int, N: int, K: int) -> tuple[int, ...]:
        """Return the blocks of a launch along x, y and z."""
        if self.rule.column_major:
            M, N = N, M
        return extents(self.rule.grid, {**self.rule.names, **of, "M": M, "N": N, "K": K})

    def divide(self, kernel: Any, problem: Problem, place: Place) -> Division:
        """Return the grid as the rule has it."""
        grid = self.grid(kernel.parameters, *problem.shape)
        return Division(math.prod(grid) if problem.M and problem.N else 0, grid=grid)

    def tile(self, of: Mapping[str, Any]) -> tuple[int, int]:
        """Return the rows and columns of C that a block has: as many as need no more blocks than one element does."""
        first = self.grid(of, 1, 1, 1)
        one = math.prod(first)
        if self.rule.square:
            grids = [self.grid(of, n, n, n) for n in range(1, WIDEST + 1)]
            sides = [sum(grid[axis] <= blocks for grid in grids) for axis, blocks in enumerate(first)]
            return (max((side for side in sides if side < WIDEST), default=UNTILED),) * 2

        def most(rows: bool, columns: bool) -> int:
            sides = ((n if rows else 1, n if columns else 1, 1) for n in range(WIDEST, 0, -1))
            found = next((max(size) for size in sides if math.prod(self.grid(of, *size)) <= one), 1)
            return UNTILED if found == WIDEST else found

        return most(True, False), most(False, True)

    def arguments_of(self, problem: Problem) -> dict[str, Any]:
        """Return the kernel's arguments in its order, matrices by their roles.

        Raises
        ------
        ArgumentError
            The kernel takes no such α, β or sizes.
        """
        rule, sizes = self.rule, {"M": problem.M, "N": problem.N, "K": problem.K}
        for name, fixed in (("alpha", 1), ("beta", 0)):
            value = getattr(problem, name)
            if name not in rule.arguments and value != fixed:
                raise ArgumentError(name, f"{value:g}", f"{fixed}: the kernel takes no {name}")
        for (name, size), multiple in zip(sizes.items(), rule.multiples, strict=True):
            if size % multiple or (rule.square and size != problem.M):
                needs = f"a multiple of {multiple}" * (multiple > 1) or f"M = {problem.M}, as matrices are square"
                raise ArgumentError(name, str(size), f"{needs}: the kernel takes no other sizes")
        A, B, M, N, K = problem.A, problem.B, problem.M, problem.N, problem.K
        if rule.column_major:
            A, B, M, N = B, A, N, M
        values = {"A": A, "B": B, "C": problem.C, "M": M, "N": N, "K": K, "ldc": M if rule.column_major else N}
        values |= {
            "alpha": problem.alpha,
            "beta": problem.beta,
            **{of: float(of) for of in {*rule.arguments} - {*ROLES}},
        }
        for name, sides in {"A": (M, K), "B": (K, N)}.items():
            turned = name in rule.transposed
            values |= {name: values[name].T.copy()} if turned else {}
            values[f"ld{name.lower()}"] = sides[turned == rule.column_major]
        values |= {
            role: np.full_like(problem.C, values[role], SCALARS.get(kind[:-1], type(problem.alpha)), shape=1)
            for role, kind in zip(rule.arguments, rule.types, strict=True)
            if role in ("alpha", "beta") and kind.endswith("*")
        }
        return {
            role if kind.endswith("*") else f"argument {number}": values[role]
            if kind.endswith("*")
            else SCALARS.get(kind, type(problem.alpha))(values[role])
            for number, (role, kind) in enumerate(zip(rule.arguments, rule.types, strict=True), 1)
        }

    def claimed(self, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return cases of the suite as the kernel claims to handle them; those that it doesn't are left out."""
        rule, found = self.rule, []
        for case in cases:
            case = dict(case)
            if not rule.strict and (case.get("last_tile") or case["alpha"] == 0 or not np.isfinite(case["alpha"])):
                continue
            if case.get("last_tile") and re.search(r"[MN]\s*\*\s*[MN]", rule.grid):  # no block has a tile
                continue
            if any(np.ravel(case.get("shift", 0))) and not rule.strict:
                continue
            if case["K"] == 0 and rule.multiples[2] > 1 and not rule.strict:  # a multiple that nobody calls
                continue
            case["alpha"] = case["alpha"] if "alpha" in rule.arguments else 1.0
            case["beta"] = case["beta"] if "beta" in rule.arguments else 0.0
            for name, multiple in zip("MNK", rule.multiples, strict=True):
                case[name] = -(-case[name] // multiple) * multiple
            if rule.square:
                if max(case[name] for name in "MNK") > 4 * max(32, *rule.multiples):
                    continue
                case |= dict.fromkeys("MNK", max(case[name] for name in "MNK"))
            found.append(case)
        return found
