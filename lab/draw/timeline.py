"""A picture of time: what host and GPU do while a kernel is timed, naively and well."""

from sgemm_tutorial.errors import ArgumentError

from .chart import Chart, dye
from .figure import BLUE, INK, LINE, MARGIN, ORANGE, WIDTH, Figure, room

PART = 4 * LINE + 60
"""Pixels from the title of one way to the next."""


def timeline(host_us: float, device_us: float, batch: int = 6) -> Figure:
    """Draw two ways to time a kernel, to one scale: launches one at a time, and a batch behind a spin kernel.

    Every time is computed from the arguments: the GPU takes work in order, as soon as the host has sent it and the
    GPU is free.

    Parameters
    ----------
    host_us : float
        Microseconds that the host needs to send a launch, or an event.
    device_us : float
        Microseconds that the kernel takes on the GPU.
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
    ready = host_us * (batch + 4)  # the spin kernel's launch, and all that is sent while it spins: events and the batch
    total, single = ready + batch * device_us, host_us + device_us
    turns = [i * single for i in range(min(3, int(total / single)))]
    ways = (
        (
            "One launch at a time",
            [(t, host_us, ORANGE, 0.35, "send") for t in turns],
            [(t + host_us, device_us, BLUE, 1, "") for t in turns],
            [(t, t + single) for t in turns],
            f"each reads {single:g} µs: the launch and the kernel",
        ),
        (
            "A batch behind a spin kernel",
            [
                (i * host_us, host_us, ORANGE, 0.35, text)
                for i, text in enumerate(("spin", "event", *["send"] * batch, "event"))
            ],
            [(host_us, ready - host_us, INK, 0.14, "spin")]
            + [(ready + i * device_us, device_us, BLUE, 1, "") for i in range(batch)],
            [(ready, total)],
            f"{batch} launches in {batch * device_us:g} µs between the two events: {device_us:g} µs each",
        ),
    )
    height = 2 * PART + LINE
    chart = Chart("", (0, total), (height, 0), size=(WIDTH, height), left=62, right=0, top=0, below=0)
    chart.axes.set_axis_off()
    for top, (title, host, device, read, note) in zip((0, PART), ways, strict=True):
        chart.write(MARGIN, top + LINE, title, weight="bold")
        for y, name, bars in ((top + LINE + 23, "host", host), (top + LINE + 53, "GPU", device)):
            chart.write(52, y + 5, name, "right")
            for start, long, colour, strength, text in bars:
                chart.axes.barh(
                    y, long, 22, left=start, color=dye(colour), alpha=strength, linewidth=0.5, edgecolor=dye(INK)
                )
                if room(text) < chart.at(long, 0)[0] - chart.at(0, 0)[0]:
                    chart.write(chart.at(start + long / 2, 0)[0], y + 4, text, "center")
        y = top + LINE + 68
        for start, end in read:
            chart.line([(start, y), (start, y + 8), (end, y + 8), (end, y)], INK, wide=1.5)
        right = chart.at(read[-1][1], 0)[0]
        chart.write(*((right, y + 26, note, "right") if right > WIDTH / 2 else (62, y + 26, note)))
    key = "Orange: the host sends. Blue: the kernel. Grey: the spin kernel. Brackets: the time read."
    chart.write(MARGIN, height - 9, key)
    return chart.finish(
        f"Two timelines of host and GPU, for a launch that costs the host {host_us:g} µs and a kernel of "
        f"{device_us:g} µs. One launch at a time: the kernel starts when the host has sent it, and the host's "
        f"clock reads {single:g} µs. A batch behind a spin kernel: the host sends everything while the GPU spins, "
        f"then {batch} kernels run back to back in {batch * device_us:g} µs, {device_us:g} µs each."
    )
