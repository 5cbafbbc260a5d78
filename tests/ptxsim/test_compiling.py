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


@pytest.mark.parametrize("header", ["iostream", "cuda_runtime.h", "inttypes.h", "string", "cublas_v2.h", ""])
@pytest.mark.parametrize("of", ["uint8_t", "int64_t", "uintptr_t", "std::uint16_t", "size_t"])
def test_integers_come_with_every_header(header, of):
    include = f"#include <{header}>\n" * bool(header)
    source = "__global__ void k(double* out) { out[0] = sizeof(TYPE) + (TYPE(-1) < 0); }".replace("TYPE", of)
    wide = {"uint8_t": 1, "int64_t": 9, "uintptr_t": 8, "std::uint16_t": 2, "size_t": 8}
    assert value(include + source) == wide[of]
    of_header = "template <class T> __device__ TYPE last() { return sizeof(T); }".replace("TYPE", of)
    source = '#include "m.h"\n__global__ void k(double* out) { out[0] = last<int>(); }'
    assert value(include + source, headers={"m.h": of_header}) == 4


@pytest.mark.parametrize(
    "own",
    [
        "typedef unsigned long uint64_t;",
        "using uint64_t = unsigned long;",
        "#define uint64_t unsigned long",
        "#include <stdint.h>\ntypedef uint64_t word;",
        "#include <cuda/std/cstdint>\nusing namespace cuda::std;",
    ],
)
def test_integers_that_the_source_declares(own):
    assert value(f"#include <iostream>\n{own}\n__global__ void k(double* out) {{ out[0] = sizeof(uint64_t); }}") == 8


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


@pytest.mark.parametrize(
    ("header", "use"),
    [
        ("cub/cub.cuh", "cub::BlockReduce<int, 32> sum;"),
        ("cub/block/block_scan.cuh", "using namespace cub;"),
        ("curand_kernel.h", "curandState state;"),
        ("thrust/complex.h", "thrust::complex<float> z;"),
        ("cutlass/cutlass.h", "cutlass::half_t z;"),
        ("torch/extension.h", "torch::PackedTensorAccessor32<float, 1> z;"),
    ],
)
def test_a_library_is_the_hosts_alone(header, use):
    source = f"#include <{header}>\nvoid host() {{ {use} }}\n__global__ void k(float* a) {{ a[0] = 1; }}"
    assert ".entry" in ptxsim.compile(source).ptx
    with pytest.raises(CompileError, match=rf"^kernels cannot use {header} here: write what they need of it in CUDA\n"):
        ptxsim.compile(source.replace("a[0] = 1", use))
    with pytest.raises(CompileError, match=r"^kernel\.cu does not compile"):  # for another reason
        ptxsim.compile(source.replace("a[0] = 1", "oops"))
    with pytest.raises(CompileError, match=r"^kernel\.cu does not compile"):  # with a header of one's own
        ptxsim.compile(source.replace("a[0] = 1", use), headers={header: ""})


BINDINGS = """
#include <torch/extension.h>
#define FLOAT4(value) (reinterpret_cast<float4*>(&(value))[0])
#define CHECK(T) if (!(T).is_cuda()) { throw std::runtime_error(#T); }
#define DEFINE(NAME, VALUE) __global__ void NAME##_kernel(float* x) { x[threadIdx.x] = VALUE; }
#define HELPER(NAME) struct NAME##_t { float x; };
#define BIND(NAME, TYPE) \\
void NAME(torch::Tensor x) { CHECK(x) const int n = x.size(0); NAME##_kernel<<<1, n>>>((TYPE*)x.data_ptr()); }
#define DECLARE(NAME) __global__ void NAME##_kernel(float* x);
namespace files = std::filesystem;
DECLARE(two)
DECLARE(last)
void host(float* x) { auto launched = [&](auto kernel) { kernel<<<1, 8>>>(x); }; launched(two_kernel); }
HELPER(pair)
DEFINE(two, 2) DEFINE(six, pair_t{6}.x)
BIND(two, float)

BIND(six, float)
__global__ void last_kernel(float* x) { FLOAT4(x[4 * threadIdx.x]).y = 7; }
BIND(last, float)
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("two", &two); }
"""


@pytest.mark.parametrize(("kernel", "expected"), [("two", [2] * 8), ("six", [6] * 8), ("last", [0, 7, 0, 0] * 2)])
def test_macros_for_functions_of_the_host_are_left_out(kernel, expected):
    """Macros that bind kernels to Python are; those for kernels, declarations and classes that these use stay."""
    x = np.zeros(8, np.float32)
    ptxsim.run(*ptxsim.compile(BINDINGS, f"{kernel}_kernel"), 1, 2 if kernel == "last" else 8, {"x": x})
    assert x.tolist() == expected


@pytest.mark.parametrize("header", ["iostream", "ostream", "fstream"])
def test_a_class_of_the_device_may_print_itself_on_the_host(header):
    source = f"""
#include <{header}>
#include <iomanip>
struct Place {{
    float x, y;
    __host__ __device__ float sum() const {{ return x + y; }}
    friend std::ostream& operator<<(std::ostream& out, const Place& p) {{ return out << p.x << std::endl; }}
    friend std::istream& operator>>(std::istream& in, Place& p) {{ return in >> p.x >> p.y; }}
    void print() const {{ std::cout << x << std::endl; }}
}};
std::ostream& shown(std::ostream& out, const Place& p) {{ return out << std::setw(3) << p; }}
__global__ void k(float* a) {{ a[0] = Place{{a[0], 2}}.sum(); }}"""
    a = np.ones(1, np.float32)
    ptxsim.run(*ptxsim.compile(source), 1, 1, {"a": a})
    assert a[0] == 3
    if header == "iostream":
        kernel = source.replace("a[0] = Place", "std::cout << a[0];\na[0] = Place")
        with pytest.raises(ptxsim.UnsupportedInstruction, match=r"line 12: .* cout, as .* prints by printf"):
            ptxsim.run(*ptxsim.compile(kernel), 1, 1, {"a": a})


def test_what_does_not_compile_is_said_with_its_line():
    with pytest.raises(ptxsim.CompileError, match=r'kernel.cu\(2\): error: identifier "oops" is undefined'):
        ptxsim.compile("__global__ void k(float* a) {\n a[0] = oops; }")
    own = "__global__ void all(float* a) { a[0] = 1; }"  # CUDA has a vote of this name
    for source in (own, own.replace("all", "k") + own.replace("all", "k").replace("float", "double")):
        with pytest.raises(
            ptxsim.CompileError, match=r"kernel.cu: several functions are called (all|k), .*a name that"
        ):
            ptxsim.compile(source, "k" if "k(" in source else "all")
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
        ptxsim.compile("__device__ itn a;" + source, name or "scale<int>")


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


def value(source, *arguments, name=None, headers=None, dtype=np.float64, size=1, **more):
    """Return what a kernel stores to its first argument."""
    out = np.zeros(size, dtype)
    given = {"out": out} | {f"argument {i}": of for i, of in enumerate(arguments)}
    ptxsim.run(*ptxsim.compile(source, name, headers), 1, 32, given, **more)
    return out.tolist() if size > 1 else out.item()


@pytest.mark.parametrize(
    ("macros", "function"),
    [
        ("#define BOTH __host__ __device__", "BOTH int f(int x)"),
        ("#define BOTH __host__ \\\n __device__", "BOTH int f(int x)"),
        ("#define ON __device__\n#define INLINE ON __forceinline__", "static INLINE int f(int x)"),
        ("#ifdef __CUDACC__\n#define BOTH __host__ __device__\n#else\n#define BOTH\n#endif", "BOTH int f(int x)"),
        ("#define BOTH __host__ __device__", "template <typename T> BOTH T f(T x)"),
        ("#define OF(space) __##space##__ __device__", "OF(host) int f(int x)"),
        ("#define ON __device__\nON const int one = 1;", "ON int f(int x)"),
        ("#define PAIR(a, b) __device__ int a(int x) { return b; }\nPAIR(g, 5)\nvoid host() { std::string s; }", ""),
        ("constexpr int half(int n) { return n / 2; }\nconstexpr int N = half(10);", "__device__ int f(int x)"),
    ],
)
def test_macros_count_as_what_they_expand_to(macros, function):
    body = f"{function} {{ return 2 * x + 1; }}" if function else "__device__ int f(int x) { return 2 * g(x) + 1; }"
    kernel = "__global__ void k(double* out) { out[0] = f(5); }"
    assert value(f"{macros}\n{body}\n{kernel}") == 11
    assert value(f'#include "m.h"\n{body}\n{kernel}', headers={"m.h": macros}) == 11


@pytest.mark.parametrize("head", ['extern "C" __global__', "static __global__ void", "__global__ void", "__global__"])
def test_a_kernel_whose_annotation_is_a_macro(head):
    kernel = f"KERNEL {'void' * ('void' not in head)} k(double* out) {{ out[0] = 3; }}"
    assert value(f"#define KERNEL {head}\nint main() {{ return 0; }}\n{kernel}") == 3
    assert value(f'#include "m.h"\n{kernel}', headers={"m.h": f"#define KERNEL {head}"}) == 3


@pytest.mark.parametrize(
    "host",
    [
        "int N = 1 << 10;",
        "static int verbose = 0;",
        "float *d_A, *d_B;",
        'const char* names[] = {"a", "b"};',
        "static float table[4] = {1, 2, 3, 4};",
        "float two[2] = {1, 2}, last = 3;",
        "std::map<int, std::string> table = {{1, \"a;\"}};",
        "const std::vector<int> sizes{64, 128}, more;",
        "constexpr std::string_view word = \"word\";",
        "std::ofstream log(\"log.txt\");",
        "int host(int n);",
        "cudaError_t launch(float* a, cudaStream_t stream = 0);",
        "template <class T> void launch(const std::vector<T>& a);",
        "bool operator==(const dim3& a, const dim3& b) { return a.x == b.x; }",
        "template <class T> auto twice(T a) -> T { return std::string(a); }",
        "template <class T> void launch(T* a) { kernel<T><<<1, 1>>>(a); }\ntemplate void launch<float>(float*);",
        "namespace tools {\nvoid host() { std::string s; }\n}",
        "namespace tools::deep {\nvoid host() { std::string s; }\n}",
        "struct Timer *timer = nullptr;",
        "using Words = std::vector<std::string>; using std::cout; typedef std::chrono::duration<float> Seconds;",
        "template <class T> class Matrix { T* a; public: Matrix(int n) { cudaMalloc(&a, n); } };",
        "main() { return 0; }",
        "extern \"C\" {\nint host(int n) { return getenv(\"N\"); }\n}",
        "auto square = [](int a) { return std::to_string(a); };",
    ],
)  # fmt: skip
def test_variables_and_functions_of_the_host_are_left_out(host):
    kernel = "__global__ void k(double* out) { out[0] = f() + N0; }"
    assert value(f"const int N0 = 1; struct Timer;\n{host}\n__device__ int f() {{ return 2; }}\n{kernel}") == 3


def test_a_kernel_cannot_read_a_variable_of_the_host():
    with pytest.raises(CompileError, match=r'kernel.cu\(2\): error: identifier "N" is undefined'):
        ptxsim.compile("int N = 5;\n__global__ void k(int* out) { out[0] = N; }")


def test_what_else_stands_outside_functions_stays():
    source = """typedef unsigned long long u64; using u8 = unsigned char; using Size = std::size_t;
enum Kind { A, B = 7 }; struct Later; static_assert(sizeof(u64) == 8, "");
const int SIZE = 4; const float* const NOTHING = nullptr;
__constant__ float table[SIZE] = {1, 2, 3, 4}; __device__ int counter; constexpr int cubes[] = {1, 8, 27};
template <typename T> struct Of; template <> struct Of<int> { static constexpr int value = 9; };
template <typename T> __device__ T twice(T a); template <typename T> __device__ T twice(T a) { return 2 * a; }
template __device__ int twice<int>(int); template <class T> constexpr T half = T(0.5);
namespace inner { __device__ int three() { return 3; } void host() { std::string s; } }
__global__ void k(double* out); extern __shared__ float dynamic[];
__global__ void k(double* out) {
    out[0] = (NOTHING == nullptr) - 1 + Size(SIZE) + table[2] + counter + cubes[1] + Of<int>::value + twice(u8(5));
    out[0] += B + inner::three() + half<float>;
}"""
    assert value(source) == 4 + 3 + 0 + 8 + 9 + 10 + 7 + 3 + 0.5


@pytest.mark.parametrize(
    "kind",
    [
        "typedef struct __align__(8) { int a, b; } Pair, *Pairs;",
        "typedef struct alignas(8) { int a, b; } Pair, *Pairs;",
        "typedef struct __attribute__((aligned(8))) { int a, b; } Pair, *Pairs;",
        "typedef struct __builtin_align__(8) { int a, b; } Pair, *Pairs;",
        "#define ALIGN(n) __align__(n)\ntypedef struct ALIGN(8) { int a, b; } Pair;",
        "struct alignas(2 * sizeof(int)) Pair { int a, b; };",
        "struct Pair { std::size_t b; };",
        "struct Pair { int a, b; Pair() : a(0), b(0) {} };",
        "struct N { static constexpr int n() { return 1; } };\n"
        "struct Pair { int a[N::n()], b; __device__ int f() { return a[0]; } };",
        "struct Pair { int b; Pair(int n = 0) : b(n) {} static constexpr int n = 2; __device__ void f() {} };",
    ],
)
def test_structs(kind):
    assert value(f"{kind}\n__global__ void k(double* out) {{ Pair p; p.b = 5; out[0] = p.b + alignof(Pair); }}") in (
        9,
        13,
    )


@pytest.mark.parametrize("include", ["", "#include <cmath>\n", "#include <math.h>\n#include <limits>\n"])
def test_what_nvcc_includes_by_itself(include):
    source = """__global__ void k(double* out) {
    out[0] = -INFINITY, out[1] = NAN, out[2] = M_PI + M_SQRT1_2 + M_2_SQRTPI, out[3] = INT_MAX, out[4] = RAND_MAX;
    out[5] = std::abs(-2.5f) + std::pow(2.0, 3) + std::max(1, 2) + std::isnan(NAN) + std::floor(1.5f);
    out[6] = HUGE_VALF, out[7] = LLONG_MAX, out[8] = std::numeric_limits<long>::max(), out[9] = CHAR_BIT;
}"""
    values = value(include + source, size=10)
    assert values[0] == -np.inf and np.isnan(values[1]) and values[6] == np.inf
    assert values[2] == np.pi + 0.5**0.5 + 2 / np.pi**0.5
    assert values[3:6] == [2**31 - 1, 2**31 - 1, 2.5 + 8 + 2 + 1 + 1] and values[7:] == [2.0**63, 2.0**63, 8]


def test_arguments_of_several_types():
    source = """template <typename T> __device__ T larger(T z) { return fmaxf(0.0, z) + fmin(0.0, 2 * (exp(z) - 1.0)); }
__global__ void k(double* out, float x, int i, long n) {
    out[0] = pow(2.0, x), out[1] = fmax(0.5, x) + fmin(i, 2.5f), out[2] = fmod(x, 2.0), out[3] = sqrt(i);
    out[4] = ceil(n / 32) + floor(i), out[5] = larger(x), out[6] = std::pow(x, 2), out[7] = atan2(0, 1) + log2(n);
    out[8] = sizeof(pow(x, x)) + sizeof(fmax(x, 1.0)) + sizeof(sqrt(x)) + sizeof(fmin(i, i));
    out[9] = std::hypot(3, 4.0f);
}"""
    x, i, n = 3.0, 16, 64
    values = value(source, np.float32(x), np.int32(i), np.int64(n), size=10)
    assert values == pytest.approx([8, 5.5, 1, 4, 18, 3, 9, 6, 4 + 8 + 4 + 8, 5], rel=1e-6)


TRUE = """is_integral<unsigned char>; is_integral<const bool>; is_floating_point<const float>; is_arithmetic<long>;
is_signed<int>; is_unsigned<unsigned>; is_pointer<int* const>; is_void<void>; is_const<const int>; is_reference<int&>;
is_array<int[3]>; is_convertible<int, float>; is_trivially_copyable<int>; is_class<dim3>; is_enum<K>; is_scalar<float*>;
is_empty<E>; is_base_of<E, F>; is_same<int, int>"""
FALSE = """is_integral<float>; is_floating_point<int>; is_arithmetic<E>; is_signed<unsigned>; is_unsigned<float>;
is_pointer<int>; is_same<int, unsigned>; is_base_of<F, E>; is_reference<int>; is_convertible<E, int>; is_const<int>;
is_enum<int>"""
TYPES = """decay<const int&> int; decay<int[3]> int*; decay<int(float)> int(*)(float); remove_reference<int&&> int;
remove_cv<const volatile int> int; remove_pointer<int*> int; remove_const<const int> int;
make_unsigned<char> unsigned char; make_signed<unsigned long> long; conditional<false, int, float> float;
enable_if<true, int> int; add_pointer<int> int*;
remove_extent<int[3]> int; underlying_type<K> short; add_const<int> const int"""


@pytest.mark.parametrize(
    "include", ["", "#include <type_traits>\n#include <cstddef>\n", "#include <cuda/std/type_traits>\n"]
)
def test_traits(include):
    """Each is a class with a value or a type, and has a shorter name for that."""
    checks = []
    for sign, traits in (("", TRUE), ("!", FALSE)):
        for of in traits.split(";"):
            checks += f"{sign}std::{of.strip()}::value", f"{sign}std::{of.strip().replace('<', '_v<', 1)}"
    for line in TYPES.split(";"):
        of, _, then = line.strip().partition("> ")
        checks += (f"std::is_same_v<std::{way}, {then}>" for way in (f"{of}>::type", f"{of.replace('<', '_t<', 1)}>"))
    asserted = "".join(f'static_assert({check}, "");\n' for check in checks)
    made = "std::integral_constant<int, 3>::value + std::true_type() + sizeof(std::size_t) + sizeof(std::ptrdiff_t)"
    source = f"""{include}struct E {{}}; struct F : E {{}}; enum K : short {{ A }};
{asserted}
template <class T, std::enable_if_t<std::is_integral<T>::value, int> = 0> __device__ T g(T x) {{ return x; }}
template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>> __device__ T g(T x) {{ return 2 * x; }}
__global__ void k(double* out) {{ out[0] = g(1) + g(1.5f) + {made}; }}"""
    assert value(source) == 1 + 3 + 3 + 1 + 8 + 8


def test_attributes_and_tensor_maps():
    source = """#include <cuda.h>
__attribute__((noinline)) __device__ int f(int x) { return x + sizeof(CUtensorMap) + alignof(CUtensorMap); }
__global__ void __attribute__((used)) k(double* out) { out[0] = f(1); }"""
    assert value(source) == 1 + 128 + 64


def test_headers_that_nvrtc_has():
    source = "#include <math_constants.h>\n__global__ void k(double* out) { out[0] = CUDART_PI_F + CUDART_ZERO_F; }"
    assert value(source) == np.float32(np.pi)


def test_integers_of_128_bits_and_annotated_lambdas():
    source = """__global__ void k(long long* out, long long a) {
    auto high = [] __host__ __device__ (__int128 x) { return x >> 64; };
    out[0] = (long long)high((__int128)a * a);
}"""
    assert value(source, np.int64(1 << 40), dtype=np.int64) == 1 << 16


def test_unannotated_methods():
    """NVRTC takes them only if it is told to, which no user can, so that no message names the option."""
    source = """struct Sum {
    int a; Sum(int n) : a(n) {} constexpr int twice() const { return 2 * a; } HERE
    __device__ int of() { return a; }
};
__global__ void k(double* out) { Sum s(4); out[0] = s.of() + s.twice(); }"""
    assert value(source.replace("HERE", "")) == 12
    with pytest.raises(CompileError) as refused:
        ptxsim.compile(source.replace("HERE", "int oops() { return nothing; }"))
    assert '"nothing" is undefined' in str(refused.value) and "default-device" not in str(refused.value)


def test_an_error_comes_without_warnings():
    source = """#include <float.h>
#include <cooperative_groups/reduce.h>
__global__ void a(float* out) { int unused; out[0] = FLT_MAX HERE }
__global__ void b(float* out) { out[0] = 2; }"""
    with pytest.raises(
        CompileError, match=r'^kernel.cu does not compile for \w+:\nkernel.cu\(3\): error: expected a ";"'
    ):
        ptxsim.compile(source.replace("HERE", ""), "a")
    with pytest.raises(ArgumentError, match=r"name: got 'c', needs one of a, b$"):
        ptxsim.compile(source.replace("HERE", ";"), "c")


def test_an_explicit_instance_is_no_kernel_of_its_own():
    source = """template <class T> __global__ void k(T* a) { a[0] = 1; }
template __global__ void k<float>(float*);
__device__ void other(float* a) { a[0] = 2; }"""
    with pytest.raises(ArgumentError, match=r"needs one of k<typename T>$"):
        ptxsim.compile(source)
