import dataclasses

import pytest

from lab import (
    hot_loop,
    resources,
    resources_table,
    sass,
    sass_mix,
    sass_table,
    variants,
)
from lab.model import resources as resources_module
from lab.model import sass as sass_module
from lab.model.resources import Resources
from lab.model.sass import SassInstruction, sass_class
from sgemm_tutorial import ArgumentError, CompileError, catalogue, compiler, find
from sgemm_tutorial.operands import SPLIT
from tools import compiled
from tools.mutants import instances

from ...together import for_each

pytestmark = pytest.mark.slow

ARCHITECTURES = ("sm_75", "sm_90", "sm_120")  # one before ptxas dropped cmem from its log, two after
FIRST = catalogue.LADDER[:5]
NAIVE, COALESCED, TILE = map(catalogue.find, ("01", "02", "03"))
RENAMED = TILE.edited(("acc", "total"))
"""The same code, of which nothing is recorded."""

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'other' for 'sm_80'
ptxas info    : Function properties for other
ptxas         .     1 bytes stack frame, 2 bytes spill stores, 3 bytes spill loads
ptxas info    : Used 4 registers, used 5 barriers, 6 bytes smem, 7 bytes cmem[0]
ptxas info    : Compiling entry function 'mine' for 'sm_80'
ptxas info    : Function properties for helper
ptxas         .     8 bytes stack frame, 9 bytes spill stores, 10 bytes spill loads
ptxas info    : Function properties for mine
ptxas         .     48 bytes stack frame, 40 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 48 bytes cumulative stack size, 8192 bytes smem, 400 bytes cmem[0]
"""


def test_ptxas_log_is_read_for_the_right_function():
    assert resources_module._parse_log(LOG, "mine") == Resources(128, 8192, 48, 40, 44, 400, 1)
    assert resources_module._parse_log(LOG, "other") == Resources(4, 6, 1, 2, 3, 7, 5)


@pytest.mark.parametrize("missing", ["Used 128", "Function properties for mine", "Compiling entry function 'mine'"])
def test_a_log_without_a_figure_is_an_error_and_no_guess(missing):
    log = "".join(line for line in LOG.splitlines(keepends=True) if missing not in line)
    with pytest.raises(CompileError, match=r"does not give the .* of mine"):
        resources_module._parse_log(log, "mine")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_resources_of_the_ladder(architecture):
    for kernel in FIRST:
        used = resources(kernel, architecture)
        assert 16 <= used.registers <= 65_536 // kernel.threads
        of = kernel.parameters
        if kernel is TILE:
            assert (used.shared_bytes, used.barriers) == (4 * of["BK"] * (of["BM"] + of["BN"]), 1)
        if kernel in (NAIVE, COALESCED):
            assert (used.shared_bytes, used.barriers) == (0, 0)
        assert (used.constant_bytes is None) == (architecture != "sm_75")


def write(folder, body):
    """A kernel of 1,024 threads with that body, in a file of its own."""
    kernel = dataclasses.replace(NAIVE.variant(BM=32, BN=32), folder=folder)
    kernel.path.write_text(f"""template <int BM, int BN>
__global__ void __launch_bounds__(BM * BN)
naive(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{{
    {body}
}}
""")
    return kernel


def test_spills_are_reported(tmp_path):
    """100 sums that are alive at once do not fit in the 64 registers of one of 1,024 threads."""
    kernel = write(
        tmp_path,
        """float sum[100] = {};
    for (int k = 0; k < K; ++k)
        #pragma unroll
        for (int i = 0; i < 100; ++i) sum[i] += A[k * 100 + i] * B[k];
    #pragma unroll
    for (int i = 0; i < 100; ++i) C[threadIdx.x * 100 + i] = sum[i];""",
    )
    used = resources(kernel)
    assert used.registers == 64
    assert used.spill_store_bytes > 0 and used.spill_load_bytes > 0 and used.stack_bytes > 0
    assert sass_mix(kernel)["kernel"]["STL"] > 0
    row = resources_table([kernel]).rows[0]
    assert row[3] == used.spill_store_bytes + used.spill_load_bytes


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("size", [16, 32])
def test_the_hot_loop_of_the_shared_tile_does_what_its_source_says(architecture, size):
    mix = sass_mix(TILE.variant(BM=size, BN=size, BK=size), architecture)
    loop = mix["loop"]
    words = sum(count * {"": 1, "64": 2, "128": 4}[name[4:]] for name, count in loop.items() if name[:3] == "LDS")
    steps = loop["FFMA"] // size  # the loop over k is unrolled, that over k0 not always left alone
    assert steps in (1, 2) and loop["FFMA"] == size * steps
    assert words == 2 * size * steps  # one element of As and one of Bs for each multiply-add
    assert (loop["LDG"], loop["STS"], loop["barrier"]) == (2 * steps, 2 * steps, 2 * steps)
    assert "STG" not in loop and mix["kernel"]["STG"] == 1
    assert mix["kernel"]["FFMA"] > loop["FFMA"]  # one for beta
    assert all(count <= mix["kernel"][name] for name, count in loop.items())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernel", [NAIVE, COALESCED], ids=lambda kernel: kernel.name)
def test_the_hot_loop_of_the_first_kernels_loads_twice_for_each_multiply_add(architecture, kernel):
    loop = sass_mix(kernel, architecture)["loop"]
    assert loop["FFMA"] > 1  # unrolled
    assert loop["LDG"] == 2 * loop["FFMA"]
    assert not {"LDS", "STS", "barrier", "STG"} & set(loop)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_instruction_is_known_and_comes_from_the_source(architecture):
    kernels = FIRST if architecture == "sm_75" else catalogue.LADDER[:-2]
    if architecture == "sm_120":  # whose code nobody else disassembles; that of small tiles has the same instructions
        kernels = [instances(kernel)[0] for kernel in kernels]
    for kernel in kernels:
        code = sass(kernel, architecture)
        assert [instruction.address for instruction in code] == list(range(0, 16 * len(code), 16))
        assert {sass_class(instruction).split(".")[0] for instruction in code} <= set(sass_module._CLASSES)
        assert {instruction.file for instruction in code} == kernel.files.keys()
        lengths = {name: len(text.splitlines()) for name, text in kernel.files.items()}
        assert all(1 <= instruction.line <= lengths[instruction.file] for instruction in code)
        assert code[-1].opcode == "EXIT"  # the padding is gone
        assert sum(sass_mix(kernel, architecture)["kernel"].values()) == len(code)


def test_instructions_carry_the_line_they_come_from():
    source = TILE.source.splitlines()
    for opcode, text in (("BAR", "__syncthreads()"), ("STS", "] = k0 +"), ("LDS", "acc += As")):
        lines = {i.line for i in sass(TILE) if i.opcode.startswith(opcode)}
        assert lines == {number for number, line in enumerate(source, start=1) if text in line}


def test_a_missing_barrier_shows(tmp_path):
    mine = dataclasses.replace(TILE, folder=tmp_path)
    mine.path.write_text(TILE.source.replace("__syncthreads();", "", 1))
    assert sass_mix(TILE)["kernel"]["barrier"] == 2
    assert sass_mix(mine)["kernel"]["barrier"] == 1


def instruction(address, text, target=None):
    opcode = next(word for word in text.split() if not word.startswith("@"))
    return SassInstruction(address, opcode, text, "file.cu", 1, target)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("FFMA R7, R27, R12, R7", "FFMA"),
        ("FADD R1, R2, R3", "other FP32"),
        ("@!P0 LDS.128 R12, [R5]", "LDS.128"),
        ("LDS R12, [R5]", "LDS"),
        ("LDG.E.64.CONSTANT R2, desc[UR8][R4.64]", "LDG.64"),
        ("STG.E desc[UR8][R2.64], R7", "STG"),
        ("LDGSTS.E.BYPASS.128 [R3], desc[UR4][R8.64]", "LDGSTS.128"),
        ("LDC.64 R6, c[0x0][0x218]", "LDC"),
        ("ULDC.64 UR8, c[0x0][0x208]", "LDC"),
        ("IMAD.WIDE.U32 R22, R3, 0x20, R24", "integer, address"),
        ("UIADD3 UR4, UR5, 0x1f, URZ", "integer, address"),
        ("IMAD.MOV.U32 R25, RZ, RZ, RZ", "move, select"),
        ("HFMA2.MMA R2, -RZ, RZ, 0, 0", "move, select"),
        ("HFMA2 R2, R3, R4, R5", "FP16"),
        ("ISETP.GE.U32.AND P0, PT, R0, UR4, PT", "predicate"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier"),
        ("@P0 EXIT", "branch, control"),
        ("HMMA.1688.F32.TF32 R4, R8, R2, R4", "HMMA"),  # its own class
    ],
)
def test_classes(text, name):
    assert sass_class(instruction(0, text)) == name


def code(*rows):
    return [instruction(16 * i, *([row] if isinstance(row, str) else row)) for i, row in enumerate(rows)]


def test_the_hot_loop_is_the_innermost_one_with_the_most_multiply_adds():
    listing = code(
        "MOV R1, R2",  # 0x00
        "LDG.E R1, [R2]",  # 0x10 outer loop
        "FFMA R0, R1, R2, R0",  # 0x20 first inner loop, one
        ("@P0 BRA 0x20", 0x20),  # 0x30
        "FFMA R0, R1, R2, R0",  # 0x40 second inner loop, two
        ("@P2 BRA 0x40", 0x40),  # 0x50 back early, and
        "FFMA R0, R1, R2, R0",  # 0x60
        ("@P1 BRA 0x40", 0x40),  # 0x70 at its end
        ("@P3 BRA 0x10", 0x10),  # 0x80
        ("BRA 0xa0", 0xA0),  # 0x90 forward: no loop
        "EXIT",  # 0xa0
    )
    assert [i.address for i in hot_loop(listing)] == [0x40, 0x50, 0x60, 0x70]


def test_an_outer_loop_is_hot_where_its_own_body_does_the_work():
    listing = code(
        "FFMA R0, R1, R2, R0",  # before any loop
        "LDG.E R1, [R2]",  # 0x10 both loops
        ("@P0 BRA 0x10", 0x10),
        "FFMA R0, R1, R2, R0",
        ("@P1 BRA 0x0", 0x0),
        "EXIT",
    )
    assert [i.address for i in hot_loop(listing)] == [0x00, 0x10, 0x20, 0x30, 0x40]


def test_code_behind_the_end_is_no_loop():
    """Where lanes may be apart, ptxas puts a detour behind the EXIT, which comes back to where it left."""
    listing = code(
        "FFMA R0, R1, R2, R0",
        "BRA.DIV UR4, 0x60",  # 0x10
        "HMMA.16816.F32 R0, R1, R2, R0",
        "FFMA R0, R1, R2, R0",  # 0x30
        ("@P0 BRA 0x10", 0x10),
        "EXIT",
        "WARPSYNC.COLLECTIVE R1, 0x70",  # 0x60
        ("BRA 0x20", 0x20),
    )
    listing[1] = dataclasses.replace(listing[1], target=0x60)
    assert [i.address for i in hot_loop(listing)] == [0x10, 0x20, 0x30, 0x40]


MULTIPLIED_AT = {
    "01_naive": "acc += A",
    "02_coalesced": "acc += A",
    "03_shared_tile": "acc += As",
    "14_wmma": "mma_sync(acc, fragA, fragB, acc);",
    "15_wmma_warp_tile": "mma_sync(acc[m][n], fragA[m], fragB[n], acc[m][n]);",
    "16_mma": '"r"(a[0]), "r"(a[1])',
    "17_tf32x3": '"r"(a[0]), "r"(a[1])',
}
"""The line of a kernel's source that multiplies A and B; in the others it is the sum into `acc[m][n]`, or `acc[m]`."""


@for_each(kernel=catalogue.CATALOGUE, architecture=["sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])
def test_the_hot_loop_is_where_a_and_b_are_multiplied(kernel, architecture):
    """The epilogue multiplies too, but not in a loop, or less."""
    if kernel.exact and architecture != "sm_90":
        with pytest.raises(ArgumentError, match=rf"architecture: got {architecture}, needs sm_90.* for {kernel.name}"):
            sass(kernel, architecture)
        return
    loop = compiled.loop(kernel, architecture)
    assert set(loop.files) <= kernel.files.keys()  # and not CUDA's own headers
    if kernel.exact:  # of wgmma the listing names the line that an operand comes from
        products = 3 * kernel.parameters["BK"] // 8 if kernel.types == SPLIT else kernel.parameters["BK"] // 16
        assert loop.opcodes["HGMMA"] == products
        return
    assert not {"STG", "EXIT"} & loop.opcodes.keys()
    ((file, lines),) = loop.multiplied.items()
    assert file == ("multiply.cuh" if kernel.name == "13_autotuned" else kernel.path.name)
    source = kernel.files[file].splitlines()
    wanted = MULTIPLIED_AT.get(kernel.name, "acc[m")
    assert lines and all(wanted in source[line - 1] for line in lines)
    if kernel.types.name == "FP16":
        fragments = kernel.parameters["WM"] * kernel.parameters["WN"] // 256
        steps = kernel.parameters.get("BK", 16) // 16
        assert loop.opcodes["HMMA"] % (2 * fragments * steps) == 0
    assert f"round line {lines[0]}" in sass_table(kernel, architecture).note or len(lines) > 1


@pytest.mark.parametrize(
    "kernel", [find("18"), find("19"), *variants.HOPPER_STEPS], ids=lambda kernel: kernel.expression
)
def test_the_hot_loop_of_wgmma(kernel):
    """Sixteen of K at once, and nothing that goes between shared memory and registers."""
    opcodes = compiled.loop(kernel).opcodes
    assert opcodes["HGMMA"] == kernel.parameters["BK"] // 16 and not {"LDS", "LDSM", "STS", "HMMA"} & opcodes.keys()
    assert ("STG" in opcodes) == (kernel.name == "20_persistent")  # of the tile before
    assert ("UTMALDG" in opcodes) == (kernel.name == "18_wgmma")


def test_no_multiply_add_no_hot_loop(tmp_path):
    assert hot_loop(code("LDG.E R1, [R2]", ("@P0 BRA 0x0", 0x0), "FFMA R0, R0, R0, R0", "EXIT")) == []
    copying = write(tmp_path, "C[threadIdx.x] = A[threadIdx.x];")
    assert sass_mix(copying)["loop"] == {}
    table = sass_table(copying)
    assert table.note == "" and {row[2] for row in table.rows} == {None, 0} and {row[3] for row in table.rows} == {None}


def test_tables_say_what_the_functions_return():
    mix, table = sass_mix(TILE, "sm_90"), sass_table(TILE, "sm_90")
    assert {row[0]: row[1] for row in table.rows if row[0] != "all"} == mix["kernel"]
    assert {row[0]: row[2] for row in table.rows if row[0] != "all" and row[2]} == mix["loop"]
    assert table.rows[-1][:3] == ("all", sum(mix["kernel"].values()), sum(mix["loop"].values()))
    assert {row[0]: row[3] for row in table.rows}["LDS.128"] == f"{mix['loop']['LDS.128'] / mix['loop']['FFMA']:.2f}"
    line = 1 + next(i for i, text in enumerate(TILE.source.splitlines()) if "acc +=" in text)
    assert table.note == f"The hot loop is the one round line {line} of 03_shared_tile.cu."
    assert str(sass_table(RENAMED, "sm_90")) == str(table)
    rows = resources_table(catalogue.LADDER, "sm_90").rows
    assert [row[0] for row in rows] == [kernel.name for kernel in catalogue.LADDER]
    of = TILE.parameters
    shared = 4 * of["BK"] * (of["BM"] + of["BN"])
    assert rows[2][1:4] == (resources(TILE, "sm_90").registers, shared, 0)


def test_the_same_source_gives_the_same_report():
    first = [str(resources_table([RENAMED])), str(sass_table(RENAMED))]
    compiler._compile.cache_clear()
    sass_module.disassembled.cache_clear()
    assert [str(resources_table([RENAMED])), str(sass_table(RENAMED))] == first


def test_a_changed_source_gives_a_new_report(tmp_path):
    kernel = write(tmp_path, "C[threadIdx.x] = A[threadIdx.x];")
    assert sass_mix(kernel)["kernel"]["LDG"] == 1
    write(tmp_path, "C[threadIdx.x] = A[threadIdx.x] + B[threadIdx.x];")
    assert sass_mix(kernel)["kernel"]["LDG"] == 2


def test_errors_are_clear(tmp_path, monkeypatch):
    with pytest.raises(CompileError, match=r"01_naive.cu\(5\)"):
        sass(write(tmp_path, "nonsense;"))
    with pytest.raises(ArgumentError, match="architecture"):
        resources(NAIVE, "sm_61")
    broken = dataclasses.replace(NAIVE.build(), cubin=b"not an ELF file")
    with pytest.raises(CompileError, match="nvdisasm cannot read 01_naive for sm_90: nvdisasm"):
        sass_module.disassembled(broken, ())
    monkeypatch.setattr(sass_module, "find_nvidia_binary_utility", lambda name: None)
    with pytest.raises(CompileError, match="pip install nvidia-cuda-nvdisasm"):
        sass_module.disassembled(broken, ())
