"""Kernels of readers who keep no contract: their launch is said in the file, in its host code or by the caller."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxsim.cuda_source import (
    Declared,
    HostLaunch,
    Signature,
    assigned,
    blanked,
    constants,
    evaluate,
    extents,
    parts,
    signatures,
    spaces,
)
from sgemm_tutorial import own
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.operands import BF16, FP16, FP32, IN_CUDA, SPLIT, named_in_cuda, sized

from . import host_code
from .correctness import HALF_SUMS, SHORT_PRODUCTS
from .written import ROLES, SCALARS, Rule, Written, in_place

LAUNCH = """\
a matrix product in another style, as it is: say its launch in a comment before the kernel.

    // launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16), arguments = A B C M N K

  Or with --launch "grid = ..., block = ...". A launch in the file's own host code counts too.

    grid, block   Up to three numbers each, along x, y and z: whole-number arithmetic with M, N, K,
                  template parameters, macros and constants, cdiv (divides and rounds up), min, max.
    arguments     What each argument is, in its order: A B C M N K alpha beta lda ldb ldc, or a
                  number. Left out, names and types tell. Without alpha it is 1, without beta 0.
    shared        Bytes of dynamic shared memory.
    layout        column-major, if matrices lie so.
    transposed    B, if the product is A times the transpose of a B with N rows; A, or A B, likewise:
                  which of the kernel's own matrices do not lie as `layout` has it.
    sizes         square, if it takes no other matrices.
    multiples     (64, 64, 8), if M, N and K must be multiples of these.
    rules         BLAS, if beta = 0 never reads C, and alpha = 0 and K = 0 never read A and B.
    kernel        Its name, where several of the file may be a product.
    NAME          The value of the template parameter of that name.
"""
"""The styles, for the command line."""

SIZES = ("M", "N", "K")
AS_IT_IS = "which cannot be checked as it is"
BLOCK, THREAD = r"blockIdx|group_index\s*\(\s*\)", r"threadIdx|thread_index\s*\(\s*\)"
"""The names that CUDA C++ and cooperative groups have for the place of a block and of a thread."""
_MEANT_SO = re.compile(r"(?://|/\*)[ \t*]*\w+[ \t]*:?[^\n]*\b(?:grid\s*=[^\n]*\bblock|block\s*=[^\n]*\bgrid)\s*=")
"""A comment that may be meant to say a launch."""
_KEYS = ("grid", "block", "arguments", "shared", "layout", "transposed", "sizes", "multiples", "rules", "kernel")
_NEXT_KEY = rf"(?=[ \t]*(?:{'|'.join(_KEYS)})[ \t]*=)"
_HEADER = re.compile(
    rf"//[ \t]*launch[ \t]*:((?:.*(?:[-,(+*/=][ \t]*\n[ \t]*//(?![ \t]*launch[ \t]*:)|\n[ \t]*//{_NEXT_KEY}))*.*)"
    r"|/\*[\s*]*launch[ \t]*:((?:[^*]|\*(?!/))*)\*/",
    re.IGNORECASE,
)
"""A comment that says a launch; the next line is part of it after a comma or an operator, or if a key begins it."""
_MEANT = {name.lower(): name for name in ROLES} | {
    name: role
    for role, names in {
        "M": "height rows ha rowsa arows numarows crows numcrows heighta aheight",
        "N": "width cols wb colsb bcols numbcolumns ccols numccolumns widthb bwidth",
        "K": "inner wa hb colsa acols numacolumns brows rowsb numbrows widtha awidth heightb bheight",
    }.items()
    for name in names.split()
}
_FACTORS = {"alpha": "alpha", "beta": "beta", "a": "alpha", "b": "beta"}
"""The role of a pointer or whole number by its name, in small letters and without underscores, and of other numbers."""

_OF_VECTORS = {
    vector: element
    for element, vectors in {
        "float": "float2 float4",
        "double": "double2",
        "half": "half2 __half2",
        "__nv_bfloat16": "__nv_bfloat162 nv_bfloat162",
    }.items()
    for vector in vectors.split()
}
"""The types of the elements of vectors to which a kernel takes pointers."""
_SUMS_IN_HALF = {
    1: re.compile(
        r"\b(?:__)?half2?\s+(\w+)\b[^;]*;.*\b\1\s*(?:\[[^;=]*\]\s*)*(?:\+=|=\s*__h(?:add|fma)2?\s*\([^;]*\b\1\b)",
        re.DOTALL,
    ),
    4: re.compile(r"\baccumulator\s*,[^<>;]*\b(__)?half\s*>|\bmma\.[\w.]*(\.f16){4}\b|\bmma_async\.[\w.]*(\.f16){3}\b"),
}
"""Patterns of sources whose sums are of float16, by the number of products that are added to one rounding."""
_HAS_16_BITS = r"(?:__)?half2?|(?:__)?nv_bfloat162?"
_NAME = re.compile(r"(?:[\s*]|\b(?:const|__restrict__|__restrict)\b)*(\w+)\s*(?:[=\[({)].*)?", re.DOTALL)
"""The name that is declared behind a type."""


@dataclass(frozen=True)
class Reading:
    """A kernel and its launch, as a file and a caller describe them.

    Attributes
    ----------
    path : Path
    signature : Signature
    values : dict of str to int or str
        Template arguments.
    said : dict of str to str
        Of the launch, by the keys of `LAUNCH`.
    names : dict of str to str
        Macros and constants.
    passed : dict of str to str
        Numbers that the host code passes, and the roles of what it passes by usual names, by the arguments' names.
    text : str
        Of the file, without comments.
    by_host : frozenset of str
        Keys of the launch that the host code alone says.
    host : str
        Which of the host code's launches is taken, in words; empty if none is.
    doubts : tuple of str
        What seems wrong with it, a line each.
    """

    path: Path
    signature: Signature
    values: dict[str, int | str]
    said: dict[str, str]
    names: dict[str, str]
    passed: dict[str, str]
    text: str
    by_host: frozenset[str]
    host: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def keeps_contract(self) -> bool:
        """Whether the launch follows from template parameters."""
        kinds = [one.type for one in self.signature.arguments]
        result, element = (kinds[3], kinds[4].rstrip("*")) if len(kinds) >= 8 else ("", "")
        asked = [*["int"] * 3, result, f"{element}*", f"{element}*", result]
        written = kinds[7:8] in ([f"{result}*"], ["Result*"])
        return (
            kinds[:7] == asked
            and written
            and {"BM", "BN"} <= self.values.keys()
            and not self.deep
            and self.said.keys() <= {"rules"}
        )

    @property
    def deep(self) -> bool:
        """Whether the grid or a block has more than one dimension."""
        return bool(re.search(rf"\b(?:{BLOCK}|{THREAD})\s*\.\s*[yz]\b", self.code))

    @property
    def strided(self) -> bool:
        """Whether a loop goes on by as much as the grid is large, so that a grid of any size should do."""
        return bool(re.search(r"(?s)\+=[^;]*\bgridDim\b|\b(\w+)\s*=[^;]*\bgridDim\b[^;]*;.*\+=\s*\1\b", self.code))

    @property
    def code(self) -> str:
        """The kernel's body, and what its macros stand for; indices that a variable holds go by their own names."""
        text = " ".join(
            (self.signature.body, *(text for name, text in self.names.items() if name in self.signature.body))
        )
        for name, of in re.findall(rf"\b(\w+)\s*=\s*(?:\w+\s*\.\s*)?({BLOCK}|{THREAD})\s*[,;]", text):
            text = re.sub(rf"\b{name}\s*\.", f"{of}.", text)
        return text


def read(path: str | Path, launch: str, parameters: dict[str, int | str]) -> Reading:
    """Return a kernel and its launch, as a file and a caller describe them.

    Raises
    ------
    ArgumentError
        As `kernel_from` does, but for a launch that is not said.
    """
    path = Path(path)
    text = host_code.unpacked(host_code.read(own.read(path)))
    found = signatures(text)
    headers = _headers(text, found)
    named = re.search(r"\bkernel\s*=\s*(\w+)", " ".join((launch, *headers.values())))
    products = [one for one in found if sum(of.type.endswith("*") for of in one.arguments) >= 3]
    told = headers or {one: "" for one in products if host_code.launches(text, one.name)} or products
    signature = _the_kernel(path.name, text, found, named[1] if named else "", told)
    declared = [one.name for one in signature.template or ()]
    said = _said(path.name, headers.get(signature, ""), declared) | _said("launch", launch, declared)
    names, passed, by_host = constants(text), {}, {"grid", "block"} - said.keys()
    listed = sorted(host_code.launches(text, signature.name), key=lambda of: of[0].template.count("true"))
    host, line = listed[0] if listed else (None, 0)
    taken, doubts = "", ()
    local = {name: value for name, value in assigned(signature.body).items() if name.isupper()}
    names = {name: value for name, value in local.items() if _is_number(value, local | names)} | names
    if host:
        names |= {name: value for name, value in host.names.items() if name not in declared}
        said = _of_host(host, signature) | said
        said = {
            one.name: of
            for one, of in zip(signature.template or (), host.template, strict=False)
            if (of not in declared if one.type == "typename" else one.default or _is_number(of, host.names | names))
        } | said
        called = [*zip(signature.arguments, host.arguments, strict=False)]
        taken = f"line {line} of {path.name}" + f", one of {len(listed)}," * (len(listed) > 1)
        doubts = _doubts(line, called)
        fixed = {name: value for name, value in names.items() if name.isupper()}
        passed = {
            one.name: str(evaluate(text, fixed)) if _is_number(text, fixed) else _MEANT.get(_plain(text), "?")
            for one, text in called
        }
        roles = (
            said["arguments"].split() if "arguments" in said else [_MEANT.get(_plain(one.name)) for one, _ in called]
        )
        sizes = zip((text for _, text in called), roles, strict=False)
        renamed = {text: role for text, role in sizes if role in SIZES and text.isidentifier()}
        said = {key: in_place(of, renamed) if key in by_host else of for key, of in said.items()}
        names = {name: in_place(of, renamed) for name, of in names.items()} | renamed
    values = _values(path.name, signature, parameters, said, (host.names if host else {}) | names)
    said = {key: text for key, text in said.items() if key in _KEYS}
    names = {name: value for name, value in names.items() if name not in SIZES}  # those of one product in host code
    declared = [part for one in re.findall(r"\b__constant__\b([^;]*);", blanked(text)) for part in parts(one)]
    unset = [re.sub(r"\[.*", "", part).split()[-1] for part in declared if "=" not in part]
    if used := [name for name in unset if re.search(rf"\b{name}\b", signature.body)]:
        doubts = (
            *doubts,
            f"{', '.join(used)}: 0 here, as __constant__, and the file itself gives no value. "
            "Make it an argument of the kernel.",
        )
    pointers = _matrices(signature)
    written_to = "|".join(one.name for one in pointers if not one.constant) or "C"
    added = re.search(rf"\b({written_to})\s*\[[^;=]*\]\s*\+=|\batomicAdd\s*\([^;]*?\b({written_to})\b", signature.body)
    if added and "beta" not in {_FACTORS.get(_plain(one.name)) for one in signature.arguments if one not in pointers}:
        holds = f"It adds to what {added[1] or added[2]} holds: that must be zeros before each launch, as here."
        doubts = (*doubts, holds)
    for meant in _MEANT_SO.finditer(_HEADER.sub(spaces, text)):
        line = text[: meant.start()].count("\n") + 1
        doubts = (*doubts, f"The comment in line {line} is not read, as it does not begin with // launch:")
    return Reading(
        path,
        signature,
        values,
        said,
        names,
        passed,
        blanked(text, strings=False),
        frozenset(by_host if host else ()),
        taken,
        doubts,
    )


def written(reading: Reading, said: dict[str, str]) -> Kernel:
    """Return the kernel of a file with a launch of its own, whose grid and block are said.

    Raises
    ------
    ArgumentError
        The launch can't be read, or the role of an argument is not plain.
    """
    roles, square = _roles(reading, said.get("arguments", ""))
    for key, most in (
        ("layout", ("row-major", "column-major")),
        ("sizes", ("any", "square")),
        ("rules", ("BLAS",)),
        ("transposed", ("A", "B", "A B")),
    ):
        if said.get(key, most[0]) not in most:
            raise ArgumentError(key, said[key], " or ".join(most))
    multiples = extents(said.get("multiples", "1"), reading.names | reading.values)
    if min(multiples) < 1:
        raise ArgumentError("multiples", said["multiples"], "numbers of at least 1")
    theirs = {one.name: role for one, role in zip(reading.signature.arguments, roles, strict=True) if role in SIZES}
    rule = Rule(
        said["grid"],
        said["block"],
        roles,
        tuple(one.type for one in reading.signature.arguments),
        said.get("shared", "0"),
        column_major=said.get("layout") == "column-major",
        transposed=said.get("transposed", ""),
        multiples=(multiples * 3)[:3],
        square=square or said.get("sizes") == "square",
        strict="rules" in said,
        names=reading.names | {name: role for name, role in theirs.items() if name not in SIZES},
    )
    family = Written(rule)
    family.grid(reading.values, 1, 1, 1), family.block(reading.values)  # they are numbers, or this says why not
    if family.shared_bytes(reading.values) < 0:
        raise ArgumentError("shared", said["shared"], "a number of bytes, 0 or more")
    return _kernel(reading, roles, family=family, label=str(rule))  # recordings tell launches apart


def _kernel(reading: Reading, roles: Sequence[str], **fields: Any) -> Kernel:
    """Return the kernel of a file, with the types that its arguments tell."""
    kinds = dict(zip(roles, (one.type.removesuffix("*") for one in reading.signature.arguments), strict=True))
    kinds = {role: _OF_VECTORS.get(kind, kind) for role, kind in kinds.items()}
    known = IN_CUDA | {of: named_in_cuda(reading.values["T"]) for of in [_typename(reading.signature)] if of}
    types = known.get(kinds["A"])
    if types in (FP16, BF16):
        types = sized(types, 16 if kinds["C"] == kinds["A"] else 32)
        found = [
            many for many, sums in _SUMS_IN_HALF.items() if types.operand == FP16.operand and sums.search(reading.text)
        ]
        types = HALF_SUMS[types, found[0]] if found else SHORT_PRODUCTS[types] if _multiplies_short(reading) else types
    if types is None or kinds["B"] != kinds["A"] or known.get(kinds["C"], FP16).operand != types.result:
        got = "A of {A}, B of {B} and C of {C}".format(**kinds)
        needs = "all of float, double, half or __nv_bfloat16, or A and B of the last two and C of float"
        raise ArgumentError(reading.path.name, got, needs)
    fields = {"types": SPLIT if types == FP32 and own.splits(reading.text) else types} | fields
    return Kernel(
        reading.path.stem,
        "",
        reading.values,
        folder=reading.path.resolve().parent,
        entry=reading.signature.name,
        **fields,
    )


def _multiplies_short(reading: Reading) -> bool:
    """Whether products have the type of their factors of 16 bits: those of ``__hmul``, and of factors as they are."""
    types = [_HAS_16_BITS, *([_typename(reading.signature)] if reading.values.get("T", "float") != "float" else [])]
    declared = [
        part for one in re.findall(rf"\b(?:{'|'.join(types)})\b(?=([^;{{}}]*))", reading.text) for part in parts(one)
    ]
    names = "|".join({found[1] for found in map(_NAME.fullmatch, declared) if found})
    factor = rf"\b(?:{names})\b(?:\s*\[[^][]*\])*(?:\.[xy]\b)?"
    by_sign = rf"[^*/\s)]\s*{factor}\s*\*\s*{factor}"  # of no float: there is no cast before it, and no other factor
    return bool(re.search(rf"\b__hmul2?(?:_rn)?\s*\(|{by_sign}", reading.text))


def _the_kernel(file: str, text: str, found: Sequence[Signature], name: str, told: Collection[Signature]) -> Signature:
    """Return the one kernel of a file, or the one that is named, or else the only one that is `told` of."""
    chosen = [one for one in found if one.name == name] if name else found
    if len(chosen) > 1:
        chosen = [one for one in found if one in told] or found
    if len(chosen) != 1:
        got = (
            f"{len(found)} __global__ functions ({', '.join(one.name for one in found)})"
            if found
            else "no __global__ function"
        )
        if not found and "__global__" in blanked(text):
            got = "a __global__ function that cannot be read"
        raise ArgumentError(file, got, "one, or the name of one: // launch: kernel = name" if found else "one")
    return chosen[0]


def _headers(text: str, found: Sequence[Signature]) -> dict[Signature, str]:
    """Return what the comments of a file say of launches, each for the kernel that it names or precedes.

    Behind the last kernel, which it is for then, or between ``/*`` and ``*/``, it must have a key of `LAUNCH`.
    """
    headers: dict[Signature, str] = {}
    for header in _HEADER.finditer(text):
        text = header[1] or header[2] or ""
        following = [one for one in found if re.search(rf"\bkernel\s*=\s*{one.name}\b", text)]
        following += [one for one in found if one.start >= header.start()]
        if header[1] and following:
            headers[following[0]] = text
        elif found and re.search(rf"\b(?:{'|'.join(_KEYS)})\s*=", text):
            headers.setdefault([*following, found[-1]][0], text)
    return headers


def _said(where: str, text: str, parameters: Sequence[str]) -> dict[str, str]:
    """Return what a text says of a launch, by key."""
    said = {}
    text = re.sub(rf",?[ \t]*\n[ \t]*(?://|\*)?{_NEXT_KEY}", ", ", text)
    for part in parts(re.sub(r"\n[ \t]*(?://|\*)?", " ", text)):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not (equals and value) or key not in (*_KEYS, *parameters):
            raise ArgumentError(where, part, f"KEY = VALUE with one of {', '.join((*_KEYS, *parameters))}")
        said[key] = " ".join(value.split())
    return said


def _of_host(host: HostLaunch, signature: Signature) -> dict[str, str]:
    """Return what a launch in host code says; a name for both M and N there says that matrices are square."""
    said = {"grid": host.grid, "block": host.block, "shared": host.shared or "0"}
    said = {key: " ".join(host.names.get(text, text).split()) for key, text in said.items()}
    given = {_MEANT.get(_plain(one.name)): text for one, text in zip(signature.arguments, host.arguments, strict=False)}
    return said | ({"sizes": "square"} if given.get("M", 0) == given.get("N", 1) else {})


def _doubts(line: int, called: Sequence[tuple[Declared, str]]) -> tuple[str, ...]:
    """Return what is strange in the arguments that host code passes: matrices or sizes in another order."""
    by_name = [(_MEANT.get(_plain(one.name)), _MEANT.get(_plain(text)), one.name, text) for one, text in called]
    return tuple(
        f"Line {line} passes {', '.join(text for *_, text in of)} for {', '.join(name for *_, name, _ in of)}: "
        "check that order. Here each argument is what its name in the kernel says."
        for group in (SIZES, ("A", "B", "C"))
        if (of := [one for one in by_name if one[0] in group])
        and {one[0] for one in of} == {one[1] for one in of}
        and any(one[0] != one[1] for one in of)
    )


def _values(
    file: str, signature: Signature, given: Mapping[str, int | str], said: Mapping[str, str], names: Mapping[str, str]
) -> dict[str, int | str]:
    """Return the template arguments: what is given or said, or else the file's defaults."""
    declared = signature.template or ()
    kinds = ("int", "unsigned", "size_t", "long long", "bool", "short", "typename")
    numbers = [one for one in declared if one.type != "typename"]
    if len(declared) > len(numbers) + 1 or any(not one.name or one.type not in kinds for one in declared):
        shown = ", ".join(f"{one.type} {one.name}" for one in declared)
        raise ArgumentError(file, f"template <{shown}>", "whole numbers with names, and one typename at most")
    if sizes := [str(one) for one in numbers if _MEANT.get(_plain(one.name)) in SIZES]:
        needs = "a copy of the kernel that takes int M, int N, int K: a template parameter is one number for all sizes"
        raise ArgumentError(file, f"{', '.join(sizes)} in its template, {AS_IT_IS}", needs)
    known = {"T" if one.type == "typename" else one.name: one for one in declared}
    if len(known) < len(declared):
        raise ArgumentError(file, "a number T beside a typename, which --set calls T", "another name for the number")
    if unknown := [name for name in given if name not in known]:
        constant = ": it is a constant there, so change the file" * (unknown[0] in names)
        raise ArgumentError(
            unknown[0], f"a parameter unknown to {file}", f"one of {', '.join(known) or 'none'}{constant}"
        )
    values: dict[str, int | str] = {}
    for name, one in known.items():
        text = said.get(one.name, one.default)
        if name in given:
            values[name] = given[name]
        elif one.type == "typename":
            values[name] = text or "float"
        elif text is None:
            raise ArgumentError(name, "no value", f"one, given (--set {name}=64) or in {file} (int {name} = 64)")
        else:
            values[name] = evaluate(text, {**names, **values})
    return values


def _is_number(text: str, names: Mapping[str, str]) -> bool:
    """Whether a text is whole-number arithmetic with these names."""
    try:
        return bool(text) and isinstance(evaluate(text, names), int)
    except ArgumentError:
        return False


def _typename(signature: Signature) -> str:
    """Return what a template calls the type of its elements."""
    return next((one.name for one in signature.template or () if one.type == "typename"), "")


def _matrices(signature: Signature) -> list[Declared]:
    """Return the pointers among a kernel's arguments, but for those to alpha and beta."""
    return [one for one in signature.arguments if one.type.endswith("*") and _plain(one.name) not in ("alpha", "beta")]


def _plain(name: str) -> str:
    """Return an argument's name in small letters, without underscores and what says that it is the GPU's."""
    return re.sub(r"_|^d_|_d$|^dev_|_dev$|^g_", "", name).lower()


def _roles(reading: Reading, said: str) -> tuple[tuple[str, ...], bool]:
    """Return what each argument of a kernel is, and whether its one size says that matrices are square.

    Matrices go by their names, or else C is what the kernel writes and A and B are the others in their order. Scalars
    go by their names.
    """
    file, arguments, body = reading.path.name, reading.signature.arguments, reading.signature.body
    pointers = _matrices(reading.signature)
    for one in arguments:
        if one not in pointers and one.type.removesuffix("*") not in (*SCALARS, _typename(reading.signature)):
            needs = "a copy of the kernel that takes pointers and numbers as arguments of their own: float* A, int M"
            raise ArgumentError(file, f"{one}, no number, {AS_IT_IS}", needs)
    if said:
        roles = tuple(said.split())
        for role in roles:
            if role not in ROLES and not re.fullmatch(r"-?\d+(?:\.\d*)?", role):
                raise ArgumentError("arguments", role, f"one of {' '.join(ROLES)}, or a number")
        if len(roles) != len(arguments) or not {"A", "B", "C"} <= {*roles}:
            raise ArgumentError("arguments", said, f"{len(arguments)} with A, B and C, as {reading.signature.name} has")
        return roles, not {"M", "N", "K"} <= {*roles}
    scalars = ("float", "double", "half", _typename(reading.signature))
    sizes = [one for one in arguments if not one.type.endswith("*") and one.type not in scalars]
    if len(pointers) < 3 or not sizes:
        got = f"arguments ({', '.join(map(str, arguments))})"
        needs = "pointers to A, B and C of a matrix product, and its sizes" + (
            ": if these are constants, make a copy of the kernel that takes int M, int N, int K" * (len(pointers) >= 3)
        )
        raise ArgumentError(file, got, needs)
    more = [one.name for one in pointers if _plain(one.name) not in (*"abc",)]
    if len(pointers) > 3 and more:
        needs = "A, B and C: a copy of the kernel without what is more than a product"
        raise ArgumentError(file, f"pointers {', '.join(more)}, {AS_IT_IS}", needs)
    by_name = {one.name: _plain(one.name).upper() for one in pointers}
    if len(pointers) == 3 and {*by_name.values()} != {"A", "B", "C"}:
        written = [one.name for one in pointers if re.search(rf"\b{one.name}\s*\[[^;=]*\]\s*[-+*/]?=(?!=)", body)]
        target = (written or [pointers[2].name])[0]
        by_name = dict(zip((*(one.name for one in pointers if one.name != target), target), "ABC", strict=True))
    by_name = {
        one.name: (_FACTORS if one.type in scalars else _MEANT).get(_plain(one.name))
        or reading.passed.get(one.name, "?")
        for one in arguments
    } | {name: role if role in ("A", "B", "C") else "?" for name, role in by_name.items()}
    if len(sizes) == 1:
        by_name[sizes[0].name] = "N"
    unknown, left = [one.name for one in sizes if by_name[one.name] == "?"], {*SIZES} - {*by_name.values()}
    if len(unknown) == len(left) == 1:  # n, m and p
        by_name[unknown[0]] = left.pop()
    roles = tuple(by_name[one.name] for one in arguments)
    often = {*ROLES} - {*SIZES} if {*SIZES} <= {*roles} else {*ROLES}  # rows of A and rows of C may both be passed
    plain = ["?" if role in often and roles.count(role) > 1 else role for role in roles]
    if "?" in plain:
        one = arguments[plain.index("?")]
        needs = f"// launch: arguments = {' '.join(plain)}, with a number or one of {' '.join(ROLES)} for each ?"
        raise ArgumentError(file, f"{one.type} {one.name}, whose meaning is not plain", needs)
    return roles, len(sizes) == 1
