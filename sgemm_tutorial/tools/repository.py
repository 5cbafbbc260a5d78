"""A Sphinx extension: where the repository's address is known, the book's pages lead there.

``make book REPOSITORY=https://github.com/…`` gives each page "view source" and "edit this page", and each notebook
"open in Colab". Without it, the book names no address.
"""

from __future__ import annotations

import os
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

BRANCH = "main"
COLAB = "https://colab.research.google.com"


def setup(app: Sphinx) -> dict[str, Any]:
    """Have Sphinx ask `links` once it has read its configuration."""
    app.connect("config-inited", links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def links(app: Sphinx, config: Config) -> None:
    """Turn on what the theme can make of the address in the environment's REPOSITORY, if there is one."""
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
