"""Reads a launch in host code as C++ has it: names as they stand there, and division of whole numbers."""

import re

from ptxsim import cuda_source
from ptxsim.cuda_source import OPENS_NAMESPACE, HostLaunch, blanked, closing, signatures

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b[ \t]*(.*)")
_ELEMENTS = (
    r"float|double|half|__half|__nv_bfloat16|nv_bfloat16|(?:unsigned[ \t]+)?int|unsigned|size_t|u?int(?:32|64)_t"
)
_ALIAS = re.compile(
    rf"\btypedef[ \t]+({_ELEMENTS})[ \t]+(\w+)[ \t]*;|\busing[ \t]+(\w+)[ \t]*=[ \t]*({_ELEMENTS})[ \t]*;"
    rf"|^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+({_ELEMENTS}|__restrict(?:__)?)[ \t]*$",
    re.MULTILINE,
)
_IN_BRACES = re.compile(
    r"\b(int|unsigned|long|size_t|uint|auto|u?int\d\d_t)[ \t]+(?:const[ \t]+)?(\w+)[ \t]*\{([^{};\n]+)\}(?=[ \t]*;)"
)
"""The declaration of a whole number, ``int const n{16}``."""
_CHANGES = re.compile(
    r"(?<![.\w])(\w+)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--)\s*(\w+)|(\w+)\s*(?:\+\+|--)|[(,=]\s*&\s*(\w+)|>>\s*(\w+)\s*\Z"
)
_DECLARES = re.compile(r"\s*(?:for\s*\(\s*)?(?!return\b|else\b)(?:[\w:]+(?:<[^<>]*>)?[\s*&]+)+\w+\s*(?:[=({,]|\Z)")
_STRUCT = re.compile(r"\bstruct\s*(\w*)\s*\{([^{}]*)\}\s*(\w*)\s*;")
_MEMBERS = re.compile(r"\s*([\w\s:]+?)((?:\s*\*\s*|\s+)\w+(?:\s*,\s*\*?\s*\w+)*)\s*")
"""Members of one type."""
_HOLDS = dict.fromkeys(("height", "rows", "nrows", "numrows", "h"), 1)
_HOLDS |= dict.fromkeys(("width", "cols", "columns", "ncols", "numcols", "w", "stride", "pitch", "ld"), 2)
_MADE_OF = (("A_", "M_", "K_"), ("B_", "K_", "N_"), ("C_", "M_", "N_"))
_FLOATING = r"\b\d+\.\d*|\.\d+\b|\b\d+[eE]|\bfloat\b|\bdouble\b"


def read(text: str) -> str:
    """Return a source as its launch is read from it, each line where it was.

    What ``#if 0`` leaves out is blank, the names that the source gives to types of elements and sizes are those types,
    names of its namespaces go without these, and ``int n{16}`` is ``int n = 16``.
    """
    lines, stack = text.split("\n"), [(False, False)]  # whether a branch is left out, and whether those after it are
    for number, line in enumerate(lines):
        found = _DIRECTIVE.match(line)
        if found and found[1].startswith("if"):
            value = found[2].partition("/")[0].strip() if found[1] == "if" else ""
            outer = stack[-1][0]
            stack.append((outer or value in ("0", "false"), outer or value in ("1", "true")))
        elif found and len(stack) > 1:
            _, after = stack.pop()
            if found[1] != "endif":
                stack.append((after, after))
        elif stack[-1][0]:
            lines[number] = " " * len(line)
    text = re.sub(r"\bstd\s*::\s*(?=(?:size_t|ptrdiff_t|u?int\d\d_t)\b)", "", "\n".join(lines))
    for plain, old, new, other, macro, value in _ALIAS.findall(blanked(text)):
        name = old or new or macro
        if not re.search(rf"\b(?:typename|class)\s+{name}\b", text):
            text = re.sub(rf"(?<!typedef )(?<!using )\b{name}\b(?![ \t]*;)", plain or other or value, text)
    for name in re.findall(r"\bnamespace\s+(\w+)\s*\{", blanked(text)):
        text = re.sub(rf"\b{name}\s*::\s*(?=\w)", "", text)
    return _IN_BRACES.sub(r"\1 \2 = \3", text)


def unpacked(text: str) -> str:
    """Return a source whose kernel takes structs as one that takes their members instead.

    A struct holds numbers and pointers, as of sizes or of all arguments; or there is one for each matrix, as the Matrix
    of the CUDA C++ Programming Guide: a pointer to the elements, and rows and columns of whichever names. The kernel
    makes the structs of these. All lines stay where they are.
    """
    code = blanked(text)
    for before, inside, after in _STRUCT.findall(code):
        struct, members = after or before, _members(inside)
        kinds = [0 if "*" in kind else _HOLDS.get(name.replace("_", "").lower()) for name, kind in members.items()]
        for kernel in signatures(text):
            names = [one.name for one in kernel.arguments if one.type == struct]
            opens = re.compile(rf"\b{kernel.name}\s*\(").search(code, kernel.start).end()
            closes = closing(code, opens - 1) - 1
            if members and len(names) == 1:
                made = {names[0]: [f"{member}_" for member in members]}
                alone = ", ".join(f"{kind} {member}_" for member, kind in members.items())
                taken = re.sub(
                    rf"(?:\b(?:const|struct|__grid_constant__)\s+)*\b{struct}\b[^,]*", alone, code[opens:closes]
                )
            elif len(names) == len(kernel.arguments) == 3 and None not in kinds and kinds.count(0) == 1:
                names = sorted(names) if {*map(str.upper, names)} == {"A", "B", "C"} else names
                made = {name: [of[kind] for kind in kinds] for name, of in zip(names, _MADE_OF, strict=True)}
                element = next(kind for kind in members.values() if "*" in kind)
                taken = f"{element} A_, {element} B_, {element} C_, int M_, int N_, int K_"
            else:
                continue
            makes = "".join(
                f" {struct} {name};" + "".join(f" {name}.{a} = {b};" for a, b in zip(members, of, strict=True))
                for name, of in made.items()
            )
            brace, lines = code.index("{", closes) + 1, "\n" * code.count("\n", opens, closes)
            ahead = re.sub(  # without a declaration that still takes structs
                rf"__global__[^;{{}}]*?\b{kernel.name}\s*\([^;{{}}]*\)\s*;",
                lambda of: "\n" * of[0].count("\n"),
                text[:opens],
            )
            return unpacked(f"{ahead}{' '.join(taken.split())}{lines}{text[closes:brace]}{makes}{text[brace:]}")
    return text


def _members(inside: str) -> dict[str, str]:
    """Return the types of a struct's members by name, if they are numbers and pointers, and else nothing."""
    found = [_MEMBERS.fullmatch(declared) for declared in inside.split(";") if declared.strip()]
    named = [(of[1], name) for of in filter(None, found) for name in of[2].split(",")]
    return {name.strip("* \n\t"): kind + "*" * ("*" in name) for kind, name in named} if all(found) else {}


def launches(text: str, kernel: str) -> list[tuple[HostLaunch, int]]:
    """Return the launches of a kernel in host code, each with its line.

    A launch knows the names that it sees, but for those that its function changes.
    """
    code, found = blanked(text), []
    for match in re.finditer(rf"\b{kernel}\b\s*(?:<[^<>;]*>)?\s*<<<", code):
        function, seen = _function(code, match.start())
        changed = _changed(function, seen)
        statement = code[match.start() :].partition(";")[0]
        alone = f"{seen.replace('<<<', '   ')}{statement};" + "}" * seen.count("{")
        for launch in cuda_source.launches(alone, kernel):
            names = {name: of for name, of in launch.names.items() if name not in changed}
            names = {name: _whole(of, names) for name, of in names.items()}
            whole = {key: _whole(getattr(launch, key), names) for key in ("grid", "block", "shared")}
            found.append((launch._replace(**whole, names=names), code[: match.start()].count("\n") + 1))
    return found


def _function(code: str, at: int) -> tuple[str, str]:
    """Return the body of the function around a place, empty if there is none, and what the place sees of it.

    It doesn't see into blocks that are closed. Namespaces are looked into.
    """
    opened: list[int] = []
    for brace in re.finditer("[{}]", code[:at]):
        if brace[0] == "}":
            opened = opened[:-1]
        elif opened or not OPENS_NAMESPACE.search(code[: brace.start()].rstrip()):
            opened.append(brace.start())
    if not opened:
        return "", ""
    seen = code[opened[0] : at]
    while (shorter := re.sub(r"\{[^{}]*;[^{}]*\}", "", seen)) != seen:
        seen = shorter
    return code[opened[0] : closing(code, opened[0], "{}")], seen


def _changed(function: str, seen: str) -> set[str]:
    """Return the names that a function assigns again, increments, reads from a stream or gives the address of.

    A dim3 with a member that is assigned under a condition is one of them. A dim3 that is declared without a value and
    then assigned once is not.
    """
    found: list[str] = []
    for statement in re.split("[;{}]", function):
        begun = _DECLARES.match(statement)
        changes = [next(filter(None, names)) for names in _CHANGES.findall(statement)]
        declared = re.findall(r"(\w+)\s*=(?!=)", statement) if begun else []
        for name in declared:
            changes.remove(name)
        found += changes
    unsure = re.findall(r"\b(?:if\s*\([^{};]*\)|else)\s*(?:\{([^{}]*)\}|([^{};]*;))", function)
    members = {name for one in unsure for name in re.findall(r"(\w+)\s*\.\s*[xyz]\s*=", " ".join(one))}
    bare = {name for names in re.findall(r"\bdim3\s+([\w\s,]+);", seen) for name in re.findall(r"\w+", names)}
    return members | {name for name in found if name not in bare or found.count(name) > 1}


def _whole(text: str, names: dict[str, str]) -> str:
    """Return arithmetic so that `evaluate` has C++'s result, or something that it refuses.

    A quotient of whole numbers is whole before ``ceil`` sees it, and C++ rounds a negative one towards zero.
    """
    begun = re.search(r"\b(?:std\s*::\s*)?ceilf?\s*(?=\()", text)
    if begun:
        end = closing(text, begun.end())
        inner, rest = text[begun.end() : end], text[end:]
        known = [inner, *(names.get(word, "") for word in re.findall(r"[A-Za-z_]\w*", inner))]
        within = re.search(r"(?:float|double)\s*>?\s*\)?\s*\([^()]*/", inner)  # (float)(a / b): whole, too
        floating = any(re.search(_FLOATING, one) for one in known) and not within
        quotient = f"ceil{inner}" if floating else _whole(inner, names) if "/" in inner else inner
        return text[: begun.start()] + quotient + _whole(rest, names)
    text = re.sub(r"-\s*\(\s*-\s*([\w.]+|\([^()]*\))\s*/\s*([\w.]+|\([^()]*\))\s*\)", r"((\1) / (\2))", text)
    negative = "/" in text and re.search(r"(?:\A|[(,*/+?:=-])\s*-\s*[\w(]", text)
    return f"negative({text})" if negative else text
