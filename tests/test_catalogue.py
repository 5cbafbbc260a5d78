"""The catalogue: finding kernels, their properties, and that each rung has its file and its chapter's number."""

import contextlib
import dataclasses
import re

import numpy as np
import pytest

import lab
from lab import check, resources
from sgemm_tutorial import (
    CATALOGUE,
    LADDER,
    ArgumentError,
    CompileError,
    Kernel,
    compiler,
    find,
    hardware,
    matrices,
    operands,
    simulate,
    timing,
)
from sgemm_tutorial.paths import KERNELS

from .examples import floats
from .together import for_each

KNOWN = CATALOGUE


@for_each(kernel=KNOWN)
def test_find(kernel):
    """A kernel is found by its name with and without the number, and by the number, the first that has it."""
    number, _, name = kernel.name.partition("_")
    assert find(kernel.name) is find(name) is kernel
    first = next(other for other in KNOWN if other.name.startswith(number))
    assert find(number) is find(str(int(number))) is find(int(number)) is first


def test_find_takes_template_arguments():
    wanted = find("03").variant(BM=16, BN=16)
    assert find("03", BM=16, BN=16) == wanted == find(find("03", BM=16), BN=16)
    with pytest.raises(ArgumentError, match=r"^BX: got a parameter unknown to 03_shared_tile, needs BM, BN, BK"):
        find("03", BX=16)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("02_coalesed", "02_coalesced"),
        ("coalescd", "02_coalesced"),
        ("naive1", "01_naive"),
        ("Naive", "01_naive"),
        ("03_shared_tiles", "03_shared_tile"),
        ("shared", "03_shared_tile"),
        ("1_naive", "01_naive"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name, nearest):
    with pytest.raises(ArgumentError) as refused:
        find(name)
    listed = ", ".join(kernel.name for kernel in CATALOGUE)
    assert str(refused.value) == f"name: got {name!r}, needs one of {listed}; did you mean {nearest!r}?"


@pytest.mark.parametrize("name", ["", "zzz", "44", "99", 3.0])
def test_a_name_like_no_other(name):
    with pytest.raises(ArgumentError) as refused:
        find(name)
    assert str(refused.value).startswith(f"name: got {name!r}, needs one of 01_naive, ")
    assert "did you mean" not in str(refused.value)


def test_the_catalogue_is_in_order_and_complete():
    names = [kernel.name for kernel in CATALOGUE]
    assert names == sorted(names)
    assert sorted(names) == sorted(path.stem for path in KERNELS.glob("[0-9][0-9]_*.cu"))
    numbers = [int(kernel.name[:2]) for kernel in LADDER]
    assert numbers == list(range(1, len(LADDER) + 1))
    assert CATALOGUE[: len(LADDER)] == LADDER


@for_each(kernel=LADDER)
def test_a_kernel_fits_its_source(kernel):
    """Template parameters by name and order, the contract's signature, and a first line that says what it adds."""
    number, _, name = kernel.name.partition("_")
    assert kernel.path == KERNELS / f"{kernel.name}.cu"
    assert kernel.function == name
    assert re.match(rf"// {number} · [^\n]+\.\n", kernel.source)
    parameters = re.search(r"template <([^>]*)>\s*__global__[^;{]*\b" + name, kernel.source)[1]
    assert re.findall(r"int (\w+)", parameters) == list(kernel.parameters)
    contract = f"{name}(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C"
    contract += "," if kernel.family.arguments else ")"
    assert contract in re.sub(r"\s+", " ", kernel.source)
    assert kernel.expression == f"{name}<{', '.join(str(value) for value in kernel.parameters.values())}>"
    assert 0 < kernel.threads <= 1024
    assert kernel.threads % 32 == 0
    assert kernel.idea
    assert kernel.idea[-1] != "."


@pytest.mark.parametrize(
    ("parameters", "threads"),
    [
        ({"BM": 32, "BN": 8}, 256),
        ({"BM": 64, "BN": 64, "BK": 8, "TM": 8}, 512),
        ({"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}, 256),
        ({"BM": 128, "BN": 128, "BK": 8, "WM": 64, "WN": 32, "TM": 8, "TN": 8}, 256),
        ({"BM": 16, "BN": 16, "WM": 16, "WN": 16}, 32),
        ({"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32}, 256),
    ],
)
def test_threads(parameters, threads):
    assert Kernel("99_made_up", "", parameters).threads == threads


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        ((0, 0), 0),
        ((0, 9), 0),
        ((1, 1), 1),
        ((32, 8), 1),
        ((33, 8), 2),
        ((32, 9), 2),
        ((65, 25), 12),
        ((2**31 - 1, 1), 2**26),
        ((2**31 - 1, 2**31 - 1), 2**26 * 2**28),
    ],
)
def test_grid(shape, blocks):
    assert Kernel("99_made_up", "", {"BM": 32, "BN": 8}).grid(*shape) == blocks


def test_variant():
    kernel = find("03")
    small = kernel.variant(BM=16, BN=16, BK=16)
    assert (small.parameters, small.name, small.threads) == ({"BM": 16, "BN": 16, "BK": 16}, kernel.name, 256)
    assert list(kernel.variant(BK=64).parameters) == list(kernel.parameters)
    assert kernel.parameters != small.parameters  # the ladder's own stays as it is
    A, B = floats(33, 40), floats(40, 35)
    assert np.array_equal(small(A, B), kernel(A, B))  # the same sum in the same order
    with pytest.raises(ArgumentError, match="TM: got a parameter unknown to 03_shared_tile, needs BM, BN, BK"):
        kernel.variant(TM=8)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"BM": 0}, "BM: got 0, needs a whole number, 1 or more"),
        ({"BM": -8}, "BM: got -8, needs a whole number, 1 or more"),
        ({"BN": 32.0}, "BN: got 32.0, needs a whole number, 1 or more"),
        ({"BN": "32"}, "BN: got '32', needs a whole number, 1 or more"),
        ({"TM": True}, "TM: got True, needs a whole number, 1 or more"),
        ({"TN": None}, "TN: got None, needs a whole number, 1 or more"),
        ({"SHARED": -1}, "SHARED: got -1, needs a whole number, 0 or more"),
        ({"T": "half"}, "T: got 'half', needs float or double"),
        ({"T": ["float"]}, "T: got ['float'], needs float or double"),
    ],
    ids=str,
)
def test_a_variant_that_cannot_be(wrong, text):
    with pytest.raises(ArgumentError) as refused:
        find("23").variant(**wrong)
    assert str(refused.value) == text


@pytest.mark.parametrize("value", [0, 1, 3, 7])
@pytest.mark.parametrize("kernel", [kernel for kernel in CATALOGUE if kernel.family.parameters], ids=lambda of: of.name)
def test_any_value_of_a_parameter_is_launched_or_refused(kernel, value):
    """What a kernel's source then makes of it the compiler says."""
    for name in kernel.parameters.keys() - {"T", "BITS"}:
        for shape in ((64, 64, 64), (64, 1, 64), (70, 33, 65)):
            with contextlib.suppress(ArgumentError):
                kernel.variant(**{name: value}).resolve(operands.imagined(*shape, kernel.types))


@pytest.mark.parametrize(("number", "name"), [("13", "SLICES"), ("20", "CLUSTER"), ("22", "CLUSTER")])
def test_slices_and_blocks_of_a_cluster_are_not_none(number, name):
    with pytest.raises(ArgumentError, match=f"{name}: got 0, needs a whole number, 1 or more"):
        find(number).variant(**{name: 0})


def test_a_kernel_without_a_tile():
    with pytest.raises(ArgumentError, match="parameters: got TILE, needs BM and BN"):
        simulate(Kernel("99_made_up", "", {"TILE": 8}), A, B)


@pytest.mark.parametrize("kernel", [timing.SPIN, Kernel("copy", "", {}), Kernel("sum", "", {"THREADS": 256})])
def test_kernels_that_multiply_nothing_can_be_built(kernel, tmp_path):
    """Some of these keep a GPU busy, or measure its limits."""
    kernel = dataclasses.replace(kernel, folder=tmp_path)
    kernel.path.write_text(
        f"{'template <int T> ' * bool(kernel.parameters)}__global__ void {kernel.function}(int* out) {{ *out = 1; }}"
    )
    assert "st.global" in kernel.build("compute_90").ptx


def test_numpys_whole_numbers_are_whole_numbers():
    kernel = find("02").variant(BM=np.int64(16))
    assert type(kernel.parameters["BM"]) is int and kernel == find("02").variant(BM=16)


@pytest.mark.parametrize(
    ("kernel", "threads"),
    [
        (find("02").variant(BM=64), "2,048"),
        (find("04").variant(TM=1), "4,096"),
        (find("23").variant(T="double", BN=8192), "2,048"),
        (find("14").variant(BM=128, BN=128), "2,048"),
        (find("05").variant(BM=4, BN=4), "0"),
    ],
    ids=lambda value: getattr(value, "expression", str(value)),
)
def test_threads_are_counted_before_a_launch(kernel, threads, monkeypatch):
    """They are counted for the GPU too, whatever the types; no compiler is asked."""
    monkeypatch.setattr(compiler, "_compile", lambda *_: pytest.fail("compiled"))
    text = re.escape(f"parameters: got {threads} threads per block of {kernel.expression}, needs 1 to 1,024")
    A, B = matrices(8, 8, 8, on_gpu=False, types=kernel.types)
    problem = operands.check(A, B, None, 1.0, 0.0, kernel.types)
    for call in (
        lambda: kernel(A, B),
        lambda: simulate(kernel, A, B),
        lambda: kernel.resolve(problem),
        lambda: kernel.build(),
        lambda: resources(kernel),
    ):
        with pytest.raises(ArgumentError, match=text):
            call()


@pytest.mark.parametrize("architecture", [90, "90", "sm90", None, "sm_", "compute_9x"])
def test_an_architecture_that_is_none(architecture):
    with pytest.raises(ArgumentError) as refused:
        find("01").build(architecture)
    assert (refused.value.argument, refused.value.got) == ("architecture", repr(architecture))
    with pytest.raises(ArgumentError, match=r"^architecture: got "):
        hardware.limits_of(architecture)


A, B = matrices(32, 32, 128, on_gpu=False)
TAKE_A_KERNEL = {
    "simulate": lambda kernel: simulate(kernel, A, B).total,
    "resources": resources,
    "resources_table": lambda kernel: str(lab.resources_table([kernel])),
    "kernel_occupancy": lambda kernel: lab.kernel_occupancy(kernel, lab.find_gpu("H100")),
    "sass": lab.sass,
    "sass_mix": lab.sass_mix,
    "sass_table": lambda kernel: str(lab.sass_table(kernel)),
    "owners": lambda kernel: lab.owners(kernel).tolist(),
    "show": lambda kernel: str(lab.show(kernel)),
    "diff": lambda kernel: str(lab.diff(kernel, kernel)),
    "recorded": lambda kernel: lab.recorded(kernel).points,
    "find_variant": lambda kernel: lab.find_variant(kernel, "").expression,
    "roofs.moved": lambda kernel: lab.chapters.roofs.moved(kernel),
    "waves.tile_share": lambda kernel: lab.waves.tile_share(kernel, 5, 7),
    "draw.tiles": lambda kernel: lab.draw.tiles(kernel, 64, 64, 64).alt,
    "draw.hierarchy": lambda kernel: lab.draw.hierarchy(kernel).alt,
}


@for_each(name=TAKE_A_KERNEL)
def test_a_kernels_name_is_as_good_as_the_kernel(name):
    call = TAKE_A_KERNEL[name]
    assert call("02") == call("02_coalesced") == call(find("02"))
    with pytest.raises(ArgumentError, match=r"^name: got 'no such', needs one of 01_naive"):
        call("no such")


def test_kernels_are_keys():
    assert len({*LADDER, *LADDER}) == len(LADDER)
    assert find("01").variant(BM=16) != find("01")


def test_the_source_is_read_anew(tmp_path):
    """Change a kernel's file, and the change is what runs."""
    original = find("02")
    (tmp_path / "02_coalesced.cu").write_text(original.source)
    kernel = Kernel(original.name, original.idea, original.parameters, folder=tmp_path)
    A, B = floats(8, 8), floats(8, 8)
    before, binary = kernel(A, B), kernel.build()
    assert kernel.build() is binary  # and compiled once
    (tmp_path / "02_coalesced.cu").write_text(original.source.replace("= result;", "= 2 * result;"))
    assert np.array_equal(kernel(A, B), 2 * before)
    assert kernel.build() is not binary


def test_headers_are_read_anew(tmp_path):
    """They come from the kernel's folder or else that of the book's; the digest of the code tells them apart."""
    kernel = dataclasses.replace(find("07").variant(BM=32, BN=32, BK=8, TM=4, TN=4), folder=tmp_path)
    kernel.path.write_text(find("07").source)
    A, B = floats(32, 8), floats(8, 32)
    before, binary, code = kernel(A, B), kernel.build(), kernel.digest
    assert list(kernel.files) == ["07_vectorized.cu", "edges.cuh"]
    assert code == find("07").digest

    header = kernel.files["edges.cuh"]
    (tmp_path / "edges.cuh").write_text("// mine\n" + header)
    assert kernel.digest == code
    (tmp_path / "edges.cuh").write_text(header.replace("{scale * sum[0],", "{2 * scale * sum[0],"))
    assert kernel.digest != code
    assert kernel.build() is not binary
    assert np.array_equal(kernel(A, B)[:, ::4], 2 * before[:, ::4])
    (tmp_path / "edges.cuh").write_text(header.replace("if (whole) return", "if whole return"))
    with pytest.raises(CompileError, match=r"\bedges\.cuh\(\d+\): error"):
        kernel.build()


def test_headers_of_headers(tmp_path):
    kernel = dataclasses.replace(find("01"), folder=tmp_path)
    kernel.path.write_text('#include "one.cuh"\n#include "none.cuh"\n' + find("01").source)
    (tmp_path / "one.cuh").write_text('#pragma once\n#include "two.cuh"\n')
    (tmp_path / "two.cuh").write_text('#pragma once\n#include "one.cuh"\n')
    assert list(kernel.files) == ["01_naive.cu", "one.cuh", "two.cuh"]
    with pytest.raises(CompileError, match=r'cannot open source file "none\.cuh"'):
        kernel.build()
    assert kernel.edited(('#include "none.cuh"\n', "")).build().cubin


def test_edited_changes_the_source_and_not_the_file():
    kernel = find("01")
    before = kernel.path.read_text(encoding="utf-8")
    wrong = kernel.edited(("A[row * K + k]", "A[row * K]"), ("A[row * K]", "A[0]"))
    assert "A[0] * B" in wrong.source and kernel.source == before == kernel.path.read_text(encoding="utf-8")
    assert check(kernel, 8, 8, 8, on_gpu=False).passed and not check(wrong, 8, 8, 8, on_gpu=False).passed
    with pytest.raises(ArgumentError, match=r"edits: got 'no such text', needs text that 01_naive.cu holds"):
        _ = kernel.edited(("no such text", "")).source


def test_edited_may_include_a_header():
    kernel = find("01").edited(("template <", '#include "edges.cuh"\ntemplate <'))
    assert list(kernel.files) == ["01_naive.cu", "edges.cuh"] and kernel.build("compute_90").ptx


def test_edited_reaches_headers():
    kernel = find("07").edited(("if (left > 0) to[0] = four.x;", ""))
    assert kernel.source == find("07").source and kernel.files["edges.cuh"] != find("07").files["edges.cuh"]
    assert not check(kernel, 3, 3, 3, on_gpu=False).passed
    with pytest.raises(ArgumentError, match=r"needs text that 07_vectorized\.cu or edges\.cuh holds"):
        _ = kernel.edited(("if (left > 0) to[0] = four.x;", "")).files
