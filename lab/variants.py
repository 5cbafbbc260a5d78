"""Variants of the kernels that chapters compare: with other template arguments, or with other lines here and there.

They are read from the files beside the kernels; see `beside`. All are timed at 4096, like the rungs themselves, except
those in `UNTIMED`.
"""

import dataclasses
from copy import copy

from sgemm_tutorial.catalogue import CATALOGUE, find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.families import any_shape, autotuned
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.launch import Family

from .beside import Variant, beside, names


def _read(name: str) -> list[tuple[Variant, Kernel]]:
    """Return the variants of a kernel, each with the entry that it comes from."""
    found: list[tuple[Variant, Kernel]] = []
    for entry in beside(name).variant:
        bases = [kernel for label in entry.after for _, kernel in found if kernel.label == label]
        made = [
            _made(entry, base, parameters)
            for base in (bases if entry.after else [find(name)])
            for parameters in entry.parameters or [None]
        ]
        found += [(entry, kernel) for kernel in dict.fromkeys(made)]
    return found


def _made(entry: Variant, base: Kernel, parameters: dict[str, int | str] | None) -> Kernel:
    """Return a variant of a kernel, or of one of its variants."""
    known = base.parameters | (parameters or {} if entry.edits else {})  # edits may declare more of them
    label = entry.label.replace("{after}", base.label)
    kernel = dataclasses.replace(base, parameters=known, label=label, edits=base.edits + entry.edits)
    kernel = kernel if parameters is None else kernel.variant(**parameters)
    if entry.shared_bytes is None:
        return kernel
    return dataclasses.replace(kernel, family=Family(lambda of: entry.shared_bytes))


_ALL = [variant for name in names() for variant in _read(name)]


def _group(name: str) -> tuple[Kernel, ...]:
    return tuple(kernel for entry, kernel in _ALL if entry.group == name)


VARIANTS = _group("variants")
"""Variants of the ladder, each rung's own parameters among them, as they are timed again beside the others."""

RESIDENT = _group("resident")
"""02, 04 and 07 with unused shared memory, so that only so many blocks fit on an SM; the machine code is the same."""

YOUR_KERNEL = _group("your kernel")
"""The kernel of the page ``your_kernel``: as it is, with pointers, with two loops, with row numbers of 32 bits, and
without the repair in its loop; and the two loops with 64 and with 48 warps on an SM."""

STEPS = _group("steps")
"""The nine steps of 23, each with all those before it, labelled as in ``published-results.csv``."""

STEPS_NOT_COUNTED = _group("steps not counted")
"""The steps of 23 with tiles in shared memory, and a loop whose passes the compiler cannot count."""

STEPS_TESTED = _group("steps tested")
"""The kernels that 23's steps are compared with: pairs with and without shared memory, and as many blocks on an SM."""

(STEP_IN_FP64,) = _group("FP64")
"""The first step of 23 as its source first had it, a DGEMM."""

FRAGMENTS = _group("fragments")
"""14 and 15 with other blocks, fragments per warp and stages.

The one with tiles of 64 × 64 × 16 has the 4 × 4 fragments per warp, without shared memory, of source S5.
"""

PADDED_TILES = (find("wmma_warp_tile"), *_group("padded"))
"""15 as it is, with eight elements of padding to each row, and with other paddings."""

TENSOR = (*PADDED_TILES, *_group("tensor"))
"""The kernels with ``mma.sync`` and ``wgmma`` with other tiles, and 15 with other paddings."""

ANY_SHAPE = _group("any shape")
"""22 without a part of what it does."""

WHOLE = dataclasses.replace(
    any_shape.KERNEL.variant(**any_shape.setting(64, 128, 8, 4)).divided(0, 2), label="whole tiles"
)
"""22 with the tiles that it takes at 256 × 256 × 16384, of which it cuts none."""

(THROUGH_PATCH,) = _group("narrow")
"""22 with a C of 16 bits, whose sums go through shared memory."""


def _overlapping(kernel: Kernel) -> tuple[Kernel, ...]:
    """Return a kernel as it is, with two other places to let the next launch begin, and without the attribute."""
    gone = ("    let_next_begin();", "    ")
    after = ("    wait_for_last();", "    wait_for_last();\n    let_next_begin();")
    before = ("    wait_for_last();", "    let_next_begin();\n    wait_for_last();")
    family = copy(kernel.family)
    family.overlaps = False
    return (
        kernel,
        kernel.edited(gone, after, label="after the wait"),
        kernel.edited(gone, before, label="before the wait"),
        dataclasses.replace(kernel, family=family, label="one by one"),
    )


OVERLAP = {
    (128, 30, 15): _overlapping(any_shape.THIN.variant(BM=1, BN=32, WM=1, WN=32, SLICES=8)),
    (1168, 15, 73): _overlapping(any_shape.THIN.variant(BM=8, BN=16, WM=4, WN=16, SLICES=2)),
    (160, 16, 616): _overlapping(any_shape.THIN.variant(BM=4, BN=8, WM=4, WN=8, SLICES=8)),
    (1, 4097, 4097): _overlapping(any_shape.THIN.variant(BM=1, BN=32, WM=1, WN=32, SLICES=32)),
    (60, 3777, 84): _overlapping(any_shape.SHALLOW.variant(BM=64, BN=32, BK=32, WM=16, WN=16)),
    (3136, 64, 64): _overlapping(any_shape.SHALLOW.variant(BM=16, BN=64, BK=64, WM=16, WN=16)),
    **{size: _overlapping(ANY_SHAPE[0]) for size in ((256, 256, 256), (1024, 1024, 1024), (256, 256, 16384))},
}
"""22 and its helpers with the next launch let in elsewhere, by the problem at which they are timed."""

HOPPER_STEPS = _group("hopper steps")
"""The steps of 20 with its widest tile, each with all those before it."""

HOPPER_WIDTHS = _group("hopper widths")
"""20 with narrower tiles, with and without clusters."""

HOPPER = (find("persistent"), *HOPPER_STEPS, *HOPPER_WIDTHS, *_group("hopper"))
"""20 as it chooses for itself, and all that its chapters compare with it, 18 and 19 among them."""

IN_BF16 = _group("BF16")
"""14, 16 and 20 with BF16."""

(FOUR_BY_FOUR,) = _group("added")
"""16 with a lane that waits for four places of C, and writes them, before it asks for the next four."""

EVERY = (*VARIANTS, *STEPS, STEP_IN_FP64, *FRAGMENTS, *TENSOR, *HOPPER, *IN_BF16)
"""All variants that chapters time and compare, except `STEPS_NOT_COUNTED` and `YOUR_KERNEL`."""

COUNTED = tuple(kernel for entry, kernel in _ALL if entry.counted)
"""Variants whose bank conflicts or copies chapters explain, and whose accesses are counted with Nsight Compute."""

FIXED = tuple(kernel for kernel in CATALOGUE if kernel not in (autotuned.KERNEL, any_shape.KERNEL))
"""The kernels of the catalogue without 13 and 22, whose settings follow the size of a problem."""

UNTIMED = _group("compiled")
"""Variants that are compiled for their registers and machine code, and never run."""


def find_variant(rung: str, label: str, **parameters: int) -> Kernel:
    """Return the rung's variant whose source is changed as `label` says, for example ``("08", "padded by 4")``.

    Parameters
    ----------
    rung : str
        As for `find`.
    label : str
    **parameters : int
        Template arguments; those of the rung itself unless given.

    Raises
    ------
    ArgumentError
        There is none.
    """
    kernel = find(rung).variant(**parameters)
    variants = [variant for _, variant in _ALL if variant.name == kernel.name]
    for variant in variants:
        if (variant.label, variant.parameters) == (label, kernel.parameters):
            return variant
    labels = {variant.label for variant in variants if variant.label}
    raise ArgumentError("label", f"{label!r} of {kernel.expression}", f"one of {', '.join(sorted(labels)) or 'none'}")
