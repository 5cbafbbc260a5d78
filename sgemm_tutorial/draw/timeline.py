"""A picture of time: what host and GPU do while a kernel is timed, naively and well."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ArgumentError
from .figure import BLUE, INK, LINE, MARGIN, ORANGE, PALE, SMALL, TITLE, WIDTH, Figure, Page

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
    scale = (WIDTH - MARGIN - LEFT) / total
    single = host_us + device_us

    sheet = Page(2 * PART + LINE)
    draw = _Timeline(sheet, scale)
    draw.title("One launch at a time")
    turns = [i * single for i in range(min(3, int(total / single)))]
    draw.row("host", [((t, t + host_us), ORANGE) for t in turns])
    draw.row("GPU", [((t + host_us, t + single), BLUE) for t in turns])
    draw.brackets([(t, t + single) for t in turns])
    draw.note(f"each reads {single:g} µs: the launch and the kernel")
    draw.title("A batch behind a spin kernel")
    draw.row("host", [((i * host_us, (i + 1) * host_us), ORANGE) for i in range(batch + 3)])
    kernels = [(spin[1] + i * device_us, spin[1] + (i + 1) * device_us) for i in range(batch)]
    draw.row("GPU", [(spin, PALE), *((span, BLUE) for span in kernels)])
    draw.brackets([(spin[1], total)])
    draw.note(f"{batch} launches in {batch * device_us:g} µs: {device_us:g} µs each, the kernel alone")
    _key(sheet, sheet.height - 9)
    return sheet.finish(
        f"Two timelines of host and GPU, for a launch that costs the host {host_us:g} µs and a kernel of "
        f"{device_us:g} µs. One launch at a time: the kernel starts when the host has sent it, and the host's "
        f"clock reads {single:g} µs. A batch behind a spin kernel: the host sends everything while the GPU spins, "
        f"then {batch} kernels run back to back in {batch * device_us:g} µs, {device_us:g} µs each."
    )


class _Timeline:
    """Rows of bars from the top of a page downwards, on one scale."""

    def __init__(self, sheet: Page, scale: float) -> None:
        self.sheet, self.scale, self.y = sheet, scale, 0.0

    def title(self, text: str) -> None:
        """Write a title."""
        self.sheet.text(MARGIN, self.y + LINE, text, TITLE, weight="bold")
        self.y += LINE + 12

    def row(self, name: str, spans: Sequence[tuple[Span, object]]) -> None:
        """Draw bars, each a span and a fill, beside a name."""
        self.sheet.text(LEFT - 10, self.y + 16, name, align="right")
        for span, fill in spans:
            start, end = map(self._x, span)
            self.sheet.boxes([(start + 0.5, self.y, end - start - 1, ROW)], fill)
        self.y += PITCH

    def brackets(self, spans: Sequence[Span]) -> None:
        """Draw what a clock, or two events, take in."""
        for span in spans:
            start, end = map(self._x, span)
            self.sheet.lines(
                [[(start + 1.5, self.y), (start + 1.5, self.y + 8), (end - 1.5, self.y + 8), (end - 1.5, self.y)]],
                linewidth=1.5,
            )
        self._end = self._x(spans[-1][1])

    def note(self, text: str) -> None:
        """Write what the brackets read, below them, at the side where they end."""
        right = self._end > WIDTH / 2
        at = self._end - 1.5 if right else LEFT
        self.sheet.text(at, self.y + 8 + 18, text, SMALL, "right" if right else "left")
        self.y += PITCH + LINE

    def _x(self, us: float) -> float:
        return LEFT + us * self.scale


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
        sheet.text(x + (20 if fill else 26), y, text, SMALL)
        x += room
