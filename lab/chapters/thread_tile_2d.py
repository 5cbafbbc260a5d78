"""What chapter 05 draws and counts: the threads of a block over its tile, and the reads that the compiler merges."""

from __future__ import annotations

import numpy as np

from ptxsim import SECTOR, wavefronts
from sgemm_tutorial.catalogue import find
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel

from ..accesses import owners
from ..draw import Figure
from ..draw.figure import BLUE, GREEN, INK, LINE, MARGIN, WIDTH, Page
from ..draw.owners import rectangles
from ..experiments import ceilings, counters, profiles
from ..experiments.ceilings import card
from ..model.predictions import PIPELINE, cycles
from ..model.resources import kernel_occupancy, resources
from ..model.waves import wave_share
from ..records.timings import recorded
from . import account

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


def figures() -> dict[str, str]:
    """Return the figures that the chapter's sentences name, by name, and assert what these say of them."""
    before, now = find("04"), find("05")
    (point,) = recorded(now, account.SIZE).points
    pipeline, slots, _ = account.busy(now).values()
    old, new = (counters.measured(kernel, *(account.SIZE,) * 3) for kernel in (before, now))
    fewer, fewer_reads = (old[name] - new[name] for name in ("instructions", "shared_load_requests"))
    counted, predicted = account.per_multiply_add(new["l1_data_wavefronts"]), cycles(now, card())[PIPELINE]
    assert abs(predicted / counted - 1) < 0.02 and slots > pipeline and 0.6 < slots / point.ms < 0.7
    assert pipeline < account.busy(before)[account.PARTS[0]] / 2 and fewer_reads > 0.7 * fewer
    profile = profiles.measured(now)
    between, chosen = profile["cycles between a warp's instructions"], profile["state: another warp was chosen"]
    longest = ("dispatch", "waits for shared memory", "waits for L2 or DRAM")
    waits = {name: profile[f"state: {name}"] for name in longest}
    assert min(waits.values()) > 0.4 and sum(waits.values()) > (between - 1 - chosen) / 2
    assert kernel_occupancy(now, card()).warps == 4 * card().limits.warp_granularity
    for size in (128, 256, 512, 640, 768, 1024, 2048, 4096):
        one, two = (recorded(kernel, size).points[0].ms for kernel in (before, now))
        assert (two < one) == (size >= 768)
    places, blocks = card().sms * kernel_occupancy(now, card()).blocks_per_sm, now.grid(account.SIZE, account.SIZE)
    seconds, rates = profile["nanoseconds"] / 1e9, ceilings.load()
    memory = {"L2": profile["L2 sectors"] * SECTOR / seconds, "DRAM": profile["DRAM bytes"] / seconds}
    memory = {name: bytes_ / (rates[name].tera_per_second * 1e12) for name, bytes_ in memory.items()}
    assert max(memory.values()) < 0.3 and profile["L1 and shared memory used, %"] < profile["issue slots used, %"]
    assert before.grid(512, 512) == 64 and blocks == 2048
    assert abs(4 / between * 100 / profile["issue slots used, %"] - 1) < 0.03
    return {
        "pipeline before": f"{account.busy(before)[account.PARTS[0]]:.2f} ms",
        "predicted": f"{predicted:.3f}",
        "counted": f"{counted:.3f}",
        "fewer": f"{fewer / 1e6:,.0f}",
        "fewer reads": f"{fewer_reads / 1e6:,.0f}",
        "slots": f"{slots:.2f} ms",
        "slots share": f"{slots / point.ms:.0%}",
        "others": f"{1 - account.SIZE**3 / WARP / new['instructions']:.0%}",
        "between": f"{between:.1f}",
        "chosen": f"{chosen:.1f}",
        "waiting": f"{between - 1 - chosen:.1f}",
        "registers": f"{resources(now).registers}",
        "four over": f"{4 / between:.2f}",
        "slots active": f"{profile['issue slots used, %']:.0f}%",
        "places": f"{places}",
        "tail": f"{1 - wave_share(blocks, places):.0%}",
        "L2 share": f"{memory['L2']:.0%}",
        "DRAM share": f"{memory['DRAM']:.0%}",
        "blocks": f"{now.grid(512, 512)}",
        "SMs": f"{card().sms}",
    } | {name: f"{cycles_of:.2f}" for name, cycles_of in waits.items()}
