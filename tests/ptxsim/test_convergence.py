"""Lanes that have parted before an instruction that a warp must execute as one, told from lanes that have not."""

import numpy as np
import pytest

import ptxsim

from ..together import for_each

PTX = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry f(.param .u64 out)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .f32 %f<2>;
    .reg .b64 %rd<4>;
    .shared .align 16 .b8 rows[1024];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    mov.u32 %r3, 0;
    mov.f32 %f1, 0f00000000;
    shl.b32 %r5, %r1, 4;
    mov.u32 %r6, rows;
    add.u32 %r5, %r5, %r6;
    st.shared.v4.b32 [%r5], {{%r3, %r3, %r3, %r3}};
    bar.sync 0;
{before}
{aligned}
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r3;
    ret;
}}
"""
LOOP = """
AGAIN:
    add.s32 %r3, %r3, 1;
    setp.lt.s32 %p1, %r3, {times};
    @%p1 bra AGAIN;
"""
LONGER = "    add.s32 %r4, %r2, 1;\n" + LOOP.format(times="%r4")
IF = """
    setp.eq.s32 %p1, %r2, 0;
    @%p1 bra OVER;
    add.s32 %r3, %r3, 1;
OVER:
"""
OUT_OF_LINE = """
    setp.eq.s32 %p1, %r2, 0;
    @%p1 bra AWAY;
BACK:
    bra.uni ON;
AWAY:
    add.s32 %r3, %r3, 1;
    bra.uni BACK;
ON:
"""
BREAK = """
AGAIN:
    setp.eq.s32 %p2, %r2, %r3;
    @%p2 bra OVER;
    add.s32 %r3, %r3, 1;
    setp.lt.s32 %p1, %r3, 8;
    @%p1 bra AGAIN;
OVER:
"""
NONE = """
    setp.lt.s32 %p2, %r2, 8;
    @%p2 bra OVER;
AGAIN:
    add.s32 %r3, %r3, 1;
    setp.lt.s32 %p1, %r3, 8;
    @%p1 bra AGAIN;
OVER:
"""
PREDICATED = "    setp.eq.s32 %p1, %r2, 0;\n@%p1 add.s32 %r3, %r3, 1;"
ALIGNED = {
    "mma": "    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f1, %f1, %f1}, {%r3, %r3, %r3, %r3}, "
    "{%r3, %r3}, {%f1, %f1, %f1, %f1};",
    "ldmatrix": "    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r5];",
    "movmatrix": "    movmatrix.sync.aligned.m8n8.trans.b16 %r7, %r3;",
    "stmatrix": "    stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%r3};",
    "wmma": "    wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15}, "
    "[%r6], 16;",
    "wgmma": "    wgmma.fence.sync.aligned;",
    "setmaxnreg": "    setmaxnreg.inc.sync.aligned.u32 232;",
    "the cluster's barrier": "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;",
}
TOGETHER = {
    "a loop of as many iterations": LOOP.format(times="9"),
    "an if": IF,
    "an if whose arm is elsewhere": OUT_OF_LINE,
    "a predicated instruction": PREDICATED,
    "a loop, and a warp's barrier": LONGER + "    bar.warp.sync -1;",
    "a loop, and a block's barrier": LONGER + "    bar.sync 0;",
}


def run(before, aligned):
    out = np.zeros(64, np.uint32)
    ptxsim.run(PTX.format(before=before, aligned=aligned), "f", 1, 64, {"out": out})
    return out


@for_each(before=[LONGER, BREAK, LONGER + IF, NONE], aligned=ALIGNED)
def test_lanes_that_leave_a_loop_in_different_iterations(before, aligned):
    """Even where all of them come to the instruction together here."""
    with pytest.raises(ptxsim.SimulationFault, match=f"has run a loop.*though a warp is to come to {aligned}") as found:
        run(before, ALIGNED[aligned])
    text = PTX.format(before=before, aligned=ALIGNED[aligned]).splitlines()
    assert (found.value.kind, text[found.value.line - 1]) == ("divergence", ALIGNED[aligned].splitlines()[0])
    branches = [number for number, line in enumerate(text, 1) if "bra " in line]
    assert any(f"line {branch}, without all of its warp" in str(found.value) for branch in branches)


@for_each(before=TOGETHER, aligned=ALIGNED)
def test_lanes_that_are_together(before, aligned):
    assert np.array_equal(run(TOGETHER[before], ALIGNED[aligned]), run(TOGETHER[before], ""))


def test_other_instructions_need_no_converged_warp():
    assert run(LONGER, "    bar.sync 0;")[:3].tolist() == run(LONGER, "")[:3].tolist() == [1, 2, 3]
