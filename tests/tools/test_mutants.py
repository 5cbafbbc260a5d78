"""Each way to break a kernel must be noticed without a GPU.

``make mutants`` judges all mutants and records the verdicts. These tests judge again the mutants whose kernel has
changed since then, and a sample of the others, which is larger where the verdicts are those of an older judge.
"""

import dataclasses
import re
from collections import defaultdict

import pytest

from lab.correctness import cases
from lab.records import files
from sgemm_tutorial import CATALOGUE, Kernel, find
from tools import mutants as mutations
from tools.mutants import (
    EQUIVALENT,
    LIMIT,
    RULES,
    SAME,
    SHARE,
    Mutant,
    blank,
    instances,
    judge,
    load,
    mutants,
)

from ..together import for_each

pytestmark = pytest.mark.slow

RECORDED = load()
every = for_each(kernel=CATALOGUE)


def has_changed(kernel):
    return kernel.name not in RECORDED or RECORDED[kernel.name].code != kernel.digest


@every
def test_what_is_broken_is_sound_before(kernel, share_runs):
    """But for the template arguments of the catalogue, with which `test_correctness` checks it.

    A kernel that has not changed was sound when its mutants were judged. Where only the judge has changed, the sample
    below tells whether what catches a mutant passes the sound kernel.
    """
    for instance in instances(kernel) if has_changed(kernel) else ():
        if instance not in CATALOGUE:
            mutations.require_sound(instance)


@every
def test_the_recording_has_every_mutant(kernel, record_property):
    if has_changed(kernel):
        return  # all of them are judged below
    verdicts, made = RECORDED[kernel.name].verdicts, mutations._made(kernel.name)
    assert verdicts.keys() == made.keys(), "make mutants"
    *_, (_, _, made, caught, same, survive) = mutations.summary(kernel, verdicts)
    told = f"{kernel.name}: {caught} of {made} mutants caught, {same} are the same code, {survive} equivalent"
    stale = RECORDED[kernel.name].judge != blank(kernel).judge
    record_property("summary", told + ("; verdicts of an older judge, a sample judged again today" if stale else ""))


@every
def test_what_survives_is_argued(kernel):
    verdicts = RECORDED[kernel.name].verdicts
    assert not mutations.unexplained(kernel, verdicts)
    argued = {key for name, key in EQUIVALENT if name == kernel.name}
    assert argued <= {key for key, found in verdicts.items() if found is None}, "argued, but caught or no longer made"


def test_mutants_of_changed_code_are_caught(tmp_path):
    waiting = [kernel for kernel in CATALOGUE if has_changed(kernel)]
    changed = [mutant for kernel in waiting for mutant in mutants(kernel)]
    assert len(changed) <= LIMIT, f"{len(changed)} mutants of changed kernels are to be judged: run `make mutants`"
    survivors = [mutant for mutant in changed if judge(mutant, tmp_path) is None]
    unexplained = [str(mutant) for mutant in survivors if (mutant.kernel.name, mutant.key) not in EQUIVALENT]
    assert not unexplained, "\n".join(unexplained)


def test_a_sample_is_caught_again(tmp_path):
    chosen = mutations.sampled(RECORDED)
    assert {mutant.kernel for mutant in chosen} == set(CATALOGUE)
    assert {mutant.rule for mutant in chosen} == set(RULES)
    older = sum(len(of.verdicts) for name, of in RECORDED.items() if of.judge != blank(find(name)).judge)
    assert len(set(map(str, chosen))) == len(chosen) <= len(CATALOGUE) + len(RULES) + older // SHARE + 1

    def verdict(mutant):
        return judge(mutant, tmp_path, RECORDED[mutant.kernel.name].verdicts[mutant.key])

    found = [(mutant, verdict(mutant)) for mutant in chosen]
    assert not [str(mutant) for mutant, of in found if of in (None, SAME)]
    caught_by = {(mutant.kernel, of.rpartition(": ")[0]) for mutant, of in found if of != "does not compile"}
    assert not [(kernel.name, words) for kernel, words in caught_by if not is_sound(kernel, words)]


def is_sound(kernel, words):
    """Whether an unbroken kernel passes the case of the suite that the words name."""
    listed = [(small, case) for small in instances(kernel) for case in cases(small, on_gpu=False)]
    named = [(small, case) for small, case in listed if mutations.said(case) == words]
    return named and all(mutations.attempt(small, case)[0] == "" for small, case in named)


def test_every_line_that_is_broken_is_reached():
    """Else a path of a kernel that no set of template arguments selects would pass for the same code.

    What survives is other code, and so reached. Registers of which more are declared say nothing of a path, and neither
    does a first value of 0, which the compiler takes for a register that was never set. Only `add_parts.cu` asks who
    owns a step, and tests of its own break that.
    """
    found = defaultdict(set)
    for kernel in CATALOGUE:
        for mutant in mutations._made(kernel.name).values():
            if not re.match(r"(fragment|Group|Words)<[^;(]*> \w+\[|no \w+ = 0;$|.* owner\(", mutant.text):
                found[mutant.file, mutant.line].add(RECORDED[kernel.name].verdicts.get(mutant.key))
    assert not [place for place, verdicts in found.items() if verdicts == {SAME}]


@every
def test_the_rules_reach_everything(kernel):
    """Every barrier, every index, every comparison and α and β of the source is broken by some mutant."""
    made = list(mutations._made(kernel.name).values())
    files = {name: mutations.blanked(text) for name, text in kernel.files.items()}
    code = files[kernel.path.name]
    rules = [mutant.rule for mutant in made]
    assert rules.count("barrier removed") == sum(len(re.findall(r"__sync\w+\(\)", text)) for text in files.values())
    removed = r"asm volatile\(|\((?:STAGES|ahead) - \d\)"
    assert rules.count("copy or wait removed") == sum(len(re.findall(removed, text)) for text in files.values())
    assert rules.count("alpha and beta swapped") == 1
    for rule in set(RULES) - {"barrier removed", "copy or wait removed"}:
        assert rule in rules, rule
    body = code[code.index("{", code.index("__global__")) :]
    for array in "ABC":
        shifted = [m for m in made if m.rule == "index shifted by one" and re.search(rf"\b{array}\[", m.text)]
        assert len(shifted) >= len(re.findall(rf"\b{array}\[", body))
    assert {mutant.file for mutant in made} == kernel.files.keys()
    assert all(mutant.source != kernel.files[mutant.file] for mutant in made)
    assert len({mutant.source for mutant in made}) == len({mutant.key for mutant in made}) == len(made)


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
    const size_t place = size_t(K) * size_t(matrix);
    const unsigned wide = sizeof(Group<float, BN>);
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
        ("barrier removed", ["no __syncthreads();"]),
        (
            "copy or wait removed",
            [
                'no asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2));',
                'asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1));',
            ],
        ),
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
            "guard off by one",
            [
                "if (M >= -1 + 7 || N - 1 < BM) return;",
                "if (M >= 7 || N - 1 < -1 + BM) return;",
                "C[0] = K == 0 ? beta : sums[As[0][1] > 1 + 2.0f];",
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
        (
            "statement dropped",
            [
                "no As[0][k0 % 3] = alpha * reinterpret_cast<const float*>(A)[k0];",
                "no if (M >= 7 || N - 1 < BM) return;",
                "no C[0] = K == 0 ? beta : sums[As[0][1] > 2.0f];",
            ],
        ),
        ("alpha and beta swapped", ["As[0][k0 % 3] = beta * reinterpret_cast<const float*>(A)[k0];"]),
        (
            "offsets narrowed",
            ["const unsigned place = unsigned(K) * size_t(matrix);", "const int place = int(K) * size_t(matrix);"],
        ),
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


def test_of_registers_the_first_of_each_array_is_shifted():
    """One instruction may be given a hundred, and each shift would say the same; the next is another instruction."""
    code = 'asm volatile("" : "+f"(d[0]), "+f"(d[1]) : "r"(a[0]), "r"(a[1]));'
    shifted = [(begin, replacement) for ((begin, _, replacement),) in mutations.with_index_shifted(code * 2)]
    once = [(code.index(f"{array}[") + 2, "(0) + 1") for array in "da"]
    assert shifted == [*once, *((len(code) + begin, replacement) for begin, replacement in once)]


# The verdict itself: it names the case and what is wrong.


@pytest.mark.parametrize(
    ("rung", "before", "after", "found"),
    [
        ("02", "= result;", "= result + 1;", "M, N, K = 3, 5, 1, α = 1, β = 0: wrong values"),
        ("02", "if (alpha == 0.0f) K = 0;", "", "M, N, K = 3, 5, 4, α = 0, β = 2: uninitialised"),
        (
            "02",
            "if (alpha == 0.0f) K = 0;",
            "if (alpha == 0.0f) { K = 0; beta += A[0] > 99; }",
            "M, N, K = 3, 5, 4, α = 0, β = 2: uninitialised",
        ),
        ("02", "if (row >= M || col >= N) return;", "", "M, N, K = 3, 5, 1, α = 1, β = 0: out of bounds"),
        (
            "02",
            "float acc = 0.0f;",
            "float acc = 0.0f * clock();",
            "M, N, K = 3, 5, 1, α = 1, β = 0: an instruction that the simulator does not know",
        ),
        (
            "07",
            "inside = rows >= BM",
            "inside = M > 99999 && rows >= BM",
            "M, N, K = 64, 64, 8, α = 1, β = 0: 528 requests and wavefronts instead of 408",
        ),
        (
            "13",
            "cols = me.lane == 0 ? corner.rows : 0;",
            "cols = corner.rows;",
            "M, N, K = 21, 1, 2052, α = -1.5, β = 0.75, setting (8, 1, 256, 4, 1, 1, 4, 2, 1, 4, 1, 1), division "
            "(0, 7): 11916 bytes written instead of 9312",
        ),
        ("02", "float acc = 0.0f;", "float acc = 0.0f", "does not compile"),
        ("02", "float acc = 0.0f;", "float acc = 0.0f;  // as before", SAME),
    ],
)
def test_a_verdict(tmp_path, rung, before, after, found):
    assert judge(changed(before, after, rung), tmp_path) == found


def changed(before, after, rung="02"):
    kernel = find(rung)
    ((file, text),) = ((name, text) for name, text in kernel.files.items() if before in text)
    return Mutant(kernel, file, "by hand", 1, "", text.replace(before, after), "by hand: ")


def test_a_kernel_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr(mutations, "PATIENCE", 1.0)
    mutant = changed("float acc = 0.0f;", 'float acc = 0.0f; while (K == 1) asm volatile("" ::: "memory");')
    assert judge(mutant, tmp_path) == "M, N, K = 3, 5, 1, α = 1, β = 0: endless"


def test_patience_ends():
    with pytest.raises(mutations.Endless), mutations.patience(0.01):
        while True:
            pass
    with mutations.patience(5):
        pass


def test_the_case_that_caught_it_before_is_tried_first(tmp_path):
    mutant = changed("= result;", "= result + 1;")
    before = "M, N, K = 5, 3, 0, α = -1.5, β = 0.75: wrong values"
    assert judge(mutant, tmp_path, before) == before


def test_a_path_that_only_other_arguments_select(tmp_path):
    """Line by line, 22's tiles and 15's direct path are judged with the arguments that select them."""
    for rung, before, after in (
        ("23", "row < depth ? cols - col : 0", "row <= depth ? cols - col : 0"),
        ("15", "A + (row0 + tileRow) * K + k0, K,", "A + (row0 + tileRow) * K + k0 + 1, K,"),
    ):
        assert judge(changed(before, after, rung), tmp_path) not in (None, SAME)


def test_what_is_left_to_another_kernel_is_the_same_code(tmp_path):
    """Problems that 17 on Hopper hands on say nothing of what is broken in it."""
    kernel, header = find("21_tf32x3_wgmma"), "wgmma.cuh"
    text = kernel.files[header] + "__device__ void nobody_calls() {}\n"
    assert judge(Mutant(kernel, header, "by hand", 1, "", text, "by hand: "), tmp_path) == SAME
    without_barrier = mutations._made("19_producer_warp")["barrier removed: no __syncthreads();"]
    assert judge(without_barrier, tmp_path).endswith("race"), "16 does the suite's first problem"


# The recording.


@pytest.fixture
def three(monkeypatch, tmp_path):
    """Three mutants of 01, of which the second does nothing wrong, and where to record them."""
    kernel = find("01")
    some = mutants(kernel)[:3]
    some[1] = dataclasses.replace(some[1], source=kernel.source.replace("int k = 0;", "unsigned k = 0;"))
    monkeypatch.setattr(mutations, "_made", lambda name: {mutant.key: mutant for mutant in some})
    monkeypatch.setattr(mutations, "RECORD", tmp_path / "mutants.json")
    return kernel, [mutant.key for mutant in some]


def test_nothing_is_recorded_of_a_kernel_that_is_wrong_as_it_is(three, monkeypatch, tmp_path):
    kernel, _ = three
    wrong = dataclasses.replace(kernel, folder=tmp_path)
    wrong.path.write_text(kernel.source.replace("= result;", "= result + 1;"))
    monkeypatch.setattr(mutations, "instances", lambda kernel: [wrong])
    with pytest.raises(RuntimeError, match=r"naive<32, 8> is not right before it is broken: 01_naive: 0 of 59"):
        mutations.record([kernel])
    assert not mutations.RECORD.exists()


@pytest.fixture
def three_of_sound(three, monkeypatch):
    monkeypatch.setattr(mutations, "require_sound", lambda kernel: None)  # which takes longer than all else
    return three


def test_recording_goes_on_where_it_was_interrupted(three_of_sound, monkeypatch):
    kernel, keys = three_of_sound
    judged = []

    def interrupted(mutant, folder, first):
        if len(judged) == 2:
            raise KeyboardInterrupt
        judged.append(mutant.key)
        return None if mutant.key == keys[1] else "case: wrong"

    monkeypatch.setattr(mutations, "judge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mutations.record([kernel])
    assert load()[kernel.name].verdicts == {keys[0]: "case: wrong", keys[1]: None}
    monkeypatch.setattr(mutations, "judge", lambda mutant, folder, first: judged.append(mutant.key) or "later: wrong")
    made = mutations.record([kernel])
    assert judged == keys
    assert made == load()
    assert list(made[kernel.name].verdicts.items())[2:] == [(keys[2], "later: wrong")]


@pytest.mark.parametrize("what", ["code", "judge", "nvrtc"])
def test_all_is_judged_anew_when_something_has_changed(three_of_sound, monkeypatch, what):
    kernel, keys = three_of_sound
    monkeypatch.setattr(mutations, "judge", lambda mutant, folder, first: f"case: after {first}")
    mutations.record([kernel])
    files.write(mutations.RECORD, {kernel.name: dataclasses.replace(load()[kernel.name], **{what: "another"})})
    again = mutations.record([kernel])[kernel.name]
    assert again.verdicts == dict.fromkeys(keys, "case: after case: after ")
    assert getattr(again, what) == getattr(blank(kernel), what)


def test_the_command_line(three_of_sound, monkeypatch, capsys):
    """It prints survivors, explained or not, and a table, and its status tells whether all is explained."""
    _, keys = three_of_sound
    monkeypatch.setenv(mutations.disk.VARIABLE, "")
    assert mutations.main(["01"]) == 1
    printed = capsys.readouterr().out
    assert f"survives: 01_naive, {keys[1]}\n    UNEXPLAINED" in printed
    assert re.search(r"01_naive +all +3 +2 +0 +1", printed)
    monkeypatch.setattr(mutations, "EQUIVALENT", {("01_naive", keys[1]): "k is never negative"})
    assert mutations.main(["01"]) == 0
    assert "k is never negative" in capsys.readouterr().out


def test_the_sample_changes_with_the_code_and_with_nothing_else(monkeypatch):
    def keys():
        return list(map(str, mutations.sampled(RECORDED)))

    chosen = keys()
    assert keys() == chosen
    monkeypatch.setattr(mutations, "JUDGES", mutations.JUDGES[1:])
    assert keys() != chosen


def test_of_an_older_judges_verdicts_a_share_is_judged_again(monkeypatch):
    """A kernel whose judge is today's has one mutant judged again, or those that stand for a rule."""
    older = {name: dataclasses.replace(of, judge="older") for name, of in RECORDED.items()}
    current = {name: dataclasses.replace(of, judge=blank(find(name)).judge) for name, of in RECORDED.items()}
    few, many = (set(map(str, mutations.sampled(known))) for known in (current, older))
    caught = sum(found not in (None, SAME) for of in RECORDED.values() for found in of.verdicts.values())
    assert len(few) <= len(CATALOGUE) + len(RULES)
    assert few < many and caught // SHARE <= len(many) <= caught // SHARE + 1 + len(few)


SOURCE = """
class Judge:
    def judge(self, value: int = 0) -> str:
        return f"{value:d}" if value else ""
LEAST = 1
"""
BETTER_SAID = '''
"""A module that judges."""


class Judge:
    """Judges."""

    def judge(self, value: int = 0) -> str:  # what is wrong, if anything
        """Return what is wrong."""
        return f"{value:d}" if value else ""


LEAST = 1
"""The least."""
'''


def test_a_better_sentence_makes_no_other_judge():
    assert mutations.code_of(SOURCE) == mutations.code_of(BETTER_SAID)
    for before, after in (
        ("= 0", "= 1"),
        ('else ""', 'else " "'),
        (":d", ":x"),
        ("-> str", "-> bytes"),
        ("LEAST", "MOST"),
    ):
        assert mutations.code_of(SOURCE.replace(before, after)) != mutations.code_of(SOURCE)
