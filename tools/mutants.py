"""Breaks every kernel in every way that a few small rules can, and lets `correctness.suite` find out.

``python -m tools.mutants [--jobs 2] [kernel ...]`` judges the mutants that the recording lacks, or whose kernel or
judge has changed since. It records each verdict in ``book/results/mutants.json`` and prints how many mutants were made
and how many were caught. It may be interrupted and started again. The tests accept the verdicts of an older judge, and
judge a sample of them again.

A mutant is caught if a case of the suite fails, or if it takes more requests to memory and wavefronts than the kernel
does, or writes more. The latter is no part of `correctness.check`: a kernel that is slow for want of its fast path, or
because of bank conflicts, is right all the same, and a reader's own kernel has nothing to be compared with. Code with
the same PTX is no mutant. A mutant that survives is a hole in the suite, unless the file beside the kernel says why it
does nothing wrong.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import hashlib
import multiprocessing
import os
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from cupy.cuda import nvrtc

import ptxsim
from lab import correctness
from lab.beside import beside, names
from lab.paths import RESULTS
from lab.records import files
from ptxsim import Counts, bar
from ptxsim import cache as disk
from sgemm_tutorial import inputs, operands
from sgemm_tutorial.catalogue import CATALOGUE, find
from sgemm_tutorial.compiler import PTX_ALONE
from sgemm_tutorial.errors import CompileError, UnsupportedInstruction
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import SIMULATOR, Launch, Place
from sgemm_tutorial.table import Table

from .sampling import sample

RECORD = RESULTS / "mutants.json"
JUDGES = (
    *sorted(Path(ptxsim.__file__).parent.glob("*.py")),
    *map(Path, (correctness.__file__, inputs.__file__, __file__)),
)

Edit = tuple[int, int, str]  # replace the text between two places

STRIPS = {"BM": 64, "BN": 64, "BK": 8, "TM": 8, "TN": 8, "BLOCKS": 1}
WARPS = {"BM": 128, "BN": 64, "BK": 16, "WM": 64, "WN": 32, "TM": 8, "TN": 8, "BLOCKS": 1}
ROWS = {"BM": 8, "BN": 128, "BK": 8, "TM": 8, "BLOCKS": 1}
FRAGMENTS = {"BM": 64, "BN": 64, "BK": 32, "WM": 32, "WN": 32}
WARPGROUP: dict[str, int | str] = {"BM": 64, "BN": 128, "WN": 128, "STAGES": 3}
INSTANCES: dict[str, tuple[dict[str, int | str], ...]] = {
    "03_shared_tile": ({"BM": 16, "BN": 16, "BK": 32},),
    "04_thread_tile_1d": ({"BM": 32, "BN": 32, "BK": 16, "TM": 4},),
    "05_thread_tile_2d": ({"BM": 32, "BN": 32, "BK": 16, "TM": 4, "TN": 4},),
    "06_register_fragments": ({"BM": 32, "BN": 32, "BK": 16, "TM": 4, "TN": 4},),
    "07_vectorized": (STRIPS,),
    "08_conflict_free": (STRIPS,),
    "09_warp_tile": (WARPS,),
    "10_double_buffer": (WARPS,),
    "11_async_pipeline": (WARPS | {"STAGES": 3},),
    "12_stream_k": (WARPS | {"STAGES": 3},),
    "23_register_l1": (
        ROWS,
        ROWS | {"SHARED": 1},
        ROWS | {"SHARED": 1, "C_LAST": 1, "FETCH": 4},
        ROWS | {"SHARED": 1, "C_LAST": 1, "FETCH": 4, "READ": 4, "UNROLL": 2},
    ),
    "14_wmma": ({"BM": 32, "BN": 32},),
    "15_wmma_warp_tile": tuple(FRAGMENTS | {"STAGES": stages} for stages in (3, 1, 0)),
    "16_mma": tuple(FRAGMENTS | {"STAGES": 3, "T": T} for T in ("half", "__nv_bfloat16")),
    "17_tf32x3": (FRAGMENTS | {"STAGES": 3},),
    "18_wgmma": (WARPGROUP,),
    "19_producer_warp": (WARPGROUP | {"THREADS": 256},),
}
"""Template arguments with which kernels are broken: small tiles, which compile and run in a fraction of the time, and
one set of them for each path that the arguments select."""

PATIENCE = 5  # seconds of computing that a case may take before a loop counts as endless; it takes a tenth of one
SAME = "compiles to the same PTX"
EQUIVALENT = {(name, key): of.why for name in names() for of in beside(name).equivalent for key in of.mutants}
"""The reason why a surviving mutant does nothing wrong, by the kernel's name and the mutant's key."""
LIMIT = 300  # mutants of changed kernels that the tests judge by themselves
SHARE = 80  # of so many verdicts of an older judge, the tests judge one again
SAVE = 10  # seconds between two savings of the recording


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A kernel with one thing wrong.

    Attributes
    ----------
    kernel : Kernel
        The sound one.
    file : str
        Which of its files is broken: its source or a header.
    rule : str
        The rule by which it was broken.
    line : int
        Where.
    text : str
        The line as it is afterwards.
    source : str
        The whole file.
    key : str
        Its key in the recording and in `EQUIVALENT`, which doesn't depend on the lines elsewhere.
    """

    kernel: Kernel
    file: str
    rule: str
    line: int
    text: str
    source: str
    key: str

    def __str__(self) -> str:
        return f"{self.kernel.name}, {self.file}, line {self.line}: {self.key}"


# Making mutants. Every rule reads the code with all else blanked out, so that places in it are places in the source,
# and yields lists of edits that together make one mutant.


def blanked(source: str) -> str:
    """Return the source with comments, strings, template brackets, assertions and the like blanked, same length."""
    for pattern in (
        r"//[^\n]*",
        r'"[^"\n]*"',
        r"/\*.*?\*/",
        r"(?m)^\s*#[^\n]*",
        r"static_assert\([^;]*;",
        r"template\s*<[^>]*>",
        r"__launch_bounds__\([^\n]*\)",
        r"\b[\w:]+<[\w\s,*:&]+>(?=\s*[()\[\w:])",
    ):
        source = re.sub(pattern, lambda match: re.sub(r"[^\n]", " ", match[0]), source, flags=re.DOTALL)
    return source


def without_barrier(code: str) -> Iterator[list[Edit]]:
    """Remove a barrier."""
    for match in re.finditer(r"__sync\w+\([^;]*\);", code):
        yield [(*match.span(), ";")]


def without_copy_or_wait(code: str) -> Iterator[list[Edit]]:
    """Remove a copy, a commit or a wait, or wait for one group less."""
    for match in re.finditer(r"asm volatile\([^;]*\);", code):
        yield [(*match.span(), ";")]
    for match in re.finditer(r"\((STAGES|ahead) - (\d)\)", code):
        yield [(*match.span(), f"({match[1]} - {int(match[2]) - 1})")]


def with_index_shifted(code: str) -> Iterator[list[Edit]]:
    """Shift an array index by one; of the registers that an instruction is given, the first of each array."""
    given = [match.span() for match in re.finditer(r"asm volatile\([^;]*\);", code)]
    seen: set[tuple[int, str]] = set()
    opened: list[int] = []
    for match in re.finditer(r"[\[\]]", code):
        if match[0] == "[":
            opened.append(match.end())
            continue
        begin, end = opened.pop(), match.start()
        register = next(((first, _array(code, begin)) for first, last in given if first <= begin < last), None)
        if register in seen:
            continue
        if register:
            seen.add(register)
        if not _declares(code, begin):
            yield [(begin, end, f"({code[begin:end]}) + 1")]


def _array(code: str, place: int) -> str:
    """Return the name before a bracket."""
    return re.search(r"(\w*)\[$", code[:place])[1]


def _declares(code: str, place: int) -> bool:
    """Whether a bracket belongs to an array's declaration: a type stands before the array's name."""
    statement = re.split(r"[;{}()]", code[:place])[-1]
    return bool(re.match(r"\s*(?!return\b|else\b)(?:[\w:]+[\s*&]+)+\w+\s*\[", statement))


def with_condition_decided(code: str) -> Iterator[list[Edit]]:
    """Make a comparison always true, or always false: among others, drop one side of a guard."""
    for begin, _, _, end in _comparisons(code):
        yield [(begin, end, "true")]
        yield [(begin, end, "false")]


def with_boundary_moved(code: str) -> Iterator[list[Edit]]:
    """Let a comparison of order, in a guard or a loop, include its boundary, or exclude it."""
    other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
    for _, first, last, _ in _comparisons(code, loops=True):
        if code[first:last] in other:
            yield [(first, last, other[code[first:last]])]


def with_guard_off_by_one(code: str) -> Iterator[list[Edit]]:
    """Move the boundary of a comparison of order by one the other way, in a guard."""
    other = {"<": "< -1 +", "<=": "<= 1 +", ">": "> 1 +", ">=": ">= -1 +"}
    for _, first, last, _ in _comparisons(code):
        if code[first:last] in other:
            yield [(first, last, other[code[first:last]])]


def _comparisons(code: str, loops: bool = False) -> Iterator[tuple[int, int, int, int]]:
    """Yield where each comparison begins, its operator begins and ends, and it ends; those of loops only if asked."""
    headers = [(match.end(), _edge(code, match.end(), 1, ")")) for match in re.finditer(r"\bfor \(", code)]
    for match in re.finditer(r"(?<![<>=!\-+*/])(?:<=|>=|==|!=|<|>)(?![<>=])", code):
        if loops or not any(begin <= match.start() < end for begin, end in headers):
            begin, end = _edge(code, match.start(), -1, ",;?:=&|{}"), _edge(code, match.end(), 1, ",;?:=&|{}")
            skipped = re.match(r"\s*(?:return\b)?\s*", code[begin:end]).end()
            yield begin + skipped, *match.span(), begin + len(code[begin:end].rstrip())


def _edge(code: str, place: int, step: int, stops: str) -> int:
    """Walk from a place to the first stop that is not inside brackets, or out of the brackets the place is in."""
    opening, closing = ("([", ")]") if step > 0 else (")]", "([")
    depth = 0
    while 0 < place < len(code):
        letter = code[place] if step > 0 else code[place - 1]
        depth += (letter in opening) - (letter in closing)
        if depth < 0 or (depth == 0 and letter in stops):
            return place
        place += step
    return place


def with_loop_changed(code: str) -> Iterator[list[Edit]]:
    """Begin a loop one later, end it one turn earlier, or make one of its strides longer by one."""
    for match in re.finditer(r"\bfor \(", code):
        header = code[match.end() : _edge(code, match.end(), 1, ")")]
        loop = re.fullmatch(r"[^;]*?(\w+) = ([^;]+);([^;]+);([^;]*)", header)
        strides = list(re.finditer(r"\+\+(\w+)|(\w+)\+\+|(\w+) \+= ([^,]+)", loop[4])) if loop else []
        lengths = {stride[1] or stride[2] or stride[3]: stride[4] or "1" for stride in strides}
        counter = re.search(rf"\b{loop[1]}\b", loop[3]) if loop else None
        if not counter or loop[1] not in lengths:
            continue
        yield [(match.end() + loop.end(2), match.end() + loop.end(2), " + 1")]
        end = match.end() + loop.start(3) + counter.end()
        yield [(end, end, f" + {lengths[loop[1]]}")]
        for stride, (name, length) in zip(strides, lengths.items(), strict=True):
            begin, end = (match.end() + loop.start(4) + place for place in stride.span())
            yield [(begin, end, f"{name} += {length} + 1")]


def with_statement_dropped(code: str) -> Iterator[list[Edit]]:
    """Drop a whole statement that is not a declaration: a store, a sum, an early return, α = 0."""
    for match in re.finditer(r"(?m)^[ ]*((?:if \(|return|[A-Za-z_][\w.]*(?:\[[^;]*\])? [-+*/]?= )[^;{}]*;)", code):
        yield [(*match.span(1), ";")]


def with_scalars_swapped(code: str) -> Iterator[list[Edit]]:
    """Swap α and β throughout the kernel's body."""
    if "__global__" not in code:
        return
    other = {"alpha": "beta", "beta": "alpha"}
    body = code.index("{", code.index("__global__"))
    yield [(*match.span(), other[match[0]]) for match in re.compile(r"\b(?:alpha|beta)\b").finditer(code, body)]


def with_offsets_narrowed(code: str) -> Iterator[list[Edit]]:
    """Compute offsets with 32 bits. Conversions of a pointer stay, as only its low bits are looked at."""
    places = [match.span() for match in re.finditer(r"\bsize_t\b(?!\(matrix)", code)]
    if places:
        yield [(*place, "unsigned") for place in places]
        yield [(*place, "int") for place in places]


def with_rows_for_columns(code: str) -> Iterator[list[Edit]]:
    """Take the remainder for the quotient, or the other way round."""
    for match in re.finditer(r"(?<= )[/%](?= )", code):
        yield [(*match.span(), {"/": "%", "%": "/"}[match[0]])]


RULES = {
    "barrier removed": without_barrier,
    "copy or wait removed": without_copy_or_wait,
    "index shifted by one": with_index_shifted,
    "condition decided": with_condition_decided,
    "boundary moved": with_boundary_moved,
    "guard off by one": with_guard_off_by_one,
    "loop changed": with_loop_changed,
    "statement dropped": with_statement_dropped,
    "alpha and beta swapped": with_scalars_swapped,
    "offsets narrowed": with_offsets_narrowed,
    "quotient for remainder": with_rows_for_columns,
}


def instances(kernel: Kernel) -> list[Kernel]:
    """Return the kernel with each of the sets of template arguments that `INSTANCES` has for it, or as it is."""
    return [kernel.variant(**arguments) for arguments in INSTANCES.get(kernel.name, ())] or [kernel]


def require_sound(kernel: Kernel) -> None:
    """Raise RuntimeError if a kernel fails the suite as it is: every mutant of it would count as caught."""
    cases = correctness.cases(kernel, on_gpu=False)
    result = correctness.SuiteResult(tuple(_counted(kernel, case)[0] for case in cases))
    if not result.passed:
        raise RuntimeError(f"{kernel.expression} is not right before it is broken: {result.failures()}")


def _counted(kernel: Kernel, case: Mapping[str, Any]) -> tuple[correctness.CheckResult, Counts]:
    """Check a kernel in one case of the suite, without machine code, which makes no difference here."""
    return correctness.judged(kernel, correctness.Case(**case), on_gpu=False, architecture=PTX_ALONE)


def mutants(kernel: Kernel) -> list[Mutant]:
    """Return the kernel broken in every way the rules know, each way once, its headers' lines among them."""
    found: dict[tuple[str, str], Mutant] = {}
    keys: Counter[str] = Counter()
    for file, source in kernel.files.items():
        code = blanked(source)
        for rule, breaks in RULES.items():
            for edits in breaks(code):
                broken, what = _edited(source, edits), (file, "".join(_edited(code, edits).split()))
                if what in found:
                    continue
                line = source.count("\n", 0, edits[0][0]) + 1
                text, before = (_line(whole, line) for whole in (broken, source))
                if text == ";":
                    text = f"no {before}"
                key = f"{rule}: {text}"
                keys[key] += 1
                key += f" #{keys[key]}" if keys[key] > 1 else ""
                found[what] = Mutant(kernel, file, rule, line, text, broken, key)
    return list(found.values())


def _edited(text: str, edits: Sequence[Edit]) -> str:
    for begin, end, replacement in reversed(edits):
        text = text[:begin] + replacement + text[end:]
    return text


def _line(source: str, number: int) -> str:
    return " ".join(source.splitlines()[number - 1].partition("//")[0].split())


# Judging them.


class Endless(Exception):  # noqa: N818 - what is found, not an error of ours
    """A simulated kernel does not come to an end."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise Endless if the body computes for longer, however long it has to wait for a processor."""

    def interrupt(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


COSTS = {
    "requests and wavefronts": (
        "global_load_requests",
        "global_store_requests",
        "shared_load_wavefronts",
        "shared_store_wavefronts",
    ),
    "bytes written": ("global_store_bytes",),
}
"""Costs of which a mutant may not have more, and the counters that add up to them.

Bytes written are among them, since lanes that write the same value to one place are a race.
"""


class Same(Exception):  # noqa: N818 - what is found, not an error of ours
    """A mutant's PTX is that of the sound kernel."""


class Elsewhere(Same):
    """Another kernel takes the problem, and isn't broken."""


class Broken(Kernel):
    """A sound kernel in a folder with a broken file, which is not run where that makes no difference."""

    def resolve(self, problem: operands.Problem, place: Place = SIMULATOR) -> Launch:
        """Return the launch of a problem; raise Same if its PTX is the sound kernel's, or another kernel's."""
        launch = super().resolve(problem, place)
        kernel = launch.kernel
        if not isinstance(kernel, Broken):
            raise Elsewhere
        ptx = kernel.build(PTX_ALONE).ptx
        if _code(ptx) == _sound_code(kernel.name, tuple(kernel.parameters.items())):
            raise Same
        return launch


@cache
def _sound_code(name: str, parameters: tuple[tuple[str, Any], ...]) -> str:
    return _code(find(name).variant(**dict(parameters)).build(PTX_ALONE).ptx)


@lru_cache(maxsize=32)
def _code(ptx: str) -> str:
    """Return PTX without the directives that only refer to the source."""
    return re.sub(r"(?m)^\s*(?:\.loc|\.file|//).*\n|\.section[^{]*\{[^}]*\}", "", ptx)


def attempt(kernel: Kernel, case: Mapping[str, Any]) -> tuple[str, list[int]]:
    """Run a kernel in one case of the suite; return its fault, if it has one, and its costs."""
    try:
        with patience(PATIENCE):
            result, counts = _counted(kernel, case)
    except UnsupportedInstruction:
        return "an instruction that the simulator does not know", []
    except Endless:
        return "does not end", []
    return "" if result.passed else result.verdict.partition(":")[0], _taken(counts)


def _taken(counts: Any) -> list[int]:
    """Return the costs of a run, in the order of `COSTS`."""
    return [sum(getattr(counts, name) for name in names) for names in COSTS.values()]


@cache
def cost(sound: Kernel, number: int) -> list[int]:
    """Return the costs of a sound kernel in a case of the suite, in the order of `COSTS`."""
    return _taken(_counted(sound, correctness.cases(sound, on_gpu=False)[number])[1])


@cache
def lines(sound: Kernel, number: int) -> frozenset[int]:
    """Return the lines of the source that the code for a case of the suite comes from, whatever the alignment."""
    case = correctness.Case(**correctness.cases(sound, on_gpu=False)[number])
    chosen = case.applied_to(sound).resolve(operands.imagined(case.M, case.N, case.K, sound.types)).kernel
    return frozenset(int(line) for line in re.findall(r"(?m)^\s*\.loc\s+1 (\d+)", chosen.build(PTX_ALONE).ptx))


def verdict(broken: Broken, sound: Kernel, line: int, first: str = "") -> str | None:
    """Return the fault of a broken kernel, `SAME` if its code is the same, or None if the suite finds no fault.

    The case that `first` begins with is tried before the others, and those to whose code the broken line adds something
    before those to which it doesn't.
    """
    listed = {said(case): case for case in correctness.cases(broken, on_gpu=False)}

    def in_order() -> Iterator[str]:
        caught = [words for words in listed if first.startswith(f"{words}: ")]
        yield from caught
        yield from sorted(listed.keys() - caught, key=later)  # only now, for that takes a while

    def later(words: str) -> tuple[bool, int]:
        number = listed[words]["seed"]
        return line not in lines(sound, number), number

    different = False
    for words in in_order():
        case = listed[words]
        try:
            wrong, taken = attempt(broken, case)
        except Elsewhere:
            continue
        except Same:
            if broken.settled or not broken.family.chooses:
                return SAME  # in every other case too
            continue
        except CompileError:
            return "does not compile"
        different = True
        for what, much, enough in [] if wrong else zip(COSTS, taken, cost(sound, case["seed"]), strict=True):
            if much > enough:
                wrong = f"{much} {what} instead of {enough}"
        if wrong:
            return f"{words}: {wrong}"
    return None if different else SAME


def said(case: Mapping[str, Any]) -> str:
    """Return a case of the suite in words."""
    words = "M, N, K = {M}, {N}, {K}, α = {alpha:g}, β = {beta:g}".format_map(case)
    more = (name for name in ("shift", "special", "last_tile", "setting", "division") if name in case)
    return "".join([words, *(f", {name} {case[name]}" for name in more)])


def judge(mutant: Mutant, folder: Path, first: str = "") -> str | None:
    """Return the verdict on a mutant, whose files are written to the folder: its fault, `SAME`, or None.

    It is judged with one set of template arguments after the other, until one shows a fault.
    """
    for name, text in (mutant.kernel.files | {mutant.file: mutant.source}).items():
        (folder / name).write_text(text, encoding="utf-8")
    found: list[str | None] = []
    for sound in instances(mutant.kernel):
        given = {field.name: getattr(sound, field.name) for field in dataclasses.fields(sound) if field.init}
        found.append(verdict(Broken(**given | {"folder": folder}), sound, mutant.line, first))
        if found[-1] not in (SAME, None):
            return found[-1]
    return SAME if set(found) == {SAME} else None


# Recording them.


@dataclasses.dataclass(frozen=True)
class Judged:
    """The verdicts on a kernel's mutants, and what they depend on.

    Attributes
    ----------
    code, judge : str
        Digests of the kernel's code, and of the cases and the code that judge; see `code_of`.
    nvrtc : str
        The compiler's version.
    verdicts : dict of str to str or None
        The verdicts that `judge` returned, by the mutants' keys.
    """

    code: str
    judge: str
    nvrtc: str
    verdicts: dict[str, str | None] = dataclasses.field(default_factory=dict)


def code_of(source: str) -> str:
    """Return a module's code without comments, docstrings and layout, the same under any version of Python."""

    def text(node: Any) -> str:
        if isinstance(node, ast.AST):
            fields = (f"{name}={text(value)}" for name, value in ast.iter_fields(node) if value not in (None, []))
            return f"{type(node).__name__}({', '.join(fields)})"
        return (
            f"[{', '.join(text(one) for one in node if not _is_text(one))}]" if isinstance(node, list) else repr(node)
        )

    return text(ast.parse(source))


def _is_text(node: Any) -> bool:
    """Whether a statement is a string alone, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def _code_of_judges(paths: tuple[Path, ...]) -> str:
    return "\n".join(code_of(path.read_text(encoding="utf-8")) for path in paths)


def blank(kernel: Kernel) -> Judged:
    """Return the digests that verdicts on a kernel's mutants depend on now, without any verdicts."""
    cases = [correctness.cases(instance, on_gpu=False) for instance in instances(kernel)]
    judge = hashlib.sha256((repr(cases) + _code_of_judges(tuple(JUDGES))).encode()).hexdigest()[:12]
    return Judged(kernel.digest, judge, ".".join(map(str, nvrtc.getVersion())))


def load() -> dict[str, Judged]:
    """Return the recorded verdicts by the kernel's name, whatever number it had when they were recorded.

    Raises
    ------
    ArgumentError
        The file is missing or malformed.
    """
    return {find(files.unnumbered(name)).name: of for name, of in files.load(RECORD, dict[str, Judged]).items()}


def unexplained(kernel: Kernel, verdicts: Mapping[str, str | None]) -> list[str]:
    """Return the keys of a kernel's mutants that survive without an argument."""
    return [key for key, found in verdicts.items() if found is None and (kernel.name, key) not in EQUIVALENT]


def sampled(known: Mapping[str, Judged]) -> list[Mutant]:
    """Return the caught mutants that the tests judge again, others whenever code changes.

    There is one of each kernel and of each rule, and one in `SHARE` of those that an older judge caught.
    """
    caught = {
        f"{name}: {key}": _made(name)[key]
        for name, judged in known.items()
        for key, found in judged.verdicts.items()
        if found not in (None, SAME) and key in _made(name)
    }
    now = {name: blank(find(name)) for name in known}
    order = sample(caught, len(caught), "".join(of.code + of.judge for of in now.values()))
    older = [key for key in order if known[caught[key].kernel.name].judge != now[caught[key].kernel.name].judge]
    first: dict[str, str] = {}
    for key in order:
        for what in (caught[key].kernel.name, caught[key].rule):
            first.setdefault(what, key)
    return [caught[key] for key in dict.fromkeys((*first.values(), *older[::SHARE]))]


@cache
def _made(name: str) -> dict[str, Mutant]:
    return {mutant.key: mutant for mutant in mutants(find(name))}


def _judged(job: tuple[str, str, str]) -> tuple[str, str, str | None]:
    """Judge one mutant in any process, given its kernel's name, its key, and its last verdict."""
    name, key, first = job
    with tempfile.TemporaryDirectory() as folder:
        return name, key, judge(_made(name)[key], Path(folder), first)


def record(kernels: Sequence[Kernel], jobs: int = 1) -> dict[str, Judged]:
    """Judge the mutants that the recording lacks, in so many processes, and return the recording."""
    known = dict(load()) if RECORD.exists() else {}
    todo: list[tuple[str, str, str]] = []
    for kernel in kernels:
        made, now, before = _made(kernel.name), blank(kernel), known.get(kernel.name, blank(kernel))
        if dataclasses.replace(before, verdicts={}) == now:
            now.verdicts.update((key, found) for key, found in before.verdicts.items() if key in made)
        known[kernel.name] = now
        left = [(kernel.name, key, before.verdicts.get(key) or "") for key in made if key not in now.verdicts]
        for instance in instances(kernel) if left else ():
            require_sound(instance)
        todo += left

    def in_order() -> dict[str, Judged]:
        ordered = {}
        for name in (kernel.name for kernel in CATALOGUE if kernel.name in known):
            found = known[name].verdicts
            verdicts = {key: found[key] for key in _made(name) if key in found}
            ordered[name] = dataclasses.replace(known[name], verdicts=verdicts)
        return ordered

    saved = time.monotonic()
    try:
        for name, key, found in bar(_each(todo, jobs), total=len(todo), unit="mutant"):
            known[name].verdicts[key] = found
            if time.monotonic() > saved + SAVE:
                files.write(RECORD, in_order())
                saved = time.monotonic()
    finally:
        files.write(RECORD, in_order())
    return in_order()


def _each(todo: Sequence[tuple[str, str, str]], jobs: int) -> Iterable[tuple[str, str, str | None]]:
    """Yield the verdicts on mutants, in any order."""
    if jobs == 1:
        yield from map(_judged, todo)
        return
    ignore = signal.signal, (signal.SIGINT, signal.SIG_IGN)  # this process alone is interrupted
    with multiprocessing.get_context("spawn").Pool(jobs, *ignore) as pool:
        yield from pool.imap_unordered(_judged, todo, chunksize=4)


def summary(kernel: Kernel, verdicts: Mapping[str, str | None]) -> list[tuple[str, str, int, int, int, int]]:
    """Return by rule how many mutants of a kernel there are, are caught, are the same code, and survive."""
    counted: Counter[tuple[str, str]] = Counter()
    for key, found in verdicts.items():
        what = "survives" if found is None else "same" if found == SAME else "caught"
        for rule in (key.partition(":")[0], "all"):
            counted[rule, what] += 1
    columns = ("caught", "same", "survives")
    rows = [(rule, *(counted[rule, what] for what in columns)) for rule in (*RULES, "all")]
    return [(kernel.name, rule, sum(numbers), *numbers) for rule, *numbers in rows if any(numbers)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge and record the mutants of some kernels, print the verdicts, and return how many are unexplained."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kernels", nargs="*", type=find, help="all if left out")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    options = parser.parse_args(arguments)
    kernels = options.kernels or CATALOGUE
    os.environ[disk.VARIABLE] = ""  # nobody asks for these thousands of binaries again
    try:
        known = record(kernels, options.jobs)
    except KeyboardInterrupt:
        print(f"interrupted; what was found is in {RECORD.name}, and the same command goes on from there")
        return 1
    rows, left = [], 0
    for kernel in kernels:
        verdicts = known[kernel.name].verdicts
        for key in (key for key, found in verdicts.items() if found is None):
            print(f"survives: {kernel.name}, {key}\n    {EQUIVALENT.get((kernel.name, key), 'UNEXPLAINED')}")
        left += len(unexplained(kernel, verdicts))
        rows += summary(kernel, verdicts)
    print(Table(("kernel", "what was broken", "mutants", "caught", "same PTX", "survive"), rows, "Mutants"))
    return left


if __name__ == "__main__":
    raise SystemExit(bool(main()))
