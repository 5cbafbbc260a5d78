"""Any file that keeps the contract is a kernel like the book's; one that breaks it is told how."""

import re

import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.records import files
from lab.skeletons import skeleton, unfinished
from sgemm_tutorial import (
    CATALOGUE,
    ArgumentError,
    CompileError,
    SimulationFault,
    find,
    kernel_from,
)
from sgemm_tutorial.operands import check, imagined
from sgemm_tutorial.own import CONTRACT

from .together import for_each

MINE = """\
// Two rows of C per thread.
template <int BM, int BN = 8, int TM = 2>
__global__ void __launch_bounds__(BM * BN / TM)
two_rows(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    const unsigned tilesN = (unsigned(N) + BN - 1) / BN;
    const size_t row = size_t(blockIdx.x / tilesN) * BM + threadIdx.x / BN * TM;
    const size_t col = size_t(blockIdx.x % tilesN) * BN + threadIdx.x % BN;
    if (alpha == 0.0f) K = 0;
    for (int m = 0; m < TM; ++m) {
        if (row + m >= M || col >= N) return;
        float acc = 0.0f;
        for (int k = 0; k < K; ++k) acc += A[(row + m) * K + k] * B[size_t(k) * N + col];
        float* c = C + (row + m) * N + col;
        *c = (K > 0 ? alpha * acc : 0.0f) + (beta != 0.0f ? beta * *c : 0.0f);
    }
}
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "my_kernel.cu"
    path.write_text(MINE)
    return path


def test_a_file_is_a_kernel(mine):
    kernel = kernel_from(mine, BM=16)
    assert (kernel.name, kernel.function, kernel.threads) == ("my_kernel", "two_rows", 64)
    assert kernel.expression == "two_rows<16, 8, 2>" and kernel.types == sg.find("01").types
    assert all(
        lab.check(kernel, *size, -1.5, 0.75, on_gpu=False).passed for size in ((16, 8, 4), (37, 19, 5), (3, 3, 0))
    )
    A, B = sg.matrices(20, 12, 7, on_gpu=False)
    run = sg.simulate(kernel, A, B)
    assert np.array_equal(run.C, find("01")(A, B))
    assert "acc +=" in str(run) and run.total.flops >= 2 * 20 * 12 * 7
    assert lab.resources(kernel).registers > 0 and "FFMA" in str(lab.sass_table(kernel))
    assert lab.kernel_occupancy(kernel, lab.find_gpu("H100")).fraction > 0
    assert lab.owners(kernel).shape == (16, 8)
    assert lab.draw.tiles(kernel, 64, 64, 64).alt


def test_a_path_is_as_good_as_a_name_where_the_file_has_defaults(mine):
    with pytest.raises(ArgumentError, match=r"^BM: got no value, needs one, given \(--set BM=64\) or in my_kernel\.cu"):
        find(str(mine))
    mine.write_text(MINE.replace("int BM,", "int BM = 2 * 8,"))
    assert find(mine) == find(str(mine)) == kernel_from(mine) == find(mine, BM=16) == kernel_from(mine, BM=16)
    assert lab.check(str(mine), 5, 5, 5, on_gpu=False).passed


@for_each(kernel=CATALOGUE)
def test_the_books_kernels_keep_the_contract(kernel):
    """The rule by which a file's launch follows from its parameters is the catalogue's own."""
    mine = kernel_from(kernel.path, **kernel.parameters)
    for what in ("name", "function", "expression", "threads", "types", "path", "digest"):
        assert getattr(mine, what) == getattr(kernel, what)


def test_the_file_is_read_anew(mine):
    kernel = kernel_from(mine, BM=16)
    A, B = sg.matrices(8, 8, 8, on_gpu=False)
    before, code = kernel(A, B), kernel.digest
    mine.write_text(MINE.replace("alpha * acc", "2.0f * alpha * acc"))
    assert np.array_equal(kernel(A, B), 2 * before) and kernel.digest != code
    mine.write_text(MINE.replace("threadIdx", "threadIxd"))
    with pytest.raises(CompileError, match=r"my_kernel\.cu\(7\): error"):
        kernel(A, B)
    assert np.array_equal(find("02")(A, B), before)  # a broken one breaks nothing but itself


def test_nothing_recorded_of_other_code_is_shown(tmp_path):
    """Whatever the file is called: the recording is of the book's code, and this is not."""
    path = tmp_path / "02_coalesced.cu"
    path.write_text(find("02").source.replace("acc += ", "acc += 1.0f * "))
    kernel = kernel_from(path, **find("02").parameters)
    with pytest.raises(ArgumentError, match="in ladder recorded of other code"):
        lab.recorded(kernel)
    path.write_text("// a copy, in which nothing but words differ\n" + find("02").source)
    assert files.identity(kernel) == files.identity(find("02"))
    assert lab.recorded(kernel).points == lab.recorded("02").points
    path.rename(tmp_path / "another.cu")
    with pytest.raises(ArgumentError, match="not in the recording ladder"):
        lab.recorded(kernel_from(tmp_path / "another.cu", **find("02").parameters))


def test_a_wrong_access_is_named_by_line_block_and_thread(mine):
    mine.write_text(MINE.replace("if (row + m >= M || col >= N) return;", "if (col >= N) return;"))
    with pytest.raises(SimulationFault) as fault:
        kernel_from(mine, BM=16)(*sg.matrices(17, 8, 4, on_gpu=False))
    assert (fault.value.kind, fault.value.kernel) == ("out of bounds", "my_kernel")
    assert (fault.value.line, fault.value.block, fault.value.thread) == (13, 1, 8)  # whose two rows are 18 and 19


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("__global__", "__device__", "my_kernel.cu: got no __global__ function, needs one __global__ function"),
        (MINE, MINE + MINE.replace("two_rows", "again"), "my_kernel.cu: got 2 __global__ functions (two_rows, again)"),
        ("template <int BM, int BN = 8, int TM = 2>\n", "", "my_kernel.cu: got two_rows, which is no template"),
        ("two_rows(int M", "two_rows((int M", "my_kernel.cu: got a __global__ function that cannot be read"),
        ("int M, int N", "unsigned M, int N", "my_kernel.cu: got arguments (unsigned M, int N, int K, float alpha"),
        (", float beta", "", "needs (int M, int N, int K, float alpha, const float* A, const float* B, float"),
        ("float alpha, const float* A", "float alpha, const double* A", "needs (int M, int N, int K, double alpha"),
        ("int BM, ", "int HEIGHT = 8, ", "my_kernel.cu: got template parameters HEIGHT, BN, TM, needs BM and BN"),
        ("int TM = 2", "typename S", "my_kernel.cu: got template <int BM, int BN = 8, typename S>, needs whole"),
        ("int TM = 2", "int = 2", "my_kernel.cu: got template <int BM, int BN = 8, int = 2>, needs whole numbers"),
        ("int TM = 2", "int TM = two()", "TM: got the default two(), needs a whole number"),
        ("int TM = 2", "int TM = BM / 0", "TM: got the default BM / 0, needs a whole number"),
        ("int TM = 2", "int TM = 0", "TM: got 0, needs a whole number, 1 or more"),
    ],
)
def test_a_file_that_breaks_the_contract(mine, old, new, message):
    assert old in MINE
    mine.write_text(MINE.replace(old, new))
    with pytest.raises(ArgumentError, match=re.escape(message)):
        kernel_from(mine, **({} if "HEIGHT" in new else {"BM": 16}))


def test_parameters_that_a_file_does_not_have(mine):
    with pytest.raises(ArgumentError, match=r"^BK: got a parameter unknown to my_kernel\.cu, needs one of BM, BN, TM"):
        kernel_from(mine, BM=16, BK=8)
    with pytest.raises(ArgumentError, match=r"^BM: got '16', needs a whole number"):
        kernel_from(mine, BM="16")


def test_files_that_are_none(tmp_path):
    with pytest.raises(ArgumentError, match=r"^path: got .*no_such\.cu, which cannot be read"):
        kernel_from(tmp_path / "no_such.cu")
    with pytest.raises(ArgumentError, match=r"^path: got kernel\.txt, needs a CUDA file"):
        kernel_from("kernel.txt")


def test_threads_and_shared_memory_of_a_launch(mine):
    """Parameters of these names give them, and must fit the source."""
    A, B = sg.matrices(8, 8, 8, on_gpu=False)
    with pytest.raises(ArgumentError, match="parameters: got 2,048 threads per block of two_rows<512, 8, 2>"):
        kernel_from(mine, BM=512)(A, B)
    mine.write_text(MINE.replace("BM * BN / TM)", "32)"))
    with pytest.raises(
        ArgumentError, match=r"threads: got 64 per block of .*, needs at most 32, as __launch_bounds__ says"
    ):
        kernel_from(mine, BM=16)(A, B)
    mine.write_text(MINE.replace("int TM = 2", "int TM = 2, int THREADS = BM * BN / TM + 32"))
    assert kernel_from(mine, BM=16).threads == 96

    text = MINE.replace("float acc = 0.0f;", "float& acc = sums[threadIdx.x]; acc = 0.0f;")
    text = text.replace("{\n    const", "{\n    extern __shared__ float sums[];\n    const", 1)
    mine.write_text(text)
    with pytest.raises(ArgumentError, match="SHARED_BYTES: got none for two_rows<16, 8, 2>, which has an extern"):
        kernel_from(mine, BM=16)(A, B)
    mine.write_text(text.replace("int TM = 2", "int TM = 2, int SHARED_BYTES = 4 * BM * BN / TM"))
    kernel = kernel_from(mine, BM=16)
    assert kernel.dynamic_shared_bytes == 256 and lab.check(kernel, 9, 9, 9, on_gpu=False).passed


@pytest.mark.parametrize(
    ("element", "result", "name"), [("double", "double", "FP64"), ("half", "float", "FP16"), ("T", "T", "FP64")]
)
def test_types_follow_from_the_arguments(mine, element, result, name):
    head = MINE.replace("const float*", f"const {element} *").replace("float alpha", f"{result} alpha")
    head = head.replace("float beta", f"{result} beta").replace("float* C", f"{result} *__restrict__ C")
    head = head.replace("float* c", f"{result}* c").replace(
        "template <", "template <typename T = double, " * (element == "T") or "template <"
    )
    mine.write_text(
        "#include <cuda_fp16.h>\n" * (element == "half")
        + head.replace("* B[", "* (float)B[").replace("+= A[", "+= (float)A[")
    )
    kernel = kernel_from(mine, BM=16)
    assert kernel.types.name == name
    A, B = sg.matrices(5, 6, 7, on_gpu=False, types=kernel.types)
    assert np.allclose(kernel(A, B), A.astype(float) @ B.astype(float), rtol=1e-2, atol=1e-2)


def test_a_number_may_be_called_T(mine):
    mine.write_text(
        MINE.replace("TM = 2", "TM = 2, int T = 4").replace("        for (int k", "#pragma unroll T\nfor (int k")
    )
    kernel = kernel_from(mine, BM=16)
    assert kernel.expression == "two_rows<16, 8, 2, 4>" and kernel.types == sg.find("01").types
    for other in (kernel.variant(T=2), kernel_from(mine, BM=16, T=2)):
        assert other.parameters["T"] == 2 and lab.check(other, 20, 12, 7, on_gpu=False).passed
    with pytest.raises(ArgumentError, match=r"^T: got -1, needs a whole number, 0 or more"):
        kernel.variant(T=-1)
    mine.write_text(MINE.replace("TM = 2", "TM = 2, typename T = float").replace("const float*", "const T*"))
    with pytest.raises(ArgumentError, match=r"^T: got 5, needs float or double or half or "):
        kernel_from(mine, BM=16, T=5)


def test_a_copy_of_12_is_launched_as_12_is(tmp_path):
    path, autotuned = tmp_path / "my_autotuned.cu", find("13")
    path.write_text(skeleton(autotuned, ()))
    mine = find(str(path))
    for shape in ((300, 300, 300), (64, 64, 4096), (1, 40, 500), (40, 1, 500)):
        problem = imagined(*shape)
        got, want = mine.resolve(problem).kernel, autotuned.resolve(problem).kernel
        assert (got.parameters, got.resolve(problem).division) == (want.parameters, want.resolve(problem).division)
        assert got.dynamic_shared_bytes == want.dynamic_shared_bytes
    A, B = sg.matrices(64, 64, 4096, on_gpu=False)
    assert np.array_equal(mine(A, B), autotuned(A, B))
    given = kernel_from(path, BM=64, BN=64, WM=32)
    assert given.resolve(imagined(300, 300, 300)).kernel.parameters["BM"] == 64
    path.write_text(path.read_text().replace("SHARING", "TOGETHER"))
    with pytest.raises(ArgumentError, match=r"my_autotuned\.cu: got arguments .*unsigned group\), needs "):
        find(str(path))


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("T", ["half", "__nv_bfloat16"])
def test_a_copy_of_22_has_a_c_of_either_size(tmp_path, T, bits):
    """Its type of C follows from T and BITS, given or in the file."""
    path, book = tmp_path / "my_any_shape.cu", find("22").variant(T=T, BITS=bits)
    itself = book.family.itself(book)
    path.write_text(skeleton(book, ()))
    mine = find(str(path))
    assert (mine.types, mine.settled) == (book.types, False)
    for shape in ((300, 300, 300), (64, 64, 4096), (14, 6, 5)):
        problem = imagined(*shape, book.types)
        got, want = mine.resolve(problem), itself.resolve(problem)
        assert (got.kernel.parameters, got.division) == (want.kernel.parameters, want.division)
    A, B = sg.matrices(40, 33, 70, on_gpu=False, types=book.types)
    C = mine(A, B)
    assert C.dtype == book.types.result and C.tobytes() == itself(A, B).tobytes()
    given = kernel_from(find("22").path, **itself.resolve(check(A, B, None, 1, 0, book.types)).kernel.parameters)
    assert given.types == book.types and given(A, B).tobytes() == C.tobytes()


def test_a_copy_of_22_of_other_types_is_refused(tmp_path):
    path = tmp_path / "my_any_shape.cu"
    path.write_text(skeleton(find("22"), ()))
    for given, text in (
        ({"BITS": 8}, "BITS: got 8, needs 16 or 32"),
        ({"BITS": 16, "T": "float"}, "BITS: got 16, needs 32, as A is FP32"),
        ({"T": "float"}, r"my_any_shape\.cu: got arguments .*, needs "),
    ):
        with pytest.raises(ArgumentError, match=text):
            kernel_from(path, **given)


def test_comments_are_no_code(mine):
    mine.write_text("/* template <int X> __global__ void old() {} */ // __global__\n" + MINE)
    assert kernel_from(mine, BM=16).function == "two_rows"
    assert unfinished(kernel_from(mine, BM=16)) == []
    mine.write_text(MINE.replace("if (alpha", "// TODO: alpha\n    if (alpha"))
    assert unfinished(kernel_from(mine, BM=16)) == [9]


def test_the_contract_fits_on_a_screen():
    assert len(CONTRACT.splitlines()) < 30 and max(map(len, CONTRACT.splitlines())) <= 100


def test_a_byte_order_mark_is_no_part_of_the_code(mine):
    mine.write_text(MINE, encoding="utf-8-sig")
    kernel = kernel_from(mine, BM=16)
    assert kernel.source == MINE and kernel.build("compute_90").ptx
