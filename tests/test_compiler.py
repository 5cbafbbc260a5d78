"""NVRTC: what it is asked, what it returns, and what it says when a source does not compile."""

import dataclasses
import re
from importlib import metadata
from pathlib import Path

import pytest

from ptxsim import cache, nvrtc
from sgemm_tutorial import (
    LADDER,
    ArgumentError,
    CompileError,
    Kernel,
    compiler,
    find,
    simulate,
)
from sgemm_tutorial.compiler import ARCHITECTURE

from .examples import floats
from .sources import line_of, probe


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_build(kernel):
    binary = kernel.build()
    assert (binary.kernel, binary.architecture) == (kernel.name, ARCHITECTURE)
    assert f".entry {binary.entry}(" in binary.ptx
    assert f".target {ARCHITECTURE}" in binary.ptx
    assert binary.cubin[:4] == b"\x7fELF"
    assert binary.entry.encode() in binary.cubin
    assert re.search(r"Used \d+ registers", binary.log)
    assert ".loc" in binary.ptx
    assert kernel.build() is binary


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"])
def test_architectures(architecture):
    assert f".target {architecture}" in find("01").build(architecture).ptx


@pytest.mark.parametrize("kernel", LADDER[::5], ids=lambda kernel: kernel.name)
def test_a_virtual_architecture_gives_the_same_ptx_alone(kernel, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, "")  # where it may lie beside the other
    compiler._compile.cache_clear()
    virtual = kernel.build("compute_90")
    assert (virtual.entry, virtual.ptx) == (kernel.build().entry, kernel.build().ptx)
    assert virtual.cubin == b""
    why = "needs sm_80 or later for" if kernel.least_capability > (7, 5) else "install the CUDA 12 extra"
    with pytest.raises(ArgumentError, match=why):
        kernel.build("compute_70")


@pytest.mark.parametrize("architecture", ["", "sm90", "compute90", "sm_9", "SM_90", "sm_90 ", "sm_90x", "90"])
def test_malformed_architectures(architecture):
    with pytest.raises(ArgumentError) as refused:
        find("01").build(architecture)
    needs = "one such as 'sm_90', or 'compute_90' for PTX alone"
    assert str(refused.value) == f"architecture: got {architecture!r}, needs {needs}"


def test_an_architecture_that_does_not_exist():
    with pytest.raises(CompileError, match=r"01_naive\.cu does not compile for sm_999"):
        find("01").build("sm_999")


def test_an_architecture_too_old_for_the_kernel():
    with pytest.raises(ArgumentError, match="architecture: got sm_52, needs sm_60 or later for 01_naive"):
        find("01").build("sm_52")
    with pytest.raises(ArgumentError, match="architecture: got sm_61, needs sm_70 or later for 14_wmma"):
        find("14").build("sm_61")
    newer = dataclasses.replace(find("01"), least_capability=(9, 0))
    with pytest.raises(ArgumentError, match="architecture: got sm_80, needs sm_90 or later for 01_naive"):
        newer.build("sm_80")
    with pytest.raises(ArgumentError, match="needs sm_100 or later"):
        dataclasses.replace(find("01"), least_capability=(10, 0)).build("sm_90")


def test_a_source_that_does_not_compile(tmp_path):
    """The message is NVRTC's log, with the file's name and line."""
    kernel = probe(tmp_path, "const float x = A[0]\nC[t] = x;  // here\nnonsense = 1;")
    with pytest.raises(CompileError) as refused:
        simulate(kernel, floats(1, 1), floats(1, 32))
    text = str(refused.value)
    assert text.startswith("00_probe.cu does not compile for compute_90:\n")
    assert f'00_probe.cu({line_of(kernel, "// here")}): error: expected a ";"' in text
    assert 'identifier "nonsense" is undefined' in text
    assert str(tmp_path) not in text


def test_parameters_that_the_source_refuses():
    with pytest.raises(CompileError, match=r"03_shared_tile\.cu\(\d+\): error: static assertion failed"):
        find("03").variant(BM=32, BN=32, BK=33).build()


def test_too_much_shared_memory():
    with pytest.raises(CompileError, match="shared"):
        find("03").variant(BM=32, BN=32, BK=1024).build()
    most = find("03").variant(BM=32, BN=32, BK=192)
    assert most.build("compute_90").ptx == most.build().ptx
    with pytest.raises(CompileError, match=r"shared memory: 57,344 bytes, 49,152 at most"):
        most.variant(BK=224)(floats(3, 4), floats(4, 5))  # the simulator does without ptxas


def test_a_function_that_is_not_there(tmp_path):
    (tmp_path / "00_other.cu").write_text(probe(tmp_path, "C[t] = 0;").source)
    with pytest.raises(CompileError, match="other"):
        Kernel("00_other", "", {"BM": 1, "BN": 32}, folder=tmp_path).build()


def test_a_failed_compilation_is_not_remembered(tmp_path):
    kernel = probe(tmp_path, "C[t] = ;")
    with pytest.raises(CompileError):
        kernel.build()
    assert probe(tmp_path, "C[t] = 1;").build().kernel == kernel.name


def test_headers_come_from_pip(tmp_path):
    folder, library = (Path(option.removeprefix("-I")) for option in nvrtc._headers())
    assert (library / "cuda" / "std" / "type_traits").is_file()  # of the C++ library, which comes with CuPy
    for wheel, header in (
        ("nvidia-cuda-runtime", "mma.h"),
        ("nvidia-cuda-runtime", "cuda_fp16.h"),
        ("nvidia-cuda-crt", "crt/mma.h"),
    ):
        assert folder / header in {Path(file.locate()) for file in metadata.files(wheel)}
    kernel = probe(tmp_path, "C[t] = __half2float(*reinterpret_cast<const half*>(A));", before="#include <mma.h>")
    assert "cvt.f32.f16" in kernel.build().ptx


def test_headers_are_only_for_those_who_include_them(tmp_path, monkeypatch):
    monkeypatch.setattr(nvrtc, "_headers", lambda: ())
    assert probe(tmp_path, "C[t] = 7;").build().cubin
    with pytest.raises(CompileError, match=r'could not open source file "mma\.h"'):
        probe(tmp_path, "C[t] = 8;", before="#include <mma.h>").build()


def test_an_error_in_a_header_names_it_alone(tmp_path):
    (tmp_path / "part.cuh").write_text("\nnonsense\n")
    kernel = probe(tmp_path, "C[t] = 1;", before='#include "part.cuh"\n')
    with pytest.raises(CompileError) as refused:
        kernel.build()
    assert "\npart.cuh(2): error" in str(refused.value)
    assert not re.search(r"/(part|00_probe)", str(refused.value))


def test_a_file_of_the_folder_one_works_in_is_not_included(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("here.cuh").write_text("#define ONE 1\n")
    with pytest.raises(CompileError, match=r'cannot open source file "here\.cuh"'):
        probe(tmp_path, "C[t] = ONE;", before='#include "here.cuh"\n').build()
