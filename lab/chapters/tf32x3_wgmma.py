"""Draws the pictures of chapter 21, on TF32×3 by wgmma, and tabulates what moves through shared memory."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.hardware import KIB
from sgemm_tutorial.table import Table

from ..draw.figure import BLUE, GREEN, ORANGE, PALE, Figure, Page

RATE = 1024  # TF32 multiply-adds per cycle and SM
KERNEL = find("21_tf32x3_wgmma")
TILE = KERNEL.parameters
MULTIPLYING = 3 * TILE["BM"] * TILE["BN"] * TILE["BK"] // RATE
"""Cycles of the tensor cores for one step of BK."""


def turned() -> Figure:
    """Draw the reason why B can't be on the right, and the places of all operands once they are exchanged."""
    sheet = Page(216)
    sheet.diagram(
        (
            ((96, 8, 260, 76), (GREEN, 0.3), "left: A", "from registers or from shared", "memory: either would do"),
            (
                (372, 8, 260, 76),
                (ORANGE, 0.4),
                "right: B",
                "from shared memory only, and",
                "its sums run across rows",
            ),
            (
                (96, 132, 260, 76),
                (BLUE, 0.3),
                "left: Bᵀ",
                "from registers: each lane loads",
                "the elements that it needs",
            ),
            (
                (372, 132, 260, 76),
                (GREEN, 0.3),
                "right: Aᵀ",
                "from shared memory: its sums",
                "run along rows of A as it lies",
            ),
        ),
        (((226, 84), (502, 130)), ((502, 84), (226, 130))),
    )
    for y, text in ((50, "C = A · B"), (174, "Cᵀ = Bᵀ · Aᵀ")):
        sheet.text(4, y, text, weight="bold")
    return sheet.finish(
        "C = A · B: A, on the left, may come from registers or shared memory. B, on the right, comes from shared "
        "memory only, and its sums run across rows there. Exchanged, Cᵀ = Bᵀ · Aᵀ: Bᵀ, on the left, comes from "
        "registers, and Aᵀ, on the right, from shared memory, where its sums run along rows."
    )


def who() -> Figure:
    """Draw the mbarriers that each warp waits for, and the tiles that it reads and writes."""
    sheet = Page(318)
    sheet.diagram(
        (
            (
                (8, 36, 216, 104),
                (ORANGE, 0.4),
                "1: warp 8, one thread",
                "waits for empty, and has the",
                "copy engine bring B and A;",
                "full counts their bytes",
            ),
            ((252, 8, 166, 196), PALE, "one of 4 stages"),
            ((262, 38, 146, 44), (GREEN, 0.3), "B"),
            ((262, 92, 146, 44), (GREEN, 0.3), "A"),
            ((262, 146, 146, 44), (GREEN, 0.3), "A's small parts"),
            (
                (444, 90, 188, 104),
                (BLUE, 0.3),
                "2: warps 9 to 11",
                "wait for full, read A,",
                "write its small parts,",
                "and arrive at ready",
            ),
            (
                (98, 232, 444, 78),
                (BLUE, 0.3),
                "3: warps 0 to 7",
                "wait for ready, load B and split it, multiply it",
                "by A and A's small parts, and arrive at empty",
            ),
        ),
        (
            ((224, 60), (260, 60)),
            ((224, 114), (260, 114)),
            ((408, 114), (442, 114), 431, 82, "full"),
            ((444, 168), (410, 168)),
            ((334, 204), (334, 230), 342, 222, "ready"),
            ((150, 232), (150, 142), 158, 190, "empty"),
        ),
    )
    return sheet.finish(
        "One thread of warp 8 waits until a stage is empty and has the copy engine bring A and B into it, whose bytes "
        "end the wait for full. Warps 9 to 11 wait for that, read A, write its small parts and arrive at ready. Warps "
        "0 to 7 wait for ready, load B and split it, multiply it by A and its small parts, and arrive at empty."
    )


def flows() -> Table:
    """Return the transfers through shared memory for one step of BK: mover, data, KiB; and last their sum."""
    tile_a, tile_b = (4 * TILE["BK"] * TILE[side] // KIB for side in ("BM", "BN"))
    groups = (KERNEL.threads - 128) // 128  # that multiply
    rows = [
        ("1 thread", "has the copy engine bring tiles of A and B", tile_a + tile_b),
        ("3 warps", "read A, write its small parts", 2 * tile_a),
        (f"{4 * groups} warps", "read B into registers, and split it there", tile_b),
        (f"{4 * groups} warps", f"wgmma: A, A's small parts, A again, for {groups} warpgroups", 3 * tile_a * groups),
    ]
    return Table(
        ("who", "what", "KiB through shared memory"),
        [*rows, ("", "all", sum(kib for *_, kib in rows))],
        f"A block, for each {TILE['BK']} of K",
    )
