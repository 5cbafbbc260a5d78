"""The compiler's cache on disk: an entry is found if all is the same, and never if anything differs."""

import contextlib
import os
from pathlib import Path

import pytest

from lab.model import sass
from ptxsim import cache
from ptxsim import nvrtc as nvrtc_module
from ptxsim.cache import cached
from sgemm_tutorial import CompileError, compiler, find

from .sources import probe


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own, empty."""
    place = tmp_path / "cache" / "of sgemm"
    monkeypatch.setenv(cache.VARIABLE, str(place))
    compiler._compile.cache_clear()
    sass.disassembled.cache_clear()
    yield place
    compiler._compile.cache_clear()
    sass.disassembled.cache_clear()


class Maker:
    """Makes what it is told to, and counts how often."""

    def __init__(self, *value):
        self.value, self.calls = value, 0

    def __call__(self):
        self.calls += 1
        return self.value


def entries(folder):
    return sorted(folder.glob("*")) if folder.is_dir() else []


TEXT = ("PTX é\n\0", "".join(map(chr, range(256))), "")


def test_is_made_once(folder):
    make = Maker(*TEXT)
    assert cached(("a", ("b", "c")), make) == cached(("a", ("b", "c")), make) == TEXT
    assert make.calls == 1
    assert len(entries(folder)) == 1


def test_another_key_is_another_entry(folder):
    keys = [("a", "b"), ("ab",), ("a", "b", ""), (("a", "b"),), ("b", "a"), ("a",), ("a\n", "b")]
    for number, key in enumerate(keys):
        assert cached(key, Maker(str(number))) == (str(number),)
    assert len(entries(folder)) == len(keys)
    assert [cached(key, Maker("anew")) for key in keys] == [(str(number),) for number in range(len(keys))]


@pytest.mark.parametrize("damage", ["empty", "shorter", "longer", "changed", "something else"])
def test_a_damaged_entry_is_made_anew(folder, damage):
    cached(("a",), Maker(*TEXT))
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    changed = bytearray(whole)
    changed[-9] ^= 1
    broken = {"empty": b"", "shorter": whole[:-7], "longer": whole + b"\n", "changed": bytes(changed)}
    entry.write_bytes(broken.get(damage, b"<html>\n</html>"))
    make = Maker("anew")
    assert cached(("a",), make) == cached(("a",), make) == ("anew",)
    assert make.calls == 1


def test_what_fails_is_not_kept(folder):
    def fail():
        raise CompileError("no")

    with pytest.raises(CompileError):
        cached(("a",), fail)
    assert cached(("a",), Maker("yes")) == ("yes",)


def test_works_where_nothing_can_be_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    for place in (str(tmp_path / "file"), str(tmp_path / "file" / "below"), "/proc/nowhere", "~nobody-at-all/x", ""):
        monkeypatch.setenv(cache.VARIABLE, place)
        make = Maker("made")
        assert cached(("a",), make) == cached(("a",), make) == ("made",)
        assert make.calls == 2


def test_a_full_disk_leaves_nothing_behind(folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert cached(("a",), Maker("made")) == ("made",)
    assert not entries(folder)


def test_lies_where_the_user_keeps_caches(tmp_path, monkeypatch):
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cached(("a",), Maker("made"))
    assert len(entries(tmp_path / "xdg" / "sgemm-tutorial")) == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    cached(("a",), Maker("made"))
    assert len(entries(tmp_path / "home" / ".cache" / "sgemm-tutorial")) == 1


def test_what_was_not_used_for_longest_goes_first(folder, monkeypatch):
    incompressible = [os.urandom(1000).hex() for _ in range(4)]
    for number in range(3):
        cached((str(number),), Maker(incompressible[number]))
    for age, entry in enumerate(entries(folder)):
        os.utime(entry, (age, age))
    oldest = entries(folder)[0]
    (folder / "notes.txt").write_text("not ours" * 10_000)
    kept = [number for number in range(3) if cached((str(number),), Maker("anew")) != ("anew",)]
    assert kept == [0, 1, 2]  # and all used just now
    os.utime(oldest, (1, 1))
    monkeypatch.setattr(cache, "MOST", 3 * oldest.stat().st_size + 100)
    cached(("3",), Maker(incompressible[3]))
    assert not oldest.exists()
    assert len(entries(folder)) == 3 + 1
    assert (folder / "notes.txt").exists()


# Compiled kernels.


@pytest.fixture
def compilations(monkeypatch):
    """Return the arguments of each call of NVRTC."""
    asked, nvrtc = [], nvrtc_module._nvrtc

    def counting(*question):
        asked.append(question)
        return nvrtc(*question)

    monkeypatch.setattr(nvrtc_module, "_nvrtc", counting)
    return asked


def built(kernel, architecture="sm_90"):
    """Build as a new process would."""
    compiler._compile.cache_clear()
    return kernel.build(architecture)


def test_the_same_kernel_is_compiled_once(compilations):
    assert built(find("03")) == built(find("03"))
    assert len(compilations) == 1


def test_whatever_changes_is_compiled_anew(tmp_path, compilations, monkeypatch):
    kernel = probe(tmp_path, "C[t] = 1;")
    binaries = [built(kernel, "compute_90"), built(kernel), built(kernel, "sm_80"), built(kernel.variant(BN=64))]
    binaries.append(built(probe(tmp_path, "C[t] = 2;")))
    binaries.append(built(probe(tmp_path, "C[t] = 1;")))
    assert len(compilations) == 5
    assert binaries[-1] == binaries[1]
    assert len({(binary.ptx, binary.cubin) for binary in binaries}) == 5
    monkeypatch.setattr(nvrtc_module, "toolchain", lambda: ("another",))
    built(kernel)
    assert len(compilations) == 6


@pytest.mark.parametrize(("old", "new", "times"), [("Compile one function", "Make one", 1), ("-lineinfo", "-G", 2)])
def test_docstrings_of_what_compiles_make_no_difference(old, new, times, tmp_path, compilations, monkeypatch):
    """Its code does: entries hold what that makes of the compiler's answers."""
    text = Path(nvrtc_module.__file__).read_text(encoding="utf-8")
    assert old in text
    kernel, other = probe(tmp_path, "C[t] = 1;"), tmp_path / "nvrtc.py"
    other.write_text(text.replace(old, new), encoding="utf-8")
    built(kernel)
    monkeypatch.setattr(nvrtc_module, "__file__", str(other))
    nvrtc_module._text.cache_clear()
    built(kernel)
    nvrtc_module._text.cache_clear()
    assert len(compilations) == times


@pytest.mark.parametrize(
    ("body", "anew"),
    [("C[t] = 1;", 0), ("__shared__ float s[99999]; s[t] = 1; C[t] = s[0];", 1)],
    ids=["compiled", "refused by ptxas"],
)
def test_ptx_alone_is_taken_from_beside_machine_code(body, anew, tmp_path, compilations, monkeypatch):
    kernel = probe(tmp_path, body)
    alone = "probe", tuple(kernel.files.items()), kernel.expression, "compute_90"
    with contextlib.suppress(CompileError):
        kernel.build()
    compiler._compile.cache_clear()
    beside = compiler._compile(*alone)
    assert len(compilations) == 1 + anew
    assert "warning" in beside.log and "ptxas" not in beside.log
    monkeypatch.setenv(cache.VARIABLE, "")
    compiler._compile.cache_clear()
    assert compiler._compile(*alone) == beside
    assert len(compilations) == 2 + anew


def test_what_does_not_compile_is_asked_once(tmp_path, compilations):
    said = []
    for body in ("C[t] = ;", "C[t] = ;", 'asm("no.such.thing;");', 'asm("no.such.thing;");'):
        with pytest.raises(CompileError) as refused:
            built(probe(tmp_path, body))
        said.append(str(refused.value))
    assert len(compilations) == 2
    assert said[0] == said[1] and "error: expected an expression" in said[0]
    assert said[2] == said[3] and "ptxas" in said[2]


def test_a_header_is_part_of_the_source(compilations):
    source = '#include "value.cuh"\ntemplate <int N> __global__ void f(int* a) { a[0] = VALUE; }'
    ptx = []
    for value in (41, 42, 41):
        compiler._compile.cache_clear()
        files = (("f.cu", source), ("value.cuh", f"#define VALUE {value}\n"))
        ptx.append(compiler._compile("f", files, "f<1>", "sm_90").ptx)
    assert len(compilations) == 2
    assert ptx[0] == ptx[2] != ptx[1]


def test_where_one_works_makes_no_difference(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, "")
    binary = built(find("07"))
    monkeypatch.chdir(tmp_path)
    for name in find("07").files:
        (tmp_path / name).write_text("#error not this one")
    assert built(find("07")) == binary
    assert 'edges.cuh"' in binary.ptx and str(tmp_path) not in binary.ptx


def test_machine_code_is_disassembled_once(monkeypatch):
    first = sass.sass(find("03"))
    sass.disassembled.cache_clear()
    monkeypatch.setattr(sass, "_listing", None)
    assert sass.sass(find("03")) == first
    with pytest.raises(TypeError):
        sass.sass(find("02"))
