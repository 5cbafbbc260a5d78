"""Figures that move: everything they can show is drawn here, and a script of the book's only picks what to show.

A player's output holds its first state as SVG, complete for readers who run no script, and beside it every state as
JSON. States share most of their elements, so each element is written once and a state is a list of their numbers.
``book/_static/players.js`` adds the buttons. Where controls have too many values for a list of all states, a script
computes a few numbers from them, and these decide what is picked.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sgemm_tutorial.errors import ArgumentError

from .figure import Box, Figure

WIDTH = 312
"""Pixels of a picture that has another beside it: on a phone, they stand one below the other."""

_ELEMENT = re.compile(r"<path [^>]*/>|<text [^>]*>[^<]*</text>")
_NAME = re.compile(r"[a-z][a-z-]*")
_COMPUTED = re.compile(r"\{([a-z ]+)\}")


@dataclass(frozen=True)
class Control:
    """A setting of a player.

    Attributes
    ----------
    name : str
        The text beside it.
    values : sequence of str
        Its values, in words; the first at the start.
    kind : str
        "step": one after the other, with a slider, and to be played. "range": the same without playing. "choice": one
        of several. "switch": the first value means off and the second on.
    start : int
        Which value it has at the start.
    """

    name: str
    values: Sequence[str]
    kind: str = "choice"
    start: int = 0


@dataclass(frozen=True)
class Layer:
    """A part of a picture that depends on some of the controls.

    Attributes
    ----------
    on : sequence of int or str
        Which controls, by their place among the player's, and which computed numbers, by their names.
    figures : mapping of tuple of int to Figure
        What to draw, by the places of those controls' values and by those numbers. A state that is missing draws
        nothing. Where a text or the words for it have the name of something computed in braces, that is put.
    """

    on: Sequence[int | str]
    figures: Mapping[tuple[int, ...], Figure]


@dataclass(frozen=True)
class Computed:
    """Numbers and texts that depend on so many controls that there is no list of all states.

    Attributes
    ----------
    script : str
        The function in ``book/_static`` that computes them on a page, given `data` and the places of the controls'
        values.
    data : mapping of str to anything that JSON has
    numbers : callable
        Given the places of the controls' values, return the same by name: lower-case letters and spaces.
    """

    script: str
    data: Mapping[str, Any]
    numbers: Callable[[Sequence[int]], Mapping[str, int | str]]


def looked_up(*tables: tuple[Sequence[int], Mapping[tuple[int, ...], Mapping[str, int | str]]]) -> Computed:
    """Return numbers and texts that are looked up in tables instead of computed.

    Parameters
    ----------
    tables : tuple of (sequence of int, mapping)
        The controls by whose values to look, and by the places of these the numbers and texts, the same names for all.
    """
    data = []
    for on, texts in tables:
        names = list(next(iter(texts.values())))
        rows = {_key(of): [row[name] for name in names] for of, row in texts.items()}
        data.append({"on": on, "names": names, "rows": rows})

    def found(state: Sequence[int]) -> dict[str, int | str]:
        return {name: value for on, texts in tables for name, value in texts[tuple(state[i] for i in on)].items()}

    return Computed("lookedUp", {"tables": data}, found)


@dataclass(frozen=True)
class Pick:
    """A control that a pointer on a picture sets to the value that is nearest there.

    Attributes
    ----------
    panel, control : int
        The picture, and the control, by their places.
    axis : str
        "x": the values lie from left to right. "y": from top to bottom.
    at : sequence of (float, int)
        Where, in pixels, and the value's place among the control's.
    """

    panel: int
    control: int
    axis: str
    at: Sequence[tuple[float, int]]


@dataclass(frozen=True)
class Area:
    """Controls that a pointer on a part of a picture sets together.

    Attributes
    ----------
    panel : int
        The picture, by its place.
    box : tuple of float
        The part, in pixels: left, top, width and height.
    controls : sequence of int
        The controls, by their places.
    cells : sequence of sequence of int
        Rows of cells of one size that fill the part. Of each the places of the controls' values, as one number: the
        last control's counts ones, the one before it as many as the last has values, and so on.
    """

    panel: int
    box: Box
    controls: Sequence[int]
    cells: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Preset:
    """Controls that set others.

    Attributes
    ----------
    of : sequence of int
        The controls that set. The first goes back to its first value, which stands for none, where `states` has
        nothing for what they are set to, and where a reader sets one of the others.
    sets : sequence of int
        The controls that are set.
    states : mapping of tuple of int to tuple of int
        The places of values of `sets`, by those of `of`.
    """

    of: Sequence[int]
    sets: Sequence[int]
    states: Mapping[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, repr=False)
class Player:
    """A figure whose reader decides what it shows. Notebooks show its first state, the book's pages all of them.

    Attributes
    ----------
    name : str
        Lower-case letters and hyphens, once on a page: addresses of states begin with it.
    title : str
        The subject of the figure, for screen readers.
    controls : sequence of Control
    panels : sequence of sequence of Layer
        Pictures side by side, each of layers, the first at the bottom.
    computed : Computed, optional
    preset : Preset, optional
    picks : sequence of Pick, optional
    areas : sequence of Area, optional

    Raises
    ------
    ArgumentError
        The name is none, or a layer depends on a control or a value that isn't there.
    """

    name: str
    title: str
    controls: Sequence[Control]
    panels: Sequence[Sequence[Layer]]
    computed: Computed | None = None
    preset: Preset | None = None
    picks: Sequence[Pick] = ()
    areas: Sequence[Area] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ArgumentError("name", repr(self.name), "lower-case letters and hyphens")
        values = {i: range(len(control.values)) for i, control in enumerate(self.controls)}
        for layer in (layer for panel in self.panels for layer in panel):
            for state in layer.figures:
                if len(state) != len(layer.on) or any(
                    at not in values.get(on, ()) and not (self.computed and isinstance(on, str))
                    for on, at in zip(layer.on, state, strict=True)
                ):
                    raise ArgumentError("panels", f"a layer with a state {state}", f"one of controls {list(layer.on)}")

    def __repr__(self) -> str:
        return f"<Player: {self.title}>"

    def shown(self, state: Sequence[int]) -> list[Figure]:
        """Return each panel's picture when the controls have the values at these places."""
        values: dict[int | str, int | str] = dict(enumerate(state))
        values |= self.computed.numbers(state) if self.computed else {}
        return [_stacked(panel, values) for panel in self.panels]

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
        if self.computed:
            data["computed"] = {"script": self.computed.script, "data": self.computed.data}
        for name, parts in (("picks", self.picks), ("areas", self.areas)):
            if parts:
                data[name] = [dataclasses.asdict(part) for part in parts]
        if self.preset:
            states = {_key(of): list(sets) for of, sets in self.preset.states.items()}
            data["preset"] = {"of": list(self.preset.of), "sets": list(self.preset.sets), "states": states}
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")


def film(
    name: str,
    title: str,
    steps: Sequence[str],
    panels: Sequence[Sequence[Layer]],
    start: int = 0,
    picks: Sequence[Pick] = (),
) -> Player:
    """Return a player with one control, which goes through steps.

    Parameters
    ----------
    name, title, panels, picks
        As of `Player`.
    steps : sequence of str
        Each step in a few words.
    start : int
        The step at the start.
    """
    return Player(name, title, [Control("Step", steps, "step", start)], panels, picks=picks)


def _stacked(panel: Sequence[Layer], values: Mapping[int | str, int | str]) -> Figure:
    """Return a panel's figures, which have one size, as one figure, with computed numbers in place of their names."""

    def filled(text: str) -> str:
        return _COMPUTED.sub(lambda found: _shown(values.get(found[1], found[0])), text)

    drawn = [layer.figures.get(tuple(values.get(on) for on in layer.on)) for layer in panel]
    figures = [figure for figure in drawn if figure]
    alt = " ".join(filled(figure.alt) for figure in figures if figure.alt)
    return Figure(alt, figures[0].width, figures[0].height, "".join(filled(figure.body) for figure in figures))


def _shown(value: int | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"


def _key(state: Sequence[int]) -> str:
    return ",".join(map(str, state))


def _packed(panel: Sequence[Layer]) -> dict:
    """Return a panel's elements, and of each layer and state their numbers, as starts and lengths of runs."""
    seen: dict[str, int] = {}
    layers = []
    for layer in panel:
        states = {}
        for key, figure in layer.figures.items():
            runs: list[int] = []
            for element in _ELEMENT.findall(figure.body):
                number = seen.setdefault(element, len(seen))
                if runs and runs[-2] + runs[-1] == number:
                    runs[-1] += 1
                else:
                    runs += [number, 1]
            states[_key(key)] = [figure.alt, *runs]
        layers.append({"on": list(layer.on), "states": states})
    return {"elements": list(seen), "layers": layers}
