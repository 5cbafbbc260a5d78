"""The start page's ladder and a chapter's strip say and draw what was recorded."""

import re
from xml.etree import ElementTree

import pytest

import lab
from lab.draw.climb import SIZE
from lab.records import timings
from sgemm_tutorial import CATALOGUE, ArgumentError, find


def bars(html):
    """Return each bar's parts, left and width in percent, and where its line for cuBLAS stands."""
    found = []
    for bar in ElementTree.fromstring(f"<p>{html}</p>").iterfind(".//span[@class='sg-bar']"):
        styles = [part.get("style") for part in bar]
        numbers = [[float(n) for n in re.findall(r"([\d.]+)%", style)] for style in styles]
        found.append((numbers[:-1], *numbers[-1]))
    return found


def test_every_bar_leads_to_its_chapter_and_is_to_scale():
    record = lab.climb(sizes=[SIZE])
    html = lab.draw.climb(record)._repr_html_()
    assert re.findall(r'<a href="(\w+)\.html"><b>(\w+)</b>', html) == [(p.kernel, p.kernel) for p in record.points]
    drawn = bars(html)
    assert len(drawn) == len(record.points)
    for point, ([(left, width)], goal) in zip(record.points, drawn, strict=True):
        assert left == 0 and width == pytest.approx(point.percent_of_cublas / 100 * goal, abs=0.1)
        assert f">{point.percent_of_cublas:.1f}%</span>" in html and find(point.kernel).idea[1:20] in html
    with pytest.raises(ArgumentError, match="size: got 7"):
        lab.draw.climb(record, 7)


@pytest.mark.parametrize("kernel", [kernel.name for kernel in (*CATALOGUE, find("13"))])
def test_a_strip_goes_from_the_kernel_before(kernel):
    mine = [p for p in timings.climb(SIZE).points if p.kernel == kernel]
    (point,) = mine or timings.recorded(kernel, SIZE, timings.OTHERS).points
    strip = lab.draw.strip(kernel)
    assert f"{point.percent_of_cublas:.1f}% of cuBLAS, at M = N = K = {SIZE}" in repr(strip)
    ((*parts,), goal), *_ = bars(strip._repr_html_())
    assert sum(width for _, width in parts) / goal == pytest.approx(
        max(point.percent_of_cublas, started(strip)) / 100, abs=0.002
    )


def started(strip):
    """Return from which share of cuBLAS's speed a strip goes."""
    found = re.search(r"From ([\d.]+)% in", repr(strip))
    return float(found[1]) if found else 0.0


def test_which_kernel_comes_before():
    assert "in 06_register_fragments to" in repr(lab.draw.strip("07"))
    assert "in 11_async_pipeline to" in repr(lab.draw.strip("13"))
    assert "in 01_naive to" in repr(lab.draw.strip("22", "01"))
    for first in (lab.draw.strip("01"), lab.draw.strip("14"), lab.draw.strip("22", "")):
        assert started(first) == 0
