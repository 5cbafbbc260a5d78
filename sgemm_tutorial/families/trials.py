"""The cases in which 12 is checked besides those that it chooses for: small tiles, divided by hand.

With them small problems have all that large ones have: tiles that two blocks share, and three, more parts than one
block adds up at once, bands of tiles, rows that are fetched by fours of words, by twos and one by one.
"""

from __future__ import annotations

from typing import Any

ONE_WARP = (16, 32, 8, 16, 32, 4, 4, 1, 3, 4, 1, 1)
SLICES = (16, 64, 32, 16, 64, 4, 8, 4, 4, 4, 1, 1)
REGISTERS = (16, 32, 8, 16, 32, 4, 4, 1, 0, 4, 1, 1)
UNEVEN_A = (24, 64, 8, 24, 64, 12, 4, 4, 0, 4, 1, 1)  # the threads do not fetch as many rows each
UNEVEN_B = (16, 32, 16, 16, 32, 4, 4, 8, 0, 4, 1, 1)  # nor here; and one slice is left with the sums
WIDE = (4, 256, 8, 4, 256, 4, 8, 1, 3, 4, 1, 1)  # lanes in a row, and rows of B too long to be fetched at once
TALL = (128, 4, 8, 128, 4, 4, 4, 1, 3, 4, 1, 1)  # lanes in a column
COLUMN = (8, 1, 256, 4, 1, 1, 4, 2, 1, 4, 1, 1)
ROW = (1, 32, 16, 1, 16, 1, 4, 2, 1, 4, 1, 1)


def _trial(
    setting: tuple[int, ...],
    shape: tuple[int, int, int],
    division: tuple[int, int],
    scalars: tuple[float, float] = (-1.5, 0.75),
    **more: Any,
) -> dict[str, Any]:
    case = dict(zip("MNK", shape, strict=True)) | dict(zip(("alpha", "beta"), scalars, strict=True))
    return case | more | {"setting": setting, "division": division}


TRIALS: tuple[dict[str, Any], ...] = (
    _trial(ONE_WARP, (35, 68, 43), (2, 5)),
    _trial(ONE_WARP, (19, 33, 51), (1, 7), (1.0, 0.0)),
    _trial(ONE_WARP, (19, 34, 51), (1, 3)),
    _trial(COLUMN, (21, 1, 2052), (0, 7)),
    _trial(COLUMN, (12, 1, 1283), (1, 2)),
    _trial(ROW, (3, 68, 301), (2, 4)),
    _trial(ROW, (2, 41, 301), (1, 5)),
    _trial(REGISTERS, (35, 68, 43), (2, 5)),
    _trial(REGISTERS, (19, 33, 51), (1, 7)),
    _trial(SLICES, (35, 68, 170), (1, 9)),
    _trial(SLICES, (19, 33, 330), (0, 6)),
    _trial(UNEVEN_A, (35, 68, 43), (1, 4)),
    _trial(UNEVEN_A, (35, 67, 43), (1, 4)),
    _trial(UNEVEN_B, (35, 68, 83), (2, 5)),
    _trial(WIDE, (9, 260, 43), (1, 6)),
    _trial(WIDE, (9, 257, 43), (1, 6)),
    _trial(TALL, (131, 8, 43), (1, 5)),
    # Whole tiles alone, more parts than 16 and than 256, bands of tiles, and C off its boundary.
    _trial(ONE_WARP, (16, 32, 40), (1, 0)),
    _trial(ONE_WARP, (32, 64, 40), (1, 3)),
    _trial(ONE_WARP, (16, 32, 320), (0, 40)),
    _trial(ONE_WARP, (20, 32, 325), (0, 35)),
    _trial(ONE_WARP, (16, 32, 136), (0, 17)),  # the last of them has nobody beside it at first
    _trial(ONE_WARP, (16, 32, 248), (0, 31)),  # the second group is one short
    _trial(ONE_WARP, (3, 4, 2400), (0, 300)),
    _trial(ONE_WARP, (150, 68, 9), (30, 0)),
    _trial(ONE_WARP, (150, 68, 20), (13, 7)),
    _trial(ONE_WARP, (109, 68, 9), (21, 0)),  # a row short of a band
    _trial(ONE_WARP, (16, 32, 40), (0, 2), shift=(0, 0, 1)),
    # What BLAS does not read; where K = 0, there is a step all the same.
    _trial(ONE_WARP, (35, 68, 43), (0, 20), (0.0, 2.0)),
    _trial(ONE_WARP, (20, 36, 0), (0, 3)),
    _trial(COLUMN, (21, 1, 1028), (0, 7), (0.0, 2.0)),
    _trial(COLUMN, (5, 1, 3), (1, 0)),
    _trial(COLUMN, (16, 1, 3076), (2, 0), (1.0, 0.0)),
    _trial(COLUMN, (5, 1, 513), (0, 3)),  # a share begins at k = 1
    _trial(ROW, (2, 68, 40), (0, 5), (0.0, 2.0)),
    _trial(ROW, (2, 3, 5), (2, 0), (1.0, 0.0)),
    _trial(ROW, (1, 64, 128), (2, 0)),
)
"""Arguments of `check` for each."""
