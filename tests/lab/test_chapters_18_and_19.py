"""What chapters 18 and 19 show: times under their own name or with a note, where chunks lie, the life of a stage."""

import dataclasses
import re

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


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_time_of_other_code_comes_with_a_note(kernel):
    point, note = copy_engine.timed(kernel, 4096)
    assert bool(note) == (point.identity != files.identity(kernel))
    assert point.parameters["BN"] == 256 and point.size == (4096,) * 3


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_time_of_its_own_is_preferred(kernel, monkeypatch):
    """As soon as the recording has one, even behind the others."""
    record = load("hopper")
    (other,) = lab.recorded("20", 4096, "hopper").points
    own = dataclasses.replace(other, ms=1.25, **files.of(kernel, (4096,) * 3))
    longer = dataclasses.replace(record, points=[*record.points, own])
    monkeypatch.setattr(copy_engine, "load", lambda name: longer)
    assert copy_engine.timed(kernel, 4096) == (own, "")
    assert "1.25" in str(copy_engine.times()) or kernel.name != "18_wgmma"


def test_settings_of_the_two_are_not_mixed_up():
    before, after = (copy_engine.timed(kernel, 8192)[0] for kernel in KERNELS)
    assert (before.parameters["THREADS"], after.parameters["THREADS"]) == (256, 384)


def test_the_pooled_share_is_near_those_of_processes():
    for size in copy_engine.SIZES:
        point, _ = copy_engine.timed(KERNELS[0], size)
        low, high = map(float, copy_engine.spread(point)[:-1].split("–"))
        assert low <= high and low - 1 < point.percent_of_cublas < high + 1


def test_cycles_of_a_pair_of_tiles():
    cycles = copy_engine.cycles()
    assert cycles["tensor cores, by the data sheet"] == 2 * 128 * 256 * 64 / 4096
    assert cycles["shared memory, written by copies"] == 49_152 / 128
    assert cycles["shared memory, read by wgmma"] == (16_384 + 2 * 32_768) / 128


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
    source = producer_warp.RUNG.source.splitlines()
    said = [source[line - 1].strip() for line, *_ in rows]
    begins = ["full[stage].arrive", "full[stage].wait", "multiply", "if (tile > 0", "if (tile >= STAGES)"]
    assert all(re.match(re.escape(text), line) for text, line in zip([*begins, begins[0]], said, strict=True))
    assert [row[3][:1] for row in rows] == list("011111") and [row[4][:1] for row in rows] == list("000111")
    assert (rows[0][3], rows[1][3]) == ("0: 49,152 bytes", "1: 1 arrival") and rows[3][1] == "8 threads"


def test_the_player_ends_with_the_fault_of_a_kernel_that_never_lets_go(run):
    let_go = "if (tile > 0 && lane == 0) empty[(tile - 1) % STAGES].arrive();"
    A, B = sg.matrices(128, 256, 6 * 64, on_gpu=False, types=producer_warp.RUNG.types)
    shown = producer_warp.player(A, B, {"never let go": (let_go, "")})._repr_html_()
    assert "deadlock" in shown and "let go of stage 1" in shown
