"""What the chapter on several GPUs quotes: the link by itself, reads through it, and how long a product takes."""

from sgemm_tutorial import Kernel, cublas, find

from ..experiments import two_gpus

LINK = 450e9
"""Bytes per second, one way, by NVLink's data sheet."""


def panel(kernel: Kernel | cublas.Gemm, size: int) -> int:
    """Return the bytes of half of B at M = N = K = `size`."""
    return size * size // 2 * kernel.types.operand.itemsize


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
    c = round(copied, 1) + 1e6 * start
    eighth, piece = 1e3 * ms(fp32, 4096) / 8, round(1e6 * panel(fp32, 4096) / 4 / rate, 1) + 1e6 * start
    eight = round(7 * piece + eighth / 8, 1)
    grid = round(2 * (copied / 2 + 1e6 * start), 1)  # four GPUs: half of a half of A, and as much of B
    one, two = two_gpus.of(fp16, 16384), two_gpus.of(fp16, 16384, 2, "columns")
    assert 0.75 < rate / LINK < 0.95 and far < LINK < near / 10 and t / 4 < c < 0.75 * t
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
        "nccl": f"{1e3 * ms(gemm_ex, 4096, 'gathered', True):.0f} µs",
        "peer": f"{1e3 * ms(gemm_ex, 4096, 'ahead', True):.0f} µs",
        "direct": " and ".join(f"{ms(k, 8192) / ms(k, 8192, 'direct'):.2f}" for k in (fp32, fp16)),
        "direct sgemm": f"{ms(sgemm, 8192) / ms(sgemm, 8192, 'direct'):.2f}",
        "large": " and ".join(f"{two_gpus.reach(512 << 20, far).rate / 1e9:,.0f} GB/s" for far in (False, True)),
        "near": f"{near / 1e9:,.0f} GB/s",
        "far": f"{far / 1e9:.0f} GB/s",
        "share 32": f"{ms(sgemm, 8192, 'columns') / ms(fp32, 8192, 'columns'):.1%}",
        "share 16": f"{ms(gemm_ex, 8192, 'columns') / ms(fp16, 8192, 'columns'):.1%}",
        "short one": f"{1e3 * ms(fp16, 2048):.0f} µs",
        "short panel": f"{1e3 * ms(gemm_ex, 2048, 'ahead', True):.0f} µs",
        "longer 2048": f"{1e3 * (ms(fp32, 2048, 'columns') - ms(fp32, 2048, 'held')):.0f} µs",
        "longer 4096": f"{1e3 * (ms(fp32, 4096, 'columns') - ms(fp32, 4096, 'held')):.0f} µs",
        "range 16384": f"{one.ms_p10 / two.ms_p90:.2f} to {one.ms_p90 / two.ms_p10:.2f}",
        "grid c": f"{grid:.1f} µs",
        "grid last": f"{t / 8:.1f} µs",
        "grid times": f"{t / (grid + t / 8):.1f}",
        "eight t": f"{8 * eighth:,.0f} µs",
        "eight work": f"{eighth:.0f} µs",
        "eight each": f"{eighth / 8:.1f} µs",
        "eight c": f"{piece - 1e6 * start:.1f} µs + {1e6 * start:.0f} µs = {piece:.1f} µs",
        "eight all": f"7 · {piece:.1f} µs + {eighth / 8:.1f} µs = {eight:.1f} µs",
        "eight times": f"{8 * eighth / eight:.1f}",
    }
