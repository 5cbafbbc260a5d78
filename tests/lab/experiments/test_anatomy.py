"""The reader of ncu's output tells cuBLAS's launches apart, product by product, and understands their names."""

import csv
import io
import subprocess
import types

import pytest

from lab.experiments import anatomy, profiles
from lab.experiments import anatomy as measuring
from lab.experiments.anatomy import (
    CLOSELY,
    METRICS,
    SIZES,
)
from lab.measure import driver, nsight
from lab.records import cards
from sgemm_tutorial import ArgumentError, DeviceError, cublas, find

from ..records.test_timings import PROVENANCE

CUTLASS = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)"
REDUCE = "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float, (bool)1>(cublasSplitKParams<T5>, const T3 *)"


class Ncu:
    """Answers as ncu does: of each product a marker and its kernels; two where K is split."""

    def __init__(self, lost=False):
        self.runs, self.lost = [], lost

    def __call__(self, command, **_):
        if "--version" in command:
            return "Version 2025.3.1.0 (build 1)"
        metrics = command[command.index("--metrics") + 1].split(",")
        items = [measuring.plan().items[int(place)] for place in command[command.index("anatomy") + 1 :]]
        self.runs.append((len(items), len(metrics)))
        out = io.StringIO()
        rows = csv.DictWriter(out, ("ID", "Kernel Name", "Block Size", "Grid Size", *metrics), quoting=csv.QUOTE_ALL)
        rows.writeheader()
        rows.writerow({"ID": ""} | dict.fromkeys(metrics, "unit"))
        for what, (M, _, K) in items:
            product = ["spin(long long)", CUTLASS if what is cublas.sgemm else "void autotuned<128>(int)"]
            for name in product + [REDUCE] * (K > M and not self.lost):
                took = {"gpu__time_duration.sum": "1,500" if "Kernel2" in name or "auto" in name else "200"}
                counted = dict.fromkeys(metrics, "2") | took
                rows.writerow(
                    {"ID": 0, "Kernel Name": name, "Block Size": "(256, 1, 1)", "Grid Size": f"({M}, 2, 3)"} | counted
                )
        text = "" if self.lost and len(self.runs) > 1 else "==PROF== Connected\n" + out.getvalue()
        return types.SimpleNamespace(returncode=0, stdout=text, stderr="")


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The folder of a card of which the recording was made with a stand-in for ncu."""
    ncu = Ncu()
    monkeypatch.setattr(nsight.shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", ncu)
    monkeypatch.setattr(nsight, "provenance", lambda: dict(PROVENANCE))
    monkeypatch.setattr(nsight, "version", lambda: "2025.3")
    monkeypatch.setattr(cards, "RESULTS", tmp_path)
    monkeypatch.setenv(cards.VARIABLE, "imaginary")
    driver.record(measuring.plan(), tmp_path / "imaginary")
    return ncu


def test_each_launch_is_its_products(recorded):
    plain = len(SIZES) - len(CLOSELY)
    assert sum(products for products, _ in recorded.runs) == plain + 2 * len(CLOSELY)
    assert {metrics for _, metrics in recorded.runs} == {len(METRICS), len({**METRICS, **profiles.METRICS})}
    deep = anatomy.of(cublas.sgemm, (64, 64, 16384))
    assert ["splitKreduce_kernel" in launch.name for launch in deep.launches] == [False, True]
    assert (deep.main.grid, deep.main.block) == ([64, 2, 3], [256, 1, 1])
    assert deep.main.counts == {
        "registers": 2,
        "static shared bytes": 2,
        "dynamic shared bytes": 2,
        "nanoseconds": 1500,
    }
    closely = anatomy.of(find("13"), CLOSELY[0])
    assert "autotuned" in closely.main.name
    assert closely.main.counts.keys() == {**METRICS, **profiles.METRICS}.keys()


def test_a_product_that_was_not_recorded_is_refused(recorded):
    with pytest.raises(ArgumentError, match="size: got 77×77×77, needs what was recorded of sgemm: 256×256×256; "):
        anatomy.of(cublas.sgemm, (77, 77, 77))


def test_a_product_without_launches_is_an_error(recorded, monkeypatch):
    monkeypatch.setattr(measuring, "profiled", lambda command, metrics: [{"Kernel Name": "spin(long long)"}] * 16)
    with pytest.raises(DeviceError, match="ncu saw"):
        list(measuring.measure(measuring.plan().items))
