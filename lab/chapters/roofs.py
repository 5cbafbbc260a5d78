"""The page on rooflines: what kernels move at each level by the hardware's counters, and the roofs over them."""

from collections.abc import Iterable
from itertools import pairwise

from ptxsim import BANKS, SECTOR
from sgemm_tutorial.catalogue import LADDER, find
from sgemm_tutorial.kernel import Kernel
from sgemm_tutorial.table import Table, shown

from ..draw import Figure, roofline
from ..experiments import ceilings, counters, profiles
from ..experiments.ceilings import card
from ..model.ceilings import ARITHMETIC, DRAM, L2, READ, SHARED
from ..records.timings import recorded
from . import account

L1 = "L1 and shared memory"
LEVELS = (L1, L2, DRAM)
"""The levels, from the arithmetic outwards."""
SIZE = profiles.SIZE


def moved(kernel: Kernel | str) -> dict[str, int | float]:
    """Return the bytes that a kernel moved at each level at `SIZE`, by the recorded counters.

    L1 and shared memory: 128 for each wavefront. L2: the sectors that it sent to the SMs, and those of their stores.
    """
    of = counters.measured(find(kernel), SIZE, SIZE, SIZE)
    sectors = of["l1_fill_sectors"] + of["global_store_sectors"]
    return {L1: 4 * BANKS * of["l1_data_wavefronts"], L2: SECTOR * sectors, DRAM: of["dram_bytes"]}


def rates() -> dict[str, float]:
    """Return TB/s of each level: by design, and of L2, where we know of none, the highest median that was measured."""
    width, measured = 4 * BANKS * card().sms * card().boost_mhz / 1e6, ceilings.load().by_name
    reached = max(measured[name].tera_per_second for name in (L2, READ) if name in measured)
    return {L1: width, L2: reached, DRAM: card().bandwidth_gbs / 1e3}


def allowed(kernel: Kernel | str) -> dict[str, float]:
    """Return the TFLOP/s that each level's rate allows a kernel at `SIZE`."""
    return {level: 2 * SIZE**3 / moved(kernel)[level] * rate for level, rate in rates().items()}


def tflops(kernel: Kernel | str) -> float:
    """Return the recorded speed at `SIZE`."""
    (point,) = recorded(find(kernel), SIZE).points
    return point.tflops


def reached() -> Table:
    """Return the rate that a kernel reached which did one thing and nothing else, and the roof that we draw."""
    measured, drawn = ceilings.load().by_name, rates()
    best = READ if READ in measured else L2
    rows = [
        ("arithmetic", "multiplies and adds in registers", ARITHMETIC, card().fp32_tflops, "FLOP/s, 2 · lanes · clock"),
        (L1, "reads shared memory", SHARED, drawn[L1], "B/s, 128 bytes · SMs · clock"),
        (L2, f"{'reads' if best == READ else 'copies'} what fits into L2", best, drawn[L2], "B/s, as measured"),
        (DRAM, "copies large arrays", DRAM, drawn[DRAM], "B/s, data sheet"),
    ]
    return Table(
        ("level", "what the kernel does", "it reached", "the roof"),
        [
            (level, does, f"{measured[name].tera_per_second:.3g} T{unit.partition(',')[0]}", f"{roof:.3g} T{unit}")
            for level, does, name, roof, unit in rows
        ],
        f"{card().name}",
        "Copies count bytes read and bytes written.",
    )


def levels(kernel: Kernel | str) -> Figure:
    """Draw a kernel under the roofs of all levels, at its intensity of each. L2's roof is dashed: it was measured."""
    names = dict(zip(LEVELS, ("L1", "L2", "DRAM"), strict=True))
    points = {names[level]: (2 * SIZE**3 / of, tflops(kernel)) for level, of in moved(kernel).items()}
    return roofline(points, card().fp32_tflops, rates(), f"{find(kernel).name} at each level", [L2])


def under(level: str, kernels: Iterable[Kernel | str]) -> Figure:
    """Draw kernels under the roofs of one level and of the arithmetic."""
    points = {kernel.name[:2]: (2 * SIZE**3 / moved(kernel)[level], tflops(kernel)) for kernel in map(find, kernels)}
    return roofline(points, card().fp32_tflops, {level: rates()[level]}, f"Bytes of {level}")


def table(kernels: Iterable[Kernel | str]) -> Table:
    """Return the speed that each level allows, and the speed that was measured, as a share of the lowest too."""
    rows = []
    for kernel in map(find, kernels):
        roofs, speed = allowed(kernel), tflops(kernel)
        of = f"{float(shown(speed)) / float(shown(min(roofs.values()))):.0%}"  # as a reader finds it
        rows.append((kernel.name, *roofs.values(), f"{shown(speed)} ({of})"))
    return Table(("kernel", *LEVELS, "measured (of the lowest)"), rows, f"TFLOP/s at M = N = K = {SIZE}, {card().name}")


def steps(kernels: Iterable[Kernel | str]) -> Table:
    """Return how much faster each kernel is than the one before: by a higher roof of L1, and by more of that roof."""
    rows, found = [], [(kernel.name[:2], tflops(kernel), allowed(kernel)[L1]) for kernel in map(find, kernels)]
    for (before, slow, low), (now, fast, high) in pairwise(found):
        ratios = (fast / slow, high / low, fast / high * low / slow)
        rows.append((f"{before} → {now}", *(f"× {ratio:.2f}" for ratio in ratios)))
    return Table(("step", "speed", "to the right: the roof", "up or down: the share of it"), rows, f"Roof of {L1}")


def figures() -> dict[str, str]:
    """Return the figures in the page's sentences, by their names for glue, after checking what they say."""
    early = [kernel.name[:2] for kernel in LADDER[:5]]
    speed = {number: tflops(number) for number in early}
    roof = {number: allowed(number) for number in early}
    for number, of in roof.items():
        assert min(of, key=of.get) == L1 and max(speed[number] / of[L2], speed[number] / of[DRAM]) < 0.3
    share = {number: speed[number] / of[L1] for number, of in roof.items()}
    assert share["05"] < 0.6 < 0.7 < share["02"] < 0.8 < share["04"] < 0.9 < min(share["01"], share["03"])
    assert abs(roof["03"][L1] / roof["02"][L1] - share["03"] / share["02"]) < 0.05
    profile = {number: profiles.measured(find(number)) for number in ("02", "03")}
    slots = profile["02"]["issue slots used, %"] / 100
    assert slots < 0.7
    measured, issue = ceilings.load().by_name, account.busy("05")["issue slots"]
    ceiling = 2 * SIZE**3 / issue / 1e9
    assert speed["05"] < ceiling < min(roof["05"].values())
    wrong, l2 = rates()[DRAM] / 4, ceilings.load().provenance["l2_bytes"]
    return {f"{number} of L1": f"{of:.0%}" for number, of in share.items()} | {
        "03 speed": f"{speed['03']:.2f} TFLOP/s",
        "02 speed": f"{speed['02']:.2f} TFLOP/s",
        "03 of peak": f"{speed['03'] / card().fp32_tflops:.0%}",
        "03 active": f"{profile['03']['L1 and shared memory used, %']:.0f}%",
        "02 active": f"{profile['02']['L1 and shared memory used, %']:.0f}%",
        "02 slots": f"{slots:.0%}",
        "times the least": f"{moved('03')[DRAM] / (3 * 4 * SIZE**2):.0f}",
        "L2 times": f"{roof['03'][L2] / speed['03']:.1f}",
        "DRAM times": f"{roof['03'][DRAM] / speed['03']:.1f}",
        "L2 saves": f"{l2 / moved('03')[DRAM]:.1%}",
        "L2 saves 05": f"{l2 / moved('05')[DRAM]:.0%}",
        "L2 copied": f"{measured[L2].tera_per_second:.2f}",
        "05 issue": f"{issue:.2f}",
        "05 ceiling": f"{ceiling:.1f}",
        "05 roof": f"{roof['05'][L1]:.1f}",
        "05 of ceiling": f"{speed['05'] / ceiling:.0%}",
        "ridge": f"{card().fp32_tflops / rates()[L1]:.1f}",
        "wrong roof": f"{wrong:.1f} TFLOP/s",
        "above": f"{speed['02'] / wrong:.1f}",
    }
