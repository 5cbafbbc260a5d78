"""Computations of chapters 18 and 19: times, gains and chance, places of chunks, the life of a stage."""

import dataclasses
import math

import pytest

import lab
import sgemm_tutorial as sg
from lab.chapters import copy_engine, producer_warp
from lab.records import files
from lab.records.timings import load

KERNELS = [sg.find("18"), sg.find("19")]


@pytest.fixture(scope="module")
def run():
    kernel = producer_warp.RUNG
    return sg.simulate(kernel, *sg.matrices(128, 256, 6 * 64, on_gpu=False, types=kernel.types), trace=[0])


@pytest.mark.parametrize("recording", copy_engine.TWICE)
def test_each_has_times_of_its_own(recording):
    for kernel in KERNELS:
        point = copy_engine.timed(kernel, 8192, recording)
        assert point.identity == files.identity(kernel) and point.size == (8192,) * 3


def test_what_18_and_19_take_is_of_each():
    rows = {row[0]: row[1:] for row in producer_warp.compared().rows}
    for at, kernel in enumerate(KERNELS):
        assert rows["cycles"][at] == f"{lab.profiles.measured(kernel)['SM cycles']:,}"
        assert rows["warps' time in state barrier"][at] == f"{lab.profiles.states(kernel)['barrier']:.1%}"


def test_what_is_recorded_alike_twice_differs_by_nothing(monkeypatch):
    assert 0.005 < copy_engine.chance(4096) < 0.02
    monkeypatch.setattr(copy_engine, "TWICE", ("hopper_again", "hopper_again"))
    assert copy_engine.chance(4096) == 0


def test_a_shift_of_all_is_no_chance(monkeypatch):
    """A recording in which all shares are larger by the same factor says nothing about their differences."""
    record = load("hopper")

    def faster(of):
        return dataclasses.replace(of, own=dataclasses.replace(of.own, ms=[ms / 1.05 for ms in of.own.ms]))

    points = [dataclasses.replace(at, processes=list(map(faster, at.processes))) for at in record.points]
    shifted = dataclasses.replace(record, points=points)
    monkeypatch.setattr(copy_engine, "load", lambda name: shifted if name == "hopper_again" else record)
    assert copy_engine.moves(4096) == pytest.approx(math.log(1.05))
    assert copy_engine.chance(4096) == pytest.approx(0, abs=1e-9)


def test_what_a_pair_of_tiles_takes():
    assert copy_engine.PRODUCT == 2 * 128 * 256 * 64 // 4096


@pytest.mark.parametrize(("row", "chunk"), [(70, 3), (64, 0), (127, 6), (9, 7)])
def test_the_atom_says_where_the_copy_engine_puts_a_chunk(row, chunk):
    alt = copy_engine.atom(row, chunk).alt
    place = int(lab.swizzled(row * 128 + chunk * 16)) % 128 // 16
    assert f"Chunk {chunk} of row {row} is at place {place} of its row." in alt


def test_the_stage_says_what_one_product_reads():
    alt = copy_engine.stage(k=48, group=0).alt
    assert "columns 48 to 63 of rows 0 to 63 of A" in alt and "rows 48 to 63 of all boxes of B" in alt


@pytest.mark.parametrize("stage", [0, 1])
def test_the_life_of_a_stage_begins_again(run, stage):
    rows = producer_warp.life(run, stage).rows
    code = ["full.arrive_and_expect", "full.wait", "empty.arrive", "empty.arrive", "empty.wait"]
    assert [row[1] for row in rows] == [*code, code[0]]
    source = producer_warp.RUNG.source.splitlines()
    lines = {source[event.line - 1] for event in run.events if event.array}
    assert all(any(text.rpartition(".")[2] in line for line in lines) for text in code)
    assert [row[3][6] for row in rows] == list("011111") and [row[4][6] for row in rows] == list("000111")
    assert [row[3].endswith("bytes") for row in rows] == [True, *[False] * 4, True]
    assert (rows[0][3], rows[1][3]) == ("phase 0 lacks 49,152 bytes", "phase 1 lacks 1 arrival")
    assert [(row[0], row[4]) for row in rows[2:4]] == [
        ("7 threads", "phase 0 lacks 1 of 8"),
        ("thread 224", "phase 1 lacks 8 of 8"),
    ]


def test_the_player_ends_with_the_fault_of_a_kernel_that_never_lets_go(run):
    let_go = "if (tile > 0 && lane == 0) empty[(tile - 1) % STAGES].arrive();"
    A, B = sg.matrices(128, 256, 6 * 64, on_gpu=False, types=producer_warp.RUNG.types)
    shown = producer_warp.player(A, B, {"never let go": (let_go, "")})._repr_html_()
    assert "deadlock" in shown and "let go of stage 1" in shown


def test_the_life_counts_arrivals(run):
    """If one warp of eight arrives, seven are missing."""
    halved = [
        dataclasses.replace(event, threads=event.threads[:1]) if event.kind == "arrive" else event
        for event in run.events
    ]
    assert producer_warp.life(dataclasses.replace(run, events=halved)).rows[2][4] == "phase 0 lacks 7 of 8"
