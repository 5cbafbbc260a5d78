"""Makes a recording from a plan: measures the missing points, saves as it goes, and continues where it stopped."""

import contextlib
import dataclasses
import multiprocessing
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

from ptxsim import bar
from sgemm_tutorial import gpu
from sgemm_tutorial.compiler import Instance, build
from sgemm_tutorial.errors import TutorialError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.operands import imagined

from ..records import files
from ..records.files import Measured, Recording
from ..records.provenance import provenance, same

EVERY = 1.0
"""Seconds between one saving and the next. At most so many seconds of work are lost."""

Item = tuple
"""An item of a plan: a kernel, and the other values that distinguish its points."""


@dataclass(frozen=True)
class Plan:
    """The items that a recording is to hold, and how they are measured.

    Attributes
    ----------
    name : str
        The recording's name, and the stem of its file.
    form : type
        A `Recording` of points.
    items : sequence of tuple
        Each begins with a kernel, or with a value that stands for one.
    measure : callable
        Takes items, and yields the point of each as soon as it is measured.
    settings : dict
        Settings of the measuring. A recording with other settings is not continued.
    takes : float
        The approximate seconds of an item, on average.
    processes : int
        The number of processes, one after the other, in which each item is measured.
    made_on : callable
        Returns the provenance.
    """

    name: str
    form: type[Recording]
    items: Sequence[Item]
    measure: Callable[[list[Item]], Iterator[Any]]
    settings: dict[str, Any] = field(default_factory=dict)
    takes: float = 0.1
    processes: int = 1
    made_on: Callable[[], Any] = provenance

    def keys(self) -> dict[Hashable, Item]:
        """Return the items by the keys of the points that they give."""
        return {key_of(item): item for item in self.items}

    def missing(self, points: Iterable[Any], process: int) -> list[Item]:
        """Return the items that have no point, or one that was measured in fewer processes than that."""
        times = {point.key: point.times for point in points}
        return [item for key, item in self.keys().items() if times.get(key, 0) < process]


def key_of(item: Item) -> Hashable:
    """Return the key of the point that an item gives; see `Measured.key`."""
    what, *problem = item
    return (files.identity(what) if hasattr(what, "types") else what, *problem)


def follow(
    plan: Plan,
    made: Any,
    points: Iterable[Any],
    save: Callable[[Recording], None],
    process: int = 1,
    progress: bool | None = None,
) -> Recording:
    """Measure the items of a plan that are missing among the points, and return the recording of all.

    Parameters
    ----------
    plan : Plan
    made : dict
        The provenance.
    points : iterable
        The points that are there already.
    save : callable
        Takes the recording as it is so far: about every `EVERY` seconds, and at the end, even after an error.
    process : int
        Items that were measured in fewer processes than this are measured.
    progress : bool, optional
        Show a progress bar on stderr; None shows it in a terminal only.
    """
    found, order = {point.key: point for point in points}, plan.keys()
    missing = plan.missing(found.values(), process)

    def so_far() -> Recording:
        complete = all(key in found and found[key].times >= plan.processes for key in order)
        listed = [
            found[key] for key in order | found if key in found
        ]  # in the plan's order, and then those that it lacks
        return plan.form(made, plan.settings, complete, listed)

    saved, work = time.monotonic(), plan.measure(missing) if missing else ()
    with bar(work, total=len(missing), show=progress, unit="point") as measured:
        measured.set_description(plan.name)
        try:
            for point in measured:
                found[point.key] = found[point.key].joined(point) if point.key in found else point
                if time.monotonic() - saved >= EVERY:
                    save(so_far())
                    saved = time.monotonic()
        finally:
            latest = so_far()
            save(latest)
    return latest


def draft_of(plan: Plan, folder: Path) -> Path:
    """Return the file of a recording that is not complete yet."""
    return folder / f"{plan.name}.partial.json"


def begun(plan: Plan, folder: Path, made: Any) -> Recording | None:
    """Return the recording of a plan so far, if it can be continued: with these settings, on such a machine."""
    for path in (draft_of(plan, folder), folder / f"{plan.name}.json"):
        if path.exists():
            earlier, keys = files.load(path, plan.form), plan.keys()
            if earlier.settings == plan.settings and same(earlier.provenance, made):
                kept = [point for point in earlier.points if point.key in keys]
                return plan.form(earlier.provenance, plan.settings, False, kept)
    return None


def record(plan: Plan, folder: Path, process: int = 1) -> list[Measured]:
    """Make a recording in a folder, or continue it.

    The earlier recording stays until the new one is complete. Until then, the new one is a draft beside it.

    Returns
    -------
    list of Measured
        The points with a fault.
    """
    made = plan.made_on()
    earlier = begun(plan, folder, made) or plan.form(made, plan.settings, False, [])
    draft, begin, before = draft_of(plan, folder), time.monotonic(), len(plan.missing(earlier.points, process))
    if not before and not draft.exists():
        print(f"{plan.name}: nothing to measure", flush=True)
        return []
    whole = follow(plan, earlier.provenance, earlier.points, lambda now: files.write(draft, now), process)
    faults = [point for point in whole.points if point.fault]
    for point in faults:
        print(f"FAILED: {plan.name}: {point.fault}", flush=True)
    if whole.complete or faults:
        draft.replace(folder / f"{plan.name}.json")
    print(f"{plan.name}: {before} of {len(plan.items)} measured, {time.monotonic() - begin:.0f} s", flush=True)
    return faults


def runnable(plan: Plan) -> Plan:
    """Return the plan without the kernels for which this machine's GPU is too old or too new."""
    if not gpu.available():
        return plan

    def runs(what: Any) -> bool:
        least = getattr(what, "least_capability", (0, 0))
        return gpu.capability() == least if getattr(what, "exact", False) else gpu.capability() >= least

    return dataclasses.replace(plan, items=[item for item in plan.items if runs(item[0])])


def compile_all(plans: Iterable[Plan]) -> None:
    """Compile the kernels of some plans in as many processes as there are cores, for the compiler's cache on disk."""
    kernels = dict.fromkeys(_launched(item) for plan in plans for item in plan.items if isinstance(item[0], Kernel))
    compile_kernels(kernels, gpu.architecture(), progress=False)


def compile_kernels(kernels: Iterable[Kernel], architecture: str, progress: bool | None = None) -> None:
    """Compile kernels in as many processes as there are cores, for the compiler's cache on disk."""
    instances = []
    for kernel in kernels:
        with contextlib.suppress(TutorialError):  # as below
            instances.append(kernel.instance)
    with (
        ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool,
        bar(total=len(instances), show=progress, unit="kernel") as counter,
    ):
        counter.set_description("compiling")
        for _ in pool.map(_compile, instances, repeat(architecture)):
            counter.update()


def _launched(item: Item) -> Kernel:
    """Return the kernel that an item launches: the one that its kernel chooses for the item's size, if it chooses."""
    kernel, *rest = item
    if rest and isinstance(rest[0], tuple):
        return kernel.resolve(imagined(*rest[0], kernel.types), gpu.place()).kernel
    return kernel


def _compile(instance: Instance, architecture: str) -> None:
    with contextlib.suppress(TutorialError):  # the error is reported when it is measured
        build(instance, architecture)
