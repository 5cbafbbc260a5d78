"""Draws the threads of 05's block over its tile, and counts the reads that the compiler merges."""

import numpy as np

from ptxsim import wavefronts
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table

from ..accesses import owners
from ..draw import Figure
from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, WIDTH, Page
from ..draw.owners import rectangles
from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..model.predictions import PIPELINE, cycles
from ..model.resources import kernel_occupancy, resources
from ..model.sass import sass_mix
from ..records.timings import recorded
from ..variants import find_variant
from . import account, register_banks
from .vectorized import milliseconds

LEFT, TOP, HEIGHT = 56, 3 * LINE, 30


def threads(kernel: Kernel | str, thread: int, down: int = 6) -> Figure:
    """Draw the uppermost rectangles of a block's tile of C with their threads' numbers, one thread and its warp lit.

    Parameters
    ----------
    kernel : Kernel or str
        Each of its threads computes one rectangle.
    thread : int
        In the rows that are drawn.
    down : int
        How many rows of threads to draw.
    """
    kernel = find(kernel)
    found = owners(kernel)
    rows = down * kernel.parameters["TM"]
    pitch = (WIDTH - MARGIN - LEFT) / found.shape[1]
    sheet = Page(TOP + down * HEIGHT + MARGIN, title=f"{kernel.name}: which thread has which rectangle of C")
    boxes, lit, warp = [], [], []
    for (row, column, height, width), number in rectangles(found[:rows]):
        box = (LEFT + column * pitch, TOP + row / height * HEIGHT, width * pitch, HEIGHT)
        boxes.append(box)
        lit += [box] * (number == thread)
        warp += [box] * (number // WARP == thread // WARP)
        sheet.text(box[0] + box[2] / 2, box[1] + 20, str(number), "center")
        if row == 0:
            sheet.text(box[0] + box[2] / 2, TOP - 8, str(column), "center")
        if column == 0:
            sheet.text(LEFT - 8, box[1] + 20, str(row), "right")
    sheet.boxes(warp, (BLUE, 0.2))
    sheet.boxes(lit, (GREEN, 0.55))
    sheet.boxes(boxes, edgecolor=INK)
    sheet.boxes(lit, edgecolor=INK, linewidth=3)
    row, column = np.argwhere(found == thread)[0]
    return sheet.finish(
        f"The first {down} rows of threads over the tile of C of {kernel.name}. Thread {thread} has the rectangle that "
        f"begins at row {row}, column {column}."
    )


def wide_reads(kernel: Kernel) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the wavefronts and the conflicts of a warp's read of 16 bytes per lane of As in 05, and of one of Bs."""
    _, BN, BK, TM, TN = kernel.parameters.values()
    lanes = np.arange(WARP)
    row, column = lanes // (BN // TN) * TM, lanes % (BN // TN) * TN
    of_a, of_b = (wavefronts(4 * words[None, :], width=16, kind="load") for words in (BK * row, column))
    return of_a, of_b


def shapes() -> Table:
    """Return reads, resident warps and times of columns and rectangles of other sizes, beside 05."""
    own = find("05")
    kernels = {
        "16 × 1 (04)": find("04"),
        "16 × 1, four k at once": find_variant("04", "unrolled by 4"),
        "4 × 4": own.variant(BM=64, BN=64, TM=4, TN=4),
        "8 × 4 (05)": own,
        "8 × 8": own.variant(BM=128, BN=128, TM=8, TN=8),
    }
    rows = []
    for name, kernel in kernels.items():
        loop, of, ms = sass_mix(kernel)["loop"], kernel.parameters, milliseconds(kernel)
        unrolled = loop["FFMA"] // (of["TM"] * of.get("TN", 1))
        # All lanes of a column want the same words of As, 8 bytes of them in a wavefront. Of Bs, each reads one word.
        (a, _), (b, _) = wide_reads(kernel) if "TN" in of else ((unrolled // 2, 0), (unrolled, 0))
        reads = sum(count for opcode, count in loop.items() if opcode.startswith("LDS"))
        each = (f"{count / loop['FFMA']:.3f}" for count in (reads, of["TM"] * a + of.get("TN", 1) * b))
        rows.append((name, *each, kernel_occupancy(kernel, card()).warps, f"{ms:.3f}" if ms else "–"))
    return Table(
        ("elements per thread", "reads", "wavefronts", "warps per SM", "ms"),
        rows,
        f"Shapes, M = N = K = {account.SIZE}, {card().name}",
        "Reads of shared memory in the machine code and their wavefronts by the rule, for each multiply-add of a warp.",
    )


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them.

    Of cards that lack a measurement a figure is a dash.
    """
    before, now = find("04"), find("05")
    pairs = list(zip(*(recorded(kernel).points for kernel in (before, now)), strict=True))
    (pipeline, slots, alone), registers = account.busy(now).values(), account.with_registers(now)
    assert pipeline < slots < 0.7 * pairs[-1][1].ms and (registers is None or pipeline < registers < slots)
    new = counters.measured(now, *(account.SIZE,) * 3)
    assert pipeline < account.busy(before)[account.PARTS[0]] / 2
    counted, predicted = account.per_multiply_add(new["l1_data_wavefronts"]), cycles(now, card())[PIPELINE]
    assert abs(predicted / counted - 1) < 0.02
    profile, limits = profiles.measured(now), card().limits
    between, chosen = profile[profiles.BETWEEN], profile["state: another warp was chosen"]
    longest = ("dispatch", "waits for shared memory", "waits for L2 or DRAM")
    held = register_banks.dispatched(profile, registers / alone) if registers else None
    waits = {name: profile[f"state: {name}"] for name in longest}
    assert (held is None or 0.9 < held / waits["dispatch"] < 1) and (
        min(waits.values()) > 0.4 and sum(waits.values()) > (between - 1 - chosen) / 2
    )
    used, warps = (
        profile["issue slots used, %"],
        profile["warps resident, %"] / 100 * limits.max_threads_per_sm / WARP / limits.warp_granularity,
    )
    whole = slots / pairs[-1][1].ms
    assert abs(warps / between * 100 / used - 1) < 0.01 and round(warps) == 4 and 0.95 * used < 100 * whole < used
    faster = [two.ms < one.ms for one, two in pairs if one.M >= 768]
    assert sum(faster) >= len(faster) - 1 and all(one.ms < two.ms for one, two in pairs if one.M <= 640)
    square, column = milliseconds(now.variant(BM=64, TM=4)), milliseconds(before)
    of_four = milliseconds(find_variant("04", "unrolled by 4"))
    assert square is None or square > milliseconds(now)
    return {
        "pipeline before": f"{account.busy(before)[account.PARTS[0]]:.2f} ms",
        "predicted": f"{predicted:.3f}",
        "counted": f"{counted:.3f}",
        "slots": f"{slots:.2f} ms",
        "bound": f"{account.milliseconds(account.SIZE**3 / WARP * (1 + 12 / 128 + 2 * (1 / 64 + 1 / 128)) / 4):.2f} ms",
        "registers ms": f"{registers:.2f} ms" if registers else "–",
        "others": f"{1 - account.SIZE**3 / WARP / new['instructions']:.0%}",
        "between": f"{between:.2f}",
        "dispatch": f"{waits['dispatch']:.2f}",
        "held": f"{held:.2f}" if held else "–",
        "waiting": f"{between - 1 - chosen:.2f}",
        "registers": f"{resources(now).registers}",
        "slots active": f"{used:.0f}%",
        "slots in all": f"{whole:.0%}",
        "SMs": f"{card().sms}",
        "slots empty": f"{100 - used:.0f}%",
        "warps": f"{warps:.2f}",
        "square": f"{1 - square / column:.0%}" if square else "–",
        "square of four": f"{1 - square / of_four:.0%}" if square and of_four else "–",
        "faster": f"{sum(faster)} of {len(faster)}",
    }
