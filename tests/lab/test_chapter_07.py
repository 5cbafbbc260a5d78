"""Chapter 07's sentences on recorded times and counts hold on every card that has them."""

import pytest

from lab.chapters import vectorized as page
from lab.records import cards


@pytest.mark.parametrize("card", cards.recorded())
def test_what_its_sentences_compare_holds(card, monkeypatch):
    monkeypatch.setenv(cards.VARIABLE, card)
    found = page.figures()
    assert ("–" in found.values()) == ("variant_profiles" not in cards.recordings())
    assert len(page.times().rows) == len(page.steps())


def test_the_changes_add_up_to_the_whole(monkeypatch):
    monkeypatch.setenv(cards.VARIABLE, "h200")
    *_, flat, last = map(page.milliseconds, page.steps().values())
    ms = {name: float(figure.removesuffix(" ms")) for name, figure in page.figures().items() if figure.endswith(" ms")}
    assert ms["whole"] + ms["fours"] == pytest.approx(float(page.figures()["both"]), abs=0.011)
    assert flat + ms["cost"] == pytest.approx(ms["turned"], abs=0.011), "transposing costs the last row's loss"
    assert ms["turned"] == ms["bare ms"] == pytest.approx(last, abs=0.006), "as the sentences print them"
