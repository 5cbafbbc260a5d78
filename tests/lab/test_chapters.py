"""What chapters compute: the scoreboard's three rows, the figures in prose, and the picture of who fetches what."""

import re

import pytest

import lab
import sgemm_tutorial as sg
from lab.chapters import board, thread_tile_1d


@pytest.fixture(scope="module")
def run():
    return sg.simulate("04", *sg.matrices(64, 64, 64, on_gpu=False), trace=[0])


def test_the_board_has_the_rung_between_the_one_before_and_cublas():
    table = board.board("03")
    assert [row[0] for row in table.rows] == ["02", "03", "cuBLAS"]
    (point,) = lab.recorded("03", 4096).points
    assert table.rows[1][2] == point.ms and table.rows[2][2] == point.cublas_ms


def test_the_first_rung_has_none_before_it():
    assert [row[0] for row in board.board("01").rows] == ["01", "cuBLAS"]
    assert "ms before" not in board.figures("01")


def test_figures_of_a_rung_are_those_of_the_next_ones_before():
    of, following = board.figures("02"), board.figures("03")
    assert (of["ms"], of["share"]) == (following["ms before"], following["share before"])
    assert of["share"] in [row[3] for row in board.board("02").rows]


@pytest.mark.parametrize("thread", [0, 101, 255])
def test_a_thread_fetches_and_computes_what_the_source_says(run, thread):
    """Rows of the tile of A are 32 long, those of B and C 64; a thread computes 16 rows."""
    places = {
        "As": (thread // 32, 8, 8, thread % 32),
        "Bs": (thread // 64, 4, 8, thread % 64),
        "C": (thread // 64 * 16, 1, 16, thread % 64),
    }
    alt = thread_tile_1d.fetch_map(run, thread).alt
    for name, (row, step, count, column) in places.items():
        last = row + step * (count - 1)
        said = rf"{name}: \w+ {count} elements, rows {row}, {row + step} … {last} of column {column}\."
        assert re.search(said, alt), (name, alt)


def test_a_thread_that_is_not_there_is_refused(run):
    with pytest.raises(sg.ArgumentError, match=r"^thread: got 256, needs 0 to 255"):
        thread_tile_1d.fetch_map(run, 256)


def test_shares_of_the_data_sheet_keep_the_proportions_of_those_of_cublas():
    shares, sheet = lab.published.shares(lab.published.load()), lab.chapters.across_gpus.of_data_sheet()
    for name, of in shares.items():
        for rung, share in of.items():
            assert sheet[name][rung] / sheet[name]["cuBLAS"] == pytest.approx(share / 100)
    assert sheet["RTX A6000, Boehm"]["cuBLAS"] == pytest.approx(100 * 23_249.6 / (2 * 128 * 84 * 1.8))


def test_the_rounds_of_a_size_hold_all_its_tiles():
    texts = lab.chapters.by_size.rounds("11", (2048, 2176)).alt.rstrip(".").split("; ")
    busy = [int(text.partition(": ")[2].split()[0]) for text in texts]
    assert busy == [128, 132, 153 - 132]
