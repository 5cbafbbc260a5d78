"""Pictures: the same bytes everywhere, legible on any page, and true to the data they are drawn from."""

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from lab import card, ceilings, draw, launch, owners, request
from lab.draw import figure, maps, requests
from lab.draw import owners as owners_picture
from lab.draw.warp import lane_colour
from lab.launching import Launched
from lab.records.timings import Point, Record
from ptxsim.tracing import Access
from sgemm_tutorial import (
    ArgumentError,
    Kernel,
    find,
    matrices,
    simulate,
)
from sgemm_tutorial.simulation import Run

from ...examples import steady
from ...ptxsim.test_copies import HELPERS
from ...sources import line_of, probe, run_bits

NAIVE = find("01").variant(BM=32, BN=8)
COALESCED = find("02").variant(BM=8, BN=32)
TILE = find("03").variant(BM=32, BN=32, BK=32)
WARPS, STRIPS = find("09"), find("08")
THREADS = np.arange(32)
NAMES = ("01_naive", "06_register_fragments", "07_vectorized", "13_autotuned")
PROVENANCE = {"gpu": 'A GPU <with> "marks" & more', "date": "2020-02-02T02:02:02+00:00"}


@cache
def traced(kernel: Kernel, M: int = 64, N: int = 64, K: int = 64, block: int = 0) -> Run:
    generator = np.random.default_rng(0)
    A, B = (generator.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N)))
    return simulate(kernel, A, B, trace=[block])


@cache
def traced_half() -> Run:
    kernel = find("14")
    return simulate(kernel, *matrices(64, 64, 32, on_gpu=False, types=kernel.types), trace=[0])


def made(offsets, width=4, space="shared", array="As", kind="load", threads=THREADS) -> Run:
    """Return a run whose trace is one access."""
    access = Access(7, space, kind, array, width, 0, np.asarray(threads), np.asarray(offsets))
    return Run(TILE, K=64, C=np.zeros((64, 64), np.float32), lines={}, trace=[access])


def recorded(names=NAMES, sizes=(256, 1024, 4096)) -> Record:
    """Return a record in which cuBLAS takes 2 ms at every size, and the kernels 4 ms, 3 ms, 2 ms and so on."""
    points = [
        Point(name, {}, "FP32", "", "", n, n, n, ms, 0.9 * ms, 1.25 * ms, 2.0, 1.9, 2.1, 10, 1)
        for n in sizes
        for name, ms in zip(names, range(len(names), 0, -1), strict=True)
    ]
    return Record(PROVENANCE, {}, True, points)


def two_types() -> Record:
    """Return the same with the last kernel in FP16, where cuBLAS takes a quarter of the time."""
    record = recorded()
    points = [
        dataclasses.replace(point, types="FP16", cublas_ms=0.5, cublas_ms_p10=0.4, cublas_ms_p90=0.6)
        if point.kernel == NAMES[-1]
        else point
        for point in record.points
    ]
    return dataclasses.replace(record, points=points)


@cache
def launched(n: int = 1000) -> Launched:
    """Return a launch in which thread i writes element i, and those past the end write nothing."""
    source = """__global__ void copy(int n, const float* x, float* z)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) z[i] = x[i];
    }"""
    x, z, blocks = np.arange(n, dtype=np.float32), np.full(n, np.nan, np.float32), -(-n // 256)
    run = launch(source, "copy", blocks, 256, {"n": np.int32(n), "x": x, "z": z}, trace=range(blocks))
    assert (z == x).all()
    return run


def pictures() -> dict[str, draw.Figure]:
    """Return one of each picture and of what may break it."""
    four = made(THREADS * 16, 16, "global", "A")
    tile = draw.TileAccess("load of A", request(made(THREADS * 128, 16), array="As"), 128, 32)
    layouts = [*map(draw.TileLayout, (0, 4, 16)), *(draw.TileLayout(chunk=chunk, rows=8) for chunk in (8, 16))]
    over_banks = draw.bank_layouts("layouts", [tile], layouts)
    many = [f"{i:02}_{'x' * 18}" for i in range(17)]
    return {
        "map naive": draw.access_map(traced(NAIVE)),
        "map coalesced": draw.access_map(traced(COALESCED)),
        "map tile": draw.access_map(traced(TILE), warp=3, step=1),
        "map odd": draw.access_map(traced(NAIVE, 40, 50, 17, 1), step=3),
        "map tiny": draw.access_map(traced(COALESCED, 1, 1, 1)),
        "map flat": draw.access_map(traced(COALESCED, 3, 90, 200)),
        "line scattered": draw.address_line(traced(NAIVE)),
        "line adjacent": draw.address_line(traced(COALESCED), array="B"),
        "line broadcast": draw.address_line(traced(COALESCED)),
        "line store": draw.address_line(traced(NAIVE), kind="store", array="C"),
        "line of few lanes": draw.address_line(traced(COALESCED, 1, 1, 1)),
        "line of vectors": draw.address_line(four),
        "line in pieces": draw.address_line(made(THREADS // 16 * 512 + THREADS % 16 * 4, 4, "global", "A")),
        "banks broadcast": draw.banks(traced(TILE)),
        "banks free": draw.banks(traced(TILE), array="Bs"),
        "banks stuck": draw.banks(made(THREADS * 128)),
        "banks of vectors": draw.banks(made(THREADS * 32, 16)),
        **{
            f"{part}, {layout}": figure
            for i, layout in enumerate(layouts)
            for part, figure in zip(("tile over banks", "access"), over_banks.shown([i, 0]), strict=True)
        },
        "tiles naive": draw.tiles(NAIVE, 128, 128, 128),
        "tiles": draw.tiles(TILE, 128, 128, 128),
        "tiles odd": draw.tiles(TILE, 100, 70, 50),
        "tiles shallow": draw.tiles(TILE.variant(BK=128), 100, 100, 100),
        "hierarchy": draw.hierarchy(WARPS, warp=5),
        "hierarchy of strips": draw.hierarchy(STRIPS),
        "hierarchy of one warp": draw.hierarchy(NAIVE.variant(BM=32, BN=1)),
        "grid": draw.grid(launched(), "z", card(), block=1, warp=2),
        "grid of 40": draw.grid(launched(10_000), "z", card(), block=39, warp=0),
        "memories": draw.memories(card(), ceilings.load()),
        "outer product": draw.outer_product("05", thread=70),
        "outer product, one column": draw.outer_product("04"),
        "outer product, in pieces": draw.outer_product("10", thread=255),
        "fragment": draw.fragment(traced_half()),
        "fragment of B": draw.fragment(traced_half(), "B", warp=1),
        "fragment of C": draw.fragment(traced_half(), "C", "store"),
        "ladder": draw.ladder(recorded()),
        "ladder, full": draw.ladder(recorded(many)),
        "speed": draw.by_size(recorded()),
        "speed, full": draw.by_size(recorded(many, range(256, 4097, 128))),
        "share": draw.by_size(recorded(), of_cublas=True),
        "ladder of two types": draw.ladder(two_types()),
        "speed of two types": draw.by_size(two_types()),
        "scaling": draw.scaling([16, 32, 64, 128], {"one": [0.01, 0.02, 0.1, 0.8], "another": [0.1, 0.1, 0.2, 1.1]}),
        "scaling of one": draw.scaling([16, 32], {"one": [1e-5, 2.0]}),
        "scaling, short": draw.scaling([128, 1024], {"a": [1e-5, 2e-4], "b": [3e-6, 9e-4]}),
        "roofline": draw.roofline(
            {"far": (0.1, 0.5), "near": (20.0, 30.0), "next": (21.0, 31.0)}, 60.0, {"L2": 6.0, "DRAM": 3.0}
        ),
        "roofline, full": draw.roofline(
            {f"{i:02}": (0.05 * 1.6**i, 0.4 * 1.5**i) for i in range(17)},
            990.0,
            {"shared memory": 30.0, "L2": 6.0, "DRAM": 3.0},
            "All of them",
        ),
        "lines": draw.lines(
            "Three", {"up": [(1, 2), (5, 9)], "down": [(1, 9), (3, 4), (5, 0)], "one": [(2, 2)]}, "Across: x. Up: y."
        ),
        "lines, logarithmic": draw.lines(
            "Errors", {"a": [(16, 1e-7), (256, 2e-7), (4096, 9e-3)]}, "Across: K.", "", log_x=True, log_y=True
        ),
        "timeline": draw.timeline(10, 5),
        "timeline, long kernel": draw.timeline(3, 4000, 2),
        "timeline, long launch": draw.timeline(40, 0.5, 20),
    }


@pytest.fixture(scope="module")
def drawn() -> dict[str, draw.Figure]:
    return pictures()


def elements(picture: draw.Figure, tag: str = "*") -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture._repr_html_()).iter(tag))


def words(picture: draw.Figure) -> list[str]:
    return [text.text for text in elements(picture, "text")]


def numbers(path: ElementTree.Element) -> list[float]:
    """Return the coordinates of a path: x and y of each point."""
    return [float(number) for number in re.findall(r"[-\d.]+", path.get("d"))]


def lines(picture: draw.Figure, points: int = 0) -> list[np.ndarray]:
    """Return the thick lines, which show data, as the pixels of their points; those of so many points if given."""
    thick = [path for path in elements(picture, "path") if path.get("stroke-width") == "2.2"]
    found = [np.reshape(numbers(path), (-1, 2)) for path in thick]
    return [line for line in found if points in (0, len(line))]


def floor(picture: draw.Figure) -> float:
    """Return how far from the top a chart's lower axis is, which is the one line of two points in the text's colour."""
    (axis,) = [
        path
        for path in elements(picture, "path")
        if (path.get("fill"), path.get("stroke"), path.get("stroke-width")) == ("none", "currentColor", "0.8")
        and np.ptp(numbers(path)[1::2]) == 0
        and np.ptp(numbers(path)[::2]) > 100
    ]
    return numbers(axis)[1]


def boxes(picture: draw.Figure, fill: str, opacity: str | None = None) -> list[tuple[float, float, float, float]]:
    """Return left, top, width and height of the rectangles filled with that colour, and so opaque if given."""
    found = []
    for path in elements(picture, "path"):
        wanted = path.get("fill") == fill and opacity in (None, path.get("fill-opacity"))
        for outline in path.get("d").split("M")[1:] if wanted else ():
            points = np.array([float(number) for number in re.findall(r"[-\d.]+", outline)]).reshape(-1, 2)
            left, top, width, height = *points.min(axis=0), *np.ptp(points, axis=0)
            found.append((left, top, width, height))
    return found


def digests(drawn: dict[str, draw.Figure]) -> dict[str, str]:
    return {name: hashlib.sha256(picture._repr_html_().encode()).hexdigest() for name, picture in drawn.items()}


# What every picture promises


def test_same_bytes_in_another_process(drawn):
    program = (
        "import json; from tests.lab.draw.test_draw import digests, pictures; print(json.dumps(digests(pictures())))"
    )
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONHASHSEED": "1", "LC_ALL": "C"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=root, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == digests(drawn)


def test_pictures_cannot_interfere_on_one_page(drawn):
    every = [element for picture in drawn.values() for element in elements(picture)]
    assert {element.tag for element in every} == {"svg", "path", "text"}  # no style sheet, no definition
    assert not any({"id", "class", "clip-path"} & set(element.keys()) for element in every if element.tag != "svg")
    assert not any("url(" in value for element in every for value in element.attrib.values())


def test_say_in_words_what_they_show(drawn):
    for picture in drawn.values():
        (svg,) = elements(picture, "svg")
        assert svg.attrib.items() >= {"class": "sg-figure", "role": "img", "aria-label": picture.alt}.items()
        assert len(picture.alt) > 40
        assert picture.alt in repr(picture)


def test_small(drawn):
    assert {
        name: len(picture._repr_html_().encode())
        for name, picture in drawn.items()
        if len(picture._repr_html_().encode()) > 60_000
    } == {}


@cache
def width_of(text: str, size: float, weight: int | str) -> float:
    font = FontProperties(family="DejaVu Sans", weight=weight)  # a wide one
    return TextPath((0, 0), text, size, prop=font).get_extents().width


def test_text_is_legible_and_on_the_page(drawn):
    for name, picture in drawn.items():
        for text in elements(picture, "text"):
            size = float(text.get("font-size").removesuffix("px"))
            width = width_of(text.text, size, text.get("font-weight", 400))
            share = {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor")]
            left, y = float(text.get("x")) - share * width, float(text.get("y"))
            corners = np.array([[left, y], [left + width, y], [left, y - 0.7 * size], [left + width, y - 0.7 * size]])
            if turn := text.get("transform"):
                degrees, *centre = map(float, re.findall(r"-?[\d.]+", turn))
                (c, s), around = (np.cos(np.radians(degrees)), np.sin(np.radians(degrees))), np.array(centre)
                corners = (corners - around) @ np.array([[c, s], [-s, c]]) + around
            assert size >= 11 * picture.width / 640, name
            assert (corners >= 0).all(), (name, text.text)
            assert (corners <= (picture.width, picture.height - 0.2 * size)).all(), (name, text.text)


def test_shapes_are_on_the_page(drawn):
    for name, picture in drawn.items():
        for path in elements(picture, "path"):
            points = np.reshape(numbers(path), (-1, 2))
            assert (points >= 0).all(), name
            assert (points <= (picture.width, picture.height)).all(), name


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(figure.luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", ["#ffffff", "#14181e", "#0d1117"])
def test_colours_stand_out_from_light_and_dark(drawn, ground):
    """They are a file's, which has no style sheet; test_contrast.py has the book's themes, and text on colours."""
    shapes = [path for picture in drawn.values() for path in elements(picture, "path")]
    used = {path.get(what) for path in shapes for what in ("fill", "stroke")}
    colours = {figure.fallback(colour) for colour in used - {None, "none", "currentColor"}}
    assert len(colours) > 30
    assert {colour for colour in colours if contrast(colour, ground) < 3} == set()
    assert contrast(figure.GREY, ground) > 3.9


def test_text_takes_the_colour_of_the_page(drawn):
    """But on lanes' colours, where it is black or white."""
    used = {name: {text.get("fill") for text in elements(picture, "text")} for name, picture in drawn.items()}
    assert {colour for colours in used.values() for colour in colours} <= {"currentColor", figure.BLACK, figure.WHITE}
    on_lanes = ("hierarchy", "fragment", "fragment of B", "fragment of C")
    assert {name for name, colours in used.items() if colours != {"currentColor"}} == set(on_lanes)


def test_save(drawn, tmp_path):
    drawn["ladder"].save(tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    svg = ElementTree.fromstring(text)
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert svg.get("aria-label") == drawn["ladder"].alt
    assert "currentColor" not in text
    assert figure.GREY in text


# A request, picked from a trace


def test_request_of_the_naive_kernel():
    found = request(traced(NAIVE))
    assert found.lanes.tolist() == list(range(32))
    assert found.offsets.tolist() == [row * 64 * 4 for row in range(32)]  # a column of A
    assert (found.width, found.sectors, found.cost) == (4, 32, "32 sectors")
    assert set(request(traced(NAIVE), array="B", step=5).offsets.tolist()) == {5 * 64 * 4}  # one element of B
    assert request(traced(NAIVE), kind="store", array="C").sectors == 32


def test_a_copy_can_be_drawn(tmp_path):
    """Its read and its write are requests like any load's and store's."""
    body = "copy<16>(s + 4 * (t ^ 8), a + 4 * t);\nwait_all();\n__syncthreads();\nc[t] = s[4 * t];"
    kernel = probe(tmp_path, "__shared__ __align__(16) unsigned s[256];\n" + body, before=HELPERS)
    run = run_bits(kernel, range(128), trace=[0])[1]
    read, write = request(run, array="A"), request(run, kind="store", array="s")
    assert (read.line, read.sectors, read.width, write.line, write.wavefronts) == (read.line, 16, 16, read.line, 4)
    assert read.line == line_of(kernel, "// by 16")
    assert (write.offsets // 16).tolist() == [t ^ 8 for t in range(32)]
    assert "16 sectors" in requests.address_line(run, array="A").alt
    assert "4 wavefronts" in requests.banks(run, kind="store", array="s").alt


def test_request_of_the_coalesced_kernel():
    found = request(traced(COALESCED), array="B", step=9)
    assert found.offsets.tolist() == [9 * 64 * 4 + 4 * lane for lane in range(32)]
    assert found.sectors == 4
    assert request(traced(COALESCED)).sectors == 1
    assert request(traced(COALESCED), warp=5).offsets.tolist() == [5 * 64 * 4] * 32  # warp 5 computes row 5
    assert str(found).endswith("32 lanes × 4 bytes at 2304, 2308, 2312, …, 2428: 4 sectors")


def test_request_to_shared_memory():
    found = request(traced(TILE), array="Bs")
    assert (found.space, found.cost, found.conflicts) == ("shared", "1 wavefront", 0)


def test_request_of_part_of_a_warp():
    found = request(traced(COALESCED, 1, 3, 1), kind="store", array="C")
    assert found.lanes.tolist() == [0, 1, 2]
    assert found.sectors == 1


def test_request_of_another_block():
    run = traced(COALESCED, 16, 64, 4, block=3)
    assert request(run, block=3).block == request(run).block == 3
    assert request(run, array="B").offsets[0] == 32 * 4


@pytest.mark.parametrize(
    ("wrong", "needs"),
    [
        ({"array": "Z"}, "a load of A at line"),
        ({"kind": "store"}, "a store of C at line"),
        ({"line": 1}, "at line"),
        ({"warp": 99}, "0 or 1"),
        ({"step": 64}, "0 to 63"),
        ({"step": -1}, "0 to 63"),
        ({"block": 1}, "a traced one: 0"),
    ],
)
def test_request_says_what_there_is(wrong, needs):
    with pytest.raises(ArgumentError, match=needs):
        request(traced(NAIVE), **wrong)


def test_request_needs_a_trace():
    run = dataclasses.replace(traced(NAIVE), trace=[])
    for picture in (request, draw.access_map, draw.address_line, draw.banks):
        with pytest.raises(ArgumentError, match=r"trace=\[0\]"):
            picture(run)


# Pictures of accesses


def lane_boxes(picture: draw.Figure, lane: int) -> list[tuple[float, float, float, float]]:
    return boxes(picture, lane_colour(lane))


def drawn_at(picture: draw.Figure, fill: str, box: tuple[float, float, float, float]) -> bool:
    return any(np.allclose(found, box, atol=0.11) for found in boxes(picture, fill))


def test_map_colours_the_elements_touched(drawn):
    picture = drawn["map naive"]
    place = maps.Operands(64, 64, 64, 8)
    for lane in range(32):
        for matrix in ("A", "C"):  # lane by lane down the first column
            assert drawn_at(picture, lane_colour(lane), place.matrices[matrix].box(lane, 0, 1, 1))
        assert len(lane_boxes(picture, lane)) == 3  # these two, and the key
    assert drawn_at(picture, "currentColor", place.matrices["B"].box(0, 0, 1, 1))  # all lanes one element
    for lane in range(32):
        for matrix in ("B", "C"):
            assert drawn_at(drawn["map coalesced"], lane_colour(lane), place.matrices[matrix].box(0, lane, 1, 1))


def test_map_of_another_step_and_block():
    place = maps.Operands(40, 50, 17, 8)
    picture = draw.access_map(traced(NAIVE, 40, 50, 17, block=8), step=3)  # tiles are 32 × 8: row of tiles 1, column 1
    for lane in range(8):  # rows 40 and on are outside
        assert drawn_at(picture, lane_colour(lane), place.matrices["A"].box(32 + lane, 3, 1, 1))
        assert drawn_at(picture, lane_colour(lane), place.matrices["C"].box(32 + lane, 8, 1, 1))
    assert len(lane_boxes(picture, 8)) == 1  # the key
    assert drawn_at(picture, "currentColor", place.matrices["B"].box(3, 8, 1, 1))


def test_map_shades_sectors_and_nothing_else():
    picture = draw.access_map(traced(NAIVE, block=1), warp=2, step=17)  # the block's tile: columns 8 to 15
    A, B, C = maps.Operands(64, 64, 64, 8).matrices.values()
    sectors = [A.box(row, 16, 1, 8) for row in range(32)] + [B.box(17, 8, 1, 8)]
    sectors += [C.box(row, 8, 1, 8) for row in range(32)]
    *found, _ = boxes(picture, "currentColor", "0.14")  # the last is the key's
    np.testing.assert_allclose(found, sectors, atol=0.11)
    assert not boxes(picture, "currentColor", "0.08")


def test_map_shades_a_sector_that_goes_on_in_the_next_row():
    picture = draw.access_map(traced(NAIVE, 40, 50, 17, block=8), step=3)
    A, B, _ = maps.Operands(40, 50, 17, 8).matrices.values()
    found = boxes(picture, "currentColor", "0.14")
    first, second = [A.box(32, 0, 1, 8)], [A.box(32, 16, 1, 1), A.box(33, 0, 1, 7)]  # elements 544 to 551, 560 to 567
    np.testing.assert_allclose(found[:3], first + second, atol=0.11)
    assert drawn_at(picture, "currentColor", B.box(3, 2, 1, 8))  # elements 152 to 159, round B[3][8]


def test_map_says_what_each_request_costs(drawn):
    load, store = (request(traced(NAIVE), **which).line for which in ({}, {"kind": "store", "array": "C"}))
    assert load < store
    assert words(drawn["map naive"])[4:8] == [
        "block 0, warp 0; loads of step 0",
        f"A load, line {load}: 32 sectors",
        f"B load, line {load}: 1 sector",
        f"C store, line {store}: 32 sectors",
    ]
    assert re.findall(r"(\w) \w+, line \d+: 32 lanes touch (\d+) .*? in (\d+) sector", drawn["map coalesced"].alt) == [
        ("A", "1", "1"),
        ("B", "32", "4"),
        ("C", "32", "4"),
    ]


def test_map_of_a_wrong_kernel_differs(drawn, tmp_path):
    wrong = dataclasses.replace(COALESCED, folder=tmp_path)
    swapped = {"threadIdx.x / BN": "threadIdx.x % BM", "threadIdx.x % BN": "threadIdx.x / BM"}
    wrong.path.write_text(re.sub(r"threadIdx\.x [/%] BN", lambda found: swapped[found[0]], COALESCED.source))
    picture = draw.access_map(traced(wrong))
    assert picture._repr_html_() != drawn["map coalesced"]._repr_html_()
    A, _, C = maps.Operands(64, 64, 64, 8).matrices.values()
    assert drawn_at(picture, lane_colour(9), C.box(1, 1, 1, 1))  # lanes go down columns of 8
    assert drawn_at(picture, "currentColor", A.box(1, 0, 1, 1))
    assert "A load" in picture.alt
    assert "touch 8 different elements in 8 sectors" in picture.alt


def test_map_needs_elements_large_enough_to_see():
    with pytest.raises(ArgumentError, match="small enough"):
        draw.access_map(traced(COALESCED, 1, 640, 4))


def doubled() -> Run:
    kernel = find("23").variant(T="double", BN=128, BLOCKS=2)
    return simulate(kernel, *matrices(32, 128, 32, on_gpu=False, types=kernel.types), trace=[0])


@pytest.mark.parametrize("run", [traced_half, doubled, lambda: traced(TILE)], ids=["FP16", "FP64", "FP32"])
def test_elements_are_as_large_as_the_types_say(run):
    """A request's elements, in words, on the map and on the line of addresses, are its bytes over their size."""
    run = run()
    types = run.kernel.types
    picture = draw.access_map(run, step=1)
    shades = [box for opacity in ("0.08", "0.14") for box in boxes(picture, "currentColor", opacity)]
    painted = [box for lane in range(32) for box in lane_boxes(picture, lane)]
    painted += [box for box in boxes(picture, "currentColor") if box not in shades]
    for array, kind, of, columns in (
        ("A", "load", types.operand, run.K),
        ("B", "load", types.operand, run.C.shape[1]),
        ("C", "store", types.result, run.C.shape[1]),
    ):
        r = request(run, array=array, kind=kind, step=int(array != "C"))
        touched = {int(byte) // of.itemsize for offset in r.offsets for byte in range(offset, offset + r.width)}
        assert set(r.elements.ravel().tolist()) == touched
        assert f"{array} {kind}, line {r.line}: " in picture.alt
        assert f" {len(touched)} different element{'s' * (len(touched) > 1)} in {r.sectors} sector" in picture.alt
        line = draw.address_line(run, array=array, kind=kind, step=int(array != "C"))
        assert f"{len(touched) * of.itemsize:,} bytes asked for, {32 * r.sectors:,} bytes in the sectors" in line.alt
        place = maps.Operands(*run.C.shape, run.K, 8).matrices[array]
        for index in touched:
            row, column = divmod(index, columns)
            assert any(covers(box, place.box(row, column, 1, 1)) for box in painted)


def covers(box, element) -> bool:
    """Whether a drawn box holds an element's, to within a tenth of a pixel."""
    (x, y, w, h), (left, top, width, height) = box, element
    return x <= left + 0.1 and y <= top + 0.1 and x + w >= left + width - 0.1 and y + h >= top + height - 0.1


def test_address_line_shows_a_frame_per_sector(drawn):
    def frames(name):
        (path,) = [path for path in elements(drawn[name], "path") if path.get("fill-opacity") == "0.14"]
        return path.get("d").count("M")

    assert [frames(f"line {name}") for name in ("scattered", "adjacent", "broadcast", "of vectors", "in pieces")] == [
        32,
        4,
        1,
        16,
        4,
    ]
    assert "256 bytes apart" in words(drawn["line scattered"])  # a row of A
    assert "128 bytes asked for, 1,024 bytes in the sectors touched" in words(drawn["line scattered"])
    assert "4 bytes asked for, 32 bytes in the sectors touched" in words(drawn["line broadcast"])


def test_address_line_leads_each_lane_to_its_bytes(drawn):
    picture = drawn["line adjacent"]
    for lane in range(32):
        (line,) = [path for path in elements(picture, "path") if path.get("stroke") == lane_colour(lane)]
        *_, x, y = numbers(line)
        assert (x, y) == (pytest.approx(320 - 144 + 9 * lane + 4.5, abs=0.11), 233)  # 4 sectors of 72 pixels


def test_address_line_wants_global_memory():
    with pytest.raises(ArgumentError, match="global memory; see banks"):
        draw.address_line(made(THREADS * 4, array="A"))


def test_banks_are_those_of_l1_too():
    assert "31 wavefronts lost" in draw.banks(made(THREADS * 128, array="A", space="global"), array="A").alt


def test_banks_stack_words_that_conflict(drawn):
    stuck = [[box for box in lane_boxes(drawn["banks stuck"], lane) if box[1] > 200] for lane in range(32)]
    assert {boxes[0][0] for boxes in stuck} == {9.5}  # all in bank 0, whose column begins at 8
    assert len({boxes[0][1] for boxes in stuck}) == 32
    free = [[box for box in lane_boxes(drawn["banks free"], lane) if box[1] > 200] for lane in range(32)]
    assert [box[0] for (box,) in free] == pytest.approx([9.5 + 19.5 * bank for bank in range(32)], abs=0.06)
    assert len({box[1] for (box,) in free}) == 1
    assert "32 words from 1 bank: 31 wavefronts lost to conflicts" in words(drawn["banks stuck"])
    assert "32 words from 32 banks: no conflict" in words(drawn["banks free"])
    assert "1 word from 1 bank: no conflict" in words(drawn["banks broadcast"])


@steady
@given(
    width=st.sampled_from([4, 8, 16]),
    kind=st.sampled_from(["load", "store"]),
    blocks=st.lists(st.integers(0, 40), min_size=32, max_size=32),
    lanes=st.sets(st.integers(0, 31), min_size=1),
    paired=st.sampled_from([1, 2]),
)
def test_banks_have_a_row_for_each_wavefront_counted(width, kind, blocks, lanes, paired):
    threads = np.array(sorted(lanes))
    offsets = np.array(blocks)[threads // paired] * width
    found = request(made(offsets, width, kind=kind, threads=threads), kind=kind, array="As")
    served = requests.served(found)
    assert 1 + max(row for row, _, _ in served) == found.wavefronts
    assert len({(row, word % 32) for row, word, _ in served}) == len(served)  # a bank serves one word at a time
    asked = {(lane, word) for lane, words in zip(found.lanes, found.words, strict=True) for word in words}
    assert {(lane, word) for _, word, lanes in served for lane in lanes} == asked


# Pictures of tiles


def test_tiles_light_one_block(drawn):
    assert drawn["tiles"].alt == (
        "03_shared_tile cuts C (128 × 128) into 4 × 4 tiles of 32 × 32. Block 5 computes one of them from 32 rows of "
        "A (128 × 128) and 32 columns of B (128 × 128), in 4 steps of 32 along K."
    )
    place = maps.Operands(128, 128, 128, 4).matrices
    A, B, C = (place[name] for name in "ABC")
    for colour, wanted in (
        (figure.BLUE, [A.box(32, 0, 32, 128), A.box(32, 32, 32, 32)]),
        (figure.ORANGE, [B.box(0, 32, 128, 32), B.box(32, 32, 32, 32)]),
        (figure.GREEN, [C.box(32, 32, 32, 32)] * 2),
    ):
        np.testing.assert_allclose(boxes(drawn["tiles"], colour), wanted, atol=0.11)
    assert {"BM = 32", "BN = 32", "BK = 32"} <= set(words(drawn["tiles"]))
    assert "100 of BK = 128" in words(drawn["tiles shallow"])


def test_tiles_follow_the_parameters(drawn):
    assert "BK = 32" not in words(drawn["tiles naive"])
    assert "in 128 steps of 1" in drawn["tiles naive"].alt
    (_, _, width, height), _ = boxes(draw.tiles(COALESCED.variant(BM=16, BN=64), 128, 128, 128), figure.GREEN)
    assert width / height == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize(
    "sizes",
    [
        (0, 64, 64),
        (64, 64, -1),
        (1, 1, 1),
        (4096, 64, 64),
        (64, 64, 4096),
        (4096, 4096, 4096),
    ],
)
def test_tiles_refuse_what_cannot_be_seen(sizes):
    with pytest.raises(ArgumentError):
        draw.tiles(TILE, *sizes)


# Charts


def test_owners_of_a_warp_tile():
    """Chapter 09: warps side by side in the block's tile, lanes in squares, and a thread's elements in fours."""
    p = WARPS.parameters
    row, column = np.indices((p["BM"], p["BN"]))
    thread = owners(WARPS)
    assert np.array_equal(thread // 32, row // p["WM"] * (p["BN"] // p["WN"]) + column // p["WN"])
    assert (np.bincount(thread.ravel()) == p["TM"] * p["TN"]).all()
    assert (thread[:, ::4] == thread[:, 3::4]).all()
    assert np.array_equal(thread[0:8:4, 0:16:4], [[0, 1, 4, 5], [2, 3, 6, 7]])


def test_hierarchy_shows_who_owns_what(drawn):
    assert words(drawn["hierarchy"])[:3] == ["09_warp_tile", "Block: 128 × 128, 8 warps", "Warp 5: 64 × 32, 32 lanes"]
    ((left, top, width, height),) = boxes(drawn["hierarchy"], draw.figure.BLUE, "0.4")
    assert (left - figure.MARGIN, top - owners_picture.TOP) == (width, height)  # warp 5: the second of the second row
    for lane in range(32):
        assert len(boxes(drawn["hierarchy"], lane_colour(lane))) == 4, lane
        assert words(drawn["hierarchy"]).count(str(lane)) == 4 + (lane < 8)  # and the warps' numbers


def test_hierarchy_has_numbers_where_there_is_room(drawn):
    assert words(drawn["hierarchy of one warp"]).count("31") == 0
    with pytest.raises(ArgumentError, match="warp: got 8, needs 0 to 7"):
        draw.hierarchy(WARPS, warp=8)


def test_grid_says_which_lane_has_which_element():
    assert "lane 0 has element 320 to lane 31 element 351 of z" in draw.grid(launched(), "z", card(), 1, 2).alt
    assert "lane 0 has element 992 to lane 7 element 999 of z" in draw.grid(launched(), "z", card(), 3, 7).alt
    with pytest.raises(
        ArgumentError, match=r"^array: got 'x', block 0, warp 0, needs what that warp stores to, and is traced"
    ):
        draw.grid(launched(), "x", card())


def test_memories_have_the_rates_that_were_measured():
    picture = draw.memories(card(), ceilings.load())
    alt = picture.alt
    shared, *others = [width for _, _, width, height in boxes(picture, figure.BLUE) if height == 6]
    rates = [ceilings.load()[level].tera_per_second for level in ("shared memory", "L2", "DRAM")]
    assert others == pytest.approx([shared * rate / rates[0] for rate in rates[1:]], abs=0.2)
    for level in ("shared memory", "L2", "DRAM"):
        assert f"{ceilings.load()[level].tera_per_second:.3g} TB/s" in alt
    assert f"{card().l2_bytes // 2**20} MiB for all SMs" in alt


def test_outer_product_has_a_box_for_each_element(drawn):
    kernel = find("05")
    TM, TN = kernel.parameters["TM"], kernel.parameters["TN"]
    picture = draw.outer_product(kernel, thread=70)
    assert f"{TM} elements of As and {TN} elements of Bs" in picture.alt
    assert f"{TM + TN} words for {TM * TN} multiply-adds" in picture.alt
    places = np.argwhere(owners(kernel) == 70)
    assert len(places) == TM * TN
    assert picture.body != draw.outer_product(kernel, thread=0).body  # another place in the tile
    assert "17 words for 16 multiply-adds" in draw.outer_product("04").alt


def test_fragment_shows_every_element_once(drawn):
    """Two FP16 neighbours to a box; of FP32, two as well. Eight elements to a lane."""
    for name in ("fragment", "fragment of B", "fragment of C"):
        numbers_written = [text for text in words(drawn[name]) if text.isdigit()]
        assert sorted(numbers_written, key=int) == sorted([str(lane) for lane in range(32)] * 4, key=int)
    assert "Lane 0 has row 0, columns 0–1 and 3 more such places, lane 1 row 0, columns 2–3" in drawn["fragment"].alt


def test_fragment_wants_fragments():
    with pytest.raises(ArgumentError, match="run: got one whose first loads of A are not of 16 × 16"):
        draw.fragment(traced(COALESCED))


def test_ladder_is_to_scale(drawn):
    widths = [width for *_, width, height in boxes(drawn["ladder"], figure.BLUE)]
    assert np.array(widths) / widths[-1] == pytest.approx([1 / 4, 1 / 3, 1 / 2, 1], abs=0.005)  # 4, 3, 2 and 1 ms
    (cublas,) = [width for *_, width, height in boxes(drawn["ladder"], "currentColor", "0.45")]
    assert cublas / widths[-1] == pytest.approx(1 / 2, abs=0.005)
    assert [text for text in words(drawn["ladder"]) if "%" in text] == ["50.0%", "66.7%", "100.0%", "200.0%", "100.0%"]
    assert "68.7" in words(drawn["ladder"])  # 2 · 4096³ operations in 2 ms
    assert "13_autotuned 137 TFLOP/s, 200.0% of cuBLAS" in drawn["ladder"].alt
    assert 'A GPU <with> "marks" & more, 2020-02-02' in drawn["ladder"].alt


def test_ladder_whiskers_span_the_spread(drawn):
    bars = boxes(drawn["ladder"], figure.BLUE)
    whiskers = [path for path in elements(drawn["ladder"], "path") if path.get("stroke-width") == "1.2"]
    spans = [numbers(path) for path in whiskers if np.ptp(numbers(path)[1::2]) == 0]
    for (left, _, width, _), (start, _, end, _) in zip(bars, spans, strict=False):
        assert (start - left, end - left) == (pytest.approx(width / 1.25, abs=0.2), pytest.approx(width / 0.9, abs=0.2))
    assert len(spans) == 5


def test_ladder_at_a_size_not_recorded():
    with pytest.raises(ArgumentError, match=r"256, 256, 256\), \(1024, 1024, 1024\), \(4096"):
        draw.ladder(recorded(), 512)
    assert (
        "M, N, K = 1, 2, 3"
        in draw.ladder(
            dataclasses.replace(recorded(), points=[dataclasses.replace(recorded().points[0], M=1, N=2, K=3)]),
            (1, 2, 3),
        ).alt
    )


def test_speed_by_size_follows_the_record(drawn):
    assert "06_register_fragments from 0.0112 at 256 to 45.8 at 4096" in drawn["speed"].alt
    assert {"256", "1024", "4096", "cuBLAS", *NAMES} <= set(words(drawn["speed"]))
    bottom = floor(drawn["speed"])
    heights = np.array([bottom - line[-1, 1] for line in lines(drawn["speed"], 3)])  # three sizes
    assert heights / heights[3] == pytest.approx([1 / 4, 1 / 3, 1 / 2, 1, 1 / 2], abs=0.005)
    bands = [path for path in elements(drawn["speed"], "path") if path.get("fill-opacity") == "0.25"]
    for path, height in zip(bands[:4], heights, strict=False):  # cuBLAS's spread is another
        outline = np.reshape(numbers(path), (-1, 2))
        ends = bottom - outline[outline[:, 0] == outline[:, 0].max(), 1]  # at the largest size
        assert (ends.min(), ends.max()) == (pytest.approx(height / 1.25, abs=0.3), pytest.approx(height / 0.9, abs=0.3))
    assert len(bands) == 5
    with pytest.raises(ArgumentError, match="record: got 1 sizes, needs two or more"):
        draw.by_size(recorded(sizes=(512,)))


def test_sizes_with_equal_steps_are_equally_far_apart(drawn):
    across = max(lines(drawn["speed, full"]), key=len)[:, 0]
    assert len(across) == 31
    assert np.diff(across) == pytest.approx([np.ptp(across) / 30] * 30, abs=0.2)
    assert {"1000", "2000", "3000", "4000"} <= set(words(drawn["speed, full"]))
    across = lines(drawn["speed"], 3)[0][:, 0]
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)  # 256, 1024, 4096


def test_by_size_as_a_share_of_cublas(drawn):
    assert "06_register_fragments from 66.7 at 256 to 66.7 at 4096; " in drawn["share"].alt  # cuBLAS 2 ms, it 3 ms
    assert {"% of cuBLAS by size", "% of cuBLAS", "M = N = K"} <= set(words(drawn["share"]))


def test_cublas_of_each_type(drawn):
    """One bar and one line for each, from the points of its type."""
    assert "cuBLAS, FP32 68.7 TFLOP/s, 100.0% of cuBLAS; cuBLAS, FP16 275 TFLOP/s" in drawn["ladder of two types"].alt
    assert f"{NAMES[-1]} 137 TFLOP/s, 50.0% of cuBLAS" in drawn["ladder of two types"].alt
    assert "at 256 to 68.7 at 4096; cuBLAS, FP16 from" in drawn["speed of two types"].alt


def test_by_size_of_problems_that_are_not_square():
    points = [dataclasses.replace(point, M=4 * point.M, N=2 * point.N) for point in recorded().points]
    picture = draw.by_size(Record(PROVENANCE, {}, True, points))
    assert "by size, the cube root of M·N·K" in picture.alt and " at 512 to " in picture.alt  # 1024 × 512 × 256


def test_by_size_tells_arguments_apart():
    points = [
        dataclasses.replace(point, kernel="05_one", parameters={"BM": BM})
        for BM in (64, 128)
        for point in recorded(NAMES[:1]).points
    ]
    assert {"05 64", "05 128", "cuBLAS"} <= set(words(draw.by_size(Record(PROVENANCE, {}, True, points))))


def test_labels_keep_apart(drawn):
    names = [text for text in elements(drawn["speed, full"], "text") if "_xx" in text.text or text.text == "cuBLAS"]
    heights = sorted(float(text.get("y")) for text in names)
    assert len(heights) == 18
    assert min(np.diff(heights)) > 16


def test_roofline_is_to_scale(drawn):
    """Both axes are logarithmic: equal factors are equal distances."""
    assert len(boxes(drawn["roofline, full"], figure.BLUE)) == 17
    picture = draw.roofline({"a": (1.0, 1.0), "b": (10.0, 2.0), "c": (100.0, 4.0)}, 50.0, {"DRAM": 5.0})
    (ax, ay, *_), (bx, by, *_), (cx, cy, *_) = boxes(picture, figure.BLUE)
    assert (bx - ax, ay - by) == (pytest.approx(cx - bx, abs=0.2), pytest.approx(by - cy, abs=0.2))
    assert ax < bx and ay > by


def test_roofs_that_were_measured_are_dashed():
    def drawn(*measured):
        return draw.roofline({"a": (1.0, 1.0)}, 50.0, {"L2": 8.0, "DRAM": 5.0}, "Roofs", measured).body

    assert [drawn(*names).count("stroke-dasharray") for names in ((), ("L2",), ("L2", "DRAM"))] == [0, 1, 2]


def test_ways_up_and_to_the_right_are_drawn_if_asked_for():
    plain, ways = (draw.roofline({"a": (1.0, 1.0)}, 50.0, {"L2": 8.0}, ways=asked) for asked in (False, True))
    assert {"up", "to the right"} <= set(words(ways)) and not {"up", "to the right"} & set(words(plain))


def test_roofline_labels_that_would_overlap_are_one(drawn):
    assert "near, next" in words(drawn["roofline"])
    assert "far" in words(drawn["roofline"])


@pytest.mark.parametrize(
    ("points", "peak", "rates", "name"),
    [
        ({}, 1.0, {"DRAM": 1.0}, "points, rates"),
        ({"a": (1.0, 1.0)}, 1.0, {}, "points, rates"),
        ({"a": (0.0, 1.0)}, 1.0, {"DRAM": 1.0}, "a"),
        ({"a": (1.0, 1.0)}, -1.0, {"DRAM": 1.0}, "peak"),
        ({"a": (1.0, 1.0)}, 1.0, {"DRAM": float("inf")}, "DRAM"),
    ],
)
def test_roofline_refuses_what_has_no_logarithm(points, peak, rates, name):
    with pytest.raises(ArgumentError, match=f"^{name}: got"):
        draw.roofline(points, peak, rates)


def test_lines_go_through_their_points():
    picture = draw.lines("", {"a": [(0, 0), (1, 2), (2, 4)]}, "")
    ((x0, y0), (x1, y1), (x2, y2)) = lines(picture)[0]
    assert (x1 - x0, y0 - y1) == (pytest.approx(x2 - x1, abs=0.2), pytest.approx(y1 - y2, abs=0.2))
    assert x0 < x1 and y0 > y1


def test_logarithmic_lines():
    picture = draw.lines("", {"a": [(1, 0.001), (10, 0.1), (100, 10.0)]}, "", log_x=True, log_y=True)
    ((x0, y0), (x1, y1), (x2, y2)) = lines(picture)[0]
    assert (x1 - x0, y0 - y1) == (pytest.approx(x2 - x1, abs=0.2), pytest.approx(y1 - y2, abs=0.2))
    with pytest.raises(ArgumentError, match="y = 0, needs positive values"):
        draw.lines("", {"a": [(1, 0)]}, "", log_y=True)


@pytest.mark.parametrize("series", [{}, {"a": []}])
def test_lines_refuse_nothing(series):
    with pytest.raises(ArgumentError, match=r"^series: got"):
        draw.lines("", series, "")


def test_scaling_is_logarithmic():
    picture = draw.scaling([10, 100, 1000], {"cubic": [1e-6, 1e-3, 1.0]})
    dotted, cubic = lines(picture)
    assert dotted == pytest.approx(cubic[[0, 2]], abs=0.1)
    assert cubic[1] == pytest.approx(cubic[[0, 2]].mean(axis=0), abs=0.1)


def test_scaling_of_short_times_is_in_microseconds(drawn):
    assert {"Microseconds by size", "microseconds", "M = N = K"} <= set(words(drawn["scaling, short"]))
    assert "a from 10.0 µs at 128 to 200 µs at 1024" in drawn["scaling, short"].alt
    assert {"Seconds by size", "seconds"} <= set(words(drawn["scaling"]))


@pytest.mark.parametrize(
    ("sizes", "seconds"), [([1], [1.0]), ([2, 1], [1.0, 1.0]), ([1, 2], [1.0]), ([1, 2], [0.0, 1.0])]
)
def test_scaling_refuses_what_cannot_be_drawn(sizes, seconds):
    with pytest.raises(ArgumentError):
        draw.scaling(sizes, {"one": seconds})


def sixteen():
    """Return a run of a small kernel 16 whose block 0 is traced."""
    kernel = find("16").variant(BM=64, BN=64, WM=32, WN=32, STAGES=2)
    return simulate(kernel, *matrices(64, 64, 64, on_gpu=False, types=kernel.types), trace=[0])


def loads(run):
    """Return the source lines that load from shared memory, A's first."""
    return sorted({access.line for access in run.trace if (access.space, access.kind) == ("shared", "load")})


@pytest.mark.parametrize(
    ("matrix", "array", "places"),
    [("A", 0, ("row 5 column 2", "row 5 column 3")), ("B", 1, ("row 2 column 5", "row 3 column 5"))],
)
def test_held_by_a_lane_of_16_is_what_mma_wants_of_the_rows_that_lanes_name(matrix, array, places):
    figure = draw.held(matrix, 21)
    assert len(re.findall(r">\d+<", figure.body)) == 16 * 16 - 8
    assert [figure.body.count(f">r{register}<") for register in range(4)] == [2] * 4
    assert ", ".join(f"{place} in register 0" for place in places) in figure.alt
    run = sixteen()
    asked = request(run, loads(run)[array], array="shared")
    length, start = ((64, 0), (128, 2 * 64 * 64))[array]  # bytes of a row, and where the tiles of this matrix begin
    row, place = divmod(int(asked.offsets[21]) - start, length)
    column = (place // 16 ^ (row // 2 % 4 if matrix == "A" else row % 8)) * 8
    assert f"It names row {row}, columns {column} to {column + 7}" in figure.alt


@pytest.mark.parametrize("lane", [0, 13, 31])
def test_held_by_a_lane_of_17_is_what_it_reads(lane):
    figure = draw.held("B, FP32", lane)
    assert [figure.body.count(f">f{fragment}<") for fragment in range(4)] == [2] * 4
    kernel = find("17_tf32x3").variant(BM=64, BN=64, WM=32, WN=32, STAGES=2)
    run = simulate(kernel, *matrices(64, 64, 64, on_gpu=False), trace=[0])
    for step in (0, 1):
        place = int(request(run, loads(run)[1], array="shared", step=step).offsets[lane]) - 2 * 64 * 32 * 4
        row, column = place // 256, (place % 256 // 16 ^ place // 256 % 8) * 4
        for fragment in range(4):
            assert f"row {row} column {column + fragment} in fragment {fragment}" in figure.alt


@pytest.mark.parametrize("lane", [0, 13, 31])
def test_held_by_a_lane_of_21_is_what_it_reads(lane):
    figure, kernel = draw.held("B, wgmma", lane), find("21_tf32x3_wgmma")
    assert [figure.body.count(f">r{register}<") for register in range(4)] == [1] * 4
    run = simulate(kernel, *matrices(128, 128, 32, on_gpu=False), trace=[0])
    of, line = kernel.parameters, loads(run)[1]
    start = 4 * of["STAGES"] * 2 * of["BM"] * of["BK"]  # bytes of the tiles of A and of their small parts
    for step in (0, 1):
        asked = request(run, line, array="shared", step=step)
        row, place = divmod(int(asked.offsets[lane]) - start, 128)
        column = (place // 16 ^ row % 8) * 4 + place % 16 // 4
        for next_column in (0, 1):
            expected = f"row {row} column {column + next_column} in register {2 * step + next_column}"
            assert asked.width == 8 and expected in figure.alt


@pytest.mark.parametrize(("matrix", "lane"), [("C", 0), ("A", 32)])
def test_held_refuses_what_is_not_loaded(matrix, lane):
    with pytest.raises(
        ArgumentError, match=rf"^matrix, lane: got '{matrix}', {lane}, needs one of \['A', 'B', 'B, FP32', 'B, wgmma'\]"
    ):
        draw.held(matrix, lane)


def test_chunks_lie_where_they_were_copied():
    run = sixteen()
    assert "row 0 at bank 0, row 1 at bank 16, row 2 at bank 4, row 3 at bank 20" in draw.chunks(run).alt
    assert "row 0 at bank 0, row 1 at bank 4, row 2 at bank 8, row 3 at bank 12" in draw.chunks(run, "B").alt
    asked = draw.chunks(run, asked=request(run, array="shared", warp=2))
    assert "The first chunk of each row: row 32 at bank 0, row 33 at bank 16" in asked.alt
    assert {f"lane {lane}" for lane in range(32)} <= set(words(asked)) and "45, 0" in words(asked)
    with pytest.raises(ArgumentError, match=r"^run: got one without copies of A"):
        draw.chunks(traced(COALESCED))
