"""The player of speeds by size shows what was recorded, for each card, kernel and size."""

import dataclasses
import re

import numpy as np
import pytest

import lab
from lab.draw.charts import short
from lab.records import cards
from sgemm_tutorial import ArgumentError

from .test_draw import floor

SIZES = (1024, 2048, 4096)
COMPUTED = {("waves", "h200", "09_warp_tile"): [(1024, 10.0), (4096, 40.0)]}


@pytest.fixture(scope="module")
def records():
    return {card: lab.climb(SIZES, card) for card in ("h200", "h100")}


@pytest.fixture(scope="module")
def player(records):
    return lab.draw.speeds("by-size", records, COMPUTED, ["09_warp_tile"], 2048)


def test_what_it_says_was_recorded(player, records):
    _, _, _, *switches = player.controls
    names = [control.name for control in switches]
    for c, record in enumerate(records.values()):
        for place, size in enumerate(SIZES):
            _, table = player.shown([place, c, 0] + [1] * len(switches))
            points = {point.kernel: point for point in record.points if size == point.M}
            assert set(points) <= set(names) and f"At {size:,}" in table.alt and f"= {size:,}" in table.body
            for name, point in points.items():
                low, high = (2 * size**3 / ms / 1e9 for ms in (point.ms_p90, point.ms_p10))
                text = f"{short(point.tflops)} ({short(low)}–{short(high)}), {point.percent_of_cublas:.1f}%"
                assert f"{name} {text};" in table.alt and text in table.body
            rates = [2 * size**3 / point.cublas_ms / 1e9 for point in points.values()]
            assert f"cuBLAS {short(float(np.median(rates)))} (" in table.alt
            for name in set(names) - set(points) - {"cuBLAS"}:
                assert f"{name} not recorded" in table.alt
    assert len(names) == 13 and cards.shown() in records


def test_a_curve_goes_where_its_speeds_are(player, records):
    """Heights of 09's line above the axis are in proportion to its recorded speeds."""
    at = 3 + [control.name for control in player.controls[3:]].index("09_warp_tile")
    state = [0] * len(player.controls)
    without, _ = player.shown(state)
    state[at] = 1
    plot, _ = player.shown(state)
    *_, line = re.findall(r'd="(M[^"Z]*)"', plot.body.replace(without.body, ""))
    drawn = [float(y) for _, y in re.findall(r"([\d.]+)[ ,]([\d.]+)", line)]
    speeds = [point.tflops for point in records["h200"].points if point.kernel == "09_warp_tile"]
    heights = [floor(plot) - y for y in drawn]
    assert len(heights) == len(SIZES)
    assert np.allclose(np.divide(heights, heights[-1]), np.divide(speeds, speeds[-1]), rtol=0.01)


def test_who_switches_a_kernel_off_sees_nothing_of_it(player):
    for c in range(2):
        figures = player.shown([1, c, 1] + [0] * len(player.controls[3:]))
        assert not any("09" in figure.alt or "cuBLAS " in figure.alt.partition(":")[2] for figure in figures)


def test_what_is_computed_is_a_line_more(player):
    begin = [control.start for control in player.controls]
    plots = [player.shown([1, card, model, *begin[3:]])[0].body.count("<path") for card in (0, 1) for model in (0, 1)]
    assert plots[1] - plots[0] == 1 and plots[2] == plots[3]


def test_cards_of_other_sizes(records):
    points = [point for point in records["h100"].points if point.M > 1024]
    with pytest.raises(ArgumentError, match="records"):
        lab.draw.speeds("s", records | {"h100": dataclasses.replace(records["h100"], points=points)}, {}, [], 2048)
    with pytest.raises(ArgumentError, match="size: got 1000"):
        lab.draw.speeds("s", records, {}, [], 1000)
