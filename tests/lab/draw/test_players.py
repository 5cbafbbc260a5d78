"""Players show what the simulator traced, state by state, and what they carry for the page is what they show."""

import json
import re

import pytest

import lab
import sgemm_tutorial as sg
from lab.accesses import requests
from lab.draw.player import Computed, Control, Layer, Player
from sgemm_tutorial import ArgumentError

K = 8


@pytest.fixture(scope="module")
def runs():
    A, B = sg.matrices(64, 64, K, on_gpu=False)
    return [sg.simulate(name, A, B, trace=[0]) for name in ("01", "02")]


@pytest.fixture(scope="module")
def reads(runs):
    return lab.draw.warp_reads("reads", runs)


def data(player):
    """Return the data beside the SVG in a page."""
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', player._repr_html_(), re.DOTALL)
    return json.loads(text)


def test_each_step_is_a_request_of_the_trace(runs, reads):
    asked = [[r for r in requests(run) if r.array in ("A", "B")] for run in runs]
    steps = reads.controls[0].values
    assert len(steps) == len(asked[0]) == len(asked[1]) == 2 * K
    sectors = [0, 0]
    for step in range(len(steps)):
        for i, (figure, of) in enumerate(zip(reads.shown([step]), asked, strict=True)):
            r = of[step]
            sectors[i] += r.sectors
            assert f"{r.kind} of {r.array}, line {r.line}, k = {step // 2}" in figure.body and r.cost in figure.body
            assert f"{sectors[i]:,} sector" in figure.body
            assert str(r.sectors) in figure.alt
    assert sectors == [33 * K, 5 * K]


def test_kernels_of_another_pace_keep_step_along_k():
    A, B = sg.matrices(64, 64, 32, on_gpu=False)
    kernels = sg.find("03").variant(BM=16, BN=16, BK=16), sg.find("05")  # two tiles along K, and four
    runs = [sg.simulate(kernel, A, B, trace=[0]) for kernel in kernels]
    player = lab.draw.warp_reads("reads", runs, arrays=("As", "Bs"))
    labels = [int(re.match(r"k = (\d+) of 32", label)[1]) for label in player.controls[0].values]
    assert labels == sorted(labels) and labels[-1] > 16
    of = [len([r for r in requests(run) if r.array in ("As", "Bs")]) for run in runs]
    assert max(of) <= len(labels) <= sum(of)


def test_the_page_carries_what_is_shown(reads):
    found = data(reads)
    for step in range(0, len(reads.controls[0].values), 3):
        for panel, figure in zip(found["panels"], reads.shown([step]), strict=True):
            body, words = "", []
            for layer in panel["layers"]:
                alt, *runs = layer["states"][",".join(str([step][control]) for control in layer["on"])]
                words += [alt] if alt else []
                for first, number in zip(runs[::2], runs[1::2], strict=True):
                    body += "".join(panel["elements"][first : first + number])
            assert body == re.sub(r">\s+<", "><", figure.body.strip()) and " ".join(words) == figure.alt


def test_what_stands_in_a_notebook_is_the_first_state(reads):
    shown = re.sub(r"<script.*?</script>", "", reads._repr_html_(), flags=re.DOTALL)
    assert [figure._repr_html_() in shown for figure in reads.shown([0])] == [True, True]
    assert "What warp 0 of 01_naive and of 02_coalesced" in repr(reads)


def test_computed_numbers_pick_and_stand_in_texts():
    sheet = lab.draw.figure.Page(20)
    sheet.text(0, 10, "{sum} and {other}")
    figure = sheet.finish("The sum is {sum}.")
    controls = [Control("One", ("0", "1000")), Control("Two", ("0", "2000"))]
    layer = Layer(("sum", 0), {(3000, 1): figure, (0, 0): figure})
    computed = Computed("adding", {}, lambda state: {"sum": 1000 * state[0] + 2000 * state[1]})
    (shown,) = Player("sums", "", controls, [[layer]], computed).shown([1, 1])
    assert shown.alt == "The sum is 3,000." and "3,000 and {other}" in shown.body


def test_nothing_ends_the_script_early():
    sheet = lab.draw.figure.Page(20)
    sheet.text(0, 10, "a < b")
    figure = sheet.finish("</script>")
    player = Player("one", "</script>", [Control("Step", ("</script>",), "step")], [[Layer((0,), {(0,): figure})]])
    assert player._repr_html_().count("</script>") == 1 + player.shown([0])[0]._repr_html_().count("</script>")
    assert data(player)["title"] == "</script>"


@pytest.mark.parametrize(
    "wrong, argument",
    [
        (lambda runs: lab.draw.warp_reads("Two words", runs), "name"),
        (lambda runs: lab.draw.warp_reads("reads", runs, arrays=("As",)), "arrays"),
        (lambda runs: lab.draw.warp_reads("reads", runs, warp=99), "warp"),
        (lambda runs: Player("one", "", [], [[Layer((0,), {(0,): None})]]), "panels"),
        (lambda runs: Player("one", "", [], [[Layer((), {(0,): None})]]), "panels"),
        (lambda runs: Player("one", "", [], [[Layer(("blocks",), {(0,): None})]]), "panels"),  # nothing computes it
    ],
)
def test_bad_players(runs, wrong, argument):
    with pytest.raises(ArgumentError, match=argument):
        wrong(runs)


def test_problems_of_another_depth(runs):
    A, B = sg.matrices(64, 64, 2 * K, on_gpu=False)
    with pytest.raises(ArgumentError, match="runs"):
        lab.draw.warp_reads("reads", [runs[0], sg.simulate("02", A, B, trace=[0])])
