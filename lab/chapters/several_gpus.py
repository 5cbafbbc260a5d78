"""What the chapter on several GPUs quotes: the link by itself, reads through it, and what rows and reads cost."""

from sgemm_tutorial import Kernel, Place, cublas, find, imagined

from ..experiments import ceilings, two_gpus
from ..model.ceilings import DRAM

LINK = 450e9
"""Bytes per second, one way, by NVLink's data sheet."""


def panel(kernel: Kernel | cublas.Gemm, size: int) -> int:
    """Return the bytes of half of B at M = N = K = `size`."""
    return size * size // 2 * kernel.types.operand.itemsize


def reads(kernel: Kernel, size: int) -> int:
    """Return how often one of two GPUs asks for a panel of rows of B: once for each row of tiles, or of clusters."""
    problem = imagined(size // 2, size, size // 2, kernel.types)
    of = kernel.resolve(problem, Place("sm_90", ceilings.card().sms)).kernel.parameters
    return size // 2 // (of["BM"] * of.get("CLUSTER", 1))


def took() -> dict[int, float]:
    """Return the seconds in which panels came by themselves, by their bytes."""
    each = ((gemm, size) for gemm in (cublas.sgemm, cublas.gemm_ex) for size in (2048, 4096, 8192, 16384))
    return {panel(*at): two_gpus.of(*at, 2, "ahead", True).ms / 1e3 for at in sorted(each, key=lambda at: panel(*at))}


def late() -> list[float]:
    """Return the seconds that panels up to 64 MiB took beyond what their bytes need at the rate of the largest."""
    seconds = took()
    return [seconds[size] - size / max(seconds) * seconds[max(seconds)] for size in list(seconds)[:5]]


def link() -> tuple[float, float]:
    """Return the bytes per second of the largest panel, and the seconds that a copy costs however small it is."""
    seconds = took()
    return max(seconds) / seconds[max(seconds)], sorted(late())[2]


def spread(shown: list[tuple[Kernel, int]]) -> float:
    """Return how far apart the 10th and 90th percentiles of these times are at most, relative to the median."""
    ways = ((1, "held"), *((2, way) for way in ("held", "gathered", "ahead", "columns", "direct")))
    points = (two_gpus.of(*each, *way) for each in shown for way in ways)
    return max((p.ms_p90 - p.ms_p10) / p.ms for p in points)


def figures() -> dict[str, str]:
    """Return the figures of the chapter's prose by name."""
    fp32, fp16, (rate, _), more = find("autotuned"), find("persistent"), link(), [1e6 * s for s in late()]
    near, far = (two_gpus.reach(16 << 20, there).rate for there in (False, True))
    ms = {
        (k, way): two_gpus.of(k, 8192, 1 if way == "held" else 2, way).ms  # one GPU holds all
        for k in (fp32, fp16)
        for way in ("held", "ahead", "columns", "direct")
    }
    asked = [reads(k, 8192) * panel(k, 8192) / (ms[k, "direct"] - ms[k, "held"] / 4) / 1e6 for k in (fp32, fp16)]
    added, least = ms[fp16, "ahead"] - ms[fp16, "columns"], 4 * 8192**2 / ceilings.load()[DRAM].tera_per_second / 1e9
    small = two_gpus.of(fp16, 4096).ms / 4 + took()[panel(fp16, 4096)] * 1e3
    assert 0.75 < rate / LINK < 0.95 and max(more) < 1.3 * min(more) and far < LINK < near / 10
    assert max(asked) * 1e9 < rate and 0.9 < added / least < 1.3, (asked, added, least)
    assert abs(two_gpus.of(fp16, 4096, 2, "columns").ms / small - 1) < 0.06
    return {
        "fp32": f"{two_gpus.of(fp32, 16384).ms / two_gpus.of(fp32, 16384, 2, 'columns').ms:.2f}",
        "fp16": f"{two_gpus.of(fp16, 16384).ms / two_gpus.of(fp16, 16384, 2, 'columns').ms:.2f}",
        "link": f"{rate / 1e9:.0f} GB/s, {rate / LINK:.0%}",
        "late": f"{min(more):.0f} to {max(more):.0f} µs",
        "near": f"{near / 1e9:,.0f} GB/s",
        "far": f"{far / 1e9:.0f} GB/s",
        "asked 32": f"{asked[0]:.0f} GB/s",
        "asked 16": f"{asked[1]:.0f} GB/s",
        "added": f"{added:.3f} ms",
        "least": f"{least:.3f} ms",
        "small": f"{small:.3f} ms",
        "small now": f"{two_gpus.of(fp16, 4096, 2, 'columns').ms:.3f} ms",
    }
