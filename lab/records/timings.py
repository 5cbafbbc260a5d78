"""Recorded times: each kernel beside cuBLAS, sample by sample, from one process or several."""

import dataclasses
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from sgemm_tutorial.catalogue import CATALOGUE, LADDER
from sgemm_tutorial.catalogue import find as kernel_named
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table, Tabular, shown
from sgemm_tutorial.timing import percentiles

from . import cards, files
from .files import Recording, Sized
from .sizes import Size, sizes_of, times_of

Ms = Annotated[float, Meta(gt=0)]
RACE = "squares"
"""The recording of 13, whose times follow the ladder's."""
OTHERS = "others"
"""The recording of the rungs beside the ladder."""
HOMES = ("ladder", RACE, OTHERS)
"""The recordings of a card that hold the times of the kernels."""


@dataclass(frozen=True)
class Samples:
    """The samples that one process took of a launch.

    Attributes
    ----------
    ms : list of float
        Device time of one launch.
    sm_mhz : list of int or None
        The clock of the multiprocessors while the sample ran; None where NVML does not tell.
    watts : list of int or None
        The card's power, likewise.
    """

    ms: list[Ms]
    sm_mhz: list[int | None]
    watts: list[int | None]


def paired(*processes: tuple[Sequence[Ms], Sequence[Ms]]) -> float:
    """Return a speed as a percentage of another, given the samples of both in each process.

    It is the median over pairs of samples, one taken right after the other.
    """
    return 100 * statistics.median(theirs / own for both in processes for own, theirs in zip(*both, strict=True))


@dataclass(frozen=True)
class Process:
    """The samples of one process with a CUDA context of its own: a kernel and cuBLAS, sampled in turn.

    There are samples of the quickest algorithm of cuBLASLt too, if it was searched for.
    """

    own: Samples
    cublas: Samples
    searched: Samples | None = None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A time that was taken again and again.

    Attributes
    ----------
    ms, ms_p10, ms_p90 : float
        Median, 10th and 90th percentile.
    """

    ms: Ms
    ms_p10: Ms
    ms_p90: Ms


@dataclass(frozen=True)
class Searched(Spread):
    """The quickest of the algorithms that cuBLASLt offers for a product: the device time of one launch.

    Attributes
    ----------
    algorithm : str
        Its description, `cublaslt.Candidate.text`.
    tried : int
        The number of algorithms.
    """

    algorithm: str
    tried: int


@dataclass(frozen=True)
class Point(Sized):
    """One kernel at one size, and cuBLAS, measured in the same runs.

    Attributes
    ----------
    M, N, K : int
    ms, ms_p10, ms_p90 : float
        Median, 10th and 90th percentile of the device time of one launch.
    cublas_ms, cublas_ms_p10, cublas_ms_p90 : float
        The same of cuBLAS, with the kernel's types.
    samples, batch : int
        Samples taken, and launches in each.
    processes : list of Process
        The samples themselves; empty in recordings of one process that did not keep them.
    searched : Searched, optional
        The second opponent, if it was searched for and found.
    """

    ms: Ms
    ms_p10: Ms
    ms_p90: Ms
    cublas_ms: Ms
    cublas_ms_p10: Ms
    cublas_ms_p90: Ms
    samples: int
    batch: int
    processes: list[Process] = field(default_factory=list, hash=False)
    searched: Searched | None = None

    @classmethod
    def summing(
        cls, batch: int, processes: list[Process], found: tuple[str, int] | None = None, **what: Any
    ) -> "Point":
        """Return the point of these samples. `what` are its other fields.

        `found` is cuBLASLt's algorithm and the number of algorithms tried, if all processes have samples of it.
        """
        own = [ms for process in processes for ms in process.own.ms]
        what |= percentiles(own) | percentiles([ms for process in processes for ms in process.cublas.ms], "cublas_ms")
        if found:
            what["searched"] = Searched(*found, **percentiles([ms for each in processes for ms in each.searched.ms]))
        return cls(**what, samples=len(own), batch=batch, processes=processes)

    @property
    def times(self) -> int:
        """The number of processes in which it was measured, as far as their samples were kept."""
        return len(self.processes)

    def joined(self, other: "Point") -> "Point":
        """Return the point of both points' samples."""
        what = {each.name: getattr(other, each.name) for each in dataclasses.fields(Sized)}
        found = other.searched and (other.searched.algorithm, other.searched.tried)
        return Point.summing(other.batch, self.processes + other.processes, found, **what)

    @property
    def tflops(self) -> float:
        """Rate in 10¹² operations per second: 2MNK of them, as the field counts."""
        return 2 * self.M * self.N * self.K / self.ms / 1e9

    @property
    def percent_of_cublas(self) -> float:
        """Speed as a percentage of cuBLAS's: the median over pairs of samples, one taken right after the other.

        A pair shares a clock, whatever a power limit does between pairs. Where a recording did not keep its samples,
        it is the ratio of the medians.
        """
        return self._percent_of("cublas", self.cublas_ms)

    @property
    def percent_of_searched(self) -> float:
        """The same, against the quicker one of cuBLAS and cuBLASLt's best algorithm, if that was searched for."""
        if not self.searched:
            return self.percent_of_cublas
        return min(self.percent_of_cublas, self._percent_of("searched", self.searched.ms))

    @property
    def opponent_ms(self) -> float:
        """The median time of the quicker one of cuBLAS and cuBLASLt's best algorithm, if that was searched for."""
        return min(self.cublas_ms, self.searched.ms) if self.searched else self.cublas_ms

    def _percent_of(self, who: str, ms: float) -> float:
        both = [(each.own.ms, getattr(each, who).ms) for each in self.processes]
        return paired(*both) if both else 100 * ms / self.ms

    @property
    def medians(self) -> list[float]:
        """Median times by process."""
        return [statistics.median(process.own.ms) for process in self.processes] or [self.ms]


@dataclass(frozen=True, repr=False)
class Record(Tabular, Recording[Point]):
    """Times with their provenance and settings."""

    def select(self, kernels: Collection[Kernel] | None = None, sizes: Collection[Size] | None = None) -> "Record":
        """Return a record of only these kernels, as they are now, and sizes; None means all."""
        wanted = None if kernels is None else {files.identity(kernel): kernel for kernel in kernels}
        points = [
            files.named(point, wanted[point.identity]) if wanted else point
            for point in self.points
            if (sizes is None or point.size in sizes) and (wanted is None or point.identity in wanted)
        ]
        return dataclasses.replace(self, points=points)

    @property
    def noise(self) -> float | None:
        """The difference between two kernels that is noise, as a fraction of their times.

        The medians of single processes vary around the median of all. Noise is twice the standard deviation of the
        difference between two kernels' means over processes. It is None if no point is of several processes.
        """
        several = [point.medians for point in self.points if len(point.medians) > 1]
        if not several:
            return None
        variance = np.mean([np.var(np.log(medians), ddof=1) for medians in several])
        return float(2 * np.sqrt(2 * variance / min(map(len, several))))

    def table(self) -> Table:
        """Return the points as a table, by size, in the order measured.

        It has a column of template parameters if a kernel was measured with several, and one of changes to the source
        if there are any.
        """
        points = sorted(self.points, key=lambda point: point.M * point.N * point.K)
        columns = {
            "kernel": [point.kernel for point in points],
            "change": [point.label for point in points],
            "types": [point.types for point in points],
            "parameters": [", ".join(f"{name} {value}" for name, value in p.parameters.items()) for p in points],
            "M×N×K": [times_of(point.size) for point in points],
            "ms": [point.ms for point in points],
            "10–90%": [f"{shown(point.ms_p10)}–{shown(point.ms_p90)}" for point in points],
            "cuBLAS ms": [point.cublas_ms for point in points],
            "TFLOP/s": [point.tflops for point in points],
            "% of cuBLAS": [point.percent_of_cublas for point in points],
        }
        if not any(columns["change"]):
            del columns["change"]
        if len(set(columns["types"])) < 2:
            del columns["types"]
        if len({(point.kernel, point.size, point.label) for point in points}) == len(points):
            del columns["parameters"]
        of = self.provenance
        title = self.made + ("" if self.complete else " (broken off)")
        note = (
            f"Medians of device time, cuBLAS measured in the same run. Driver {of['driver']}, "
            f"NVRTC {of['nvrtc']}, cuBLAS {of['cublas']}, CuPy {of['cupy']}."
        )
        return Table(list(columns), list(map(list, zip(*columns.values(), strict=True))), title, note)

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON has it, and each point's rates, which the file leaves out."""
        data = msgspec.to_builtins(self)
        for point, of in zip(data["points"], self.points, strict=True):
            point |= {"tflops": round(of.tflops, 4), "percent_of_cublas": round(of.percent_of_cublas, 3)}
        return data


def load(name: str | Path) -> Record:
    """Read a record: one of the shown card, such as ``"ladder"``, or a JSON file; see `files.load`."""
    return files.load(name, Record)


def recorded(
    kernels: Kernel | str | Sequence[Kernel | str] = LADDER,
    sizes: int | Sequence[int | Size] | None = None,
    recording: str | Path | None = None,
) -> Record:
    """Return the recorded points of these kernels, as they are now, and of these sizes; all sizes unless given.

    Unless a recording is named, it is what the book's recordings of the shown card hold together; see `of_card`.

    A kernel whose file cannot be read is left out, unless it is the only one.

    Raises
    ------
    ArgumentError
        As for `load`, or it holds none of them, or the files of none of them can be read.
    """
    listed, wanted = kernels_of(kernels), None if sizes is None else sizes_of(sizes)
    chosen = list(filter(_readable, listed)) or listed
    record = load(recording) if recording else of_card()
    recording = recording or _home(chosen[0])
    found = record.select(chosen, wanted)
    if found.points:
        return found
    if not record.select(chosen).points:
        said = [files.unknown(kernel, record.points, str(recording)) for kernel in chosen]
        raise ArgumentError("kernels", "; ".join(got for got, _ in said), said[0][1])
    has = sorted({point.size for point in record.select(chosen).points})
    asked = ", ".join(map(times_of, wanted or ()))
    raise ArgumentError(
        "sizes", f"{asked}: not in the recording {recording}", f"some of {', '.join(map(times_of, has))}"
    )


def _home(kernel: Kernel) -> str:
    """Return the recording that has a kernel's times, by name."""
    number = CATALOGUE.index(kernel) if kernel in CATALOGUE else 0
    return RACE if kernel.family.chooses and number < len(LADDER) else OTHERS if number >= len(LADDER) else "ladder"


def of_card(card: str | None = None) -> Record:
    """Return the times of every kernel of the catalogue on a card, the shown one unless named as its folder is.

    They stand in three recordings: the ladder's, 13's, which takes at each size what was tuned for it on that card, and
    the others'. Provenance and settings are the ladder's.

    Raises
    ------
    ArgumentError
        As for `load`.
    """
    ladder, *more = (files.path_of(name) if card is None else cards.folder(card) / f"{name}.json" for name in HOMES)
    found = load(ladder)
    points = [point for path in more if path.exists() for point in load(path).points]
    return dataclasses.replace(found, points=found.points + points)


def climb(sizes: int | Sequence[int | Size] | None = None, card: str | None = None) -> Record:
    """Return the ladder's times on a card, the shown one unless named as its folder is; without 13 where it has none.

    Raises
    ------
    ArgumentError
        As for `recorded`.
    """
    found = of_card(card).select(LADDER, None if sizes is None else sizes_of(sizes))
    if not found.points:
        raise ArgumentError("sizes", str(sizes), "sizes that were recorded")
    return found


def _readable(kernel: Kernel) -> bool:
    try:
        return bool(kernel.files)
    except ArgumentError:
        return False


def no_gpu(recording: Recording) -> str:
    """Return the line that explains why a recording is shown."""
    of = recording.provenance
    return f"No GPU here: showing the recording made on {of['gpu']} on {of['date'][:10]}."


def kernels_of(kernels: Kernel | str | Sequence[Kernel | str]) -> list[Kernel]:
    """Return the kernels that are named or given, each once."""
    listed = [kernels] if isinstance(kernels, Kernel | str) else list(kernels)
    found = [kernel_named(kernel) if isinstance(kernel, str) else kernel for kernel in listed]
    if not found or not all(isinstance(kernel, Kernel) for kernel in found):
        raise ArgumentError("kernels", repr(kernels), "one or more kernels or their names")
    return [kernel for i, kernel in enumerate(found) if kernel not in found[:i]]
