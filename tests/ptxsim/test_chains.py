"""Grids of FMAs, each of which adds to the sums of the one before: done as one step, with the same results."""

import numpy as np
import pytest

import ptxsim
from ptxsim.decode import decode
from ptxsim.fma import fma32

DEEP, HIGH, WIDE, THREADS = 3, 2, 3, 32


def program(kept, to_and_fro):
    """Return PTX that multiplies HIGH by WIDE numbers, DEEP times, and stores the sums; also one between if kept."""
    lines, count = [".loc 1 5 0"], HIGH + WIDE
    for k in range(DEEP):
        for i in range(count):
            lines.append(f"ld.global.f32 %v{k * count + i}, [%rd3+{(k * count + i) * 4 * THREADS}];")
    sums = {(m, n): "0f00000000" for m in range(HIGH) for n in range(WIDE)}
    for k in range(DEEP):
        for m in range(HIGH):
            for n in reversed(range(WIDE)) if to_and_fro and (m + k) % 2 else range(WIDE):
                new = f"%s{(k * HIGH + m) * WIDE + n}"
                lines.append(f"fma.rn.f32 {new}, %v{k * count + m}, %v{k * count + HIGH + n}, {sums[m, n]};")
                sums[m, n] = new
    stored = [*sums.values(), *["%s1"] * kept]
    lines += [f"st.global.f32 [%rd4+{i * 4 * THREADS}], {of};" for i, of in enumerate(stored)]
    return """
.version 8.0
.target sm_80
.address_size 64
.file 1 "f.cu"
.visible .entry f(.param .u64 from, .param .u64 to)
{
    .reg .f32 %v<99>;
    .reg .f32 %s<99>;
    .reg .b32 %r<3>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd5, %r1, 4;
    add.s64 %rd3, %rd1, %rd5;
    add.s64 %rd4, %rd2, %rd5;
""" + "\n".join([*lines, "ret;", "}"])


@pytest.mark.parametrize("to_and_fro", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_chains_give_what_their_fmas_give(kept, to_and_fro):
    given = np.random.default_rng(0).standard_normal((DEEP, HIGH + WIDE, THREADS)).astype(np.float32)
    given[0, 0], given[:, 1, 3] = -0.0, np.inf
    out = np.full((HIGH * WIDE + kept, THREADS), np.nan, np.float32)
    ptx = program(kept, to_and_fro)
    run = ptxsim.run(ptx, "f", 1, THREADS, {"from": given, "to": out})
    sums, between = np.zeros((HIGH, WIDE, THREADS)), []
    for step in given.astype(np.float64):
        with np.errstate(invalid="ignore"):
            sums = fma32(step[:HIGH, None], step[HIGH:], sums)
        between.append(sums[0, 1])
    expected = np.concatenate([sums.reshape(-1, THREADS), *[between[:1]] * kept])
    assert np.array_equal(out.view(np.uint32), expected.view(np.uint32))
    assert run.total.by_class["fma"] == DEEP * HIGH * WIDE
    steps = decode(ptxsim.parse(ptx, "f")).steps[0]
    fmas = [[of for of in done if of.opcode.startswith("fma")] for _, _, done in steps]
    assert [len(of) for of in fmas if of] == ([6, 12] if kept else [18])
