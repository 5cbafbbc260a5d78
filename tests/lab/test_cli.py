"""The command line says what it should, where it should, with the right exit status."""

import dataclasses
import json
import math
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rich.console

from lab import __main__, check
from lab.__main__ import main
from lab.experiments.counters import METRICS
from lab.experiments.tune import Tuning
from lab.measure import nsight, sweep
from lab.measure.bench import BenchError
from lab.records import cards, files
from ptxsim import cache
from sgemm_tutorial import CATALOGUE, LADDER, CompileError, DeviceError, Table, compiler, find, gpu
from sgemm_tutorial.families import autotuned
from sgemm_tutorial.launch import Place
from sgemm_tutorial.own import CONTRACT

from ..sources import probe
from .experiments.test_tune import point as tuned_point
from .records.test_timings import POINT, PROVENANCE, record

pytestmark = pytest.mark.slow


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        status = main(arguments)
        out, err = capsys.readouterr()
        return status, out, err

    return command


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(gpu, "available", lambda: False)


@pytest.fixture
def a_gpu(monkeypatch):
    """Stands for a GPU on which every kernel that is read can be loaded."""
    monkeypatch.setattr(gpu, "available", lambda: True)
    monkeypatch.setattr(gpu, "load", lambda instance: instance)


@pytest.fixture
def recording(tmp_path, monkeypatch, no_gpu):
    monkeypatch.setattr(cards, "RESULTS", tmp_path)
    monkeypatch.setenv(cards.VARIABLE, "imaginary")
    files.write(tmp_path / "imaginary" / "ladder.json", record(POINT))


@pytest.fixture
def broken_ladder(tmp_path, monkeypatch):
    """The ladder with a second kernel that is off by one column."""
    wrong = dataclasses.replace(find("02"), folder=tmp_path)
    shutil.copy(find("02").path, wrong.path)
    wrong.path.write_text(wrong.source.replace("acc += A[row * K + k]", "acc += A[row * K]"), encoding="utf-8")
    monkeypatch.setattr(__main__, "CATALOGUE", (LADDER[0], wrong))


def test_list(run):
    status, out, err = run("list")
    assert (status, err) == (0, "")
    for kernel in CATALOGUE:
        assert kernel.name in out and kernel.idea in out and f"BM {kernel.parameters['BM']}" in out


def test_list_as_json(run):
    status, out, err = run("list", "--json", "--architecture", "sm_86")
    rows = json.loads(out)
    assert (status, err) == (0, "")
    assert [row["name"] for row in rows] == [kernel.name for kernel in CATALOGUE]
    of = LADDER[2].parameters
    assert rows[2]["resources"]["shared_bytes"] == 4 * of["BK"] * (of["BM"] + of["BN"])
    assert 0 < rows[0]["occupancy"]["fraction"] <= 1 and rows[0]["architecture"] == "sm_86"


def test_list_shows_dashes_where_a_kernel_does_not_exist(run, monkeypatch):
    young = dataclasses.replace(LADDER[0], least_capability=(9, 0))
    monkeypatch.setattr(__main__, "CATALOGUE", (young, LADDER[1]))
    status, out, _ = run("list", "--architecture", "sm_80", "--json")
    assert status == 0
    assert [row["resources"] is None for row in json.loads(out)] == [True, False]
    assert "–" in run("list", "--architecture", "sm_80")[1]


def test_a_terminal_is_shown_every_cell_and_no_markup_is_taken_from_them():
    console = rich.console.Console(width=60, file=open("/dev/null", "w"), record=True)  # noqa: SIM115
    cells = [("01_naive", 1024, "67%"), ("<b>[red]", 2, None)]
    console.print(__main__.in_terminal(Table(("kernel", "bytes", "share"), cells, "A & B", "a note")))
    text = console.export_text()
    for part in ("A & B", "kernel", "01_naive", "1,024", "<b>[red]", "a note"):
        assert part in text


def test_a_terminal_is_shown_no_empty_column_so_that_verdicts_have_room():
    console = rich.console.Console(width=80, file=open("/dev/null", "w"), record=True)  # noqa: SIM115
    columns = ("M", "N", "K", "α", "β", "inputs", "error / bound", "at", "wrong", "verdict")
    cells = [(65, 65, 9, "-1.5", "0.75", "", 0.0, "", 0, "out of bounds, line 14")] * 2
    console.print(__main__.in_terminal(Table(columns, cells, "cases that fail", "a note")))
    text = console.export_text()
    assert text.count("out of bounds, line 14") == 2 and "inputs" not in text


NARROW = """\
// launch: grid = (cdiv(N, 16), cdiv(M, 16)), block = (16, 16), arguments = M N K alpha A B beta C
#define TILE 16
__global__ void product(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < K; t += TILE) {
        As[threadIdx.y][threadIdx.x] = row < M && t + threadIdx.x < K ? A[row * K + t + threadIdx.x] : 0;
        Bs[threadIdx.y][threadIdx.x] = col < N && t + threadIdx.y < K ? B[(t + threadIdx.y) * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();  // before the next tile
    }
    if (row < M && col < N) C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("// launch", "// run", "The comment in line 1 is not read, as it does not begin with"),
        ("row < M && t + threadIdx.x", "t + threadIdx.x", "out of bounds: mine, line 9, block"),
        ("        __syncthreads();  //", "    //", "race: mine, line 9, block (0, 0), thread (0, 0): writes As at"),
        ("= alpha * sum", "= sum", "The result is AB + βC: α is not used."),
        (
            "        __syncthreads();\n",
            "        while (((volatile float*)C)[0] < 1);\n",
            "deadlock: mine, line 11, block",
        ),
        ("if (row < M && col < N) C", "C", "If it is meant for such sizes only, put this above it:"),
    ],
)
def test_what_is_said_fits_80_columns(run, monkeypatch, old, new, said):
    monkeypatch.setenv("COLUMNS", "80")
    assert old in NARROW
    Path("mine.cu").write_text(NARROW.replace(old, new, 1), encoding="utf-8")
    shown = [*run("check", "mine.cu", "--simulate")[1:], *run("trace", "mine.cu", "--size", "48")[1:]]
    assert max(len(line) for text in shown for line in text.splitlines()) <= 80
    text = " ".join(" ".join(shown).split())
    assert said in text
    launches = re.findall(r"^// launch: .*(?:\n//     .*)*", shown[0], re.MULTILINE)
    for launch in launches:
        assert "arguments = M N K alpha A B beta C" in launch.replace("\n//    ", "")
    assert bool(launches) == ("put this above it:" in text or "found by trial" in text)


def test_a_trace_that_fits_80_columns_has_its_numbers_whole_and_source_lines_cut(run, monkeypatch):
    """A row of a kernel with shared memory ends in six numbers."""
    shown = []
    for width in ("", "80"):
        monkeypatch.setenv("COLUMNS", width) if width else monkeypatch.delenv("COLUMNS", raising=False)
        text = run("trace", "09", "--size", "64")[1]
        shown.append([line.split()[-6:] for line in text.splitlines() if re.search(r"(–|\d) *$", line)])
    assert len(shown[0]) > 10 and shown[0] == shown[1] and "…" in text
    assert {"instructions", "requests", "sectors", "wavefronts"} <= set(text.split())


def test_a_terminal_is_shown_the_table_of_a_result():
    result = check("02", 8, 8, 8, on_gpu=False)
    shown, table = __main__.in_terminal(result), __main__.in_terminal(result.table())
    assert [list(column.cells) for column in shown.columns] == [list(column.cells) for column in table.columns]


def test_show(run):
    assert run("show", "03") == (0, find("03").source, "")
    status, out, _ = run("show", "coalesced", "--diff", "naive")
    assert status == 0 and "--- 01_naive.cu" in out and "+++ 02_coalesced.cu" in out


def test_show_with_report(run):
    status, out, _ = run("show", "03", "--report", "--architecture", "sm_80")
    assert status == 0
    assert "__global__" in out and "FFMA" in out and "sm_80" in out
    status, out, _ = run("show", "03", "--report", "--json")
    data = json.loads(out)
    assert status == 0 and data["source"] == find("03").source.rstrip("\n")
    assert data["instructions"]["kernel"]["FFMA"] > 0 and data["resources"]["registers"] > 0


@pytest.mark.parametrize("arguments", [("all", "--sizes", "8"), ("01",)])
def test_check_passes(run, arguments, share_runs):
    status, out, err = run("check", *arguments, "--simulate")
    assert status == 0 and err == "" and "FAILED" not in out
    assert all(kernel.name in out for kernel in (CATALOGUE if arguments[0] == "all" else LADDER[:1]))


@pytest.mark.parametrize(("size", "said"), [(256, "were not looked for."), (16, "were looked for in 1 of 1 cases.")])
def test_check_says_whether_races_were_looked_for(run, size, said):
    _, out, _ = run("check", "02", "--simulate", "--sizes", str(size))
    assert f"Races in global memory {said}" in out


def test_check_of_given_sizes_as_json(run):
    status, out, _ = run("check", "01", "--sizes", "3x0x2,17", "--beta", "-1.5", "--simulate", "--json")
    data = json.loads(out)
    assert status == 0 and data["passed"] is True
    assert [(c["M"], c["N"], c["K"], c["beta"]) for c in data["cases"]] == [(3, 0, 2, -1.5), (17, 17, 17, -1.5)]


def test_check_fails_with_status_1_and_shows_what_failed(run, broken_ladder):
    status, out, _ = run("check", "--simulate")
    assert status == 1
    assert "wrong values" in out and "FAILED" in out and "01_naive" in out
    status, out, _ = run("check", "--simulate", "--json")
    data = json.loads(out)
    assert status == 1 and data["passed"] is False
    assert {c["kernel"] for c in data["cases"] if not c["passed"]} == {"02_coalesced"}


def test_an_infinite_error_is_null_in_json(run, broken_ladder, monkeypatch):
    wrong = __main__.CATALOGUE[1]
    wrong.path.write_text(wrong.source.replace("if (row >= M || col >= N) return;", "if (row >= 0) return;"))
    status, out, _ = run("check", "--sizes", "5", "--simulate", "--json")
    assert status == 1
    assert json.loads(out, parse_constant=pytest.fail)["cases"][1]["worst_ratio"] is None


def test_bench_without_a_gpu_shows_the_recording(run, recording):
    status, out, err = run("bench")
    assert (status, err) == (0, "")
    assert out.startswith("No GPU here: showing the recording made on Imaginary GPU on 2026-11-20.\n")
    assert "02_coalesced" in out
    assert "drawn in bench.ladder.svg" in out and "<svg" in Path("bench.ladder.svg").read_text()
    assert not Path("bench.json").exists()
    status, out, err = run("bench", "--kernels", "02", "--sizes", "4096x4096x2048", "--json")
    data = json.loads(out)
    assert status == 0 and err.startswith("No GPU here") and data["measured_here"] is False
    assert data["points"][0]["tflops"] == pytest.approx(POINT.tflops, rel=1e-3)


def test_bench_on_a_gpu_measures(run, a_gpu, monkeypatch, tmp_path):
    asked = {}

    def measured(kernels, sizes, **more):
        asked.update(more, kernels=kernels, sizes=sizes)
        points = [dataclasses.replace(POINT, M=size[0], N=size[1], K=size[2]) for size in sizes]
        return record(*points, complete="interrupt" not in asked)

    monkeypatch.setattr(__main__, "bench", measured)
    command = ("bench", "--kernels", "02", "--sizes", "64:128:64", "--flush-l2", "--output", str(tmp_path / "o.json"))
    status, out, _ = run(*command, "--json")
    assert status == 0 and json.loads(out)["measured_here"] is True
    assert asked["kernels"] == [find("02")] and asked["sizes"] == ((64,) * 3, (128,) * 3)
    assert asked["flush_l2"] is True and asked["path"] == str(tmp_path / "o.json")
    status, out, _ = run(*command)
    assert status == 0 and f"saved in {tmp_path / 'o.json'}" in out
    assert "02_coalesced from" in (tmp_path / "o.tflops.svg").read_text()
    assert "% of cuBLAS by size" in (tmp_path / "o.percent.svg").read_text()
    asked["interrupt"] = True
    status, out, _ = run("bench")
    assert status == 130 and "broken off" in out and asked["sizes"] == ((4096,) * 3,) and asked["path"] == "bench.json"


def test_compare(run, tmp_path):
    faster = dataclasses.replace(POINT, ms=POINT.ms / 2, ms_p10=POINT.ms_p10 / 2, ms_p90=POINT.ms_p90 / 2)
    files.write(tmp_path / "old.json", record(POINT))
    files.write(tmp_path / "new.json", record(faster))
    status, out, _ = run("compare", str(tmp_path / "old.json"), str(tmp_path / "new.json"))
    assert status == 0 and "+100.0%  faster" in out
    status, out, _ = run("compare", str(tmp_path / "new.json"), str(tmp_path / "old.json"), "--json")
    (row,) = json.loads(out)["rows"]
    assert row["verdict"] == "slower" and row["speed"] == "-50.0%"


@pytest.mark.parametrize("kernel", CATALOGUE, ids=lambda kernel: kernel.name)
def test_trace_of_every_kernel(run, kernel):
    """Each with the types it takes."""
    status, out, err = run("trace", kernel.name, "--size", "16", "--json")
    assert (status, err) == (0, "") and json.loads(out)["total"]["flops"] > 0


def test_counters(run, tmp_path, monkeypatch):
    """A stand-in for ncu says what it was asked, and what it should launch is launched."""
    asked, launched = [], []

    def ncu(command, **_):
        asked.append(command)
        inner = command[command.index("-m") :]
        assert main(inner[2:]) == 0
        names = ["ID", "Kernel Name", *METRICS.values()]
        values = ["0", "mine<16, 16>(int)", *map(str, range(len(METRICS)))]
        return subprocess.CompletedProcess(
            command, 0, "\n".join(",".join(f'"{each}"' for each in row) for row in (names, names, values)), ""
        )

    (tmp_path / "mine.cu").write_text(find("03").source.replace("shared_tile(", "mine("))
    monkeypatch.setattr(nsight.subprocess, "run", ncu)
    monkeypatch.setattr(nsight.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(nsight, "launch", launched.extend)
    how = ("mine.cu", "--set", "BM=16", "--set", "BN=16", "--set", "BK=16", "--size", "64,32,96")
    status, out, err = run("counters", *how, "--json")
    assert (status, err) == (0, "") and json.loads(out)["counts"] == {name: i for i, name in enumerate(METRICS)}
    status, out, _ = run("counters", *how)
    assert status == 0 and METRICS["l2_sectors"] in out and out.splitlines()[0] == "mine<16, 16, 16> at 64×32×96"
    assert [size for _, size in launched] == [(64, 32, 96)] * 2
    assert {kernel.parameters["BM"] for kernel, _ in launched} == {16} and "regex:^(mine)$" in asked[0]
    monkeypatch.setattr(nsight.shutil, "which", lambda name: None)
    status, _, err = run("counters", *how)
    assert status == 2 and err.endswith("ncu, Nsight Compute's command line, is not on the PATH\n")


def test_trace(run):
    status, out, err = run("trace", "03", "--size", "64,32,96")
    assert (status, err) == (0, "")
    assert "wavefronts" in out and "acc +=" in out
    status, out, _ = run("trace", "02", "--size", "64", "--json")
    total = json.loads(out)["total"]
    assert status == 0 and total["flops"] >= 2 * 64**3
    assert total["by_class"]["fma"] == 64**3 // 32 == 8192


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "nonsense"), "error: name: got 'nonsense', needs one of 01_naive"),
        (("show", "03_shared_tyle"), "did you mean '03_shared_tile'?"),
        (("show", "01", "--diff", "x9"), "error: name"),
        (("list", "--architecture", "sm_1"), "error: architecture"),
        (("check", "01", "--sizes", "4x4", "--simulate"), "error: sizes"),
        (("trace", "01", "--size", "1,2"), "error: size: got '1,2'"),
        (("counters", "01", "--size", "0"), "error: size: got '0'"),
        (("trace", "01", "--size", "1:9:1"), "error: size: got '1:9:1', needs one size"),
        (("bench", "--sizes", "0"), "error: sizes"),
        (("bench", "--recording", "nothing"), "error: name: got nothing"),
        (("bench", "--sizes", "77"), "77×77×77: not in the recording ladder"),
    ],
)
def test_a_refusal_is_one_line_on_stderr_and_status_2(run, recording, arguments, message):
    status, out, err = run(*arguments, "--json")
    assert (status, out) == (2, "")
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("fly",), ("show",), ("check", "--alpha", "x")])
def test_bad_usage_is_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_a_lost_gpu_and_an_interrupt_leave_no_traceback(run, a_gpu, monkeypatch):
    def broken(error):
        def bench(*_, **__):
            raise error

        return bench

    monkeypatch.setattr(__main__, "bench", broken(DeviceError("the GPU fell off")))
    assert run("bench") == (2, "", "error: the GPU fell off\n")
    monkeypatch.setattr(__main__, "bench", broken(KeyboardInterrupt()))
    assert run("bench") == (130, "", "interrupted\n")


@pytest.mark.parametrize("json_wanted", [False, True])
def test_what_was_measured_before_the_gpu_was_lost_is_shown(run, a_gpu, monkeypatch, json_wanted):
    def bench(*_, **__):
        raise BenchError("the GPU fell off", record(dataclasses.replace(POINT, N=4096, K=4096), complete=False))

    monkeypatch.setattr(__main__, "bench", bench)
    status, out, err = run("bench", *(["--json"] if json_wanted else []))
    assert status == 2 and err.endswith("error: the GPU fell off\n")
    assert POINT.kernel in out
    assert not json_wanted or json.loads(out)["complete"] is False


def test_help_names_every_command_and_gives_examples(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    for word in (
        "list",
        "show",
        "check",
        "bench",
        "compare",
        "tune",
        "trace",
        "counters",
        "new",
        "examples:",
        "exit status:",
    ):
        assert word in out


LACKING = """double w, x, y, z;
    asm volatile("ld.global.v4.f64 {%0, %1, %2, %3}, [%4];" : "=d"(w), "=d"(x), "=d"(y), "=d"(z) : "l"(A));
    C[t] = w + x + y + z;"""
REFUSED = {
    "an instruction that sm_90 lacks": (LACKING, "\nptxas"),
    "too much shared memory": ("__shared__ float As[12289]; As[t] = 0; if (K < 0) C[t] = As[K * K];", "too much"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_ptxas_refuses_fails_a_check(case, run, no_gpu, tmp_path):
    """Though the simulator, which needs PTX alone, may well run it."""
    statement, said = REFUSED[case]
    kernel = probe(tmp_path, statement)
    status, _, err = run("check", "00_probe.cu", "--set", "BM=1", "--set", "BN=32")
    assert status == 2 and err.startswith("error: ") and said in err, err
    with pytest.raises(CompileError, match=said):
        check(kernel, 0, 1, 1, on_gpu=False)


def test_ptxas_is_not_asked_about_what_is_wrong_as_it_is(tmp_path, no_gpu):
    assert not check(probe(tmp_path, LACKING), 1, 1, 1, on_gpu=False).passed


def test_a_check_compiles_once(run, no_gpu, tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    compiler._compile.cache_clear()
    assert run("check", "01", "--sizes", "3x4x5,7", "--simulate")[0] == 0
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_kernel_of_ones_own(run, recording):
    """Whatever a command does to the book's kernels it does to a file."""
    status, out, err = run("new", "02", "mine.cu")
    assert (status, err) == (0, "")
    assert out.startswith("mine.cu is 02_coalesced without its most important lines: see the TODO in line 13.\n")
    status, out, _ = run("check", "mine.cu", "--simulate")
    assert status == 1 and "wrong values" in out and "FAILED" in out
    assert "mine: cases that fail, 57 of 62; the first 5 (--verbose shows all)\n" in out
    assert out.endswith("mine.cu is not finished: TODO in line 13. Until then it cannot pass.\n")
    status, out, _ = run("show", "mine.cu", "--diff", "02")
    assert status == 0 and "+    // TODO: one element of C" in out and "-    const size_t row = " in out

    Path("mine.cu").write_text(find("02").source)
    assert run("check", "mine.cu", "--simulate")[2].startswith(
        "error: BM: got no value, needs one, given (--set BM=64)"
    )
    size = ("--set", "BM=4", "--set", "BN=16")
    assert run("check", "mine.cu", *size, "--simulate")[0] == 0
    (row,) = json.loads(run("check", "mine.cu", *size, "--simulate", "--sizes", "9", "--json")[1])["cases"]
    assert (row["kernel"], row["passed"]) == ("mine", True)
    assert json.loads(run("trace", "mine.cu", *size, "--size", "16", "--json")[1])["total"]["by_class"]["fma"] == 128
    data = json.loads(run("show", "mine.cu", *size, "--report", "--json")[1])
    assert (data["threads"], data["parameters"]) == (64, {"BM": 4, "BN": 16}) and data["resources"]["registers"] > 0


def test_set_is_for_one_kernel(run):
    status, out, _ = run("show", "03", "--set", "BM=16", "--set", "BN=16", "--report", "--json")
    assert status == 0 and json.loads(out)["parameters"] == {"BM": 16, "BN": 16, "BK": 128}
    for wrong, message in (
        (("check", "all", "--set", "BM=16"), "error: set: got BM=16 for"),
        (
            ("bench", "--kernels", "02,03", "--set", "BM=16"),
            "error: set: got BM=16 for 2 kernels, needs one kernel, or",
        ),
        (("trace", "03", "--set", "TM=4"), "error: TM: got a parameter unknown to 03_shared_tile"),
        (("trace", "03", "--set", "BM"), "error: BM: got '', needs a whole number"),
        (("trace", "mine.cu"), "error: path: got mine.cu, which cannot be read"),
    ):
        status, out, err = run(*wrong)
        assert (status, out) == (2, "") and err.startswith(message)


def test_bench_of_a_file(run, recording, monkeypatch):
    """Measured where there is a GPU; where there is none, no recording is shown as its own."""
    Path("02_coalesced.cu").write_text(find("02").source.replace("acc += ", "acc += 1.0f * "))
    size = ("--set", "BM=8", "--set", "BN=32")
    status, out, err = run("bench", "--kernels", "02_coalesced.cu", *size)
    assert (status, out) == (2, "") and "recorded of other code" in err
    status, out, err = run("bench", "--kernels", "02,02_coalesced.cu", *size)
    assert (status, err) == (0, "") and "\n02_coalesced is not in the recording: only a GPU can time it.\n" in out
    assert out.count("02_coalesced") == 2  # and a row of the book's

    asked = []
    monkeypatch.setattr(gpu, "available", lambda: True)
    monkeypatch.setattr(gpu, "load", lambda instance: instance)
    monkeypatch.setattr(__main__, "bench", lambda kernels, *_, **__: asked.extend(kernels) or record(POINT))
    assert run("bench", "--kernels", "02,02_coalesced.cu", *size)[0] == 0
    assert asked[0] == find("02") and asked[1].path == Path("02_coalesced.cu").resolve()


def test_new_overwrites_nothing(run):
    assert run("new", "03")[0] == 0 and Path("my_shared_tile.cu").exists()
    for arguments, message in (
        (("03",), "error: file: got my_shared_tile.cu (File exists), needs a file that is not there yet"),
        (("03", "no_folder/a.cu"), "error: file: got no_folder/a.cu (No such file or directory)"),
        (("03", "a.txt"), "error: file: got a.txt, needs a name that ends in .cu"),
    ):
        status, out, err = run("new", *arguments)
        assert (status, out) == (2, "") and err.startswith(message)
    status, out, _ = run("new", "03", "b.cu", "--json")
    assert json.loads(out)["todo"] == [32, 33, 34, 35]


def test_new_states_the_contract(capsys):
    with pytest.raises(SystemExit):
        main(["new", "--help"])
    out = capsys.readouterr().out
    assert CONTRACT in out and "There is one of 01, 02, 03" in out


def test_it_runs_as_a_module(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lab", "show", "01"])
    monkeypatch.delitem(sys.modules, __main__.__name__)  # or runpy warns that it runs twice
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("lab", run_name="__main__")
    assert (caught.value.code, *capsys.readouterr()) == (0, find("01").source, "")


def test_a_notebook_shows_no_exit_status():
    """IPython puts `get_ipython` among the builtins; %run would show a status other than 0 as a failure."""
    code = """import builtins, runpy, sys
builtins.get_ipython, sys.argv = lambda: None, ["lab", "check", "01", "--sizes", "x"]
runpy.run_module("lab", run_name="__main__")"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "error: sizes: got " in done.stderr


def test_a_closed_pipe_is_no_error():
    """``python -m lab show 01 | head -n 0`` closes one."""
    command = [sys.executable, "-m", "lab", "show", "01"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (result.returncode, result.stderr) == (0, b"")


def test_alpha_without_sizes_is_refused(capsys):
    assert main(["check", "01", "--alpha", "2"]) == 2
    assert "error: alpha: got 2 alone" in capsys.readouterr().err


@pytest.fixture
def tuning(tmp_path, monkeypatch):
    """A recording of what was tuned, of three squares."""
    points = [tuned_point((n, n, n), ms) for n, ms in ((256, 0.01), (512, 0.04), (1024, 0.2))]
    settings = {"settings": [list(setting) for setting in list(autotuned.SETTINGS)[1:4:2]]}
    return Tuning(dict(PROVENANCE), settings, True, points)


def test_tune_without_a_gpu_shows_the_recording(run, recording, tuning):
    assert run("tune")[0] == 2
    files.write(cards.folder() / "tune.json", tuning)
    status, out, err = run("tune")
    assert (status, err) == (0, "")
    assert out.startswith("No GPU here: showing the recording made on Imaginary GPU on 2026-11-20.\n")
    assert "1024×1024×1024" in out and "drawn in tune.svg" in out and "<svg" in Path("tune.svg").read_text()
    status, out, err = run("tune", "--sizes", "512", "--json")
    data = json.loads(out)
    assert status == 0 and [point["M"] for point in data["points"]] == [512] and data["measured_here"] is False
    assert run("tune", "--sizes", "77")[2].startswith("error: sizes: got 77×77×77, needs some of 256×256×256")


def test_only_charts_need_matplotlib(run, recording, tuning, monkeypatch):
    files.write(cards.folder() / "tune.json", tuning)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, err = run("tune")
    assert status == 2 and re.fullmatch(r"error: .*matplotlib.*\n", err)
    assert "1024×1024×1024" in out and "drawn" not in out
    assert run("tune", "--json")[0] == 0


def test_tune_on_a_gpu(run, a_gpu, tuning, monkeypatch):
    asked = []

    def tune(sizes, seconds, ruled_out):
        asked.append((sizes, seconds))
        ruled_out("what was ruled out")
        return dataclasses.replace(tuning, points=[point for point in tuning.points if point.size in sizes])

    monkeypatch.setattr(__main__, "tune", tune)
    monkeypatch.setattr(gpu, "place", lambda: Place("sm_90", 132, 0, "Imaginary GPU"))
    status, out, err = run("tune", "--sizes", "256:1024:256", "--budget", "5")
    assert status == 0 and out.startswith("what was ruled out\n")
    assert asked == [(tuple((n,) * 3 for n in (256, 512, 768, 1024)), 5)]
    assert "tune-imaginary-gpu.json; left to time: 1, start again to continue" in out
    status, out, err = run("tune", "--sizes", "256:1024:256", "--json")
    assert status == 130 and err.startswith("what was ruled out\n") and len(json.loads(out)["points"]) == 3
    status, out, err = run("tune", "--sizes", "512")
    assert status == 0 and "left" not in out and "drawn" not in out


def test_tune_tries_values_of_any_kernel(run, no_gpu, share_runs, monkeypatch):
    """Without a GPU it says what compiles, fits and computes right; only times are missing."""
    Path("mine.cu").write_text(find("02").source.replace("{\n", '{\n    static_assert(BN != 8, "not eight");\n', 1))
    command = ("tune", "mine.cu", "--set", "BM=4,8", "--set", "BN=8", "--set", "BN=16")
    status, out, err = run(*command)
    assert (status, err) == (0, "") and out.startswith("No GPU here: compiled for sm_90 and simulated. Only a GPU can")
    assert "2 of 4. Settings are BM, BN." in out and 'failed with "not eight"' in out
    assert "What would be timed, compiled for sm_90" in out
    monkeypatch.setattr(sweep, "compile_kernels", lambda *_: None)  # which starts processes, and has just done it
    status, out, err = run(*command, "--json")
    data = json.loads(out)
    assert status == 0 and err.startswith("No GPU here") and data["able"] == [[4, 16], [8, 16]]
    assert data["names"] == ["BM", "BN"] and data["measured_here"] is False
    assert [of["setting"] for of in data["ruled_out"]] == [[4, 8], [8, 8]]
    status, out, err = run("tune", "mine.cu", "--set", "BM=4", "--set", "BN=8")
    assert status == 1 and "1 of 1" in out and "would be timed" not in out
    for wrong, message in (
        (("02",), "error: set: got nothing, needs values to try, with commas between: --set BM=64,128"),
        (("mine.cu",), "error: BM: got no value, needs one, given (--set BM=64)"),
        (("02", "--set", "BX=1,2"), "error: BX: got a parameter unknown to 02_coalesced, needs BM, BN"),
        (("02", "--set", "BM=1", "--sizes", "0"), "error: sizes: got 0x0x0, needs"),
    ):
        status, _, err = run("tune", *wrong)
        assert status == 2 and err.startswith(message)


def test_tune_of_values_on_a_gpu(run, a_gpu, monkeypatch):
    kernels = {(4,): find("02").variant(BM=4), (8,): find("02")}
    points = [
        dataclasses.replace(POINT, **files.fields(kernel), ms=ms)
        for kernel, ms in zip(kernels.values(), (2.0, 1.0), strict=True)
    ]
    asked = []

    def swept(*given):
        asked.append(given[1:])
        complete = given[2] > 5
        return dataclasses.replace(record(*points[: 1 + complete]), complete=complete)

    monkeypatch.setattr(gpu, "architecture", lambda: "sm_86")
    monkeypatch.setattr(
        sweep, "field", lambda name, values, sm: sweep.Field(kernels, {(0,): f"{name} {values} {sm}"}, ("BM",))
    )
    monkeypatch.setattr(sweep, "sweep", swept)
    size = ("--sizes", "x".join(map(str, POINT.size)))
    status, out, err = run("tune", "02", "--set", "BM=0,4,8", *size)
    assert (status, err) == (0, "") and asked == [((POINT.size,), math.inf, "tune.json")]
    assert "02 {'BM': [0, 4, 8]} sm_86" in out and out.endswith("in tune.json\n")
    assert out.index(" 8  1.00") < out.index(" 4  2.00")
    status, out, err = run("tune", "02", "--set", "BM=0,4,8", *size, "--budget", "5", "--output", "o.json", "--json")
    data = json.loads(out)
    assert status == 0 and [of["setting"] for of in data["points"]] == [[4]] and data["complete"] is False
    assert err.endswith("in o.json; left to time: 1, start again to continue\n")


def test_tune_says_where_more_is_said_of_settings_that_are_all_wrong(run, no_gpu):
    Path("mine.cu").write_text(find("02").source.replace("k < K", "k < K - 1"), encoding="utf-8")
    status, out, _ = run("tune", "mine.cu", "--set", "BM=8,16", "--set", "BN=32")
    assert status == 1 and "check mine.cu --set BM=8 --set BN=32 --simulate says more of the first one." in out


def test_a_skeleton_that_passes_is_still_said_to_be_unfinished(run):
    run("new", "13", "mine.cu")
    status, out, _ = run("check", "mine.cu", "--sizes", "16x32x32", "--simulate")
    assert status == 0 and "mine.cu is not finished: TODO in lines" in out
    assert "These cases do not need what is missing." in out


INTERRUPTING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background processes inherit that it is ignored
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("name", ["numpy", "cupy", "lab.draw", "lab.skeletons"])
@pytest.mark.parametrize("as_script", [False, True], ids=["module", "script"])
def test_an_interrupt_among_the_imports_leaves_no_traceback(tmp_path, name, as_script):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING.format(name=name))
    script = tmp_path / "sgemm-tutorial"
    script.write_text("from lab.__main__ import entry\nentry()\n")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, *([script] if as_script else ["-m", "lab"]), "list"],
        **{"cwd": root, "env": os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"}},
        **{"capture_output": True, "text": True, "check": False},
    )
    assert (done.returncode, done.stdout, done.stderr) == (__main__.INTERRUPTED, "", "interrupted\n")


def test_an_interrupted_check_shows_what_it_had(run, monkeypatch):
    left = iter([None, KeyboardInterrupt()])
    cases = __main__.cases

    def listed(kernel, on_gpu):
        if error := next(left):
            raise error
        return cases(kernel, on_gpu)[:2]

    monkeypatch.setattr(__main__, "cases", listed)
    status, out, _ = run("check", "all", "--simulate")
    assert status == __main__.INTERRUPTED
    assert "01_naive" in out and f"interrupted: 1 of {len(CATALOGUE)} kernels checked" in out


@pytest.mark.parametrize("command", ["check 03 --sizes 300000 --simulate", "trace 01 --size 300000"])
def test_too_little_memory_is_said_in_a_line(run, command, monkeypatch):
    """Before any is taken: the matrices would be drawn in vain."""
    monkeypatch.setattr(np.random, "default_rng", None)
    status, _, err = run(*command.split())
    assert status == __main__.REFUSED and err.startswith("error: not enough memory for matrices of this size (at least")


@pytest.mark.parametrize("name", ["nowhere/bench.json", "."])
def test_a_place_that_takes_no_file_is_refused_before_anything_is_measured(run, name, monkeypatch):
    monkeypatch.setattr(__main__, "bench", None)
    status, _, err = run("bench", "--kernels", "02", "--output", name)
    assert status == __main__.REFUSED
    assert err == f"error: output: got {name}, needs the name of a file, in a folder that is there\n"


def test_a_full_disk_is_said_in_a_line():
    command = [sys.executable, "-m", "lab", "list"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (__main__.REFUSED, "error: [Errno 28] No space left on device\n")


def test_every_kernel_of_the_book_has_its_recorded_times(run):
    names = ",".join(kernel.name for kernel in CATALOGUE)
    status, out, _ = run("bench", "--kernels", names, "--sizes", "1024")
    assert status == 0 and "not in the recording" not in out
    assert all(kernel.name in out for kernel in CATALOGUE)
