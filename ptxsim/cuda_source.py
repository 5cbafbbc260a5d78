"""Reads CUDA C++ as far as a launch needs it: kernels with their parameters, constants, and launches in host code.

It knows no grammar, only how people write these parts, and leaves out parts that it cannot read.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from .errors import ArgumentError
from .host_headers import ALWAYS, HEADERS

_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
OPENS_NAMESPACE = re.compile(r"\b(?:namespace(?:\s+[\w:]+)?|extern\s*)\s*\Z")
"""The end of a text without strings before a brace that opens a namespace, or what is ``extern "C"``."""
_DIRECTIVE = re.compile(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*")
_MACRO = re.compile(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?((?:[^\n]*\\\n)*[^\n]*)")
_QUALIFIERS = {"const", "volatile", "__restrict__", "__restrict", "restrict", "__grid_constant__", "struct"}
_TYPES = {"unsigned int": "unsigned", "uint": "unsigned", "uint32_t": "unsigned", "int32_t": "int"} | dict.fromkeys(
    ("size_t", "std::size_t", "uint64_t", "unsigned long", "unsigned long long", "unsigned long long int"), "size_t"
) | dict.fromkeys(("long", "long long", "long long int", "int64_t", "ptrdiff_t", "signed long long"), "long long") | {
    "__half": "half", "nv_bfloat16": "__nv_bfloat16", "class": "typename"
}  # fmt: skip
"""Names of types, and one name for each type of a size."""


class Declared(NamedTuple):
    """A parameter of a kernel or of its template.

    Attributes
    ----------
    type : str
        ``"float*"``, ``"int"``, ``"unsigned"``, ``"size_t"``, ``"typename"``: without qualifiers.
    name : str
    default : str or None
    constant : bool
        Whether it is or points to something constant.
    """

    type: str
    name: str
    default: str | None = None
    constant: bool = False

    def __str__(self) -> str:
        text = " ".join(filter(None, ("const" * self.constant, self.type, self.name)))
        return f"{text} = {self.default}" if self.default else text


class Signature(NamedTuple):
    """A kernel as a source declares it; `template` is None where it is no template, and `start` where it begins."""

    name: str
    template: tuple[Declared, ...] | None
    arguments: tuple[Declared, ...]
    bounds: str
    start: int
    body: str


class HostLaunch(NamedTuple):
    """A launch in host code: the texts between the angle brackets and of the arguments, and the names known there."""

    template: tuple[str, ...]
    grid: str
    block: str
    shared: str
    arguments: tuple[str, ...]
    names: Mapping[str, str]


@lru_cache(maxsize=128)  # a recording of many points asks for each point's kernel
def blanked(text: str, strings: bool = True) -> str:
    """Return a source with comments, and strings too unless they are to stay, blanked, as long as it was."""
    return _NOT_CODE.sub(
        lambda match: match[0] if match[0][0] == '"' and not strings else re.sub(r"[^\n]", " ", match[0]), text
    )


def parts(text: str, separator: str = ",") -> list[str]:
    """Return the parts of a text between separators; those inside brackets do not separate."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == separator and not depth:
            found.append("")
        else:
            found[-1] += character
    return [part.strip() for part in found] if text.strip() else []


def macros(text: str) -> dict[str, set[str]]:
    """Return the words, braces and semicolons to which the macros of a source expand, by the macros' names."""
    found: dict[str, set[str]] = {}
    for name, value in _MACRO.findall(blanked(text)):
        found.setdefault(name, set()).update(re.findall(r"\w+|[{;]", value))
    for _ in found:  # a macro may name another, but not without end
        wider = {name: _expanded(words, found) for name, words in found.items()}
        if wider == found:
            break
        found = wider
    return found


def _expanded(words: set[str], known: Mapping[str, set[str]]) -> set[str]:
    """Return words, and those to which the macros among them expand."""
    return words.union(*(known[word] for word in words & known.keys()))


def signatures(text: str, known: Mapping[str, set[str]] | None = None) -> list[Signature]:
    """Return the kernels that a source defines, in its order; `known` are the `macros`, by default its own."""
    code, found = _DIRECTIVE.sub(spaces, blanked(text)), []
    known = macros(text) if known is None else known
    names = ["__global__", *(name for name, words in known.items() if "__global__" in words and "{" not in words)]
    for match in re.finditer(rf"\b(?:{'|'.join(names)})\b", code):
        named = re.compile(
            r"(?!__launch_bounds__|__cluster_dims__|__block_size__|__maxnreg__|__attribute__)\b(\w+)\s*\("
        ).search(code, match.end(), match.end() + len(re.match("[^;{}]*", code[match.end() :])[0]))
        end = named and closing(code, named.end() - 1)
        brace = named and re.compile(r"\s*\{").match(code, end)
        if not brace:
            continue
        head = re.search(r"[^;{}]*\Z", code[: match.start()])
        begun = head.start() + len(head[0]) - len(head[0].lstrip())
        template = re.search(r"template\s*<(.*)>", head[0], re.DOTALL)
        bounds = re.search(r"__launch_bounds__\s*(\()", code[begun : named.start()])
        at = begun + bounds.start(1) if bounds else 0
        found.append(
            Signature(
                named[1],
                tuple(map(_declared, parts(template[1]))) if template else None,
                tuple(map(_declared, parts(re.sub("<[^<>]*>", "", code[named.end() : end - 1])))),  # Some<T, 4>: Some
                parts(code[at + 1 : closing(code, at) - 1])[0] if bounds else "",
                begun,
                code[brace.end() : closing(code, brace.end() - 1, "{}") - 1],
            )
        )
    return found


def constants(text: str) -> dict[str, str]:
    """Return the macros without parameters and the constants of a source outside functions, by name, as texts."""
    code = blanked(text)
    found = dict(re.findall(r"(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\S[^\n]*?)[ \t]*$", code))
    outside = "".join(piece for piece, _ in _outermost(code))
    return found | assigned(re.sub(r"template\s*<[^;{}]*?>\s*(?=[\w:]+\s)", "", outside))


def launches(text: str, kernel: str) -> list[HostLaunch]:
    """Return the launches of a kernel in host code, ``kernel<template><<<grid, block>>>(arguments)``."""
    code, found = blanked(text), []
    for match in re.finditer(rf"\b{kernel}\b\s*(?:<([^<>;]*)>)?\s*<<<(.*?)>>>\s*\(", code, re.DOTALL):
        grid, block, shared = (*parts(match[2]), "", "", "")[:3]
        function = next((body for start, body in _bodies(code) if start <= match.start() < start + len(body)), "")
        template, arguments = map(parts, (match[1] or "", code[match.end() : closing(code, match.end() - 1) - 1]))
        found.append(
            HostLaunch(
                tuple(template), grid, block, shared, tuple(arguments), assigned(function) | _dimensions(function)
            )
        )
    return found


def extents(text: str, names: Mapping[str, int | str]) -> tuple[int, ...]:
    """Return the numbers of ``dim3(a, b)``, ``(a, b)``, ``{a, b}``, the name of one, or a single number.

    Raises
    ------
    ArgumentError
        A part is no whole number made of numbers and names.
    """
    for _ in names:  # a name may stand for another, but not without end
        if not isinstance(names.get(text.strip()), str):
            break
        text = str(names[text.strip()])
    return tuple(evaluate(part, names) for part in _sides(text))


@lru_cache(maxsize=1024)  # where a launch is looked for, each of its texts is evaluated for many sizes
def _sides(text: str) -> tuple[str, ...]:
    """Return what is between the brackets of ``dim3(a, b)``, ``(a, b)`` or ``{a, b}``, or the text as it is."""
    inner = re.fullmatch(r"\s*(?:dim3)?\s*[({](.*)[)}]\s*", text, re.DOTALL)
    end = closing(text, re.search(r"[({]", text).start(), "{}" if "{" in text else "()") if inner else 0
    return tuple(parts(inner[1])) if inner and end >= len(text.rstrip()) else (text,)


_OPERATORS: dict[type, Callable[..., int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.floordiv, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_CALLS = {"min": min, "max": max, "cdiv": lambda a, b: -(-a // b)} | dict.fromkeys(
    ("unsigned", "int", "size_t", "uint", "uint32_t", "float", "double"), int
)
_SIZES = {"float": 4, "double": 8, "half": 2, "__half": 2, "__nv_bfloat16": 2, "int": 4, "char": 1, "float4": 16}
_CAST = r"\(\s*(?:const\s+)?(?:unsigned|int|size_t|uint|float|double|long|unsigned int|unsigned long long)\s*\)"


def evaluate(text: str, names: Mapping[str, int | str]) -> int:
    """Return the value of whole-number arithmetic in C++, division rounding down.

    Parameters
    ----------
    text : str
        With numbers, names, ``cdiv(a, b)`` or another function whose name says that it divides and rounds up, ``min``,
        ``max``, ``sizeof``, comparisons and conditionals.
    names : mapping of str to int or str
        A text is evaluated in its turn.

    Raises
    ------
    ArgumentError
        It is something else, a name is unknown, or something is divided by zero.
    """

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=bool() | int() | float() as number) if number == int(number):
                return int(number)
            case ast.Name(id="true" | "false" as name):
                return int(name == "true")
            case ast.Call(func=ast.Name(id="ceil" | "ceilf"), args=[ast.BinOp(left=left, op=ast.Div(), right=right)]):
                return _CALLS["cdiv"](value(left), value(right))
            case ast.Name(id=name) if isinstance(names.get(name), str):
                return evaluate(names[name], {other: names[other] for other in names if other != name})
            case ast.Name(id=name) if name in names:
                return int(names[name])
            case ast.Attribute(value=ast.Name(id=name), attr="x" | "y" | "z" as axis) if name in names:
                return (*extents(name, names), 1, 1)["xyz".index(axis)]
            case ast.BinOp(left=left, op=of, right=right) | ast.Compare(left=left, ops=[of], comparators=[right]) if (
                type(of) in _OPERATORS
            ):
                return int(_OPERATORS[type(of)](value(left), value(right)))
            case ast.UnaryOp(op=of, operand=one) if type(of) in _OPERATORS:
                return int(_OPERATORS[type(of)](value(one)))
            case ast.BoolOp(op=of, values=several):
                return int((all if isinstance(of, ast.And) else any)(value(one) for one in several))
            case ast.IfExp(test=test, body=body, orelse=other):
                return value(body) if value(test) else value(other)
            case ast.Call(func=ast.Name(id=name), args=given) if name in _CALLS or _rounds_up(name, given):
                return int(_CALLS.get(name, _CALLS["cdiv"])(*map(value, given)))
        raise SyntaxError

    code = re.sub(r"\bsizeof\s*\(\s*(\w+)\s*\)", lambda of: str(_SIZES.get(names.get(of[1], of[1]), of[0])), text)
    try:
        return value(_parsed(code))
    except (SyntaxError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError):
        known = ", ".join(name for name in names) or "none"
        raise ArgumentError(text.strip(), "no whole number", f"numbers, arithmetic, and the names {known}") from None


@lru_cache(maxsize=1024)  # as above
def _parsed(code: str) -> ast.expr:
    """Return Python's tree of arithmetic in C++ without ``sizeof``, or raise what ``ast.parse`` does."""
    code = re.sub(r"\b(?:static_cast|std)\s*(?:<[^<>]*>|::)", "", code)
    code = re.sub(r"\b(\d+(?:\.\d*)?|0[xX][\da-fA-F]+)(?:[uUlLfF]+)\b", r"\1", re.sub(_CAST, "", code))
    code = code.replace("&&", " and ").replace("||", " or ")
    code = re.sub(r"!(?!=)", " not ", code)
    if "?" in code:
        test, _, rest = code.strip().partition("?")
        test, rest = (test[1:], rest[:-1]) if test.count("(") > test.count(")") else (test, rest)
        then, _, other = rest.partition(":")
        code = f"(({then}) if ({test}) else ({other}))"
    return ast.parse(code.strip(), mode="eval").body


def _rounds_up(name: str, given: list[ast.expr]) -> bool:
    """Whether a function's name says that it divides and rounds up."""
    return len(given) == 2 and bool(re.search(r"ceil|cdiv|div_?up|divup|up_?div", name, re.IGNORECASE))


def _declared(text: str) -> Declared:
    """Return a parameter; one without a name has an empty one."""
    text, _, default = text.partition("=")
    words = re.findall(r"::|\w+(?:\s*::\s*\w+)*|\*|&|\[\s*\w*\s*\]|\.\.\.", text)
    pointers = "*" * sum(word in ("*", "&") or word[0] == "[" for word in words)
    plain = [word for word in words if re.match(r"\w", word) and word not in _QUALIFIERS]
    name = plain.pop() if len(plain) > 1 else ""
    kind = " ".join(plain)
    return Declared(_TYPES.get(kind, kind) + pointers, name, default.strip() or None, "const" in words)


def assigned(code: str) -> dict[str, str]:
    """Return the whole numbers that a text declares with a value, by name."""
    kind = r"(?:(?:static|constexpr|const|unsigned|long)\s+)*(?:int|unsigned|long|size_t|uint|auto|u?int\d\d_t)"
    declared = (one for match in re.finditer(rf"\b{kind}\s+(\w+\s*=[^;]*);", code) for one in parts(match[1]))
    split = (one.partition("=") for one in declared)
    return {name.strip(): value.strip() for name, _, value in split if re.fullmatch(r"\w+\s*", name) and value.strip()}


def _dimensions(code: str) -> dict[str, str]:
    """Return the values of type dim3 that a function declares, by name, with what it assigns to their members.

    What it assigns under a condition is left out.
    """
    declared = (
        one
        for match in re.finditer(r"\bdim3\s+(?:const\s+)?([^;]*);|\b(\w+\s*=\s*dim3\s*[({][^;]*);", code)
        for one in parts(match[1] or match[2])
    )
    split = (re.fullmatch(r"(\w+)\s*(?:=\s*(?:dim3\s*)?(.+)|([({].*[)}])|)", one, re.DOTALL) for one in declared)
    found = {one[1]: one[2] or one[3] or "1" for one in split if one}
    certain = re.sub(r"\b(?:if\s*\([^{};]*\)|else)\s*(?:\{[^{}]*\}|[^{};]*;)", "", code)
    for name, axis, value in re.findall(r"\b(\w+)\s*\.\s*([xyz])\s*=([^;=]+);", certain):
        if name in found:
            at = "xyz".index(axis)
            sides = [*parts(re.sub(r"^[({](.*)[)}]$", r"\1", found[name], flags=re.DOTALL)), "1", "1"][:3]
            found[name] = f"({', '.join([*sides[:at], f'({value.strip()})', *sides[at + 1 :]])})"
    return found


def closing(code: str, at: int, brackets: str = "()") -> int:
    """Return the place behind the bracket that closes the one at a place, or the text's end if none does."""
    depth = 0
    for place in range(at, len(code)):
        depth += (code[place] == brackets[0]) - (code[place] == brackets[1])
        if not depth:
            return place + 1
    return len(code)


def spaces(found: re.Match[str]) -> str:
    """Return a blank text as long as a match, with as many lines."""
    return re.sub(r"[^\n]", " ", found[0])


def _bodies(code: str) -> Iterator[tuple[int, str]]:
    """Yield where each outermost pair of braces opens, and what is in it; those of namespaces are looked into."""
    at = 0
    while (at := code.find("{", at)) >= 0:
        end = closing(code, at, "{}")
        if OPENS_NAMESPACE.search(code[:at].rstrip()):
            at += 1
            continue
        yield at, code[at:end]
        at = end


def _outermost(code: str) -> Iterator[tuple[str, str]]:
    """Yield the texts between outermost braces, each with what is in the braces that follow it."""
    last = 0
    for at, body in _bodies(code):
        yield code[last:at], body
        last = at + len(body)
    yield code[last:], ""


_DEVICE = {"__global__", "__device__", "__constant__", "__shared__", "__managed__"}
_CLASSES = {"struct", "class", "union", "enum"}
_CALL = re.compile(r"\s*(\w+)\s*\(")
_NEITHER = {"static_assert", "friend", "asm"}
_IN_BRACKETS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_ALIGNMENT = re.compile(rf"\b(?:alignas|__align__|__builtin_align__|__attribute__)\s*{_IN_BRACKETS}")
_OF_STD = set(re.findall(r"\w+", ALWAYS + "".join(HEADERS.values()))) - {"ostream", "istream", "cout", "cerr", "endl"}


def device_words(text: str, known: Mapping[str, set[str]]) -> set[str]:
    """Return the words in the functions, and classes with functions, of the device; `known` are the `macros`."""
    parts_of_device = (
        head[max(map(head.rfind, ";{}")) + 1 :] + body
        for head, body in _outermost(_DIRECTIVE.sub(spaces, blanked(text)))
    )
    return set().union(*(words for part in parts_of_device if (words := _words(part, known)) & _DEVICE))


def for_device(text: str, known: Mapping[str, set[str]], used: set[str]) -> str:
    """Return a source without the parts that only a host compiler understands, every other character where it was.

    Functions that are neither ``__global__`` nor ``__device__`` are blanked, as are variables of the host, classes that
    are the host's, and uses of macros that stand for such functions. `known` are the `macros`, and `used` the
    `device_words`, of the source and of its headers. A line behind a source with kernels makes the names in its
    namespaces known.
    """
    made, last = list(text), 0
    code = _DIRECTIVE.sub(spaces, blanked(text))

    def blank(start: int, end: int) -> None:
        made[start:end] = re.sub(r"[^\n]", " ", text[start:end])

    for at, body in [*_bodies(code), (len(code), "")]:
        for found in re.finditer(r"[^;{}\s][^;{}]*(;|\Z)", code[last:at]):  # directives before it stay
            start = last + found.start()
            while (call := _CALL.match(code, start)) and (words := known.get(call[1], set())) & {"{", ";"}:
                end = closing(code, call.end() - 1)  # it stands for functions, or declarations
                if "{" in words and not words & (_DEVICE | _CLASSES | {"constexpr"}):
                    blank(start, end)
                start = end
            if found[1]:
                if _is_hosts(code[start : last + found.end() - 1], known):
                    blank(start, last + found.end())
                continue
            head = _ALIGNMENT.sub("", code[start:at])
            kind = set(re.findall(r"\w+", _without_arguments(head))) & _CLASSES and not head.rstrip().endswith(")")
            ends = kind or "(" not in head or head.rstrip().endswith("=")  # with a semicolon
            end = (code.find(";", at + len(body)) + 1 if ends else 0) or at + len(body)
            if _is_class_of_host(head, body, known, used) if kind else _is_hosts(head, known):
                blank(start, end)
            break
        else:
            end = at + len(body)
        last = end
    for annotated in re.finditer(r"\]\s*((?:__(?:host|device)__\s*)+)(?=[({])", code):  # a lambda is where it stands
        blank(*annotated.span(1))
    namespaces = re.findall(r"\bnamespace\s+(\w[\w:]*)\s*\{", code)
    kernels = "__global__" in _words(code, known)
    return "".join([*made, *(f"\nusing namespace {name};" for name in namespaces if kernels)])


def _words(code: str, known: Mapping[str, set[str]]) -> set[str]:
    """Return the words of a text, and those to which the macros among them expand."""
    return _expanded(set(re.findall(r"\w+", code)), known)


def _without_arguments(code: str) -> str:
    """Return a text without the parameters and arguments of templates."""
    while code != (shorter := re.sub("<[^<>]*>", "", code)):
        code = shorter
    return code


def _has_hosts_type(code: str) -> bool:
    """Whether a text names types that only the host has."""
    of_std = re.findall(r"(?<!cuda::)\bstd::(\w+)", code)
    return any(name not in _OF_STD for name in of_std) or bool(re.search(r"\bcuda\w+_t\b", code))


def _is_class_of_host(head: str, body: str, known: Mapping[str, set[str]], used: set[str]) -> bool:
    """Whether a class has types or functions of the host, is not used, and has nothing that may be the device's."""
    if used.intersection(re.findall(r"\w+", _without_arguments(head).partition(":")[0])[-1:]):
        return False
    if _words(head, known) & _DEVICE or "__device__" in _words(body, known) or re.search(r"\b[A-Z][A-Z_]+\s+\w", body):
        return False
    return _has_hosts_type(body) or bool(re.search(r"\)[\w\s]*(?::[^{};]*)?\{", body))


def _is_hosts(declaration: str, known: Mapping[str, set[str]]) -> bool:
    """Whether a declaration outside classes is a function or a variable of the host, which NVRTC would refuse."""
    plain = _without_arguments(declaration)
    before = re.sub(r"\boperator\s*[^\w\s]+|\btemplate\b", "operator", plain).partition("=")[0]
    words, meant = [word for word in re.findall(r"\w+", before) if word != "operator"], _words(declaration, known)
    if not words or words[0] in _NEITHER or meant & _DEVICE:
        return False
    if words[0] in ("using", "typedef", "namespace") or "constexpr" in meant:
        return _has_hosts_type(declaration)
    constant = "const" in words and not re.search(r"\*(?!\s*const)", before) and not _has_hosts_type(before)
    return "(" in before or (len(words) > 1 and not (constant or words[0] in _CLASSES))
