import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from sgemm_tutorial import ArgumentError, Table
from sgemm_tutorial.table import Tabular, shown

TABLE = Table(("kernel", "bytes", "share"), [("01_naive", 1024, "67%"), ("<b>[red]", 2, None)], "A & B", "a note")


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (np.int64(4096), "4,096"),
        (66.9, "66.9"),
        (0.0, "0.00"),
        (9.999, "10.0"),
        (1234.5, "1,230"),
        (-0.00012345, "-0.000123"),
        (np.float32(3.14159), "3.14"),
        (1.5e-7, "1.5e-07"),
        (float("nan"), "nan"),
        (True, "True"),
        (None, "–"),
        ("2.50", "2.50"),
    ],
)
def test_a_cell_reads_as_its_kind_of_value_should(cell, text):
    assert shown(cell) == text


def test_plain_text_is_aligned():
    assert str(TABLE).splitlines() == [
        "A & B",
        "kernel    bytes  share",
        "────────  ─────  ─────",
        "01_naive  1,024    67%",
        "<b>[red]      2      –",
        "a note",
    ]
    assert repr(TABLE) == str(TABLE)


class Tags(HTMLParser):
    """Checks that tags nest, and keeps what they hold."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.scopes = [], {}, []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.scopes += [value for name, value in attributes if name == "scope"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if text.strip():
            self.texts.setdefault(self.open[-1], []).append(text)


def test_html_is_well_formed_semantic_and_escaped():
    html = TABLE._repr_html_()
    tags = Tags()
    tags.feed(html)
    assert not tags.open
    assert tags.texts == {
        "caption": ["A & B"],
        "th": ["kernel", "bytes", "share"],
        "td": ["01_naive", "1,024", "67%", "<b>[red]", "2", "–"],
        "p": ["a note"],
    }
    assert tags.scopes == ["col"] * 3
    assert "color" not in html and "colour" not in html
    assert re.findall(r"text-align:(\w+)\">(?:1,024|67%|01_naive)", html) == ["left", "right", "right"]


def test_empty_table_still_has_its_columns():
    assert str(Table(("a", "bc"), [])) == "a  bc\n─  ──"


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ArgumentError, match=r"rows: got 1 cells.*needs 2 cells"):
        Table(("a", "b"), [(1, 2), (3,)])


def test_a_result_shows_itself_as_its_table():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Result(Tabular):
        bytes: int

        def table(self):
            return Table(("bytes",), [(self.bytes,)])

    result, table = Result(1024), Result(1024).table()
    assert str(result) == repr(result) == str(table) and "1,024" in str(table)
    assert result._repr_html_() == table._repr_html_()
