"""The player with sliders for what a block takes says what the occupancy calculator does."""

import random

import pytest

import lab
import sgemm_tutorial as sg
from lab.boards import GPUS
from sgemm_tutorial import ArgumentError
from sgemm_tutorial.hardware import WARP

START = sg.find("05"), lab.find_gpu("H100")


@pytest.fixture(scope="module")
def player():
    return lab.draw.calculator("occupancy", sg.CATALOGUE, GPUS, START)


def says(figures, fit, limits):
    """Whether pictures say how a kernel fits."""
    said = " ".join(figure.alt for figure in figures)
    return (
        f"{fit.blocks_per_sm} block" in said
        and f"{fit.warps} of {limits.max_threads_per_sm // WARP} warps: {100 * fit.fraction:.1f}%" in said
        and f"limited by {fit.limiter}." in said
        and all(f"{name.capitalize()}: a block takes {fit.needs[name]:,} of" in said for name in fit.needs)
        and all(f"room for {number}" in said for number in fit.limits.values())
    )


def test_each_kernel_on_each_gpu(player):
    for i, kernel in enumerate(sg.CATALOGUE, 1):
        for j, gpu in enumerate(GPUS):
            try:
                fit = lab.kernel_occupancy(kernel, gpu)
            except ArgumentError:
                assert (i, j) not in player.preset.states
                continue
            state = i, j, *player.preset.states[i, j]
            assert says(player.shown(state), fit, gpu.limits), (kernel.name, gpu.name)
            assert player.controls[0].values[i] == kernel.name and player.controls[1].values[j] == gpu.name


def test_the_sliders(player):
    _, gpus, threads, registers, shared = (control.values for control in player.controls)
    chance = random.Random(13)
    fits = 0
    for _ in range(500):
        state = [0, *(chance.randrange(len(control.values)) for control in player.controls[1:])]
        gpu = lab.find_gpu(gpus[state[1]])
        asked = round(1024 * float(shared[state[4]].removesuffix(" KiB")))
        figures = player.shown(state)
        if asked > gpu.limits.max_shared_per_block:
            assert f"the {gpu.limits.max_shared_per_block:,} bytes that a block may have" in figures[0].alt
            continue
        fits += 1
        fit = lab.occupancy(int(threads[state[2]]), int(registers[state[3]]), asked, gpu)
        assert says(figures, fit, gpu.limits), state
    assert fits > 100


def test_a_bar_is_as_long_as_there_is_room(player):
    start = [control.start for control in player.controls]
    limits, places = player.shown(start)
    fit = lab.kernel_occupancy(*START)
    assert fit.limiter == "registers" and limits.body.count("#d55e00") == fit.limits["registers"]
    assert places.body.count("#0072b2") == fit.warps


def test_a_kernel_that_is_not_for_the_gpu():
    with pytest.raises(ArgumentError, match="20_persistent on T4"):
        lab.draw.calculator("occupancy", sg.CATALOGUE, GPUS, (sg.find("20"), lab.find_gpu("T4")))
