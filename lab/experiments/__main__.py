"""Makes the recordings behind the book's figures, on this machine's GPU: ``python -m lab.experiments``.

It may be interrupted and started again: points that are recorded with the present code, on this GPU and with this
software, are not measured again. Without ``--folder`` the recordings go to the folder of this card in
``book/results``, and this card becomes the one that the book shows.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sgemm_tutorial import gpu
from sgemm_tutorial.errors import ArgumentError, DeviceError, TutorialError
from sgemm_tutorial.table import Table

from .. import several
from ..measure import driver
from ..records import cards
from ..records.provenance import provenance
from .recordings import (
    COUNTS,
    GROUPS,
    NEEDS,
    ON_TWO,
    RECORDINGS,
    TIMES,
    TOGETHER,
)

WELL, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 130

Child = tuple[tuple[str, ...], int]
"""The recordings that one process makes, and the number of its turn, from 1."""


def stages(names: Sequence[str], turns: dict[str, int]) -> list[list[Child]]:
    """Return the processes that make these recordings: one stage after the other, the processes of a stage at once.

    Parameters
    ----------
    names : sequence of str
    turns : dict of str to int
        The number of processes, one after the other, that measure each of `TIMES`.
    """
    times, counts = ([name for name in names if name in of] for of in (TIMES, COUNTS))
    found = [
        [(tuple(name for name in times if turns[name] > turn), turn + 1)]
        for turn in range(max(turns.values(), default=0))
    ]
    found += [[((name,), 1)] for name in counts]
    found += [[(tuple(name for name in group if name in names), 1) for group in TOGETHER]]
    return [kept for stage in found if (kept := [child for child in stage if child[0]])]


def run(stage: Sequence[Child], start: Callable[[Child], subprocess.Popen]) -> int:
    """Run the processes of a stage and return the worst of their exit statuses; an interrupt ends them all."""
    running = [start(child) for child in stage]
    try:
        return max(process.wait() for process in running)
    except KeyboardInterrupt:
        for process in running:
            process.terminate()  # they save what they have
        for process in running:
            process.wait()
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Make recordings and return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m lab.experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    groups = "; ".join(f"{name}: {', '.join(of)}" for name, of in GROUPS.items())
    parser.add_argument("--only", metavar="NAMES", help=f"some groups or recordings, with commas between: {groups}")
    parser.add_argument("--folder", type=Path, help="where to put them")
    parser.add_argument(
        "--list", action="store_true", help="say how many points are missing, and about how long they will take"
    )
    parser.add_argument("--turn", type=int, help="make them in this process, as the first, second … to do so")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        names = _names(options.only)
        if options.turn:
            return _here(names, options.folder, options.turn)
        folder = options.folder or cards.folder(cards.slug(provenance()["gpu"]))
        plans = {name: driver.runnable(RECORDINGS[name]()) for name in names}
        print(_left(plans, folder))
        return WELL if options.list else _all(plans, folder, show=options.folder is None)
    except TutorialError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print("interrupted; start again to continue", file=sys.stderr)
        return INTERRUPTED


def _names(only: str | None) -> list[str]:
    """Return the recordings that are asked for and can be made here; print those that can't."""
    words = list(GROUPS) if only is None else [word.strip() for word in only.split(",")]
    for word in words:
        if word not in RECORDINGS and word not in GROUPS:
            raise ArgumentError("only", repr(word), f"some of {', '.join((*GROUPS, *RECORDINGS))}")
    asked = [name for word in words for name in GROUPS.get(word, (word,))]
    if not gpu.available():
        raise DeviceError("no GPU: recordings are made on one")
    names = [name for name in RECORDINGS if name in asked and not _lacking(name)]
    for name in asked:
        if name not in names:
            print(f"{name} is left out: {_lacking(name)}", file=sys.stderr)
    return names


def _lacking(name: str) -> str:
    """Return why a recording cannot be made here, or nothing if it can."""
    if name in NEEDS and not shutil.which(NEEDS[name]):
        return f"{NEEDS[name]} is not on the PATH"
    return "it takes 2 GPUs" if name in ON_TWO and several.count() < 2 else ""


def _left(plans: dict[str, driver.Plan], folder: Path) -> Table:
    """Return how many points each recording lacks, and about how long they will take."""
    rows = []
    for name, plan in plans.items():
        earlier = driver.begun(plan, folder, plan.made_on())
        there = earlier.points if earlier else []
        missing = sum(len(plan.missing(there, turn + 1)) for turn in range(plan.processes))
        rows.append((name, len(plan.items) * plan.processes, missing, round(plan.takes * missing)))
    columns = ("recording", "points", "missing", "seconds")
    return Table(columns, rows, f"Recordings in {folder}", "Those after anatomy are made at the same time.")


def _all(plans: dict[str, driver.Plan], folder: Path, show: bool) -> int:
    """Make recordings, each in processes of its own."""
    driver.compile_all(plans.values())

    def start(child: Child) -> subprocess.Popen:
        names, turn = child
        command = [sys.executable, "-m", "lab.experiments", "--turn", str(turn)]
        # In a group of its own, so that an interrupt from the keyboard reaches this process alone, which ends them all.
        return subprocess.Popen([*command, "--only", ",".join(names), "--folder", str(folder)], process_group=0)

    turns = {name: plan.processes for name, plan in plans.items() if name in TIMES}
    begin, statuses = time.monotonic(), []
    for stage in stages(list(plans), turns):
        statuses.append(run(stage, start))
        if INTERRUPTED in statuses:
            raise KeyboardInterrupt
    print(f"{time.monotonic() - begin:.0f} s; in {folder}")
    if show:
        cards.show(folder.name)
    return max(statuses, default=WELL)


def _here(names: Sequence[str], folder: Path, turn: int) -> int:
    """Make recordings in this process."""
    status = WELL
    for name in names:
        try:
            if driver.record(driver.runnable(RECORDINGS[name]()), folder, turn):
                status = FAILED
        except TutorialError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            status = FAILED
    return status


if __name__ == "__main__":
    raise SystemExit(main())
