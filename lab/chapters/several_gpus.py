"""What the chapter on several GPUs quotes: the link by itself, reads through it, and what each way costs."""

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
    """Return the seconds in which panels came by themselves, by their bytes, the smallest first."""
    each = ((gemm, size) for gemm in (cublas.sgemm, cublas.gemm_ex) for size in (2048, 4096, 8192, 16384))
    return {panel(*at): two_gpus.of(*at, 2, "ahead", True).ms / 1e3 for at in sorted(each, key=lambda at: panel(*at))}


def late() -> list[float]:
    """Return the seconds, in order, that panels took beyond what their bytes need at the rate of the largest."""
    *smaller, (most, longest) = took().items()
    return sorted(seconds - size / most * longest for size, seconds in smaller)


def link() -> tuple[float, float]:
    """Return the bytes per second of the largest panel, and the microseconds that a copy takes besides, in seconds."""
    seconds = took()
    return max(seconds) / seconds[max(seconds)], round(late()[3], 6)


def figures() -> dict[str, str]:
    """Return the figures of the chapter's prose by name, after checking what it says of them."""
    fp32, fp16, sgemm, gemm_ex = find("autotuned"), find("persistent"), cublas.sgemm, cublas.gemm_ex

    def ms(who: Kernel | cublas.Gemm, size: int, way: str = "one", alone: bool = False) -> float:
        return two_gpus.of(who, size, *((1, "held") if way == "one" else (2, way)), alone).ms

    (rate, start), (near, far) = link(), (two_gpus.reach(16 << 20, there).rate for there in (False, True))
    t, copied = 1e3 * ms(fp16, 4096), 1e6 * panel(fp16, 4096) / rate
    c, nccl, held = (
        round(copied, 1) + 1e6 * start,
        1e3 * ms(gemm_ex, 4096, "gathered", True),
        1e3 * ms(fp16, 4096, "held"),
    )
    eighth, piece = 1e3 * ms(fp32, 4096) / 8, round(1e6 * panel(fp32, 4096) / 4 / rate, 1) + 1e6 * start
    eight = round(7 * piece + eighth / 8, 1)
    asked = [reads(k, 8192) * panel(k, 8192) / (ms(k, 8192, "direct") - ms(k, 8192) / 4) / 1e6 for k in (fp32, fp16)]
    added = [ms(k, M, "ahead") - ms(k, M, "columns") for k, M in ((fp16, 8192), (gemm_ex, 8192), (gemm_ex, 16384))]
    least = 4 * 8192**2 / ceilings.load()[DRAM].tera_per_second / 1e9
    one, two = two_gpus.of(fp16, 16384), two_gpus.of(fp16, 16384, 2, "columns")
    assert all(
        (
            0.75 < rate / LINK < 0.95 and far < LINK < near / 10 and max(asked) * 1e9 < rate and t / 4 < c < 0.75 * t,
            0.9 < added[0] / least < 1.3 and added[2] < 0 and abs(held + nccl - 1e3 * ms(fp16, 4096, "gathered")) < 1,
        )
    )
    return {
        "fp32": f"{ms(fp32, 8192) / ms(fp32, 8192, 'columns'):.2f}",
        "fp16": f"{ms(fp16, 4096) / ms(fp16, 4096, 'columns'):.2f}",
        "link": f"{rate / 1e9:.0f} GB/s, {rate / LINK:.0%}",
        "late": f"{1e6 * late()[0]:.0f} to {1e6 * late()[-1]:.0f} µs",
        "start": f"{1e6 * start:.0f} µs",
        "t": f"{t:.1f} µs",
        "quarter": f"{t / 4:.1f} µs",
        "bytes": f"{copied:.1f} µs",
        "c": f"{c:.1f} µs",
        "both": f"{round(t / 4, 1) + c:.1f} µs",
        "times": f"{round(t, 1) / (round(t / 4, 1) + c):.2f}",
        "r": "{}, {} and {}".format(*(reads(fp16, size) for size in (2048, 4096, 8192))),
        "r 32": f"{reads(fp32, 8192)}",
        "hidden 32": f"{ms(fp32, 8192, 'columns'):.2f} ms and {ms(fp32, 8192, 'held'):.2f} ms",
        "hidden 16": f"{ms(fp16, 8192, 'columns'):.3f} ms and {ms(fp16, 8192, 'held'):.3f} ms",
        "large": "{:.1%} and {:.1%}".format(
            *(ms(k, 16384, "columns") / ms(k, 16384, "held") - 1 for k in (fp32, fp16))
        ),
        "theirs longer": f"{ms(gemm_ex, 16384, 'columns') - ms(gemm_ex, 16384, 'held'):.2f} ms",
        "theirs copy": f"{ms(gemm_ex, 16384, 'ahead', True):.2f} ms",
        "small": f"{ms(fp16, 4096) / 4 + ms(gemm_ex, 4096, 'ahead', True):.3f} ms",
        "small now": f"{ms(fp16, 4096, 'columns'):.3f} ms",
        "nccl": f"{nccl:.0f} µs",
        "peer": f"{1e3 * ms(gemm_ex, 4096, 'ahead', True):.0f} µs",
        "held": f"{held:.0f} µs",
        "gathered": f"{1e3 * ms(fp16, 4096, 'gathered'):.0f} µs",
        "added": f"{added[0]:.3f} ms",
        "added theirs": f"{added[1]:.3f} ms",
        "least": f"{least:.3f} ms",
        "direct": f"{ms(fp32, 8192, 'direct'):.1f} ms",
        "direct theirs": f"{ms(sgemm, 8192, 'direct'):.1f} ms",
        "one theirs": f"{ms(sgemm, 8192):.1f} ms",
        "asked": "{:.0f} and {:.0f} GB/s".format(*asked),
        "near": f"{near / 1e9:,.0f} GB/s",
        "far": f"{far / 1e9:.0f} GB/s",
        **{
            name: " to ".join(f"{ms(theirs, M, way) / ms(ours, M, way):.1%}" for way in ("one", "columns"))
            for name, theirs, ours, M in (
                ("share 32", sgemm, fp32, 8192),
                ("share 16", gemm_ex, fp16, 8192),
                ("share 2048", gemm_ex, fp16, 2048),
            )
        },
        "short one": f"{1e3 * ms(fp16, 2048):.0f} µs",
        "short panel": f"{1e3 * ms(gemm_ex, 2048, 'ahead', True):.0f} µs",
        "half 2048": f"{ms(fp16, 2048, 'held') / ms(fp16, 2048):.0%}",
        "held 2048": f"{ms(fp32, 2048) / ms(fp32, 2048, 'held'):.2f}",
        "longer 2048": f"{1e3 * (ms(fp32, 2048, 'columns') - ms(fp32, 2048, 'held')):.0f} µs",
        "at 16384": f"{one.ms / two.ms:.2f}",
        "range 16384": f"{one.ms_p10 / two.ms_p90:.2f} to {one.ms_p90 / two.ms_p10:.2f}",
        "eight t": f"{8 * eighth:,.0f} µs",
        "eight work": f"{eighth:.0f} µs",
        "eight each": f"{eighth / 8:.1f} µs",
        "eight c": f"{piece - 1e6 * start:.1f} µs + {1e6 * start:.0f} µs = {piece:.1f} µs",
        "eight all": f"7 · {piece:.1f} µs + {eighth / 8:.1f} µs = {eight:.1f} µs",
        "eight times": f"{8 * eighth / eight:.1f}",
    }
