"""Computations of chapters: the figures in prose, and the picture of each thread's fetches."""

import itertools
import re
from collections import Counter

import pytest

import lab
import sgemm_tutorial as sg
from lab.chapters import board, by_shape, persistent, stream_k, tf32x3_wgmma, thread_tile_1d
from lab.model import sass
from lab.records.sizes import times_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run():
    return sg.simulate("04", *sg.matrices(64, 64, 64, on_gpu=False), trace=[0])


def test_the_first_rung_has_none_before_it():
    assert "ms before" not in board.figures("01")


def test_figures_of_a_rung_are_those_of_the_next_ones_before():
    of, following = board.figures("02"), board.figures("03")
    (point,) = lab.recorded("02", 4096).points
    assert (of["ms"], of["share"]) == (following["ms before"], following["share before"])
    assert of["share"] == f"{point.percent_of_cublas:.1f}%"


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


@pytest.mark.parametrize(("size", "group", "cluster"), [(4096, 12, 2), (4096, 1, 1), (2304, 4, 2)])
def test_persistent_blocks_compute_each_tile_once(size, group, cluster):
    numbers = range(-(-size // (cluster * 128)) * (size // 256))
    corners = [persistent.corner(number, rank, size, group, cluster) for number in numbers for rank in range(cluster)]
    assert sorted(corners) == [(row, column) for row in range(0, size, 128) for column in range(0, size, 256)]
    assert persistent.rounds(size) == len(corners) / 132


def test_a_block_that_stays_stores_the_tiles_that_its_numbers_say():
    kernel = persistent.KERNEL.variant()
    A, B = sg.matrices(1024, 1024, 64, on_gpu=False, types=kernel.types)
    run = sg.simulate(kernel.divided(0, 4), A, B, trace=[3])  # four blocks for 32 tiles
    stored = [int(access.offsets[0]) // 4 for access in run.trace if access.array == "C"]
    tiles = dict.fromkeys((first // 1024 // 128 * 128, first % 1024 // 256 * 256) for first in stored)
    assert list(tiles) == [persistent.corner(number, 1, 1024) for number in range(1, 16, 2)]
    assert persistent.corner(18, 1, 4096) == persistent.corner(37, 0, 4096, cluster=1) == (128, 768)


def test_the_steps_don_t_compare_a_width_with_itself():
    rows = {row[0]: row[1:] for row in persistent.steps_table().rows}
    same = [persistent.chosen(size) == 256 for size in persistent.SIZES]
    assert same == [True, False, True, False] == [cell == "same code" for cell in rows["width as chosen"]]
    assert [int(row[0].replace(",", "")) for row in persistent.widths_table().rows] == [2560, 3072, 5120, 8192]


def test_shares_go_by_kernel_size_and_recording():
    found = persistent.shares(persistent.STEPS, [2048, 4096])
    point = lab.chapters.copy_engine.timed(persistent.STEPS[1], 4096, "hopper_again")
    assert found.shape == (4, 2, 2) and found[1, 1, 1] == point.percent_of_cublas
    change = persistent.change(persistent.STEPS[2], persistent.STEPS[1], 4096).split(", ")
    assert change[1] == f"{found[2, 1, 1] / found[1, 1, 1] - 1:+.1%}"


def test_the_gap_is_shorter_for_a_block_that_stays():
    """The next tile's products begin so many units earlier, each drawn as 24 pixels."""
    assert persistent.gap().alt == persistent.gap(writing=4, copy=1).alt
    assert persistent.gap(writing=4)._repr_html_() != persistent.gap()._repr_html_()
    assert "half of the tile" in persistent.gap(late=True).alt


def test_the_time_line_counts_bytes_and_arrivals_as_the_barriers_do():
    """Each block announces its tile of A and all of B, and fetches its A and half of B, the half for both."""
    of = persistent.TILE
    a, half, warps = 2 * of["BM"] * of["BK"], 2 * of["BK"] * of["BN"] // of["CLUSTER"], of["BM"] // 16
    assert (of["CLUSTER"], warps) == (2, 8)
    bytes_of = {36: 0, 37: 0}
    for row, (who, change) in enumerate(((36, (a + 2 * half, 0)), (36, (-a - half, -half)), (37, (0, a + 2 * half)))):
        bytes_of[36] += change[0]
        bytes_of[37] += change[1]
        said = persistent.MOMENTS[row]
        assert f"{bytes_of[who]:,}" in said[1 if who == 36 else 4].replace("−", "-")
    assert f"−{half:,}" in persistent.MOMENTS[1][4]
    assert (bytes_of[36] - half, bytes_of[37] - a - half) == (0, 0), "so both phases are over in the fourth row"
    assert [row for row, said in enumerate(persistent.MOMENTS) if "full[0]: phase over" in said] == [3]
    assert f"lacks {2 * warps - warps} of {2 * warps}" in persistent.MOMENTS[4][1] == persistent.MOMENTS[4][4]
    alt = persistent.time_line().alt
    assert all(text in alt for said in persistent.MOMENTS for text in said if len(text) > 1)


def _expected(n):
    """The TFLOP/s that the model expects of chapter 13's four tiles at M = N = K = n."""
    settings = {lab.tune.tile_of(setting): setting for setting in sg.autotuned.SETTINGS}
    return {tile: 2e-6 * n**3 / by_shape.by_model(settings[tile], (n, n, n))[0][0] for tile in by_shape.TILES}


def test_the_model_takes_what_it_expects_most_of():
    for n in (256, 1024, 4096):
        expected, way = _expected(n), by_shape.chosen((n, n, n))
        assert max(expected, key=expected.get) == lab.tune.tile_of(way.setting)
        assert max(expected.values()) < lab.card().fp32_tflops


def test_a_regret_is_of_the_models_choice():
    """The search timed what the model takes now, at every size: none where nothing faster was found."""
    slower = by_shape.slower()
    assert min(slower.values()) == 1 < max(slower.values())
    for size, point in by_shape.found().items():
        assert point.expected == by_shape.chosen(size)
        assert slower[size] == 1 or point.expected != point.best
    of = by_shape.figures()
    worst = [size for size in slower if f"{slower[size] - 1:.0%}" == of["worst"]]
    assert [times_of(size).replace("×", " × ") for size in worst] == [of["worst shape"]]


def test_who_searches_makes_a_difference():
    """Searching the algorithms of cuBLAS can only help it, and not searching the settings of 13 only hurts it."""
    for sizes in (lab.shapes.SHAPES, [(512, 512, 512)]):
        least = {who: float(by_shape.mean_and_least(sizes, who)[1][:-1]) for who in ("only 13", "both", "neither")}
        assert least["both"] <= least["only 13"] > least["neither"]
    point = by_shape.raced()[512, 512, 512]
    assert by_shape.mean_and_least([point.size], "both") == (
        f"{point.percent_of_searched:.0f}%",
        f"{point.percent_of_searched:.1f}%",
    )


def test_the_pencil_of_chapter_13_comes_out():
    """Its sums of two tiles at 256, and of one in two divisions at 640; the first exercise is at 1024."""
    of = by_shape.sums()
    for name in set(of) - {"part", "saved"}:
        text, _, us = of[name].removesuffix(" µs").partition(" = ")
        assert float(us) == pytest.approx(eval(text.replace("·", "*")), abs=0.06), name
    small, medium = (of[name].split(" · ")[-1].split()[0] for name in ("small 256", "medium 256"))
    firsts = [share * 4_000 // 132 for share in range(133)]
    assert max(end - begin for begin, end in itertools.pairwise(firsts)) == 31 and firsts[17:19] == [515, 545]
    owners = [
        sum(first < (tile + 1) * 40 and last > tile * 40 for first, last in itertools.pairwise(firsts))
        for tile in range(100)
    ]
    assert max(owners) == owners[12] == 3, "parts of a tile, as in block 17's"
    least = {shares: us for us, _, shares in reversed(by_shape.by_model(by_shape.SMALL, (256,) * 3))}
    assert -(-128 * 8 // 132) == 8 and least[0] < least[132], "nothing to save at 256"
    rows = {row[0]: row[3:] for row in by_shape.steps().rows}
    assert tuple(rows) == by_shape.TILES and [row[2] for row in by_shape.steps().rows] == [1, 1, 2, 5]
    several = sg.autotuned.SETTINGS[by_shape.SMALL][0]
    assert rows["16×32/4"] == (float(small), several) and rows["32×64/4"] == (float(medium),) * 2, "as in the sums"
    assert rows["64×128/2"] == (0.735, None), "as the page writes it"
    for setting in (by_shape.SMALL, by_shape.MEDIUM):
        for n in (256, 512):
            _, whole, shares = by_shape.by_model(setting, (n, n, n))[0]
            assert shares == 0 and whole == n * n // (setting[0] * setting[1]), "whole tiles are the quickest there"
            assert -(-whole // 132) <= setting[10], "and the busiest SM has all of its tiles at a time"
    assert by_shape.MEDIUM[10] == 2 and len(sg.autotuned.SETTINGS) == 22, "as the page writes them"


def test_a_meeting_has_a_price_and_shares_a_gain():
    figures = by_shape.figures()
    paid = float(figures["price"].partition(" = ")[2].removesuffix(" µs"))
    assert paid < float(figures["saved"].removesuffix(" µs")) < paid + 1
    assert float(figures["equal timed"].removesuffix(" µs")) > float(figures["whole timed"].removesuffix(" µs")) + 2


def test_sentences_of_chapter_13_that_have_no_figure():
    """They say which tile is ahead at which size, by the model and by the search."""
    sizes = range(256, 4097, 128)
    expected = {n: max(by_shape.TILES, key=_expected(n).get) for n in sizes}
    assert all((expected[n] == "128×256") == (n >= 1280) for n in sizes)
    found = by_shape.found()
    assert expected[256] == "16×32/4" and expected[512] == "32×64/4"
    assert expected[896] == "64×128/2"
    assert min(by_shape.tried((896,) * 3), key=by_shape.tried((896,) * 3).get) == "32×64/4"
    choices = [found[n, n, n].expected for n in (640, 1408)]
    assert [(of.whole, of.shares) for of in choices] == [(0, 132), (242, 0)], "the slower of the two at both"
    ms = by_shape.before()
    assert abs(ms[640, 640, 640].ms / ms[256, 256, 256].ms - 1) < 0.01 and round((640 / 256) ** 3) == 16
    part = sg.autotuned.ADDING * 4 * 128 * 256
    assert sg.autotuned.MEETING + 32 * part > 0.8e3 * stream_k.expected(256), "most of what 12's model expects"
    figures, table = by_shape.figures(), by_shape.pencil((256, 512, 640, 896, 2560, 4096))
    off = [float(row[3].replace(",", "")) / float(row[2].replace(",", "")) - 1 for row in table.rows]
    assert [abs(of) < 0.02 for of in off] == [True, True, False, False, True, True], "four of the six sizes"
    rows = [[float(of.rstrip("%")) if of else None for of in row[1:]] for row in by_shape.ranges().rows]
    assert rows[0][1] is None and all(row[0] < row[1] for row in rows[1:])
    assert abs(rows[3][1] - rows[3][2]) < 1, "hardly from 2,176 on"
    assert by_shape.timed(256, "16×32/4") == found[256, 256, 256].expected_ms, "a whole tile for each block"
    assert by_shape.timed(512, "32×64/4") == found[512, 512, 512].expected_ms
    times = [by_shape.tried((n, n, n)) for n in sizes]
    ahead = {min(set(us) & set(by_shape.TILES), key=us.get) for us in times}
    assert ahead == set(by_shape.TILES), "each is the fastest of the four somewhere"
    assert by_shape.steps().rows[0][0] == "128×256" and f" {by_shape.steps().rows[0][3]} µs each" in figures["pace"]
    of = {name: float(figures[name].rstrip("%")) for name in ("issued", "ffma", "peak")}
    assert of["issued"] * of["ffma"] / 100 == pytest.approx(of["peak"], abs=1)
    assert lab.tune.LOOKING == 5, "as the page writes it"
    assert max(point.searched.tried for point in by_shape.raced().values() if point.searched) == 8, "of cuBLASLt's"
    settled = sg.find("13").parameters
    assert settled["STAGES"] == 4 and (128 * 8 + 8 * 256 // 4) // 256 == 6, "buffers, and a thread's copies for a pair"


def test_the_chart_is_of_the_tiles():
    alt = by_shape.tiles().alt
    assert all(f"{tile} from " in alt for tile in by_shape.TILES)


def test_equal_shares_cut_as_many_tiles_as_the_line_has_cuts():
    assert stream_k.busiest(2176) == (2 * 272, 316) and stream_k.busiest(256) == (32, 1)
    for size in (1024, 2048, 2176, 4096):
        steps, cut = size // 8, stream_k.parts(size)
        cuts = [share * len(cut) * steps // 132 % steps for share in range(1, 132)]
        assert sum(cut) - len(cut) == sum(at > 0 for at in cuts)


def test_the_loops_of_11_and_12_are_compared_as_their_machine_code_has_them():
    instructions, alone, _, _, dispatch, whole = (row[1:] for row in stream_k.loops().rows)
    for i, kernel in enumerate((stream_k.BEFORE, stream_k.KERNEL)):
        assert instructions[i] == f"{len(lab.hot_loop(lab.sass(kernel))):,}"
    assert alone[0] < alone[1] and dispatch[0] < dispatch[1] and whole[0] < whole[1]
    figures = stream_k.figures()
    more, slower, whole = (float(figures[name][:-1]) for name in ("more", "slower", "per step"))
    assert more + slower == pytest.approx(whole, abs=0.3)


def test_what_is_expected_of_11_misses_its_times_both_ways():
    late = [stream_k.longer(size)[0] for size in (896, 1024)]
    assert 0.03 < late[0] < 0.06 and -0.03 < late[1] < 0


def test_the_picture_of_21_has_the_warps_that_its_mbarriers_count():
    kernel, alt = tf32x3_wgmma.KERNEL, tf32x3_wgmma.who().alt
    multiply = kernel.parameters["BN"] // 64 * 4
    assert f"Warps 0 to {multiply - 1} wait for ready" in " ".join(alt.split()) and f"thread of warp {multiply} " in alt
    assert f"Warps {multiply + 1} to {kernel.threads // 32 - 1} wait for that" in alt
    assert f"ready[stage].init({kernel.threads // 32 - multiply - 1})" in kernel.source


@pytest.mark.parametrize("order", ["RELEASE", "ACQUIRE", "RELAXED"])
def test_a_ticket_that_orders_less_is_a_race(order):
    kernel = stream_k.KERNEL.variant(BM=32, BN=64, WM=32, WN=32, TM=8, TN=4).edited(("ACQ_REL", order))
    assert stream_k.races(kernel, *sg.matrices(64, 192, 40, on_gpu=False), 7).startswith("race: ")


def test_most_factors_that_13s_loop_keeps_are_of_A():
    """A word of A is used 16 times between two reads into its register, one of B 8 times."""
    uses, kept, read = Counter(), [], {}
    loop, last = sass.hot_loop(sass.sass("13")), None
    for at, instruction in enumerate(loop * 2):
        if instruction.opcode == "LDS.128":
            first = int(instruction.text.split(" R")[1].split(",")[0])
            read |= dict.fromkeys(range(first, first + 4), at)
        for of in sass.operands([instruction]):
            words = [(register, read.get(register)) for register in of.sources[:2]]
            uses.update(words)
            kept += [
                word for place, word in enumerate(words) if last and last.kept[place] and last.sources[place] == word[0]
            ]
            last = of
    assert set(uses.values()) == {8, 16} and sum(uses[word] == 16 for word in kept) > 0.9 * len(kept)
    assert by_shape.loop_figures(), "its assertions: most of these read an even and an odd register"


def test_the_listing_behind_the_barrier_tells_which_change_of_13s_loop_is_undone():
    """Where the barrier is, how many FFMAs stand before the first read behind it, and the least before a first use."""

    def seen(kernel):
        barrier, *rows = (line.split() for line in by_shape.behind_barrier(kernel))
        reads = [row for row in rows if "LDS.128" in row]
        assert len(reads) == 6 and barrier[3].startswith("BAR.SYNC")
        return int(barrier[1]), int(reads[0][1]), min(int(read[-2]) for read in reads)

    assert seen("13") == (845, 934, 77)
    assert seen(lab.find_variant("13", "fragments of this k")) == (846, 0, 0)
    assert seen(lab.find_variant("13", "barrier between steps")) == (0, 0, 0)
