"""Figures that move: everything they can show is drawn here, and a script of the book's only picks what to show.

A player's output holds its first state as SVG, complete for whoever runs no script, and beside it every state as
JSON. States share most of their elements, so each element is written once and a state is a list of their numbers.
``book/_static/players.js`` adds the buttons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from ..errors import ArgumentError
from .figure import Figure

_ELEMENT = re.compile(r"<path [^>]*/>|<text [^>]*>[^<]*</text>")
_NAME = re.compile(r"[a-z][a-z-]*")


@dataclass(frozen=True)
class Control:
    """What a reader of a player can set.

    Attributes
    ----------
    name : str
        What stands beside it.
    values : sequence of str
        What it can be set to, in words; the first at the start.
    kind : str
        "step": one after the other, with a slider, and to be played. "choice": one of several. "switch": the first
        value means off and the second on.
    start : int
        Which value it has at the start.
    """

    name: str
    values: Sequence[str]
    kind: str = "choice"
    start: int = 0


@dataclass(frozen=True)
class Layer:
    """A part of a picture that hangs on some of the controls.

    Attributes
    ----------
    on : sequence of int
        Which controls, by their place among the player's.
    figures : mapping of tuple of int to Figure
        What to draw, by the places of those controls' values. A state that is missing draws nothing.
    """

    on: Sequence[int]
    figures: Mapping[tuple[int, ...], Figure]


@dataclass(frozen=True, repr=False)
class Player:
    """A figure whose reader decides what it shows. Notebooks show its first state, the book's pages all of them.

    Attributes
    ----------
    name : str
        Lower-case letters and hyphens, once on a page: addresses of states begin with it.
    title : str
        What it shows, for those who don't see it.
    controls : sequence of Control
    panels : sequence of sequence of Layer
        Pictures side by side, each of layers, the first at the bottom.

    Raises
    ------
    ArgumentError
        The name is none, or a layer hangs on a control that isn't there.
    """

    name: str
    title: str
    controls: Sequence[Control]
    panels: Sequence[Sequence[Layer]]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ArgumentError("name", repr(self.name), "lower-case letters and hyphens")
        for layer in (layer for panel in self.panels for layer in panel):
            if not set(layer.on) <= set(range(len(self.controls))):
                raise ArgumentError("panels", f"a layer on controls {list(layer.on)}", f"{len(self.controls)} or fewer")
            ranges = [range(len(self.controls[control].values)) for control in layer.on]
            for state in layer.figures:
                if len(state) != len(ranges) or any(at not in of for at, of in zip(state, ranges, strict=True)):
                    raise ArgumentError("panels", f"a layer with a state {state}", f"one of controls {list(layer.on)}")

    def __repr__(self) -> str:
        return f"<Player: {self.title}>"

    def shown(self, state: Sequence[int]) -> list[Figure]:
        """Return each panel's picture when the controls have the values at these places."""
        return [_stacked([figure for _, figure in _drawn(panel, state)]) for panel in self.panels]

    def _repr_html_(self) -> str:
        first = "".join(figure._repr_html_() for figure in self.shown([control.start for control in self.controls]))
        return (
            f'<div class="sg-player" data-name="{self.name}"><div class="sg-panels">{first}</div>'
            f'<script type="application/json">{self._data()}</script></div>'
        )

    def _data(self) -> str:
        """Return everything that it can show, as JSON; no text in it ends the script that it stands in."""
        data = {
            "title": self.title,
            "controls": [
                {"name": c.name, "kind": c.kind, "start": c.start, "values": list(c.values)} for c in self.controls
            ],
            "panels": [_packed(panel) for panel in self.panels],
        }
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")


def film(name: str, title: str, steps: Sequence[str], panels: Sequence[Sequence[Layer]]) -> Player:
    """Return a player with one control, which goes through steps.

    Parameters
    ----------
    name, title, panels
        As of `Player`.
    steps : sequence of str
        Each step in a few words.
    """
    return Player(name, title, [Control("Step", steps, "step")], panels)


def _drawn(panel: Sequence[Layer], state: Sequence[int]) -> Iterator[tuple[Layer, Figure]]:
    for layer in panel:
        key = tuple(state[control] for control in layer.on)
        if key in layer.figures:
            yield layer, layer.figures[key]


def _stacked(figures: Sequence[Figure]) -> Figure:
    """Return figures of one size as one."""
    alt = " ".join(figure.alt for figure in figures if figure.alt)
    return Figure(alt, figures[0].width, figures[0].height, "".join(figure.body for figure in figures))


def _packed(panel: Sequence[Layer]) -> dict:
    """Return a panel's elements, and of each layer and state their numbers, as starts and lengths of runs."""
    number = count()
    seen: dict[str, int] = {}
    layers = []
    for layer in panel:
        states = {}
        for key, figure in layer.figures.items():
            runs: list[int] = []
            for element in _ELEMENT.findall(figure.body):
                if element not in seen:
                    seen[element] = next(number)
                if runs and runs[-2] + runs[-1] == seen[element]:
                    runs[-1] += 1
                else:
                    runs += [seen[element], 1]
            states[",".join(map(str, key))] = [figure.alt, *runs]
        layers.append({"on": list(layer.on), "states": states})
    return {"elements": list(seen), "layers": layers}
