"""A page is recorded as clean only if axe has found nothing on it, and only as long as nothing in it has changed."""

import pytest

from tools import audit, browsers

NAMES = [f"{name}.html" for name in "abcde"]


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book of five pages, which need not be built, and a recording that is not there yet."""
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "page.css").write_text("p { color: black }")
    (tmp_path / "index.html").write_text('<meta http-equiv="Refresh" content="0; url=a.html" />')
    for name in NAMES:
        (tmp_path / name).write_text(f"<p>{name}</p>")
    monkeypatch.setattr(audit, "RECORD", tmp_path / "audited.json")
    monkeypatch.setattr(audit, "built", lambda folder: tmp_path)
    return tmp_path


@pytest.fixture
def looked_at(monkeypatch):
    """Let axe find what is said here, and nothing else."""
    wrong = {}
    monkeypatch.setattr(
        browsers,
        "reported",
        lambda browser, script, book, names, scripts: {name: wrong.get(name, []) for name in names},
    )
    return wrong


def test_what_is_clean_is_recorded_and_nothing_else(book, looked_at, capsys):
    looked_at["c.html"] = ["dark: color-contrast, 7 times"]
    assert audit.main() == 1
    assert audit.load() == {name: digest for name, digest in audit.digests(book).items() if name != "c.html"}
    out = capsys.readouterr().out
    assert "c.html\n    dark: color-contrast, 7 times\n" in out and "4 of 5 pages are clean" in out
    looked_at.clear()
    assert audit.main() == 0
    assert audit.load() == audit.digests(book)
    looked_at["b.html"] = ["phone: region, once"]
    assert audit.main() == 1
    assert "b.html" not in audit.load()  # any more


def test_what_is_not_recorded_is_looked_at_and_a_few_of_the_others(book, looked_at, monkeypatch):
    assert audit.due(audit.digests(book)) == NAMES
    audit.main()
    few = audit.due(audit.digests(book))
    assert few == audit.due(audit.digests(book)) and len(set(few)) == audit.SAMPLE
    (book / "d.html").write_text("<p>changed</p>")
    changed, *others = audit.due(audit.digests(book))
    assert changed == "d.html" and len(set(others) - {"d.html"}) == audit.SAMPLE


@pytest.mark.parametrize("what", ["style", "script", "axe", "how it looks", "how pages are shown"])
def test_all_are_looked_at_when_something_has_changed_that_all_hang_on(book, looked_at, monkeypatch, what):
    audit.main()
    if what == "style":
        (book / "_static" / "page.css").write_text("p { color: silver }")
    elif what == "script":
        (book / "_static" / "players.js").write_text("")
    elif what == "axe":
        (book / "axe.min.js").write_text("")
        monkeypatch.setattr(audit, "AXE", book / "axe.min.js")
    elif what == "how it looks":
        monkeypatch.setattr(audit, "AUDIT", audit.AUDIT.replace("light", "dark"))
    else:
        monkeypatch.setattr(browsers, "PRELUDE", "")
    assert audit.due(audit.digests(book)) == NAMES
