"""Contrast, computed as WCAG 2.2 defines it, in the book's light and dark theme: text 4.5 to 1, graphics 3 to 1."""

import re
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.path import Path as Outline

import sgemm_tutorial as sg
from lab import draw, request
from lab.draw import figure
from lab.draw.division import Piece
from lab.draw.tile_walk import COLOURS, READ
from lab.draw.warp import lane_colour

from .test_draw import pictures

STYLES = (Path(__file__).parents[3] / "book" / "_static" / "custom.css").read_text(encoding="utf-8")
THEMES = {"light": (":root", "#ffffff", "#222832"), "dark": ('html[data-theme="dark"]', "#121212", "#ced6dd")}
"""Selectors under which the style sheet sets a theme's colours, and the theme's own, of the page and of text."""


def colours(theme):
    """Return what the style sheet sets our variables to, and the page's colour and that of its text."""
    where, ground, text = THEMES[theme]
    (block,) = re.findall(rf"(?m)^{re.escape(where)} \{{\n([^}}]*--sg-blue[^}}]*)\}}", STYLES)
    return dict(re.findall(r"(--sg-[a-z-]+): (#[0-9a-f]{6});", block)), ground, text


def mixed(colour, opacity, ground, theme):
    """Return the colour that is seen where one of ours lies on a ground, as red, green and blue."""
    ours, _, text = colours(theme)
    if named := re.match(r"var\((--[a-z-]+)", colour):
        colour = ours[named[1]]
    colour = text if colour == figure.INK else colour
    return np.array(rgb(colour)) * opacity + np.array(ground) * (1 - opacity)


def rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def contrast(one, other):
    low, high = sorted(figure.luminance("#{:02x}{:02x}{:02x}".format(*np.round(c).astype(int))) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def outlines(path):
    """Return the polygons of a path without curves."""
    return [
        Outline(np.reshape([float(n) for n in re.findall(r"-?[\d.]+", part)], (-1, 2)))
        for part in path.get("d").split("M")[1:]
    ]


def worst_text(picture, theme):
    """Return the lowest contrast of a text of a picture to what lies under its middle, and the text."""
    root = ElementTree.fromstring(picture._repr_html_())
    fills = [path for path in root.iter("path") if path.get("fill") != "none" and "C" not in path.get("d")]
    fills = [(path, outlines(path)) for path in fills if not path.get("transform")]
    found = []
    for text in root.iter("text"):
        size = float(text.get("font-size").removesuffix("px"))
        width = 0.6 * size * len(text.text) * {"start": 0.5, "middle": 0, "end": -0.5}[text.get("text-anchor")]
        middle = float(text.get("x")) + width, float(text.get("y")) - 0.35 * size
        ground = rgb(THEMES[theme][1])
        for path, shapes in fills:
            if any(shape.contains_point(middle) for shape in shapes):
                ground = mixed(path.get("fill"), float(path.get("fill-opacity", 1)), ground, theme)
        found.append((contrast(mixed(text.get("fill"), 1, ground, theme), ground), text.text))
    return min(found, default=(21, ""))


@cache
def more():
    """Return pictures and states of players that write on coloured cells and are not among `pictures`."""
    sixteen = sg.find("16").variant(BM=64, BN=64, WM=32, WN=32, STAGES=2)
    run = sg.simulate(sixteen, *sg.matrices(64, 64, 64, on_gpu=False, types=sixteen.types), trace=[0])
    panels = draw.panels("panels")
    shown = [figure for way in (0, 1) for step in (0, 2, 4) for figure in panels.shown([way, step])]
    return {
        **{f"held {matrix}": draw.held(matrix) for matrix in ("A", "B", "B, FP32")},
        "chunks": draw.chunks(run),
        "chunks asked for": draw.chunks(run, asked=request(run, array="shared")),
        "division": draw.division([Piece(i, i, 0, 0, 4, bool(i % 3)) for i in range(8)], 3, "Eight tiles"),
        **{f"panels {i}": figure for i, figure in enumerate(shown)},
    }


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read_on_what_lies_under_it(theme):
    found = {name: worst_text(picture, theme) for name, picture in (pictures() | more()).items()}
    assert {name: of for name, of in found.items() if of[0] < 4.5} == {}


@pytest.mark.parametrize("theme", THEMES)
def test_every_lane_and_every_named_colour_carries_text(theme):
    ground = rgb(THEMES[theme][1])
    for colour in [*map(lane_colour, range(32)), figure.BLUE, figure.ORANGE, figure.GREEN, figure.PINK]:
        cell = mixed(colour, 1, ground, theme)
        assert contrast(mixed(figure.readable(colour), 1, cell, theme), cell) >= 4.5, colour
        assert contrast(cell, ground) >= 3, colour


@pytest.mark.parametrize("theme", THEMES)
def test_what_a_player_reads_stands_out(theme):
    """A pale band has an edge of 3 to 1, and is itself told from the page."""
    ground = rgb(THEMES[theme][1])
    for colour in COLOURS.values():
        band = mixed(colour, READ, ground, theme)
        assert contrast(band, ground) >= 1.5
        assert contrast(mixed(colour, 1, ground, theme), ground) >= 3
    kernel = sg.find("03").variant(BM=32, BN=32, BK=32)
    run = sg.simulate(kernel, *sg.matrices(32, 32, 64, on_gpu=False), trace=[0])
    player = draw.tile_walk("walk", run, "warp")
    left, _ = player.shown([control.start for control in player.controls])
    bands = re.findall(rf'<path [^>]*fill-opacity="{READ}"[^>]*>', left.body)
    assert bands and all(re.search(r'stroke="var\(', band) for band in bands)
