"""The stages of a pipeline, step by step: a player shows what kernels do, and what the simulator finds."""

import re

import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.draw import Ring
from lab.draw.figure import BLUE, ORANGE
from sgemm_tutorial import ArgumentError, SimulationFault

TILES = 5
PIPELINE = sg.find("11").variant(BM=64, BN=64, BK=8, WM=32, WN=32, TM=8, TN=4, STAGES=3)
OF = PIPELINE.parameters
RINGS = [Ring("tiles", "As", 4 * OF["BK"] * (OF["BM"] + 4)), Ring("tiles", "Bs", 4 * OF["BK"] * OF["BN"])]
WAIT = 'asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");'
MISTAKES = {"no wait": (WAIT, ""), "no barrier": ("__syncthreads();", "")}


@pytest.fixture(scope="module")
def operands():
    return sg.matrices(OF["BM"], OF["BN"], TILES * OF["BK"], on_gpu=False)


@pytest.fixture(scope="module")
def player(operands):
    kernels = {"as it is": PIPELINE} | {name: PIPELINE.edited(change) for name, change in MISTAKES.items()}
    return lab.draw.pipeline("pipeline", kernels, *operands, RINGS, OF["STAGES"])


def said(player, kernel):
    """Return the text of each step, for those who don't see it, without the repetition at the end."""
    every = [player.shown([kernel, step])[0].alt for step in range(len(player.controls[1].values))]
    return [words for words, after in zip(every, [*every[1:], ""], strict=True) if words != after]


def test_copies_and_reads_are_the_trace_s(player, operands):
    """Order and stages are those of the accesses. A wait and a barrier lie between a stage's copies and reads."""
    run, expected = sg.simulate(PIPELINE, *operands, trace=[0]), []
    for access in run.trace:
        for ring in RINGS:
            if access.array == ring.array:
                does = "copy to" if access.kind == "store" else "read"
                expected.append(f"{does} stage {access.offsets.min() // ring.size}")
    expected = [what for i, what in enumerate(expected) if expected[i - 1 : i] != [what]]
    steps = [re.match(r"threads 0 to 127, line (\d+): ([^.]*)\.", words).groups() for words in said(player, 0)]
    kept = [what for _, what in steps if what.startswith(("copy", "read"))]
    assert [what for i, what in enumerate(kept) if kept[i - 1 : i] != [what]] == expected
    words = [what for _, what in steps]
    assert words.count("wait for all threads") == words.count("wait for all groups but 1") == TILES
    assert words.count("end a group of copies") == TILES + OF["STAGES"] - 1
    lines = PIPELINE.source.splitlines()
    assert all("__syncthreads" in lines[int(line) - 1] for line, what in steps if what == "wait for all threads")
    for tile in range(TILES):
        stage = f"stage {tile % OF['STAGES']}: pair {tile}"
        states = [words.lower() for words in said(player, 0) if stage in words.lower()]
        found = [next(s for s in ("on the way", "is there", "is read") if f"{stage} {s}" in words) for words in states]
        assert list(dict.fromkeys(found)) == ["on the way", "is there", "is read"]


def test_bars_grow_by_what_each_step_leaves(player):
    for step, words in enumerate(said(player, 0)):
        body = player.shown([0, step])[0].body
        before = player.shown([0, step - 1])[0].body if step else ""
        for colour, state in ((ORANGE, "on the way"), (BLUE, "is read")):
            more = body.count(f'fill="{colour}"') - before.count(f'fill="{colour}"') - (step == 0)  # the key
            assert more == words.count(state), (step, words)


def test_mistakes_end_with_the_simulator_s_words(player, operands):
    for i, change in enumerate(MISTAKES.values(), 1):
        with pytest.raises(SimulationFault) as caught:
            sg.simulate(PIPELINE.edited(change), *operands)
        fault, steps = caught.value, said(player, i)
        assert steps[-1] == f"The simulator stops here: {fault}." and 4 < len(steps) < len(said(player, 0))
        whole = [words for words in said(player, 0) if not (i == 1 and "wait for all groups" in words)]
        assert [re.split(r"[:.] ", words)[1] for words in steps[:-1]] == [
            re.split(r"[:.] ", words)[1] for words in whole[: len(steps) - 1]
        ]
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", player.shown([i, len(steps)])[0].body)
        assert fault.kind in texts and fault.detail in " ".join(texts)
        assert f"line {fault.line}, thread {fault.thread}" in texts


def test_full_and_empty():
    wide = sg.find("20").variant(BN=128, WN=128, CLUSTER=1)
    of = wide.parameters
    stages, a, b = of["STAGES"], 2 * of["BM"] * of["BK"], 2 * of["BK"] * of["BN"]
    rings = [
        Ring("tiles", "shared", a),
        Ring("tiles", "shared", b, stages * a),
        Ring("full", "shared", 8, stages * (a + b)),
        Ring("empty", "shared", 8, stages * (a + b + 8)),
    ]
    given = sg.matrices(of["BM"], of["BN"], (stages + 1) * of["BK"], on_gpu=False, types=wide.types)
    kernels = {"as it is": wide, "nobody lets go": wide.edited(("if (tile > 0) let_go(step - 1);", ""))}
    player = lab.draw.pipeline("pipeline", kernels, *given, rings, stages)
    steps = said(player, 0)
    first = next(i for i, each in enumerate(steps) if "let go of stage 0" in each)
    assert "stage 0 is empty: go on" in steps[first + 1] and "copy to stage 0" in steps[first + 2]
    assert f"Stage 0: pair {stages} on the way" in steps[first + 2] and "Stage 0: free" in steps[first]
    for stage in range(stages):
        mine = [
            what
            for each in steps
            for what in (f"copy to stage {stage}.", f"stage {stage} is full: go on.", f"multiply stage {stage}.")
            if what in each
        ]
        assert mine[:3] == [f"copy to stage {stage}.", f"stage {stage} is full: go on.", f"multiply stage {stage}."]
    stuck = said(player, 1)[-1]
    assert "The simulator stops here: deadlock" in stuck and "let go" not in " ".join(said(player, 1))


def test_through_registers():
    """Rung 10: a pair is loaded, what is there is read on, the pair is stored, and there from the barrier on."""
    kernel = sg.find("10")
    of = kernel.parameters
    rings = [Ring("tiles", "As", 4 * of["BK"] * of["BM"]), Ring("tiles", "Bs", 4 * of["BK"] * of["BN"])]
    given = sg.matrices(of["BM"], of["BN"], TILES * of["BK"], on_gpu=False)
    broken = kernel.edited(("__syncthreads();", "")), kernel.edited(("stage = 1 - stage;", ""))
    kernels = {"as it is": kernel, "no barrier": broken[0], "one stage": broken[1]}
    player = lab.draw.pipeline("pipeline", kernels, *given, rings, 2)
    steps = [re.match(r"threads 0 to 255, line \d+: ([^.]*)\. (.*)", words).groups() for words in said(player, 0)]
    did, left = ([step[i] for step in steps] for i in (0, 1))
    expected = []  # in the order of the trace's accesses
    for access in sg.simulate(kernel, *given, trace=[0]).trace:
        for ring in rings:
            if access.array == ring.array:
                does = "store it to" if access.kind == "store" else "read"
                expected.append(f"{does} stage {access.offsets.min() // ring.size}")
        if access.array in ("A", "B"):
            expected.append("load a pair into registers")
    expected = [what for i, what in enumerate(expected) if expected[i - 1 : i] != [what]]
    kept = [what for what in did if what != "wait for all threads"]
    assert [what for i, what in enumerate(kept) if kept[i - 1 : i] != [what]] == expected
    assert did.count("load a pair into registers") == did.count("wait for all threads") == TILES
    for tile in range(TILES):
        stage = tile % 2
        load = next(i for i, each in enumerate(left) if f"egisters: pair {tile} on the way" in each)
        store = next(i for i, each in enumerate(left) if f"tage {stage}: pair {tile} on the way" in each)
        there = next(i for i, each in enumerate(left) if f"tage {stage}: pair {tile} is there" in each)
        assert load < store < there and (did[store], did[there]) == (
            f"store it to stage {stage}",
            "wait for all threads",
        )
        assert "registers: free" in left[store] and did[there + 1] == f"read stage {stage}"
        assert tile == 0 or did[load + 1] == f"read stage {1 - stage}"
    for i, other in enumerate(broken, 1):
        with pytest.raises(SimulationFault, match="race") as caught:
            sg.simulate(other, *given)
        assert said(player, i)[-1] == f"The simulator stops here: {caught.value}."
    assert "registers: –" in player.shown([0, 1])[0].body and "registers: 1" in player.shown([0, 4])[0].body


def test_copies_of_12():
    """Its barrier comes before the last fragments of a pair are used up, and its tiles lie in one array."""
    tile = {"BM": 64, "BN": 64, "BK": 8, "WM": 32, "WN": 32, "TM": 8, "TN": 4, "SLICES": 1, "STAGES": 4, "BLOCKS": 5}
    kernel = sg.find("13").variant(**tile)
    given = sg.matrices(64, 64, 6 * 8, on_gpu=False)
    barrier, wait = (
        "__syncthreads();                           // the next",
        'asm volatile("cp.async.wait_group %0;" :: "n"(ahead - 2)',
    )
    broken = kernel.edited((barrier, "//")), kernel.edited((wait, wait.replace("2", "1")))
    kernels = {"as it is": kernel, "no barrier": broken[0], "waits for too few": broken[1]}
    player = lab.draw.pipeline("pipeline", kernels, *given, [Ring("tiles", "tiles", 4 * 8 * (64 + 4 + 64))], 4)
    steps = said(player, 0)
    for tile in range(6):
        states = [
            next(s for s in ("on the way", "is there", "is read") if f"pair {tile} {s}" in words)
            for words in steps
            if f"pair {tile} " in words
        ]
        assert list(dict.fromkeys(states)) == ["on the way", "is there", "is read"]
        first = next(i for i, words in enumerate(steps) if f"tage {tile % 4}: pair {tile} is read" in words)
        assert any("wait for all threads" in words for words in steps[first - 3 : first])
    for i, (other, kind) in enumerate(zip(broken, ("race", "in flight"), strict=True), 1):
        with pytest.raises(SimulationFault, match=kind) as caught:
            sg.simulate(other, *given)
        assert said(player, i)[-1] == f"The simulator stops here: {caught.value}."


def test_a_kernel_without_such_stages(operands):
    with pytest.raises(ArgumentError, match="rings"):
        lab.draw.pipeline("pipeline", {"as it is": sg.find("02")}, *operands, RINGS, 3)


def test_legible(player):
    for state in ((0, 0), (0, 20), (1, 9)):
        (figure,) = player.shown(state)
        sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)px"', figure.body)]
        assert min(sizes) >= 11 and figure.width == 312
        xs = np.array(
            [float(x) for x in re.findall(r"[ML]([\d.]+) ", " ".join(re.findall(r' d="([^"]*)"', figure.body)))]
        )
        assert (xs <= figure.width).all()
