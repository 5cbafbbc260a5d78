"""Returns the figures of the chapter on several GPUs: the link alone, reads through it, and the time of a product."""

import numpy as np

from sgemm_tutorial import Kernel, Place, cublas, find
from sgemm_tutorial.families.hopper import quickest

from ..boards import find_gpu
from ..experiments import sustained, two_gpus
from ..records import cards, timings

LINK = 450e9
"""Bytes per second, one way, by NVLink's data sheet."""
SIZES = (2048, 4096, 8192, 16384)


def took() -> dict[int, float]:
    """Return the seconds in which halves of B came by themselves, by their bytes."""
    return {
        size * size // 2 * kernel.types.operand.itemsize: coming(kernel, size)
        for kernel in map(find, ("autotuned", "persistent"))
        for size in SIZES
    }


def coming(kernel: Kernel, size: int, way: str = "ahead") -> float:
    """Return the seconds in which what a way brings came by itself, timed with cuBLAS's matrices of these types."""
    return two_gpus.of({"FP32": cublas.sgemm, "FP16": cublas.gemm_ex}[kernel.types.name], size, 2, way, True).ms / 1e3


def link() -> tuple[float, float]:
    """Return the bytes per second of the line through `took`, in whole GB/s, and its start in whole microseconds."""
    seconds = took()
    slope, start = np.polyfit(list(seconds), list(seconds.values()), 1)
    return round(1 / slope, -9), round(start, 6)


def tiles(rows: int) -> tuple[int, int, float]:
    """Return how many tiles 20 cuts so many rows of 2048 columns into on an H200, their columns, and their slowness."""
    width = quickest(rows, 2048, Place(multiprocessors=find_gpu("H200").sms))
    return -(-rows // 128) * -(-2048 // width.BN), width.BN, width.slower


def figures() -> dict[str, str]:
    """Return the figures of the chapter's prose by name, after checking what it says of them."""
    fp32, fp16, sgemm, gemm_ex = find("autotuned"), find("persistent"), cublas.sgemm, cublas.gemm_ex

    def ms(who: Kernel | cublas.Gemm, size: int, way: str = "one") -> float:
        return two_gpus.of(who, size, *((1, "held") if way == "one" else (2, way))).ms

    (rate, start), varied, one, two, own_21, lasting, small, (near, far) = (
        link(),
        two_gpus.of(fp16, 16384),
        two_gpus.of(fp16, 4096),
        two_gpus.of(fp16, 4096, 2, "columns"),
        sustained.of(find("21"), protocol="in turns").ms,
        1e3 * sustained.of(fp16).ms,
        1e3 * timings.recorded(fp32, 1024, str(cards.folder("h200") / "squares.json")).points[0].ms,
        (two_gpus.reach(16 << 20, there).rate for there in (False, True)),
    )
    t, c = 1e3 * ms(fp16, 4096), round(1e6 * coming(fp16, 4096), 1)
    (whole, width, _), (halves, narrow, slower) = tiles(2048), tiles(1024)
    in_32, in_16 = (
        sorted(ms(gemm, size, "columns") / ms(of, size, "columns") for size in SIZES)
        for of, gemm in ((fp32, sgemm), (fp16, gemm_ex))
    )
    assert (
        (0.75 < rate / LINK < 0.95 and far < LINK < near / 10 and t / 4 < c < 0.75 * t)
        and slower > 1
        and whole == 128
        and all(
            ms(of, size, "held") < 1.01 * ms(of, size, way)
            for of in (fp32, fp16)
            for size in SIZES
            for way in ("gathered", "columns")
        )
        and all((ms(of, n, "ahead") < ms(of, n, "columns")) == (n == 2048) for of in (fp32, fp16) for n in SIZES)
        and in_32[0] > 0.995
        and own_21 < ms(fp32, 4096, "columns")
        and ms(fp32, 2048) / 4 < 0.9e-3 * 2 * small < 0.9 * 0.5 * ms(fp32, 2048, "columns")
        and lasting / 4 < c
    )
    return {
        "one 21": f"{own_21:.2f} ms",
        "two 13": f"{ms(fp32, 4096, 'columns'):.2f} ms",
        "fp32": f"{ms(fp32, 4096) / ms(fp32, 4096, 'columns'):.2f}",
        "small": f"{small:.1f} µs",
        "quarter small": f"{2 * small:.0f} µs",
        "two small": f"{4 * small:.0f} µs",
        "quarter 2048": f"{1e3 * ms(fp32, 2048) / 4:.0f} µs",
        "columns small": f"{1e3 * ms(fp32, 2048, 'columns'):.0f} µs",
        "two 20": f"{1e3 * ms(fp16, 4096, 'columns'):.1f} µs",
        "fp16": f"{ms(fp16, 4096) / ms(fp16, 4096, 'columns'):.2f}",
        "link": f"{rate / 1e9:.0f} GB/s, {rate / LINK:.0%}",
        "apart": f"{1e6 * max(abs(seconds - much / rate - start) for much, seconds in took().items()):.1f} µs",
        "start": f"{1e6 * start:.0f} µs",
        "trusted": f"{one.ms_p10 / two.ms_p90:.2f} to {one.ms_p90 / two.ms_p10:.2f}",
        "lasting": f"{lasting:.0f} µs",
        "lasting times": f"{lasting / (lasting / 4 + c):.2f}",
        "t": f"{t:.1f} µs",
        "quarter": f"{t / 4:.1f} µs",
        "varied": f"{varied.ms_p90 / varied.ms_p10 - 1:.0%}",
        "c": f"{c:.1f} µs",
        "both": f"{round(t / 4, 1) + c:.1f} µs",
        "times": f"{round(t, 1) / (round(t / 4, 1) + c):.2f}",
        "whole tiles": f"{whole} tiles of 128 × {width}",
        "half tiles": f"{halves} tiles of 128 × {narrow}",
        "narrow": f"{slower / 2:.3f}",
        "at best": f"{2 / slower:.1f}",
        "near": f"{near / 1e9:,.0f} GB/s",
        "far": f"{far / 1e9:.0f} GB/s",
        "share 32": f"{in_32[0]:.0%} to {in_32[-1]:.0%}",
        "share 16": f"{in_16[0]:.0%} to {in_16[-1]:.0%}",
    }
