"""The catalogue: finding kernels, their properties, and that each rung has its file and its chapter's number."""

import dataclasses
import re

import numpy as np
import pytest

from sgemm_tutorial import CATALOGUE, LADDER, ArgumentError, CompileError, Kernel, check, find
from sgemm_tutorial.paths import KERNELS

from .sources import floats

every = pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)


@pytest.mark.parametrize("kernel", CATALOGUE, ids=lambda kernel: kernel.name)
def test_find(kernel):
    number, _, name = kernel.name.partition("_")
    assert find(kernel.name) is find(number) is find(name) is kernel


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


@pytest.mark.parametrize("name", ["", "zzz", "99", 3])
def test_a_name_like_no_other(name):
    with pytest.raises(ArgumentError) as refused:
        find(name)
    assert str(refused.value).startswith(f"name: got {name!r}, needs one of 01_naive, ")
    assert "did you mean" not in str(refused.value)


def test_the_catalogue_is_in_order_and_complete():
    assert [kernel.name for kernel in CATALOGUE] == sorted(path.stem for path in KERNELS.glob("[0-9][0-9]_*.cu"))
    numbers = [int(kernel.name[:2]) for kernel in LADDER]
    assert numbers == list(range(1, len(LADDER) + 1))
    assert CATALOGUE[: len(LADDER)] == LADDER


@every
def test_a_kernel_fits_its_source(kernel):
    """Template parameters by name and order, the contract's signature, and a first line that says what it adds."""
    number, _, name = kernel.name.partition("_")
    assert kernel.path == KERNELS / f"{kernel.name}.cu"
    assert kernel.function == name
    assert re.match(rf"// {number} · [^\n]+\.\n", kernel.source)
    parameters = re.search(r"template <([^>]*)>\s*__global__[^;{]*\b" + name, kernel.source)[1]
    assert re.findall(r"int (\w+)", parameters) == list(kernel.parameters)
    contract = f"{name}(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)"
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
    """From the kernel's folder or else from that of the book's kernels; the digest of the code tells them apart."""
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
        kernel.edited(("no such text", ""))


def test_edited_reaches_headers():
    kernel = find("07").edited(("if (left > 0) to[0] = four.x;", ""))
    assert kernel.source == find("07").source and kernel.files["edges.cuh"] != find("07").files["edges.cuh"]
    assert not check(kernel, 3, 3, 3, on_gpu=False).passed
    with pytest.raises(ArgumentError, match=r"needs text that 07_vectorized\.cu or edges\.cuh holds"):
        kernel.edited(("if (left > 0) to[0] = four.x;", ""))
