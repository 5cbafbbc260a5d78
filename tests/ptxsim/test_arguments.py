"""Arguments of a kernel: structs by value with the addresses of arrays in them, and null pointers."""

import numpy as np
import pytest

import ptxsim
from ptxsim import ArgumentError, SimulationFault
from ptxsim.__main__ import main

from .cuda import fault, launch

MATRIX = """
struct Matrix { int width, height; float* elements; };
__global__ void k(Matrix from, float factor, Matrix to) {
    int i = threadIdx.x;
    if (i < from.height) to.elements[i] = factor * from.elements[i * from.width];
}"""


def test_a_struct_with_the_address_of_an_array():
    a, b = np.arange(12, dtype=np.float32), np.zeros(4, np.float32)
    run = launch(MATRIX, 1, 32, **{"from": (3, np.int32(4), a)}, factor=2.0, to=(1, 4, b), _orders=2)
    assert b.tolist() == [0, 6, 12, 18] and run.findings == []
    with pytest.raises(SimulationFault, match=r"out of bounds: .* to to\[2\] \(16 bytes\), 0 bytes past its end"):
        launch(MATRIX, 1, 32, **{"from": (1, 12, a)}, factor=2, to=(1, 4, b))
    with pytest.raises(SimulationFault, match=r"uninitialised: .*reads from\[2\] at byte 0"):
        launch(MATRIX, 1, 32, **{"from": (3, 4, a)}, factor=2, to=(1, 4, b), _fresh=["from[2]"])


def test_arrays_in_structs_are_compared_in_other_orders():
    source = """struct Count { int* next; };
__global__ void k(Count c, int* a) { a[0] = 1; if (threadIdx.x == 0) c.next[atomicAdd(a + 1, 1)] = blockIdx.x; }"""
    run = launch(source, 2, 32, c=(np.zeros(2, np.int32),), a=np.zeros(2, np.int32), _orders=4)
    assert run.findings[0].startswith("c[0] differs with the last warp first: element 0 is 1, not 0")


BATCH = """__global__ void k(const float* const* from, float** to, int n) {
    int of = blockIdx.x, i = threadIdx.x;
    if (to[of] && i < n) to[of][i] = 2 * from[of][i];
}"""


def test_a_list_of_arrays_is_an_array_of_pointers():
    sources, out = [np.arange(4, dtype=np.float32) + of for of in range(3)], np.zeros(4, np.float32)
    run = launch(BATCH, 3, 32, **{"from": sources, "to": [out, None, np.zeros(4, np.float32)]}, n=4, _orders=2)
    assert out.tolist() == [0, 2, 4, 6] and run.findings == []
    with pytest.raises(SimulationFault, match=r"out of bounds: .* from\[2\] \(16 bytes\), 0 bytes past its end"):
        launch(BATCH, 3, 32, **{"from": sources, "to": [None, None, np.zeros(8, np.float32)]}, n=5)
    struct = "struct Batch { int n; float** of; }; __global__ void k(Batch b) { b.of[1][0] = b.n; }"
    launch(struct, 1, 1, b=(7, [None, out]))
    assert out[0] == 7


@pytest.mark.parametrize("given", [[], [1, 2], [np.zeros(4), (1, 2)]])
def test_a_list_of_something_else_is_refused(given):
    with pytest.raises(ArgumentError, match=r"from: got .*, needs a list of arrays"):
        launch(BATCH, 1, 1, **{"from": given, "to": [None]}, n=4)


def test_results_in_listed_arrays_are_compared_in_other_orders():
    source = "__global__ void k(int** a, int* n) { if (threadIdx.x == 0) a[0][atomicAdd(n, 1)] = blockIdx.x; }"
    run = launch(source, 2, 32, a=[np.zeros(2, np.int32)], n=np.zeros(1, np.int32), _orders=4)
    assert run.findings[0].startswith("a[0] differs with the last warp first: element 0 is 1, not 0")


MIXED = """
struct Part { bool on; short few; double wide; };
struct Whole { char small; Part part; float* null; float3 place; };
__global__ void k(Whole w, double* out, unsigned size) {
    out[0] = w.small; out[1] = w.part.on; out[2] = w.part.few; out[3] = w.part.wide;
    out[4] = w.null == nullptr; out[5] = w.place.y; out[6] = sizeof(Whole);
}"""


def test_members_lie_as_c_has_them():
    out = np.zeros(7)
    whole = (np.int8(-5), (True, np.int16(300), np.float64(0.1)), None, (1.5, 2.5, 3.5))
    launch(MIXED, 1, 1, w=whole, out=out, size=0)
    assert out.tolist() == [-5, 1, 300, 0.1, 1, 2.5, 48]


def test_structured_scalars_and_arrays():
    dtype = np.dtype([("width", "i4"), ("height", "i4"), ("elements", "u8")])
    b, nothing = np.zeros(4, np.float32), np.zeros((), dtype)
    for struct in (nothing, nothing[()], nothing.reshape(1), np.void(bytes(16))):
        launch(MATRIX, 1, 32, **{"from": struct}, factor=2, to=(1, 4, b))
    pair = np.array([(3, 4)], [("x", "i4"), ("y", "i4")])
    out = np.zeros(2, np.int32)
    launch("__global__ void k(int2* p, int* o) { o[0] = p->x; o[1] = p->y; }", 1, 1, p=pair, o=out)
    assert out.tolist() == [3, 4]


@pytest.mark.parametrize(
    "given, message",
    [
        (
            (1, 2),
            r"to: got a struct of 8 bytes: int32, int32, needs 16 bytes of type b8\[16\], as the kernel declares: a",
        ),
        (np.zeros(4, np.float32), "to: got an array of float32, passed by its address of 8 bytes, needs 16 bytes"),
        (np.zeros(3, [("a", "f4")]), "to: got an array of "),
        ((1, 2, "x"), r"to\[2\]: got 'x', needs an array, None"),
        ((1, 1 << 31, None), r"to\[1\]: got 2147483648, needs .* an int of 32 bits"),
        ((1, 2, np.zeros((4, 4), np.float32).T), r"to\[2\]: got strides .*, needs np.ascontiguousarray\(to\[2\]\)"),
        (None, "to: got NoneType, needs 16 bytes"),
    ],
)
def test_structs_that_do_not_fit(given, message):
    with pytest.raises(ArgumentError, match=message):
        launch(MATRIX, 1, 32, **{"from": (1, 2, None)}, factor=1, to=given)


ADD = "__global__ void add(float* a, const float* bias) { if (bias) a[threadIdx.x] += bias[threadIdx.x]; }"


def test_none_is_a_null_pointer(tmp_path, capsys):
    a = np.ones(32, np.float32)
    launch(ADD, 1, 32, a=a, bias=None)
    assert (a == 1).all()
    with pytest.raises(SimulationFault, match="address 0x0, in no array: a null pointer"):
        launch(ADD.replace("if (bias)", ""), 1, 32, a=a, bias=None)
    with pytest.raises(ArgumentError, match="n: got NoneType, needs 4 bytes"):
        launch("__global__ void k(int* a, int n) { a[0] = n; }", 1, 1, a=np.zeros(1, np.int32), n=None)
    (tmp_path / "add.cu").write_text(ADD)
    assert main(["run", str(tmp_path / "add.cu"), "--arg", "a=ones:float32:32", "--arg", "bias=null"]) == 0
    assert "a: [1. 1." in capsys.readouterr().out


@pytest.mark.parametrize("given", [[np.zeros(1)], (), np.zeros(4)])
def test_arguments_without_names(given):
    message = rf"^arguments: got a {type(given).__name__}, needs a mapping of names to values, .*: {{\"a\": a}}$"
    with pytest.raises(ArgumentError, match=message):
        ptxsim.run(*ptxsim.compile("__global__ void k(double* a) {}"), 1, 32, given)


def test_an_array_given_twice_is_one():
    """A stencil in place is a race, as on a GPU; and through either name, one sees what the other has stored."""
    source = """__global__ void k(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
    if (i < n - 1) b[i] = a[i - 1] + a[i + 1];
}"""
    a = np.arange(100, dtype=np.float32)
    launch(source, 4, 32, a=a, b=np.zeros_like(a), n=100, _orders=2)
    found = fault(source, 4, 32, a=a, b=a, n=100, _orders=2)
    assert found.kind == "race" and "writes a at byte 4" in str(found)
    same = np.zeros(2, np.int32)
    launch(
        "__global__ void k(int** of, int* a) { of[0][0] = a == of[0] && a == of[1]; }", 1, 1, of=[same, same], a=same
    )
    assert same[0] == 1
