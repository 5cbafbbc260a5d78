"""The start page's ladder says and draws what was recorded."""

import re
from xml.etree import ElementTree

import pytest

import lab
from sgemm_tutorial import ArgumentError, find

SIZE = 4096


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
