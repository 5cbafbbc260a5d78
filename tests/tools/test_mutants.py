"""Each way to break a kernel must be noticed without a GPU; this says how many were made and how many were caught."""

import dataclasses
import re

import pytest

from sgemm_tutorial import LADDER, Kernel, find
from sgemm_tutorial.tools import mutants as mutations
from sgemm_tutorial.tools.mutants import EQUIVALENT, RULES, Mutant, judge, mutants, patience, verdict

every = pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)


@every
def test_a_sound_kernel_is_found_sound(kernel):
    assert verdict(kernel) is None


@every
def test_every_mutant_is_caught(kernel, tmp_path, record_property):
    made = mutants(kernel)
    survivors = [mutant for mutant in made if judge(mutant, tmp_path) is None]
    caught = f"{kernel.name}: {len(made) - len(survivors)} of {len(made)} mutants caught"
    record_property("summary", caught)
    unexplained = [str(mutant) for mutant in survivors if mutant.key not in EQUIVALENT]
    assert not unexplained, "\n".join([caught, *unexplained])
    stale = {key for key in EQUIVALENT if key[0] == kernel.name} - {mutant.key for mutant in survivors}
    assert not stale, f"argued to be equivalent, but caught or no longer made: {stale}"


@every
def test_the_rules_reach_everything(kernel):
    """Every barrier, every index, every comparison and α and β of the source is broken by some mutant."""
    made = mutants(kernel)
    code = mutations.blanked(kernel.source)
    rules = [mutant.rule for mutant in made]
    assert rules.count("barrier removed") == code.count("__syncthreads()")
    assert rules.count("copy or wait removed") == code.count("asm volatile(") + code.count("(STAGES - 2)")
    assert rules.count("alpha and beta swapped") == 1
    for rule in set(RULES) - {"barrier removed", "copy or wait removed"}:
        assert rule in rules, rule
    body = code[code.index("{", code.index("__global__")) :]
    for array in "ABC":
        shifted = [m for m in made if m.rule == "index shifted by one" and re.search(rf"\b{array}\[", m.text)]
        assert len(shifted) >= len(re.findall(rf"\b{array}\[", body))
    assert {mutant.file for mutant in made} == kernel.files.keys()
    assert all(mutant.source != kernel.files[mutant.file] for mutant in made)
    assert len({mutant.source for mutant in made}) == len(made)


# The rules themselves, on a kernel that has one of everything.

SAMPLE = """// 00 · Sample: A[i] here is a comment.
#include "nothing[0]"
template <int BM, int BN>
__global__ void __launch_bounds__(BM * BN)
sample(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    static_assert(BM < BN, "not a comparison[1] to break");
    __shared__ float As[BM][BN];
    float sums[2] = {};
    for (unsigned k0 = 0; k0 < K; k0 += BN) {
        As[0][k0 % 3] = alpha * reinterpret_cast<const float*>(A)[k0];
        __syncthreads();
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2));
    }
    if (M >= 7 || N - 1 < BM) return;
    C[0] = K == 0 ? beta : sums[As[0][1] > 2.0f];  // here
}
"""


@pytest.fixture
def sample(tmp_path):
    (tmp_path / "00_sample.cu").write_text(SAMPLE)
    return Kernel("00_sample", "", {"BM": 1, "BN": 32}, folder=tmp_path)


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        ("barrier removed", [";"]),
        ("copy or wait removed", [";", 'asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1));']),
        (
            "index shifted by one",
            [
                "As[(0) + 1][k0 % 3] = alpha * reinterpret_cast<const float*>(A)[k0];",
                "As[0][(k0 % 3) + 1] = alpha * reinterpret_cast<const float*>(A)[k0];",
                "As[0][k0 % 3] = alpha * reinterpret_cast<const float*>(A)[(k0) + 1];",
                "C[(0) + 1] = K == 0 ? beta : sums[As[0][1] > 2.0f];",
                "C[0] = K == 0 ? beta : sums[As[(0) + 1][1] > 2.0f];",
                "C[0] = K == 0 ? beta : sums[As[0][(1) + 1] > 2.0f];",
                "C[0] = K == 0 ? beta : sums[(As[0][1] > 2.0f) + 1];",
            ],
        ),
        (
            "condition decided",
            [
                "if (true || N - 1 < BM) return;",
                "if (false || N - 1 < BM) return;",
                "if (M >= 7 || true) return;",
                "if (M >= 7 || false) return;",
                "C[0] = true ? beta : sums[As[0][1] > 2.0f];",
                "C[0] = false ? beta : sums[As[0][1] > 2.0f];",
                "C[0] = K == 0 ? beta : sums[true];",
                "C[0] = K == 0 ? beta : sums[false];",
            ],
        ),
        (
            "boundary moved",
            [
                "for (unsigned k0 = 0; k0 <= K; k0 += BN) {",
                "if (M > 7 || N - 1 < BM) return;",
                "if (M >= 7 || N - 1 <= BM) return;",
                "C[0] = K == 0 ? beta : sums[As[0][1] >= 2.0f];",
            ],
        ),
        (
            "loop changed",
            [
                "for (unsigned k0 = 0 + 1; k0 < K; k0 += BN) {",
                "for (unsigned k0 = 0; k0 + BN < K; k0 += BN) {",
                "for (unsigned k0 = 0; k0 < K; k0 += BN + 1) {",
            ],
        ),
        ("statement dropped", [";", ";", ";"]),
        ("alpha and beta swapped", ["As[0][k0 % 3] = beta * reinterpret_cast<const float*>(A)[k0];"]),
        ("quotient for remainder", ["As[0][k0 / 3] = alpha * reinterpret_cast<const float*>(A)[k0];"]),
    ],
)
def test_a_rule(sample, rule, texts):
    assert [mutant.text for mutant in mutants(sample) if mutant.rule == rule] == texts


def test_alpha_and_beta_are_swapped_in_the_body_alone(sample):
    (swapped,) = [mutant for mutant in mutants(sample) if mutant.rule == "alpha and beta swapped"]
    assert "float alpha, const float* A, const float* B, float beta," in swapped.source
    assert "beta * reinterpret_cast" in swapped.source
    assert "? alpha :" in swapped.source


# The verdict itself: it names what is wrong.


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("= result;", "= result + 1;", "wrong result at M, N, K = 3, 5, 1, α = 1, β = 0"),
        ("if (alpha == 0.0f) K = 0;", "", "wrong result at M, N, K = 3, 5, 4, α = 0, β = 2"),
        ("if (alpha == 0.0f) K = 0;", "if (alpha == 0.0f) { K = 0; beta += 0 * A[0]; }", "wrong result .* α = 0"),
        (
            "if (alpha == 0.0f) K = 0;",
            "if (alpha == 0.0f) { K = 0; beta += A[0] > 99; }",
            "reads 120 bytes .* α = 0, β = 2",
        ),
        ("if (row >= M || col >= N) return;", "", "out of bounds: 02_coalesced"),
        ("float acc = 0.0f;", "float acc = sqrtf(0.0f * alpha);", "line 19: the simulator does not know: "),
        ("float acc = 0.0f;", "float acc = 0.0f", "does not compile: .*expected"),
    ],
)
def test_a_verdict(tmp_path, before, after, found):
    assert re.match(found, judge(changed(before, after), tmp_path), re.DOTALL)


def changed(before, after):
    kernel = find("02")
    assert before in kernel.source
    return Mutant(kernel, "by hand", kernel.path.name, 1, "", kernel.source.replace(before, after))


def test_a_kernel_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr(mutations, "PATIENCE", 2)
    mutant = changed("float acc = 0.0f;", 'float acc = 0.0f; while (K == 1) asm volatile("" ::: "memory");')
    assert judge(mutant, tmp_path) == "does not end"


def test_patience_ends():
    with pytest.raises(mutations.Endless), patience(0.01):
        while True:
            pass
    with patience(5):
        pass


def test_the_command_line(monkeypatch, capsys, tmp_path):
    """It prints survivors, explained or not, and a table, and its status tells whether all is explained."""
    kernel = LADDER[0]
    some = mutants(kernel)[:3]
    harmless = dataclasses.replace(some[0], source=kernel.source)
    monkeypatch.setattr(mutations, "mutants", lambda _: [harmless, *some[1:]])
    assert mutations.main(["01", "-v"]) == 1
    printed = capsys.readouterr().out
    assert f"survives: {harmless}" in printed
    assert str(some[1]) in printed
    assert re.search(r"01_naive +all +3 +2", printed)
    monkeypatch.setattr(mutations, "EQUIVALENT", {harmless.key: "it is the kernel itself"})
    assert mutations.main(["01"]) == 0
    assert "equivalent: it is the kernel itself" in capsys.readouterr().out
