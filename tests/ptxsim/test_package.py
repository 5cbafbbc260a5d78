"""ptxsim as a package of its own: what it declares, what its README shows, and its front door."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import ptxsim

FOLDER = Path(ptxsim.__file__).parent
README = (FOLDER / "README.md").read_text(encoding="utf-8")

ALONE = """
import sys
for name in ("cupy", "cuda", "sgemm_tutorial", "lab", "tools", "msgspec", "matplotlib"):
    sys.modules[name] = None
sys.path.insert(0, {root!r})
"""


def test_the_example_runs_as_typed_where_it_is_installed(tmp_path):
    """It is installed from a wheel, without CuPy, a compiler or the book."""
    shutil.copytree(FOLDER, tmp_path / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", "target", "./source"], cwd=tmp_path, check=True)
    assert (tmp_path / "target" / "ptxsim" / "machine.py").is_file()
    code, printed = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL).groups()
    code = ALONE.format(root=str(tmp_path / "target")) + code + "assert 'target' in ptxsim.__file__"
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stderr, done.stdout) == ("", printed)


def test_it_declares_what_it_imports():
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    imported, compiling = set(), ("nvrtc.py", "cache.py")
    for path in FOLDER.glob("*.py"):
        if path.name in compiling:  # an extra of its own, which nothing else imports
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
            elif isinstance(node, ast.ImportFrom):
                assert f"{node.module}.py" not in compiling
    declared = {re.match(r"\w+", name)[0] for name in project["dependencies"]}
    assert imported - set(sys.stdlib_module_names) == declared == {"numpy", "tqdm"}


def test_the_table_names_every_kind_of_fault():
    """Kinds are found as far as the source spells them out."""
    source = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    kinds = set(re.findall(r'(?:Violation|refuse|SimulationFault|self\._refuse)\(\s*"([a-z -]+)"', source))
    table = "".join(re.findall(r"^\| ([a-z, -]+) \|", README, re.MULTILINE))
    assert len(kinds) >= 11 and all(kind in table for kind in kinds), kinds


PLACES = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry places(.param .u64 out)
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
    mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
    mad.lo.u32 %r2, %r3, %r5, %r2;
    mad.lo.u32 %r1, %r2, %r4, %r1;
    mov.u32 %r2, %tid.z; mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.x;
    mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.x; mov.u32 %r7, %ntid.z;
    mad.lo.u32 %r2, %r2, %r5, %r3;
    mad.lo.u32 %r2, %r2, %r6, %r4;
    mul.lo.u32 %r8, %r5, %r6;
    mul.lo.u32 %r8, %r8, %r7;
    mad.lo.u32 %r1, %r1, %r8, %r2;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd2, %rd1, %rd2;
    shl.b32 %r3, %r3, 8;
    or.b32 %r3, %r3, %r4;
    mov.u32 %r4, %ctaid.z;
    shl.b32 %r4, %r4, 16;
    or.b32 %r3, %r3, %r4;
    st.global.u32 [%rd2], %r3;
    ret;
}
"""


@pytest.mark.parametrize(("grid", "block"), [(3, 40), ((3, 2), (8, 4)), ((2, 3, 2), (5, 3, 4))])
def test_blocks_and_grids_of_up_to_three_dimensions(grid, block):
    """x runs fastest, through the threads of a warp too."""
    of_grid, of_block = (((*of, 1, 1) if isinstance(of, tuple) else (of, 1, 1))[:3] for of in (grid, block))
    out = np.zeros((*of_grid[::-1], *of_block[::-1]), np.uint32)
    run = ptxsim.run(PLACES, "places", grid, block, {"out": out}, trace=[1], name="numbers")
    z, y, x = (np.arange(count, dtype=np.uint32) for count in of_block[::-1])
    number = np.broadcast_to(y[None, :, None] << 8 | x[None, None, :], of_block[::-1])
    for block_z in range(of_grid[2]):
        assert (out[block_z] == (number | block_z << 16)).all()
    threads, blocks = np.prod(of_block), np.prod(of_grid)
    assert (run.grid, run.block, run.name) == (of_grid, of_block, "numbers") and len(z) == of_block[2]
    assert run.total.thread_instructions == (PLACES.count(";") - 2) * blocks * threads
    assert [access.threads.tolist() for access in run.trace] == [list(range(threads))]
    assert (
        run.lines[PLACES[: PLACES.index("st.global")].count("\n") + 1].global_store_requests
        == run.total.by_class["global store"]
    )


def test_arguments_that_do_not_fit():
    out = np.zeros(64, np.uint32)
    with pytest.raises(ptxsim.ArgumentError, match=r"^entry: got 'place', needs places$"):
        ptxsim.run(PLACES, "place", 1, 32, {"out": out})
    for grid, block, match in [
        (0, 32, "grid: got 0, needs 1 or more"),
        (1, (32, 0), r"block: got \(32, 0\), needs 1 or more"),
        (1, (8, 8, 32), "block: got 2048 threads per block"),
        (1, (1, 2, 65), "block: got 65 threads along z, needs at most 64"),
        (1.5, 32, "grid: got 1.5, needs a whole number"),
        (1, (1, 1, 1, 1), "needs a whole number, or up to three"),
    ]:
        with pytest.raises(ptxsim.ArgumentError, match=match):
            ptxsim.run(PLACES, "places", grid, block, {"out": out})
    bounded = PLACES.replace(".param .u64 out)", ".param .u64 out)\n.maxntid 16, 2, 1")
    with pytest.raises(ptxsim.ArgumentError, match="block: got 33 threads per block, needs at most 32"):
        ptxsim.run(bounded, "places", 1, 33, {"out": out})
    with pytest.raises(ptxsim.ArgumentError, match="out: got int, needs 8 bytes"):
        ptxsim.run(PLACES, "places", 1, 32, {"out": 5})
    with pytest.raises(ptxsim.ArgumentError, match=r"out: got strides \(4, 16\), needs np.ascontiguousarray\(out\)"):
        ptxsim.run(PLACES, "places", 1, 32, {"out": out.reshape(16, 4).T})
    with pytest.raises(ptxsim.SimulationFault, match=r"out of bounds: places, line 28, block 2, thread 0"):
        ptxsim.run(PLACES, "places", 3, 32, {"out": out})
    assert ptxsim.run(PLACES, "places", 3, 32, {"out": out}, blocks=[1]).total.by_class["global store"] == 1


NUMBERS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry numbers(.param .u64 out, .param .u32 n, .param .f32 x, .param .f64 y)
{
    .reg .b32 %r<2>;
    .reg .f32 %f<2>;
    .reg .f64 %fd<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; ld.param.f32 %f1, [x]; ld.param.f64 %fd1, [y];
    cvt.rn.f64.s32 %fd2, %r1;
    st.global.f64 [%rd1], %fd2;
    cvt.f64.f32 %fd2, %f1;
    st.global.f64 [%rd1+8], %fd2;
    st.global.f64 [%rd1+16], %fd1;
    ret;
}
"""


def test_numbers_of_python_take_the_parameters_types():
    out = np.zeros(3)
    ptxsim.run(NUMBERS, "numbers", 1, 1, {"out": out, "n": -7, "x": 3, "y": 0.1})
    assert out.tolist() == [-7, 3, 0.1]
    for name, value, message in [
        ("n", 2.5, "n: got float, needs 4 bytes of type u32"),
        ("n", 1 << 40, "n: got int, needs 4 bytes of type u32"),
        ("n", np.float32(2), "n: got float32, needs 4 bytes of type u32"),
        ("x", np.int32(2), "x: got int32, needs 4 bytes of type f32"),
        ("y", np.int64(2), "y: got int64, needs 8 bytes of type f64"),
        (
            "out",
            3,
            "out: got int, needs 8 bytes of type u64, as the kernel declares: an array, a list of arrays, None, or",
        ),
    ]:
        with pytest.raises(ptxsim.ArgumentError, match=message):
            ptxsim.run(NUMBERS, "numbers", 1, 1, {"out": out, "n": 1, "x": 1.0, "y": 1.0} | {name: value})
