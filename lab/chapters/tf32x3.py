"""Computes, for chapter 17 and its deeper pages, the split of a number, the errors of sums, and those of results."""

from collections.abc import Mapping, Sequence

import numpy as np

from ptxsim import multiply_accumulate
from sgemm_tutorial import cublas
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.cublas import Gemm
from sgemm_tutorial.inputs import matrices
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..experiments import accuracy, anatomy, ceilings, clocks, profiles, split_errors, sustained
from ..experiments.accuracy import error
from ..experiments.ceilings import card
from ..model.ceilings import ARITHMETIC, MMA_TF32
from ..model.resources import resources
from ..records.timings import OTHERS, recorded
from ..variants import IN_BF16, find_variant

KEPT = np.uint32(0xFFFFE000)
"""The bits of a float32 that a tensor core of sm_90 takes for TF32, as recorded checksums tell."""


def parts(x: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Return the big part of float32 numbers, their nearest TF32, and the small one as the tensor core takes it."""
    x = np.asarray(x, np.float32)
    big = ((x.view(np.uint32) + np.uint32(1 << 12)) & KEPT).view(np.float32)
    return big, ((x - big).view(np.uint32) & KEPT).view(np.float32)


def bits(x: float) -> Table:
    """Return a float32 number and its parts, bit by bit, and the small part as a tensor core takes it."""
    number = np.float32(x)
    big, cut = parts(number)
    rows = []
    for name, part in (("number", number), ("big part", big), ("small part", number - big), ("small part, cut", cut)):
        text = f"{np.float32(part).view(np.uint32):032b}"
        rows.append((name, f"{part:.9g}", f"{text[0]} {text[1:9]} {text[9:19]} {text[19:]}"))
    return Table(("", "value", "sign, exponent, ten bits, thirteen more"), rows)


def lost(additions: float) -> float:
    """Return the mean relative loss of a growing sum that is cut off so often: half a unit in 0.7 · 2⁻²⁴ on average."""
    return additions / 2 * 0.7 * 2**-24


def small_parts_vanish() -> bool:
    """Return whether simulated products with a small part change no sum of positive numbers from 2¹³ on."""
    random = np.random.default_rng(1)
    (big_x, small_x), (big_y, small_y) = (parts(random.random(shape)) for shape in ((1, 2, 65536), (1, 65536, 2)))
    total, changed = np.zeros((1, 2, 2), np.float32), np.zeros((1, 2, 2), bool)
    for k in range(0, 65536, 8):
        for a, b in ((small_x, big_y), (big_x, small_y), (big_x, big_y)):
            before, total = total, multiply_accumulate(a[:, :, k : k + 8], b[:, k : k + 8], total)
            changed |= (before >= 2**13) & (before != total) & (a is small_x or b is small_y)
    return bool((total >= 2**13).all() and not changed.any())


def same_as_cublas() -> tuple[int, float]:
    """Return in how many cases 16 and cuBLAS err alike, in FP16 and BF16, and the mean of the longest positive sums."""
    pairs = ((find("16"), cublas.gemm_ex), (IN_BF16[1], cublas.gemm_ex_bf16))
    found = [
        tuple((of.worst, of.rms, of.mean, of.lost) for of in (split_errors.of(k, kind, K) for k in pair))
        for pair in pairs
        for kind in split_errors.KINDS
        for K in split_errors.DEPTHS
    ]
    mean = split_errors.of(cublas.gemm_ex, "positive", split_errors.DEPTHS[-1]).mean
    return sum(ours == theirs for ours, theirs in found), mean


def exactness(
    kernels: Mapping[str, Kernel | Gemm], kinds: tuple[str, ...] = split_errors.KINDS, at: tuple[int, ...] = (0, -1)
) -> Table:
    """Return the errors of kernels, and of cuBLAS's routine, at the least and the greatest recorded K, or at others.

    Parameters
    ----------
    kernels : mapping of str to Kernel or Gemm
        By the name that a column is to have.
    kinds : tuple of str
        Of matrices, as `split_errors.KINDS` has them.
    at : tuple of int
        Places of K in `split_errors.DEPTHS`.
    """
    depths = split_errors.DEPTHS
    rows = [
        (kind, K, *(f"{split_errors.of(kernel, kind, K).worst:.1e}" for kernel in kernels.values()))
        for kind in kinds
        for K in (depths[place] for place in at)
    ]
    return Table(
        ("matrices", "K", *kernels),
        rows,
        f"Largest error relative to |A||B|, M = N = {split_errors.SIDE}, {card().name}",
    )


def positive(kernels: Mapping[str, Kernel | Gemm]) -> Table:
    """Return the mean errors of kernels for positive numbers, and the roots of the mean squares, at each recorded K."""
    rows = [
        (K, *(f"{of.mean:.1e}, {of.rms:.1e}" for of in (split_errors.of(k, "positive", K) for k in kernels.values())))
        for K in split_errors.DEPTHS
    ]
    title = f"Positive numbers: mean error and root mean square, relative to |A||B|, M = N = 2048, {card().name}"
    return Table(("K", *kernels), rows, title)


def alone(names: Sequence[str], predicted: Mapping[str, float] | None = None, share: str = ".0%") -> Table:
    """Return the times of kernels and SGEMM at 4096, each alone, below predicted milliseconds if there are any.

    Parameters
    ----------
    names : sequence of str
        The kernels.
    predicted : mapping of str to float, optional
    share : str
        The format of their speeds as a part of SGEMM's.
    """
    size, sgemm = profiles.SIZE, sustained.of(cublas.sgemm).ms
    rows = (predicted or {}) | {of.name: sustained.of(of).ms for of in map(find, names)} | {"SGEMM": sgemm}
    return Table(
        ("", "ms", "TFLOP/s", "of SGEMM's speed"),
        [(name, f"{ms:.2f}", f"{2e-9 * size**3 / ms:.1f}", f"{sgemm / ms:{share}}") for name, ms in rows.items()],
        f"M = N = K = {size}, each alone for {sustained.SECONDS:.0f} s, {card().name}",
    )


def board() -> Table:
    """Return at 4096 what was predicted of 17's speed, and 17, 13 and SGEMM, each alone."""
    ideal = 6 * profiles.SIZE**3 / ceilings.load()[MMA_TF32].tera_per_second / 1e9
    return alone(("17", "13"), {"predicted for 17": ideal}, ".1%")


def at_256() -> dict[int, tuple[float, float, float]]:
    """Return by K the largest errors of 17, simulated, and of cuBLAS and 11, recorded: standard normal, M = N = 256."""
    there = {(e.kernel, e.K): e.total for e in accuracy.load() if e.exponent == 0}
    return {K: (error(find("17"), K).total, there["sgemm", K], there[find("11").name, K]) for K in accuracy.DEPTHS[:4]}


def small_numbers() -> Table:
    """Return the largest errors of 11 and 17 for ever smaller elements of A, as simulated."""
    rows = []
    for exponent in (-100, -112, -116, -120, -126, -132, -140):
        A, B = matrices(64, 64, 64, on_gpu=False)
        A, B = np.ldexp(A, exponent), np.ldexp(B, 60)
        exact, size = A.astype("f8") @ B.astype("f8"), abs(A.astype("f8")) @ abs(B.astype("f8"))
        errors = [float((abs(find(name)(A, B) - exact) / size).max()) for name in ("11", "17")]
        rows.append((f"2^{exponent}", *(f"{error:.1e}" for error in errors)))
    columns = ("A, standard normal times", "11, in FP32", "17")
    return Table(columns, rows, "Simulated: largest error relative to |A||B|, K = 64")


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    split, tuned, pipeline = map(find, ("17", "13", "11"))
    one, roofs, depths = find_variant("17_tf32x3", "one accumulator"), ceilings.load(), split_errors.DEPTHS
    cases = [(kind, K) for kind in split_errors.KINDS for K in depths]
    ours, theirs, single, in_order = (
        [split_errors.of(of, kind, K) for kind, K in cases] for of in (split, cublas.sgemm, one, pipeline)
    )
    assert all(x.worst < y.worst and x.rms < y.rms for x, y in zip(ours, theirs, strict=True)) and len(cases) == 16
    assert all(x.worst > 5 * y.worst and x.rms > 10 * y.rms for x, y in zip(single, theirs, strict=True))
    assert all((x.worst, x.rms, x.mean) == (y.worst, y.rms, y.mean) for x, y in zip(in_order, theirs, strict=True))
    ratios = [-of.mean / lost(3 * of.K / 8) for of in single if of.kind == "positive"]
    (mean,) = {f"{of.mean:.1e}" for of in ours if of.kind == "positive"}
    less = [abs(of.mean) < abs(float(mean)) for of in theirs if of.kind == "positive"]
    assert 0.67 < min(ratios) < max(ratios) < 1.34 and less == [True, True, True, False]
    worst = at_256()
    assert [here < there for here, there, _ in worst.values()] == [False, True, False, False]
    assert [launch.grid for launch in anatomy.of(cublas.sgemm, (256,) * 3).launches] == [[8, 8, 4], [8, 8, 1]]
    fp32, tf32 = (roofs[name].tera_per_second for name in (ARITHMETIC, MMA_TF32))
    points = recorded(split, recording=OTHERS).points
    assert all((of.percent_of_cublas > 100) == (of.M >= 2048) == (of.tflops > fp32) for of in points)
    quick, usual = (recorded(of, [4096], "tensor").points[0].ms for of in (one, split))
    sgemm, ms, before = (sustained.of(of).ms for of in (cublas.sgemm, split, tuned))
    own, own_zeros = (clocks.of(split, inputs=kind).own_mhz for kind in ("normal", "zeros"))
    freed = resources(split).registers - resources(one).registers
    assert 1 < usual / quick < 1.2 and own < own_zeros and freed > 0
    ideal = 6 * 4096**3 / tf32 / 1e9  # ms
    return {
        "before_share": f"{sgemm / before:.0%}",
        "card": card().name,
        "share": f"{sgemm / ms:.0%}",
        "before": f"{before:.2f} ms",
        "took": f"{ms:.2f} ms",
        "seconds": f"{sustained.SECONDS:.0f}",
        "fp32": f"{fp32:.0f} TFLOP/s",
        "tf32": f"{tf32:.0f} TFLOP/s",
        "limit": f"{tf32 / 3:.0f} TFLOP/s",
        "ideal": f"{ideal:.2f} ms",
        "over": f"{ms / ideal:.1f}",
        "split_256": f"{worst[256][0]:.1e}",
        "sgemm_256": f"{worst[256][1]:.1e}",
        "usual": f"{usual:.2f} ms",
        "quick": f"{quick:.2f} ms",
        "freed": str(freed),
        "ratios": f"{min(ratios):.2f} to {max(ratios):.2f}",
        "mean": mean,
        "rms": f"{split_errors.of(split, 'positive', 2048).rms:.1e}",
        "predicted": f"{-lost(3 * split.parameters['BK'] / 8):.1e}",
        "refined": f"{-lost(2 * 17 / 24 * 12):.1e}",  # 17/24 of a last bit for a cut, where `lost` has 1/2
        "busy": f"{profiles.measured(split)['tensor cores used, %']:.1f}%",
        "own": f"{own:,} MHz",
        "own_zeros": f"{own_zeros:,} MHz",
    }
