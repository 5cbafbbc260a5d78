"""Chapter 10: the figures in its sentences."""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.hardware import WARP
from sgemm_tutorial.kernel import Kernel

from ..experiments import counters, profiles
from ..experiments.ceilings import card
from ..model.resources import kernel_occupancy, resources
from ..records.timings import recorded
from .warp_tile import LARGE, milliseconds

RUNG, BEFORE = find("10_double_buffer"), LARGE
"""10, and 09 with its template arguments."""


SAID = "issued", "another warp was chosen", "dispatch", "waits for shared memory", "fixed latency"
"""The states of a warp that the chapter names."""


def cycles_per_tile(kernel: Kernel) -> float:
    """Return the recorded cycles at 4096 that the busiest SM takes for each BK of K of each round of blocks."""
    size, gpu = profiles.SIZE, card()
    rounds = -(-kernel.grid(size, size) // (gpu.sms * kernel_occupancy(kernel, gpu).blocks_per_sm))
    return milliseconds(kernel) * gpu.boost_mhz * 1e3 / (rounds * size / kernel.parameters["BK"])


def figures() -> dict[str, str]:
    """Return the figures in the chapter's sentences, by their names for glue, after checking what they say."""
    of, gpu = RUNG.parameters, card()
    least = of["BM"] * of["BN"] * of["BK"] / gpu.limits.fp32_lanes
    before, now = cycles_per_tile(BEFORE), cycles_per_tile(RUNG)
    assert before > 1.7 * least > now > 1.2 * least
    own, (point,) = recorded("09", [profiles.SIZE]).points[0], recorded(RUNG, [profiles.SIZE]).points
    gained, own_gained = milliseconds(BEFORE) - milliseconds(RUNG), own.ms - point.ms
    assert 0 < own_gained < 0.1 * gained
    profile, earlier = profiles.measured(RUNG), profiles.measured(find("09"))
    states = profiles.shares(profile)
    assert sorted(states, key=states.get, reverse=True)[:3] == ["issued", "another warp was chosen", "dispatch"]
    between = "cycles between a warp's instructions"
    assert 1.75 < earlier[between] / profile[between] < 2.1
    small = {rung: recorded(rung, [1024]).points[0] for rung in ("09", "10")}
    assert small["10"].percent_of_cublas < 0.7 * small["09"].percent_of_cublas
    ffmas = profile["FFMA"] // WARP
    issued = profile["all"] / ffmas * of["BM"] * of["BN"] * of["BK"] / WARP / 4
    assert least < issued < now
    rest = profile[between] * (1 - sum(states[name] for name in SAID))
    size = profiles.SIZE
    stores = {kernel: counters.measured(kernel, size, size, size) for kernel in (BEFORE, RUNG)}
    conflicts = {kernel: counted["shared_store_conflicts"] for kernel, counted in stores.items()}
    assert conflicts[RUNG] < 0.01 * conflicts[BEFORE] < 0.01 * stores[BEFORE]["shared_store_wavefronts"]
    times = {rung: {point.size: point.ms for point in recorded(rung).points} for rung in ("09", "10")}
    slower = sum(ms > times["09"][size] for size, ms in times["10"].items())
    back = f"{round(before) - round(now):,}"  # as a reader subtracts what is printed
    return {
        "card": gpu.name,
        "instructions": f"{profile['all']:,}",
        "ffmas": f"{ffmas:,}",
        "least issued": f"{issued:,.0f}",
        "could return": f"{round(before) - round(issued):,}",
        "share possible": f"{(before - now) / (before - issued):.0%}",
        "still lost": f"{now - least:,.0f}",
        "issue lost": f"{issued - least:,.0f}",
        "rest": f"{rest:.2f}",
        "fixed": f"{profile[between] * states['fixed latency']:.2f}",
        "conflicts before": f"{conflicts[BEFORE]:,}",
        "conflicts now": f"{conflicts[RUNG]:,}",
        "stores": f"{stores[BEFORE]['shared_store_wavefronts']:,}",
        "slower": f"{slower} of {len(times['10'])}",
        "sms": str(gpu.sms),
        "before": f"{milliseconds(BEFORE):.2f} ms",
        "now": f"{milliseconds(RUNG):.2f} ms",
        "own 09": f"{own.ms:.2f} ms",
        "gained": f"{gained:.2f} ms",
        "own gained": f"{own_gained:.2f} ms",
        "cycles before": f"{before:,.0f}",
        "cycles now": f"{now:,.0f}",
        "cycles lost": f"{before - least:,.0f}",
        "cycles back": back,
        "share back": f"{(before - now) / (before - least):.0%}",
        "used": f"{profile['issue slots used, %']:.0f}%",
        "between": f"{profile[between]:.2f}",
        "between 09": f"{earlier[between]:.2f}",
        **{state: f"{profile[between] * states[state]:.2f}" for state in ("another warp was chosen", "dispatch")},
        "shared": f"{profile[between] * states['waits for shared memory']:.2f}",
        "small 09": f"{small['09'].percent_of_cublas:.0f}%",
        "small 10": f"{small['10'].percent_of_cublas:.0f}%",
        "registers before": f"{resources(BEFORE).registers}",
        "registers now": f"{resources(RUNG).registers}",
    }
