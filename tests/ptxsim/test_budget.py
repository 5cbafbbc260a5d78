"""Kernels that never end, and kernels that only take long."""

import numpy as np
import pytest

from .cuda import fault, launch

FOREVER = """__global__ void k(volatile int* a) {
    int sum = 0;
    for (int i = 0; i < 10; ++i)
        sum += a[i];
    if (threadIdx.x == 37)
        while (a[0] == 0)
            sum += a[1];
    a[2] = sum;
}"""


def test_the_line_that_loops_is_named():
    found = fault(FOREVER, 1, 64, a=np.zeros(16, np.int32), _budget=10_000)
    assert found.kind == "endless" and found.thread == 37 and found.line in (6, 7)
    assert "more than 10,000 instructions and is in the loop of lines 6 to 7, which seems never to end" in str(found)
    assert "If it waits" not in str(found)  # what it reads is volatile


@pytest.mark.parametrize("inner", ["for (int i = 0; i < 100; ++i) sum += a[i % 4];", "sum += a[3];"])
def test_an_endless_loop_around_one_that_ends(inner):
    source = f"""__global__ void k(volatile int* a) {{
    int sum = 0;
    do {{
        {inner}
    }} while (a[0] == 0);  // again
    a[2] = sum;
}}"""
    found = fault(source, 1, 1, a=np.zeros(16, np.int32), _budget=20_000)
    assert found.line == 5 and "loop of lines 4 to 5" in str(found)


def test_an_endless_loop_within_one_that_would_end():
    source = """__global__ void k(volatile int* a) {
    for (int i = 0; i < 10; ++i) {
        a[3] = i;
        while (a[0] < i)
            a[1] = i;
    }
}"""
    assert fault(source, 1, 1, a=np.ones(16, np.int32), _budget=20_000).line in (4, 5)


def test_the_budget_is_that_of_each_thread():
    """Threads that loop one after the other exceed no budget together."""
    source = """__global__ void k(volatile int* a) {
    for (int t = 0; t < 8; ++t)
        if (threadIdx.x == t)
            for (int i = 0; i < 100; ++i) a[t] = i;
}"""
    a = np.zeros(8, np.int32)
    run = launch(source, 1, 8, a=a, _budget=1_000)
    assert a.tolist() == [99] * 8 and run.total.thread_instructions > 2_000
    fault(source, 1, 8, a=a, _budget=100)
    launch(source, 100, 8, a=a, _budget=1_000)


def test_the_default_is_enough_for_loops_of_a_hundred_thousand_steps():
    a = np.zeros(1, np.int32)
    launch("__global__ void k(volatile int* a) { for (int i = 0; i < 30000; ++i) a[0] = i; }", 1, 1, a=a)
    assert a[0] == 29999


WAITS = {
    "read before the loop": (
        "while (*flag == 0);",
        "If it waits for memory to change, that must be volatile or atomic",
    ),
    "read in the loop": (
        "int i = 1;\nwhile (i) i = flag[i];",
        "If it waits for what line 3 reads to change, that must be volatile or atomic",
    ),
    "it stores": ("int i = 1;\nwhile (i) i = flag[i] |= 1;", ""),
    "it counts": ("float x = *flag;\nwhile (x < 9) x = x * 0.5f;\n*flag = x;", ""),
}


@pytest.mark.parametrize("body, hint", WAITS.values(), ids=WAITS)
def test_a_loop_that_waits_for_plain_memory(body, hint):
    source = f"__global__ void k(int* flag) {{\n{body}\n flag[9] = 1; }}"
    flag = np.zeros(32, np.int32)
    flag[1] = 1
    found = fault(source, 1, 1, flag=flag, _budget=20_000)
    assert found.kind == "endless" and ("If it waits" in str(found)) == bool(hint) and hint in str(found)
