"""A picture of time: what host and GPU do while a kernel is timed, naively and well."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sgemm_tutorial.errors import ArgumentError

from .figure import (
    BLUE,
    INK,
    LINE,
    MARGIN,
    ORANGE,
    PALE,
    TITLE,
    WIDTH,
    Colour,
    Figure,
    Page,
)

ROW, PITCH = 22, 30  # height of a bar, and from one bar to the next
LEFT = 62
PART = 12 + 2 * LINE + 3 * PITCH  # from one title to the next
Span = tuple[float, float]
"""Start and end in microseconds."""


def timeline(host_us: float, device_us: float, batch: int = 6) -> Figure:
    """Draw two ways to time a kernel, to one scale: launches one at a time, and a batch behind a spin kernel.

    What happens when is computed from the arguments alone: the GPU takes work in order, as soon as the host has sent
    it and it is free.

    Parameters
    ----------
    host_us : float
        What the host needs to send a launch, or an event.
    device_us : float
        What the kernel takes on the GPU.
    batch : int
        Launches in the batch.

    Raises
    ------
    ArgumentError
        A time is not positive, or the batch is empty.
    """
    for name, value in (("host_us", host_us), ("device_us", device_us), ("batch", batch)):
        if not value > 0:
            raise ArgumentError(name, str(value), "a positive number")
    queued = host_us * (batch + 3)  # spin, event, the batch, event
    spin = (host_us, queued + host_us)
    total = spin[1] + batch * device_us
    single = host_us + device_us
    sheet = Page(2 * PART + LINE)

    def x(microseconds: float) -> float:
        return LEFT + (WIDTH - MARGIN - LEFT) * microseconds / total

    turns = [i * single for i in range(min(3, int(total / single)))]
    _part(
        sheet,
        x,
        0,
        "One launch at a time",
        [((t, t + host_us), ORANGE) for t in turns],
        [((t + host_us, t + single), BLUE) for t in turns],
        [(t, t + single) for t in turns],
        f"each reads {single:g} µs: the launch and the kernel",
    )
    kernels = [(spin[1] + i * device_us, spin[1] + (i + 1) * device_us) for i in range(batch)]
    _part(
        sheet,
        x,
        PART,
        "A batch behind a spin kernel",
        [((i * host_us, (i + 1) * host_us), ORANGE) for i in range(batch + 3)],
        [(spin, PALE), *((span, BLUE) for span in kernels)],
        [(spin[1], total)],
        f"{batch} launches in {batch * device_us:g} µs: {device_us:g} µs each, the kernel alone",
    )
    _key(sheet, sheet.height - 9)
    return sheet.finish(
        f"Two timelines of host and GPU, for a launch that costs the host {host_us:g} µs and a kernel of "
        f"{device_us:g} µs. One launch at a time: the kernel starts when the host has sent it, and the host's "
        f"clock reads {single:g} µs. A batch behind a spin kernel: the host sends everything while the GPU spins, "
        f"then {batch} kernels run back to back in {batch * device_us:g} µs, {device_us:g} µs each."
    )


def _part(
    sheet: Page,
    x: Callable[[float], float],
    top: float,
    title: str,
    host: Sequence[tuple[Span, Colour]],
    device: Sequence[tuple[Span, Colour]],
    read: Sequence[Span],
    note: str,
) -> None:
    """Draw host's and GPU's bars, each a span and a fill, and brackets round what is read, with a note."""
    sheet.text(MARGIN, top + LINE, title, size=TITLE, weight="bold")
    y = top + LINE + 12
    for name, bars in (("host", host), ("GPU", device)):
        sheet.text(LEFT - 10, y + 16, name, align="right")
        for (start, end), fill in bars:
            sheet.boxes([(x(start) + 0.5, y, x(end) - x(start) - 1, ROW)], fill)
        y += PITCH
    for begin, stop in read:
        start, end = x(begin) + 1.5, x(stop) - 1.5
        sheet.lines([[(start, y), (start, y + 8), (end, y + 8), (end, y)]], linewidth=1.5)
    right = end > WIDTH / 2
    sheet.text(end if right else LEFT, y + 8 + 18, note, "right" if right else "left")


def _key(sheet: Page, y: float) -> None:
    x = LEFT
    for fill, text, room in (
        (ORANGE, "host sends", 118),
        (BLUE, "kernel", 86),
        (PALE, "spin kernel", 118),
        (None, "what is read", 0),
    ):
        if fill:
            sheet.boxes([(x, y - 12, 14, 14)], fill)
        else:
            sheet.lines([[(x, y - 8), (x, y), (x + 18, y), (x + 18, y - 8)]], INK, linewidth=1.5)
        sheet.text(x + (20 if fill else 26), y, text)
        x += room
