"""A Sphinx extension for the book's pages, for everything that the theme lacks.

Links: where the repository's address is known, ``make book REPOSITORY=https://github.com/…`` gives each page "view
source" and "edit this page", and each notebook "open in Colab". Without it, the book names no address.

Roles and names: those that Sphinx and the theme leave out, or give where they mean nothing, for screen readers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

BRANCH = "main"
COLAB = "https://colab.research.google.com"
ROLES = (
    ('<div id="pst-primary-sidebar"', '<div role="complementary" aria-label="Book" id="pst-primary-sidebar"'),
    ('<aside class="footnote-list', '<aside role="note" class="footnote-list'),  # there may be several,
    ('role="doc-footnote"', 'role="note"'),  # and several in each
    ('<div role="list" class="citation-list">', '<div class="citation-list">'),  # its parts are no items of a list
    (' role="doc-biblioentry"', ""),
    ('<summary aria-label="Toggle hidden content">', "<summary>"),  # what can be read on a fold is its name
)
"""Texts in the built pages, and their replacements. No replacement contains a text that is replaced."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Have Sphinx ask for links once it has read its configuration, and mend roles at the end."""
    app.connect("config-inited", links)
    app.connect("build-finished", roles)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def links(app: Sphinx, config: Config) -> None:
    """Turn on the theme's links to the repository, if the environment's REPOSITORY has its address."""
    if address := os.environ.get("REPOSITORY"):
        config.html_theme_options |= {
            "repository_url": address.rstrip("/"),
            "repository_branch": BRANCH,
            "path_to_docs": "book",
            "use_repository_button": True,
            "use_source_button": True,
            "use_edit_page_button": True,
            "launch_buttons": {"colab_url": COLAB},
        }


def roles(app: Sphinx, exception: Exception | None) -> None:
    """Mend roles in every page, also where an earlier build has mended them."""
    for path in Path(app.outdir).glob("*.html"):
        text = mended = path.read_text(encoding="utf-8")
        for old, new in ROLES:
            mended = mended.replace(old, new)
        if mended != text:
            path.write_text(mended, encoding="utf-8")
