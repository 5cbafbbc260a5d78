"""CUDA C++ to PTX, and the command that runs a file."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptxsim
from ptxsim import ArgumentError, CompileError
from ptxsim.__main__ import argument, main

SCALE = """#include <cuda_runtime.h>
#include <cstdint>
#include <stdio.h>
#include "by.cuh"

template <typename T, int BY>
__global__ void scale(T* data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= BY * TWICE;
}
"""
BY = "#include <float.h>\n#define TWICE (FLT_MAX > 1 ? 2 : 0)\n"


def test_an_instance_of_a_template_with_headers():
    for name, dtype in (("scale<float, 3>", np.float32), ("scale<int, 3>", np.int32)):
        data = np.arange(40, dtype=dtype)
        compiled = ptxsim.compile(SCALE, name, {"by.cuh": BY})
        run = ptxsim.run(*compiled, 2, 32, {"data": data, "n": np.int32(30)})
        assert data.tolist() == [i * 6 if i < 30 else i for i in range(40)]
        assert set(run.lines) >= {7, 8, 9} and max(run.lines) <= 10  # the source's own lines


def test_the_only_kernel_needs_no_name_and_a_file_finds_headers_beside_it(tmp_path):
    (tmp_path / "by.cuh").write_text(BY)
    (tmp_path / "scale.cu").write_text(SCALE)
    assert ptxsim.compile(tmp_path / "scale.cu", "scale<float, 1>").entry
    one = '#include "by.cuh"\n__global__ void __launch_bounds__(64) k(int* a) { a[0] = TWICE; }'
    (tmp_path / "one.cu").write_text(one)
    a = np.zeros(1, np.int32)
    ptxsim.run(*ptxsim.compile(tmp_path / "one.cu"), 1, 1, {"a": a})
    assert a[0] == 2


@pytest.mark.parametrize("header", ["math.h", "cmath", "stdint.h", "cstdint", "climits", "cassert", "cuda_runtime.h"])
def test_headers_of_the_host(header):
    source = f"#include <{header}>\n__global__ void k(float* a) {{ a[0] = 1; }}"
    assert ".entry" in ptxsim.compile(source).ptx


def test_integers_of_the_headers_have_their_widths():
    names = [f"{u}int{bits}_t" for u in ("", "u") for bits in (8, 16, 32, 64)]
    checks = "".join(f'static_assert(sizeof({of}) * 8 == {of.strip("uint_")}, "");' for of in names)
    signs = 'static_assert(int8_t(-1) < 0 && uint64_t(-1) > 0, "");'
    ptxsim.compile(f"#include <stdint.h>\n{checks}{signs}\n__global__ void k() {{}}")
    of_std = checks.replace("sizeof(", "sizeof(std::")
    ptxsim.compile(f"#include <cstdint>\n{of_std}\n__global__ void k() {{}}")


def test_functions_and_limits_of_std():
    source = """#include <cmath>
#include <limits>
#include <utility>
#include <algorithm>
__managed__ int seven = 7;
__global__ void k(float* a, double* b) {
    a[0] = std::sqrt(a[1]) + std::exp(0.0f) + std::abs(-2.0f) + std::fmax(a[1], 5.0f);
    b[0] = std::sqrt(b[1]) + std::fabs(-2.0) + std::numeric_limits<double>::epsilon();
    a[2] = -std::numeric_limits<float>::infinity(), a[3] = std::numeric_limits<float>::lowest();
    b[2] = std::numeric_limits<int>::max() + 1.0 + std::isnan(b[1]) + std::min(seven, 9);
}"""
    a, b = np.array([0, 9, 0, 0], np.float32), np.array([0, 9, 0], np.float64)
    ptxsim.run(*ptxsim.compile(source), 1, 1, {"a": a, "b": b})
    assert a.tolist() == [15, 9, -np.inf, float(np.finfo(np.float32).min)] and b.tolist() == [
        5 + 2**-52,
        9,
        2.0**31 + 7,
    ]


@pytest.mark.parametrize("header", ["cub/cub.cuh", "curand_kernel.h", "cutlass/cutlass.h"])
def test_a_header_of_the_device_that_is_not_there_is_named(header):
    with pytest.raises(CompileError, match=rf'open source file "{header}"'):
        ptxsim.compile(f"#include <{header}>\n__global__ void k(float* a) {{ a[0] = 1; }}")


def test_what_does_not_compile_is_said_with_its_line():
    with pytest.raises(ptxsim.CompileError, match=r'kernel.cu\(2\): error: identifier "oops" is undefined'):
        ptxsim.compile("__global__ void k(float* a) {\n a[0] = oops; }")
    for source in ("__global__ void a() {} __global__ void b() {}", "void k();"):
        with pytest.raises(ptxsim.ArgumentError, match="name: got none"):
            ptxsim.compile(source)


def test_importing_ptxsim_imports_no_compiler():
    code = "import sys, ptxsim; print(sorted({'cupy', 'cuda', 'msgspec'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
    code = "import sys; sys.modules['cupy'] = None\nimport ptxsim; ptxsim.compile('__global__ void k() {}')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "compiling needs NVRTC, pip install 'ptxsim[compile]'" in done.stderr


ADD = """__global__ void add(float* out, const float* a, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    out[y * n + x] = a[y * n + x] + 1;
}
"""


def command(tmp_path, *words, text=ADD, name="add.cu"):
    (tmp_path / name).write_text(text)
    return main(["run", str(tmp_path / name), *words])


def test_the_command_prints_counts_and_arrays(tmp_path, capsys):
    words = [
        "--grid",
        "2,2",
        "--block",
        "8,4",
        "--arg",
        "out=empty:float32:8x16",
        "--arg",
        "arange:float32:128",
        "--arg",
        "int32:16",
    ]
    assert command(tmp_path, *words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["line", "warps", "threads", "sectors", "read", "written", "conflicts", "source"]
    row = next(line for line in printed if "out[y * n + x]" in line).split()
    assert row[0] == "3" and row[3:6] == ["16", "16", "0"]
    assert "out: [1. 2. 3. 4. 5. 6. 7. 8.] …" in printed and printed[-1] == "No fault found."


def test_the_command_reports_a_fault_with_its_line(tmp_path, capsys):
    words = [
        "--grid",
        "2,2",
        "--block",
        "8,4",
        "--arg",
        "zeros:float32:128",
        "--arg",
        "A=ones:float32:100",
        "--arg",
        "int32:16",
    ]
    assert command(tmp_path, *words) == 1
    printed = capsys.readouterr().out
    assert "block (0, 1), thread (4, 2): a 4-byte access to A (400 bytes)" in printed
    assert printed.endswith("    out[y * n + x] = a[y * n + x] + 1;\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--arg", "int32:5"], "arguments: got 1, needs 3"),
        (["--arg", "zeros:float32"], "--arg: got 'zeros:float32', needs zeros, ones"),
        (["--arg", "zeros:flt:4"], "--arg: got 'zeros:flt:4'"),
        (["--kernel", "nothing"], "name: got 'nothing', needs one of add\n"),
    ],
)
def test_the_command_refuses_in_one_line(tmp_path, capsys, words, message):
    assert command(tmp_path, *words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", [None, "scale", "scale<none>", "map"])
def test_the_name_of_an_instance_is_asked_for(name):
    source = "template <typename T, int N = 4> __global__ void scale(T* a) { a[threadIdx.x] *= N; }"
    with pytest.raises(ArgumentError, match=r"^name: got .*, needs one of scale<typename T, int N = 4>$"):
        ptxsim.compile(source, name)
    with pytest.raises(ptxsim.Error, match='"itn" is undefined'):  # the source comes before the name
        ptxsim.compile("itn a;" + source, name or "scale<int>")


def test_the_command_runs_ptx_as_well(tmp_path, capsys):
    ptx = ptxsim.compile(ADD).ptx
    words = ["--block", "8", "--arg", "zeros:float32:8", "--arg", "ones:float32:8", "--arg", "int32:8"]
    assert command(tmp_path, *words, text=ptx, name="add.ptx") == 0
    assert "argument 1: [2. 2. 2. 2. 2. 2. 2. 2.]" in capsys.readouterr().out
    assert command(tmp_path, text="nothing", name="empty.ptx") == 2


def test_arguments_as_the_command_reads_them():
    assert argument("int32:-5") == -5 and argument("float32:0.5").dtype == np.float32
    assert argument("ones:float64:2x3").shape == (2, 3) and argument("arange:int32:4").tolist() == [0, 1, 2, 3]
    assert argument("bool:1") and not argument("bool:0")
    assert argument("-5") == -5 and type(argument("16")) is int and argument("2.5") == 2.5
    assert argument("random:float32:1000").std() == pytest.approx(1, rel=0.1)


def test_it_is_a_command():
    done = subprocess.run([sys.executable, "-m", "ptxsim", "run", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--block" in done.stdout
    assert (Path(ptxsim.__file__).parent / "__main__.py").is_file()


def test_directives_before_a_function_of_the_host_stay():
    source = "#include <cuda_fp16.h>\n#define TILE 3\nvoid host(int* a) { *a = TILE; }\n"
    out = np.zeros(1, np.float16)
    ptxsim.run(*ptxsim.compile(source + "__global__ void k(half* a) { *a = TILE; }"), 1, 1, {"out": out})
    assert out[0] == 3


def test_classes_of_the_host_and_kernels_in_namespaces():
    """The one are left out, so that timers compile, and the others go by their names."""
    source = """#include <chrono>
#include <string>
#define BOTH __host__ __device__
struct Timer {
    std::chrono::steady_clock::time_point since; Timer() : since() {}
    double ms() const { return 0; }
} timer;
struct Config { cudaStream_t stream; std::string name; };
template <class T> void launch(T* data) { Config config{}; }
struct __align__(8) Pair { int a, b; };
struct Sum { BOTH int of(Pair p) const { return p.a + p.b; } };
namespace outer { namespace inner {
static __global__ void kernel(int* out) { out[threadIdx.x] = Sum().of(Pair{int(threadIdx.x), 5}); }
} }
"""
    out = np.zeros(4, np.int32)
    ptxsim.run(*ptxsim.compile(source), 1, 4, {"out": out})
    assert out.tolist() == [5, 6, 7, 8]
    assert ptxsim.compile(source, "kernel").entry == ptxsim.compile(source, "outer::inner::kernel").entry
