"""A kernel's file is its reader's to change: whatever is done to one, the others and what does not need it work on."""

import re
import shutil
import subprocess
import sys

import pytest

from lab import find_variant, recorded, resources_table, variants
from lab.__main__ import main
from sgemm_tutorial import (
    CATALOGUE,
    LADDER,
    ArgumentError,
    CompileError,
    Kernel,
    TutorialError,
    find,
    gpu,
    matrices,
    simulate,
)
from sgemm_tutorial.paths import KERNELS

pytestmark = pytest.mark.slow

each = pytest.mark.parametrize("kernel", CATALOGUE, ids=lambda kernel: kernel.name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the kernels' folder, which all kernels are read from."""
    copy = tmp_path / "kernels"
    shutil.copytree(KERNELS, copy)
    monkeypatch.setattr(Kernel, "path", property(lambda self: copy / f"{self.name}.cu"))
    monkeypatch.setattr(gpu, "available", lambda: False)
    monkeypatch.chdir(tmp_path)
    for kernel in CATALOGUE:
        kernel._launches.clear()  # of the files in their own folder
    return copy


def delete(path):
    path.unlink()


def empty(path):
    path.write_text("")


def misspell(path):
    path.write_text(path.read_text().replace("threadIdx", "threadIxd"))


def fill_with_bytes(path):
    path.write_bytes(b"\xff\xfe\x00")


def rename_the_function(path):
    path.write_text(re.sub(r"\b[a-z_0-9]+\(int M, int N", "another(int M, int N", path.read_text()))


def take_an_argument(path):
    path.write_text(path.read_text().replace("float beta, ", "").replace("beta", "alpha"))


def stop(path):
    """Give it an instruction that the simulator does not know."""
    path.write_text(path.read_text().replace("{\n", '{\n    asm volatile("brkpt;");\n', 1))


WAYS = (delete, empty, misspell, fill_with_bytes, rename_the_function)


def test_no_kernel_is_read_by_an_import():
    """So that no change of one can break it. Every module is imported, in a process of its own."""
    program = """
import importlib, pkgutil, sys
def watch(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".cu"):
        raise AssertionError(arguments)
sys.addaudithook(watch)
import sgemm_tutorial
for module in pkgutil.walk_packages(sgemm_tutorial.__path__, "sgemm_tutorial."):
    importlib.import_module(module.name)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@each
def test_commands_that_do_not_need_a_broken_kernel_work(kernel, folder, capsys, share_runs):
    number = CATALOGUE.index(kernel)
    other = CATALOGUE[(number + 1) % len(CATALOGUE)].name
    WAYS[number % len(WAYS)](kernel.path)
    for command in (
        ("show", other),
        ("check", other, "--sizes", "8", "--simulate"),
        ("trace", other, "--size", "8"),
        ("bench", "--kernels", "01" if other.startswith("02") else "02"),
        ("compare", "ladder", "ladder"),
    ):
        if command[2:] != (kernel.name[:2],):
            assert (main(command), capsys.readouterr().err) == (0, "")


@each
def test_commands_for_all_go_on_without_a_broken_kernel(kernel, folder, capsys, share_runs):
    WAYS[CATALOGUE.index(kernel) % len(WAYS)](kernel.path)
    for command in (("list",), ("check", "all", "--sizes", "8", "--simulate")):
        assert main(command) == 2
        out, err = capsys.readouterr()
        assert err.count("error: ") == 1 + err.count(": error: ") and kernel.name in err
        assert all(other.name in out for other in CATALOGUE if other != kernel)
    assert (kernel.path.name in err) == (kernel.path.name in err.splitlines()[0])  # the file is named at once
    status = main(("bench", "--kernels", f"02,03,{kernel.name}"))
    out, err = capsys.readouterr()
    assert "03_shared_tile" in out or kernel.name.startswith("03")
    assert status == (2 if err else 0)


@each
def test_what_needs_a_broken_kernel_gives_one_clear_error(kernel, folder, capsys):
    for breaks in WAYS:
        shutil.copy(KERNELS / kernel.path.name, kernel.path)
        breaks(kernel.path)
        for command in (
            ("show", kernel.name, "--report"),
            ("check", kernel.name, "--sizes", "8", "--simulate"),
            ("trace", kernel.name, "--size", "8"),
        ):
            assert main(command) == 2
            out, err = capsys.readouterr()
            assert out == "" and err.startswith("error: ") and kernel.path.name in err.splitlines()[0]
        assert len(resources_table([kernel, kernel]).rows) == 2
        assert kernel.path.name in resources_table([kernel]).note


@pytest.mark.parametrize("breaks", [delete, fill_with_bytes])
def test_the_recording_of_the_others_is_shown(breaks, folder):
    breaks(find("05").path)
    assert {point.kernel for point in recorded().points} == {kernel.name for kernel in LADDER} - {find("05").name}
    with pytest.raises(ArgumentError, match=r"05_thread_tile_2d\.cu, which cannot be read"):
        recorded("05")


@pytest.mark.parametrize("breaks", [take_an_argument, stop])
def test_a_kernel_that_compiles_and_cannot_be_run(breaks, folder):
    kernel = find("02")
    breaks(kernel.path)
    with pytest.raises(TutorialError, match="coalesced"):
        simulate(kernel, *matrices(8, 8, 8, on_gpu=False))


CHANGES = (
    ("06", "As[BM][BK]", "As[BM][BK + 1]"),
    ("07", "As[BK][BM]", "As[BK][BM + 4]"),
    ("08", "return k / 4 * (128 / BK) % 32;", "return 0;"),
    ("09", "m % 2 ? TN - 1 - i : i", "i"),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[0])
def test_what_the_book_invites_to_change(change, folder, capsys):
    """The kernel is as good as before. Only variants that change the same place cannot be made any more."""
    name, old, new = change
    kernel = find(name)
    assert old in kernel.source
    kernel.path.write_text(kernel.source.replace(old, new))
    assert main(("check", name, "--sizes", "8", "--simulate")) == 0
    assert kernel.digest == kernel.variant(**kernel.parameters).digest
    changed = [variant for variant in variants.VARIANTS if variant.name == kernel.name and variant.edits]
    refused = []
    for variant in changed:
        assert find_variant(name, variant.label, **variant.parameters) is variant
        try:
            assert variant.source
        except ArgumentError as error:
            assert error.argument == "edits" and kernel.path.name in str(error)
            refused.append(variant)
    assert refused


def test_every_variant_can_be_made_of_the_kernels_as_they_are():
    every = (*variants.VARIANTS, *variants.FRAGMENTS, *variants.STEPS, *variants.STEPS_NOT_COUNTED)
    for variant in every:
        texts = {path.name: path.read_text(encoding="utf-8") for path in variant.paths if path.is_file()}
        assert (variant.files == texts) == (not variant.edits)  # an edit may be of a header


def test_a_log_names_the_file_and_its_line(folder):
    kernel = find("05")
    kernel.path.write_text(kernel.source.replace("{\n", "{\nnonsense;\n", 1))
    line = 1 + kernel.source.splitlines().index("nonsense;")
    with pytest.raises(CompileError) as caught:
        kernel.build()
    assert str(caught.value).startswith(f"{kernel.path.name} does not compile for sm_90:\n{kernel.path.name}({line}): ")
