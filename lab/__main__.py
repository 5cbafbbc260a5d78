"""The command line: ``python -m lab``."""

import argparse
import builtins
import dataclasses
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import rich.box
import rich.console
import rich.table
from rich.text import Text

from ptxsim import bar
from sgemm_tutorial import gpu, tuned
from sgemm_tutorial.catalogue import CATALOGUE, find
from sgemm_tutorial.compiler import ARCHITECTURE
from sgemm_tutorial.errors import ArgumentError, TutorialError
from sgemm_tutorial.hardware import limits_of
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.operands import INT_MAX
from sgemm_tutorial.own import CONTRACT, FILES, SUFFIX, kernel_from
from sgemm_tutorial.simulation import simulate
from sgemm_tutorial.table import Table, Tabular

from . import draw, interrupts, side_by_side, source
from .correctness import SHORT_PRODUCTS, SuiteResult, cases, noted, watched
from .diagnosis import diagnosis, telling
from .experiments import tune as tunings
from .experiments.counters import METRICS
from .experiments.tune import tune
from .guessing import guessed
from .measure import nsight, sweep
from .measure.bench import BenchError, bench
from .model.resources import kernel_occupancy, resources, resources_table
from .model.sass import sass_mix, sass_table
from .records import timings
from .records.compare import compare
from .records.sizes import Size, parse_sizes, times_of
from .records.timings import Record, no_gpu, recorded
from .skeletons import GAPS, skeleton, unfinished
from .styles import LAUNCH
from .written import Written

PASSED, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130
TUNED = "256:4096:128,8192"
"""Sizes that are tuned unless others are named."""
WATCHED = 1 << 20  # products that a case of --sizes has at most if races in global memory are looked for
SHOWN = 5  # cases that fail, the cheap and telling ones first
FOUND = "does not say how it is launched. This launch, found by trial, gives the right product:"
ROUNDS = "rounds each product to 16 bits before it is added. The error bound has room for that."
T = TypeVar("T")

DESCRIPTION = """\
The kernels of the book "Fast matrix multiplication on a GPU", from the command line: list them, read
them, check them, time them against cuBLAS, tune them, and count what they do to memory.

A kernel is named by its number (03), its name (shared_tile) or both (03_shared_tile). The path of a file,
my_kernel.cu, is as good as a name: `new --help` says what such a file must keep. Where there is no GPU,
kernels run on the simulator and timings are shown from the recording."""

EPILOG = """\
examples:
  python -m lab list
  python -m lab show 03 --diff 02
  python -m lab check all
  python -m lab new 03 my_kernel.cu
  python -m lab check my_kernel.cu --set BM=16 --set BN=16
  python -m lab bench --kernels 02,03 --sizes 256:4096:256 --output mine.json
  python -m lab compare ladder mine.json
  python -m lab tune --sizes 1024,1x4096x4096 --budget 60
  python -m lab tune my_kernel.cu --set BM=64,128 --set BN=64,128 --sizes 1024
  python -m lab trace naive --size 64,64,64 --json | jq .total.global_load_sectors
  python -m lab counters my_kernel.cu --set BM=64 --size 2048

exit status:
  0 all went well   1 a check failed   2 bad usage, or it could not be done   130 interrupted

Every command has its own --help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    try:
        options = _parser().parse_args(arguments)
        status = options.run(options)
        sys.stdout.flush()
        return status
    except (TutorialError, ModuleNotFoundError) as error:  # charts need matplotlib, which may be left out
        _write(f"error: {error}", to_stderr=True)
        return REFUSED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, for example `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PASSED
    except OSError as error:  # a full disk, for example
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to print cannot be
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except MemoryError as error:
        print(f"error: not enough memory for matrices of this size ({error})", file=sys.stderr)
        return REFUSED


def _kernels(
    names: Sequence[str | Kernel], settings: Sequence[str], launch: str = "", quiet: bool = False
) -> list[Kernel]:
    """Return the kernels of names and files; settings, NAME=VALUE, are for the one file, or else the one kernel.

    So is a launch. One that had to be guessed is printed, on stderr if `quiet`.
    """
    values = {name: _value(value) for name, _, value in (setting.partition("=") for setting in settings)}
    for name, value in values.items():
        if isinstance(value, int) and value > INT_MAX:
            raise ArgumentError(name, f"{value:,}", f"at most {INT_MAX:,}, as it is an int")
    files = [name for name in names if str(name).endswith(FILES)]
    theirs = files or names
    if values and len(theirs) != 1:
        raise ArgumentError(
            "set", f"{', '.join(settings)} for {len(theirs)} kernels", "one kernel, or one file among them"
        )
    if launch and len(files) != 1:
        raise ArgumentError("launch", f"{launch!r} for {len(files)} files", "one file, whose kernel is launched so")
    found = []
    for name in names:
        own = values if name in theirs else {}
        kernel, guess, told = guessed(name, launch, **own) if name in files else (find(name, **own), "", ())
        found.append(kernel)
        short = [f"{kernel.path.name} {ROUNDS}"] * (kernel.types in SHORT_PRODUCTS.values())
        lines = [*told, *short, *([f"{kernel.path.name} {FOUND}", guess] if guess else [])]
        if lines:
            _write(*lines, "", to_stderr=quiet)
    return found


def _value(text: str) -> int | str:
    """Return a template argument: a whole number, or what else was written."""
    return int(text) if text.isdecimal() else text


def _list(options: argparse.Namespace) -> int:
    compiled, broken, _ = _each(CATALOGUE, lambda kernel: _compiled(kernel, options.architecture))
    nothing = {"architecture": options.architecture, "resources": None, "occupancy": None}
    rows = [_summary(kernel) | compiled.get(kernel, nothing) for kernel in CATALOGUE]
    columns = ("kernel", "parameters", "threads", "registers", "shared bytes", "occupancy", "idea")
    cells = []
    for row in rows:
        used, fit = row["resources"], row["occupancy"]
        cells.append(
            (
                row["name"],
                ", ".join(f"{name} {value}" for name, value in row["parameters"].items()),
                row["threads"],
                used and used.registers,
                used and used.shared_bytes,
                fit and f"{fit.fraction:.0%}",
                row["idea"],
            )
        )
    note = f"Registers per thread, shared memory per block, compiled for {options.architecture}."
    _print(options, rows, Table(columns, cells, "The kernels", note))
    return _told(broken)


def _new(options: argparse.Namespace) -> int:
    kernel = find(options.rung)
    path = Path(options.file or f"my_{kernel.function}{SUFFIX}")
    if path.suffix != SUFFIX:
        raise ArgumentError("file", str(path), f"a name that ends in {SUFFIX}")
    text = skeleton(kernel)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ArgumentError(
            "file", f"{path} ({error.strerror})", "a file that is not there yet, in a folder that is"
        ) from None
    mine = kernel_from(path)
    todo = unfinished(mine)
    command = "python -m lab"
    _print(
        options,
        {"file": str(path), "rung": kernel.name, "todo": todo, "parameters": mine.parameters},
        f"{path} is {kernel.name} without its most important lines: see the TODO in {_lines(todo)}.",
        f"{command} check {path}   grades it, as often as you like",
        f"{command} show {path} --diff {kernel.name[:2]}   shows what it lacks: the solution",
    )
    return PASSED


def _lines(numbers: Sequence[int]) -> str:
    """Return line numbers in words."""
    *some, last = map(str, numbers)
    return f"lines {', '.join(some)} and {last}" if some else f"line {last}"


def _show(options: argparse.Namespace) -> int:
    (kernel,) = _kernels([options.name], options.set, options.launch, quiet=True)
    text = source.diff(find(options.diff), kernel) if options.diff else source.show(kernel)
    data = _summary(kernel) | {"diff" if options.diff else "source": text.text}
    tables = []
    if options.report:
        data |= _compiled(kernel, options.architecture)
        data["instructions"] = sass_mix(kernel, options.architecture)
        tables = [
            resources_table([kernel], options.architecture),
            kernel_occupancy(kernel, limits_of(options.architecture)),
            sass_table(kernel, options.architecture),
        ]
    _print(options, data, text, *tables)
    return PASSED


def _check(options: argparse.Namespace) -> int:
    on_gpu = False if options.simulate else None
    sizes = parse_sizes(options.sizes, least=0) if options.sizes else ()
    scalars = {name: value for name in ("alpha", "beta") if (value := getattr(options, name)) is not None}
    if scalars and not sizes:
        name, value = next(iter(scalars.items()))
        raise ArgumentError(name, f"{value:g} alone", "--sizes too: the suite has its own")
    if options.budget is not None and options.budget < 1:
        raise ArgumentError("budget", str(options.budget), "a number of instructions, at least 1")
    budget = options.budget or 0
    given = [{"M": M, "N": N, "K": K, "races": M * N * K <= WATCHED, **scalars} for M, N, K in sizes]

    def judged(kernel: Kernel) -> SuiteResult:
        listed = given or cases(kernel, on_gpu)
        with bar(side_by_side.checked(kernel, listed, on_gpu, budget), total=len(listed), unit="case") as work:
            work.set_description(kernel.name)
            return SuiteResult(tuple(work))

    kernels = _kernels(
        CATALOGUE if options.name == "all" else [options.name], options.set, options.launch, options.json
    )
    found, broken, interrupted = _each(kernels, judged)
    if interrupted and not found:
        raise KeyboardInterrupt
    suites = list(found.values())
    status = INTERRUPTED if interrupted else PASSED if all(suites) else FAILED
    results = [result for suite in suites for result in suite.results]
    passed = not broken and status == PASSED
    data = {"passed": passed, "cases": [vars(result) | {"passed": result.passed} for result in results]}
    parts: list[SuiteResult | Table | str] = []
    for suite in suites:
        if options.verbose or given:
            parts.append(suite)
        elif not suite.passed:
            failed = suite.failures().results
            title = (
                f"{failed[0].kernel}: cases that fail, {len(failed)} of {len(suite.results)}"
                + f"; the first {SHOWN} (--verbose shows all)" * (len(failed) > SHOWN)
            )
            parts.append(dataclasses.replace(SuiteResult(failed[:SHOWN]).table(), title=title))
    parts += [_one_row_each(suites), *([] if options.verbose or given else noted(results))]
    for kernel, suite in found.items():
        if todo := unfinished(kernel):
            so = "These cases do not need what is missing." if suite else "Until then it cannot pass."
            parts.append(f"{kernel.path.name} is not finished: TODO in {_lines(todo)}. {so}")
        if not suite and not todo:
            told, *others = [telling(suite.failures().results), *suite.failures().results]
            case, *hints = diagnosis(kernel, told)
            races = [of.fault for of in others if of.fault.startswith("race")]
            hints += [f"Another case has a {race}" for race in races[:1] if not told.fault]
            parts += ["", case, *hints] if hints else []
    if interrupted:
        parts.append(f"interrupted: {len(found)} of {len(kernels)} kernels checked")
    _print(options, data, *parts)
    return _told(broken, status)


def _one_row_each(suites: Sequence[SuiteResult]) -> Table:
    """Return one row per suite."""
    worst = [max(suite.results, key=lambda result: result.worst_ratio) for suite in suites]
    rows = [
        (
            *(of.kernel, "GPU" if of.on_gpu else "simulator", len(suite.results)),
            *(sum(map(bool, suite.results)), of.worst_ratio, "passed" if suite.passed else "FAILED"),
        )
        for of, suite in zip(worst, suites, strict=True)
    ]
    columns = ("kernel", "ran on", "cases", "passed", "worst error / bound", "verdict")
    results = [result for suite in suites for result in suite.results]
    simulated = not any(result.on_gpu for result in results)
    return Table(columns, rows, note=watched(results) or "Races in global memory were not looked for." * simulated)


def _bench(options: argparse.Namespace) -> int:
    names = [name.strip() for name in options.kernels.split(",")]
    kernels = _kernels(CATALOGUE if options.kernels == "all" else names, options.set, options.launch, options.json)
    here, failure = gpu.available(), None
    usable, broken, _ = _each(kernels, lambda kernel: gpu.load(kernel.instance) if here else kernel.digest)
    _require_place("output", options.output)
    kernels = list(usable)
    sizes = parse_sizes(options.sizes or "4096") if options.sizes or here else None
    if here:
        try:
            record = bench(kernels, sizes, flush_l2=options.flush_l2, path=options.output, progress=None)
        except BenchError as error:
            record, failure = error.record, error  # what was measured is shown all the same
    else:
        if options.flush_l2:
            raise ArgumentError("flush_l2", "True", "a GPU: without one, a recording is shown")
        record = recorded(kernels, sizes, options.recording)
        said = [no_gpu(record)]
        if options.kernels != "all":
            missing = [kernel.name for kernel in kernels if not record.select([kernel]).points]
            said += [f"{name} is not in the recording: only a GPU can time it." for name in missing]
        _say(options, *said)
    shown = record.select(kernels, sizes)
    _print(options, record.as_dict() | {"measured_here": here}, shown)
    if not options.json:
        for name, figure in _pictures(shown).items():
            path = Path(options.output).with_suffix(f".{name}.svg")
            figure.save(path)
            print(f"drawn in {path}")
    if here:
        _say(options, f"saved in {options.output}")
    status = _told(broken)
    if failure:
        raise failure
    return INTERRUPTED if here and not record.complete else status


def _each(kernels: Iterable[Kernel], do: Callable[[Kernel], T]) -> tuple[dict[Kernel, T], list[TutorialError], bool]:
    """Do something with each kernel; return the results, the errors of the others, and whether Ctrl-C was pressed.

    A file is its reader's to change, so that any kernel may be broken; then the rest go on. Where none is left, the
    first error is raised.
    """
    done, broken = {}, []
    for kernel in kernels:
        try:
            done[kernel] = do(kernel)
        except TutorialError as error:
            broken.append(error)
        except KeyboardInterrupt:
            return done, broken, True
    if broken and not done:
        raise broken[0]
    return done, broken, False


def _told(broken: Sequence[TutorialError], status: int = PASSED) -> int:
    """Print the faults of kernels, and return the exit status: `status` if there are none."""
    for error in broken:
        _write(f"error: {error}", to_stderr=True)
    return REFUSED if broken else status


def _require_place(argument: str, path: str) -> None:
    """Require that a file can be written there, before anything is measured."""
    if Path(path).is_dir() or not Path(path).absolute().parent.is_dir():
        raise ArgumentError(argument, path, "the name of a file, in a folder that is there")


def _pictures(record: Record) -> dict[str, draw.Figure]:
    """Return the pictures to draw, by the ending of their files' names."""
    sizes = {point.size for point in record.points}
    if len(sizes) == 1:
        return {"ladder": draw.ladder(record, *sizes)}
    return {"tflops": draw.by_size(record), "percent": draw.by_size(record, of_cublas=True)} if sizes else {}


def _compare(options: argparse.Namespace) -> int:
    table = compare(timings.load(options.old), timings.load(options.new))
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    _print(options, {"title": table.title, "rows": rows}, table)
    return PASSED


def _tune(options: argparse.Namespace) -> int:
    if options.set:
        return _sweep(options)
    if _kernels([options.name], (), options.launch, options.json)[0].name != tunings.KERNEL.name:
        raise ArgumentError("set", "nothing", "values to try, with commas between: --set BM=64,128")
    here = gpu.available()
    sizes = parse_sizes(options.sizes or TUNED) if options.sizes or here else None
    if here:
        recording = tune(sizes, options.budget, ruled_out=lambda table: _say(options, table))
    else:
        recording = tunings.load()
        _say(options, no_gpu(recording))
    points = tunings.select(recording, sizes)
    data = {"measured_here": here, "complete": recording.complete, "points": points}
    _print(options, data, tunings.table(points, recording.made))
    series = tunings.by_tile(points, recording.settings["settings"])
    if series and not options.json:
        title = f"TFLOP/s by tile and M = N = K, {recording.made}"
        draw.lines(title, series, tunings.BY_TILE, log_x=True).save("tune.svg")
        print("drawn in tune.svg")
    return _saved(options, tuned.path(gpu.place().name), len(set(sizes)) - len(points)) if here else PASSED


def _sweep(options: argparse.Namespace) -> int:
    """Try every combination of values of a kernel's template parameters."""
    here = gpu.available()
    values: dict[str, list[int | str]] = {}
    for name, _, listed in (setting.partition("=") for setting in options.set):
        values.setdefault(name, []).extend(map(_value, listed.split(",")))
    sizes, architecture = parse_sizes(options.sizes or "4096"), gpu.architecture() if here else ARCHITECTURE
    if not here:
        _say(options, f"No GPU here: compiled for {architecture} and simulated. Only a GPU can time them.")
    first = [f"{name}={tried[0]}" for name, tried in values.items()]
    own = options.name.endswith(SUFFIX)
    (kernel,) = _kernels([options.name], first, options.launch, options.json) if own else [find(options.name)]
    name = kernel if isinstance(kernel.family, Written) else options.name
    field = sweep.field(name, values, architecture)
    if field.obstacles:
        _say(options, field.table())
    ruled_out = [{"setting": setting, "why": why} for setting, why in field.obstacles.items()]
    data = {"measured_here": here, "names": field.names, "ruled_out": ruled_out, "able": list(field.kernels)}
    if not field.kernels:
        first = f"python -m lab check {options.name} {' '.join(f'--set {setting}' for setting in first)}"
        _say(options, f"{first} --simulate says more of the first one.")
        _print(options, data)
        return FAILED
    if not here:
        _print(options, data, sweep.able(field, architecture))
        return PASSED
    record = sweep.sweep(field, sizes, options.budget, options.output)
    ranking = sweep.ranked(record.select(field.kernels.values(), sizes), field)
    points = [{"setting": setting, "point": point} for setting, point in ranking]
    data |= {"complete": record.complete, "points": points}
    _print(options, data, sweep.quickest(ranking, field.names, record.made))
    return _saved(options, options.output, len(field.kernels) * len(set(sizes)) - len(ranking))


def _saved(options: argparse.Namespace, path: str | Path, left: int) -> int:
    """Print where times are saved and how many are left to take, and return the exit status."""
    _say(options, f"in {path}" + f"; left to time: {left}, start again to continue" * bool(left))
    return INTERRUPTED if left and options.budget == math.inf else PASSED


def _one_size(text: str) -> Size:
    """Return a size that was written as M,N,K or as a single number."""
    try:
        (size,) = parse_sizes(text.replace(",", "x"))
    except ValueError:  # an ArgumentError, or several
        raise ArgumentError("size", repr(text), "one size, 1 or more: M,N,K or a single number") from None
    return size


def _counters(options: argparse.Namespace) -> int:
    (kernel,) = _kernels([options.name], options.set, options.launch, options.json or options.once)
    size = _one_size(options.size)
    if options.once:  # under Nsight Compute
        nsight.launch([(kernel, size)])
        return PASSED
    given = [f"--set={each}" for each in options.set] + [f"--launch={options.launch}"] * bool(options.launch)
    again = ["-m", "lab", "counters", options.name, "--size", options.size, *given, "--once"]
    (counts,) = nsight.count(again, [kernel.function], METRICS)
    rows = [(name, METRICS[name], count) for name, count in counts.items()]
    table = Table(("counter", "Nsight Compute's name", "of a launch"), rows, f"{kernel.expression} at {times_of(size)}")
    _print(options, {"kernel": kernel.name, "size": size, "counts": counts}, table)
    return PASSED


def _trace(options: argparse.Namespace) -> int:
    (kernel,) = _kernels([options.name], options.set, options.launch, options.json)
    M, N, K = _one_size(options.size)
    A, B = matrices(M, N, K, on_gpu=False, types=kernel.types)
    run = simulate(
        *(kernel, A, B, np.zeros((M, N), kernel.types.result) if options.beta else None, options.alpha, options.beta),
        architecture=options.architecture,
        progress=None,
    )
    data = {"kernel": kernel.name, "M": M, "N": N, "K": K, "architecture": options.architecture}
    _print(options, data | {"total": run.total, "lines": run.lines}, run)
    return PASSED


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m lab", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(
        name: str, run: Callable[[argparse.Namespace], int], short: str, more: str, epilog: str = ""
    ) -> Callable[..., Any]:
        description = f"{short[0].upper()}{short[1:]}. {more}"
        form = raw if epilog else argparse.HelpFormatter
        added = commands.add_parser(name, help=short, description=description, epilog=epilog, formatter_class=form)
        added.set_defaults(run=run)
        added.add_argument("--json", action="store_true", help="print JSON, and nothing else, on stdout")
        return added.add_argument

    architecture = {
        "default": ARCHITECTURE,
        "metavar": "SM",
        "help": "what to compile for, such as sm_86 (default: %(default)s); needs no GPU",
    }

    setting = {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "help": "a template argument, such as BM=64; again for each",
    }
    launch = {"metavar": "RULE", "default": "", "help": "how a file's kernel is launched; see the end of check --help"}

    def take_kernel(add: Callable[..., Any], **more: str) -> None:
        """Let a command take a kernel or a file, with its template arguments and its launch."""
        add("name", metavar="NAME", **{"help": "which kernel, or a file"} | more)
        add("--set", **setting)
        add("--launch", **launch)

    add = command("list", _list, "list the ladder of kernels", "Says what the compiler gives each.")
    add("--architecture", **architecture)

    add = command("show", _show, "show a kernel's source", "Needs no GPU, with --report neither.")
    take_kernel(add)
    add("--diff", metavar="OTHER", help="show what changed since this kernel instead")
    add("--report", action="store_true", help="add registers, shared memory, occupancy, machine instructions")
    add("--architecture", **architecture)

    add = command(
        "new",
        _new,
        "write a skeleton of a rung, for you to finish",
        f"There is one of {', '.join(name[:2] for name in GAPS)}.",
        CONTRACT,
    )
    add("rung", metavar="RUNG", help="which kernel")
    add("file", metavar="FILE", nargs="?", help="where to write it (default: my_ and its name, here)")

    add = command(
        "check",
        _check,
        "compare a kernel with float64",
        "Every element must be within the error bound of float32 arithmetic, and nothing outside C may "
        "change. Runs a suite of difficult cases, on the GPU if there is one. The simulator also looks for races: in "
        "shared memory in all cases, in global memory in two of the suite and where M*N*K is at most 2^20.",
        LAUNCH,
    )
    take_kernel(add, nargs="?", default="all", help="which kernel, or a file; all unless given")
    add("--sizes", metavar="SIZES", help="these instead of the suite: such as 64,300x200x100,8:64:8")
    add("--alpha", type=float, help="with --sizes (default: 1)")
    add("--beta", type=float, help="with --sizes (default: 0)")
    add("--simulate", action="store_true", help="use the simulator even if there is a GPU")
    more = "instructions that a simulated thread may execute before its loop is taken for endless (default: by size)"
    add("--budget", metavar="COUNT", type=int, help=more)
    add("--verbose", action="store_true", help="show every case, not only what fails")

    add = command(
        "bench",
        _bench,
        "time kernels against cuBLAS",
        "Median device times, kernel and cuBLAS in turn: a table, and drawings by size. Without a GPU, shows "
        "the recording.",
    )
    add("--kernels", metavar="NAMES", default="all", help="which, or files, with commas between (default: %(default)s)")
    add("--set", **setting)
    add("--launch", **launch)
    add(
        "--sizes",
        metavar="SIZES",
        help="N, MxNxK or first:last:step, with commas between several, such as "
        "256:4096:128,300x200x100 (default: 4096, or all that was recorded)",
    )
    add("--flush-l2", action="store_true", help="start every launch with a cold L2 cache")
    add(
        "--output",
        metavar="FILE",
        default="bench.json",
        help="each point is saved here once measured, run again to continue; drawings go beside it (default: "
        "%(default)s)",
    )
    add(
        "--recording",
        metavar="NAME",
        help="what to show without a GPU: a recording of the book's card, or a file (default: what the book shows)",
    )

    add = command(
        "tune",
        _tune,
        "find the quickest settings of a kernel on this GPU",
        "With --set, tries every combination of these values. Says which don't compile, don't fit or compute wrong "
        "values, and times the others in turn with cuBLAS. Without a GPU, says what would be timed. Kernel 13 has "
        "settings of its own: without --set it looks for the quickest at each size, which is what 13 runs from then "
        "on, at these sizes on GPUs of this name; without a GPU, shows the recording. Stopped at any time, tune loses "
        "nothing, and goes on when started again.",
    )
    add(
        "name",
        metavar="NAME",
        nargs="?",
        default=tunings.KERNEL.function,
        help="which kernel, or a file (default: %(default)s)",
    )
    add("--set", **setting | {"metavar": "NAME=VALUES", "help": "template arguments to try: BM=64,128; again for each"})
    add("--launch", **launch)
    add("--sizes", metavar="SIZES", help=f"as for bench (default: 4096 with --set, otherwise {TUNED} or the recorded)")
    add("--budget", metavar="SECONDS", type=float, default=math.inf, help="begin nothing else after so long")
    add(
        "--output",
        metavar="FILE",
        default="tune.json",
        help="times of --set are saved here, run again to continue (default: %(default)s)",
    )

    add = command(
        "compare", _compare, "hold two recordings against each other", "Both are files, or of the book's card."
    )
    add("old", metavar="OLD", help="a file that bench has saved, or a recording of the book's card such as ladder")
    add("new", metavar="NEW", help="another")

    add = command(
        "trace",
        _trace,
        "count what a kernel does to memory, line by line",
        "Simulates a run and counts warp instructions, requests, sectors and wavefronts, as the hardware does.",
    )
    take_kernel(add)
    add("--size", metavar="M,N,K", default="128", help="or one number; 128 takes a second (default: %(default)s)")
    add("--alpha", type=float, default=1.0, help="(default: 1)")
    add("--beta", type=float, default=0.0, help="other than 0, C holds zeros, and may be read (default: 0)")
    add("--architecture", **architecture)

    add = command(
        "counters",
        _counters,
        "read the GPU's own counters of a launch",
        "Runs the kernel once under Nsight Compute's ncu, which must be on the PATH and may need permission to read "
        "counters. Without a GPU, trace counts the same on the simulator.",
    )
    take_kernel(add)
    add("--size", metavar="M,N,K", default="1024", help="or one number (default: %(default)s)")
    add("--once", action="store_true", help=argparse.SUPPRESS)
    return parser


def _summary(kernel: Kernel) -> dict[str, Any]:
    return {"name": kernel.name, "idea": kernel.idea, "parameters": kernel.parameters, "threads": kernel.threads}


def _compiled(kernel: Kernel, architecture: str) -> dict[str, Any]:
    """Return a kernel's resources and occupancy, None where it does not exist for the architecture."""
    limits = limits_of(architecture)
    try:
        used, fit = resources(kernel, architecture), kernel_occupancy(kernel, limits)
    except ArgumentError as error:
        if error.argument not in ("architecture", "dynamic_shared"):
            raise
        used = fit = None
    return {"architecture": architecture, "resources": used, "occupancy": fit}


def _print(options: argparse.Namespace, data: Any, *parts: Any) -> None:
    """Print data as JSON, with null for what is not a finite number, or where that is not asked for what shows them.

    A part is a line, or what has a form for terminals, in colour: a table or a source.
    """
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(data, enc_hook=np.generic.item), indent=1).decode())
        return
    _write(*parts)


def _write(*parts: Any, to_stderr: bool = False) -> None:
    """Print lines, tables and sources: in a terminal, or where COLUMNS names a width, so that they fit its width."""
    console = rich.console.Console(stderr=to_stderr)
    fits = console.is_terminal or ("COLUMNS" in os.environ and not console.is_jupyter)
    for part in parts:
        if fits and not isinstance(part, str):
            console.print(in_terminal(part, console.width))
        else:
            print(_wrapped(part, console.width) if fits else part, file=console.file, flush=True)


def _wrapped(text: str, width: int) -> str:
    """Return a text with lines of this width at most: what is too long goes on indented, in a comment as a comment."""
    form = {"break_long_words": False, "break_on_hyphens": False}
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent="//     " if line.startswith("//") else "    ", **form)
        for line in text.split("\n")
    )


def in_terminal(part: Any, width: int = 80) -> Any:
    """Return rich's output for a table, a result that is shown as one, or a source.

    In a table that is too wide, numbers stay whole, a line of source is cut, and other text is folded.
    """
    table = part.table() if isinstance(part, Tabular) else part
    if not isinstance(table, Table):
        return part.rich()
    cells, sides = table.laid_out()
    kept = [at for at in range(len(sides)) if not cells or any(row[at] for row in cells)]  # lines are short
    texts = [[table.columns[at], *(row[at] for row in cells)] for at in kept]
    tight = sum(max(map(len, column)) + 3 for column in texts) + 1 > width
    form = {"box": rich.box.SIMPLE_HEAD, "padding": 0} if tight else {}
    drawn = rich.table.Table(title=Text(table.title), caption=Text(table.note), **form)
    least = [max((len(word) for text in column for word in text.split()), default=0) for column in texts]
    room = width - 2 - sum(size + 1 for column, size in zip(texts, least, strict=True) if column[0] != "source")
    for at, (name, *_), size in zip(kept, texts, least, strict=True):
        cut = tight and name == "source"
        form = {"no_wrap": True, "width": room} if cut else {"overflow": "fold"}
        form |= {"width": size} if tight and sides[at] == "right" else {}
        drawn.add_column(Text(name), justify=sides[at], **form)
    for row in cells:
        drawn.add_row(*(Text(row[at]) for at in kept))
    return drawn


def _say(options: argparse.Namespace, *lines: object) -> None:
    """Print a message that is no result: on stderr where stdout has JSON and nothing else."""
    _write(*lines, to_stderr=options.json)


def entry() -> None:
    """Run the command line as the program `sgemm-tutorial`."""
    interrupts.over()
    sys.exit(main())


if __name__ == "__main__":
    if hasattr(builtins, "get_ipython"):
        main()  # %run in a notebook, where an exit status would look like a crash
    else:
        entry()
