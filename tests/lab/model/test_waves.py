"""Shares of whole tiles and whole waves, and that they are why the recorded curves saw-tooth."""

import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.model.waves import tile_share, wave_share
from sgemm_tutorial import ArgumentError

TILE = sg.find("09")  # 128 × 128


def test_whole_tiles_waste_nothing():
    assert tile_share(TILE, 256, 384) == 1
    assert tile_share(TILE, 129, 128) == 129 / 256
    assert tile_share(TILE, 1, 1) == 1 / 128**2


def test_shares_are_what_a_count_says():
    """Deal blocks to places one after the other, and count the rounds that the fullest place goes through."""
    for blocks in range(1, 60):
        for places in range(1, 20):
            rounds = np.bincount(np.arange(blocks) % places).max()
            assert wave_share(blocks, places) == pytest.approx(blocks / (places * rounds))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("M", lambda: tile_share(TILE, 0, 1)),
        ("N", lambda: tile_share(TILE, 1, -1)),
        ("blocks", lambda: wave_share(0, 1)),
        ("places", lambda: wave_share(1, 0)),
    ],
)
def test_nothing_to_share(name, call):
    with pytest.raises(ArgumentError, match=f"^{name}: got"):
        call()


@pytest.mark.parametrize("kernel", [k for k in sg.LADDER[:-2] if "WM" in k.parameters], ids=lambda kernel: kernel.name)
def test_the_busiest_sm_explains_the_recorded_saw_tooth(kernel):
    """From 1,024 up, speeds over shares vary by a few per cent, where the speeds themselves vary by a factor."""
    record = lab.recorded(kernel)
    points = [point for point in record.points if point.M >= 1024]
    assert len(points) > 20
    speeds = np.array([point.tflops for point in points])
    shares = [
        tile_share(kernel, p.M, p.N) * wave_share(kernel.grid(p.M, p.N), record.provenance["multiprocessors"])
        for p in points
    ]
    level = speeds / shares
    assert speeds.max() / speeds.min() > 2
    assert np.std(level) / np.mean(level) < 0.06
