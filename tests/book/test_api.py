"""The API reference has every public name."""

import re
from pathlib import Path
from types import ModuleType

import sgemm_tutorial as sg

PAGE = (Path(__file__).resolve().parents[2] / "book" / "api.md").read_text()


def test_every_public_name_is_on_the_page():
    named = set(re.findall(r"auto(?:function|class|exception|data):: (?:[\w.]+\.)?(\w+)$", PAGE, re.MULTILINE))
    modules = set(re.findall(r"^### sg\.(\w+)$", PAGE, re.MULTILINE))
    assert modules == {name for name in sg.__all__ if isinstance(getattr(sg, name), ModuleType)}
    assert named >= set(sg.__all__) - modules
