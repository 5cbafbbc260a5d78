"""Lets axe look at every page of the book, and records those on which it finds nothing that keeps readers out.

``python -m tools.audit`` builds the book, looks at all of its pages with a Chromium, prints what is
found, and records in ``book/results/audited.json`` the pages that are clean, each with a digest of all that axe's
verdict depends on. The suite looks at the pages that are not recorded as they are now, and at a few of the others.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import axe_core_python

from lab.paths import RESULTS
from lab.records import files

from . import browsers
from .sampling import sample

ROOT = RESULTS.parent.parent
RECORD = RESULTS / "audited.json"
SAMPLE = 2  # pages
AXE = Path(axe_core_python.__file__).with_name("axe.min.js")

# Shows each page in a window and lets axe look for what keeps readers out: all of its rules, wide; contrast in the dark
# too; and on a phone all but contrast, which is the same. Of texts that look alike in code and figures the first few
# stand for all, as contrast is a matter of style, and nothing may move or fade meanwhile.
AUDIT = """
const STILL = "*, *::before, *::after { animation: none !important; transition: none !important }";
const ALIKE = ".highlight span, svg.sg-figure > *, dt.sig span, mjx-container *";
const ENOUGH = 2;
function thin(page, view) {
  const seen = new Map(), twins = [];
  for (const element of page.querySelectorAll(ALIKE)) {
    const style = view.getComputedStyle(element), box = element.closest("[class]");
    const key = [element.tagName, box.getAttribute("class"), style.color, style.fill, style.backgroundColor,
                 style.fontWeight, style.fontSize].join();
    seen.set(key, (seen.get(key) || 0) + 1);
    if (seen.get(key) > ENOUGH) twins.push(element);
  }
  twins.forEach(element => element.remove());
}
async function audit(name) {
  const {frame, page, view} = await show(name, 1280, 900);
  page.head.append(Object.assign(page.createElement("style"), {textContent: STILL}));
  thin(page, view);
  const axe = Object.assign(page.createElement("script"), {src: "/axe.js"});
  const ready = new Promise(done => axe.onload = done);
  page.head.append(axe);
  await ready;
  const found = [];
  async function run(how, options) {
    await new Promise(done => view.requestAnimationFrame(() => view.requestAnimationFrame(done)));
    const {violations} = await view.axe.run(page, {resultTypes: ["violations"], ...options});
    for (const {id, nodes} of violations)
      found.push(`${how}: ${id}, ${nodes.length} times, ${nodes[0].html.slice(0, 150)}: ${nodes[0].failureSummary}`);
  }
  const wear = theme => { page.documentElement.dataset.theme = page.documentElement.dataset.mode = theme; };
  wear("light");
  await run("light", {});
  wear("dark");
  await run("dark", {runOnly: ["color-contrast"]});
  frame.width = 400;
  await run("phone", {rules: {"color-contrast": {enabled: false}}});
  frame.remove();
  return found;
}
addEventListener("load", () => report(audit, 1));
"""


def built(folder: Path) -> Path:
    """Build the book in a folder as ``make book`` does, and return where its pages are.

    Raises
    ------
    RuntimeError
        It cannot be built without a warning; the message has what was said.
    """
    jupyter_book = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    options = ["--config", "_config.yml", "--path-output", str(folder), "-W", "-n", "--keep-going", "--quiet"]
    done = subprocess.run([*jupyter_book, "build", "book", *options], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return folder / "_build" / "html"


def digests(book: Path) -> dict[str, str]:
    """Return a digest for each of the book's pages: of the page, of all that pages load, and of how axe is run."""
    loaded = hashlib.sha256(browsers.PRELUDE.encode() + AUDIT.encode() + AXE.read_bytes())
    for path in sorted(path for folder in ("_static", "_images") for path in (book / folder).rglob("*")):
        if path.is_file():
            loaded.update(path.relative_to(book).as_posix().encode() + path.read_bytes())
    return {
        path.name: hashlib.sha256(loaded.digest() + path.read_bytes()).hexdigest()[:12]
        for path in sorted(book.glob("*.html"))
        if b'http-equiv="refresh"' not in path.read_bytes().lower()
    }


def load() -> dict[str, str]:
    """Return the digests of the pages that were clean."""
    return files.load(RECORD, dict[str, str]) if RECORD.exists() else {}


def due(now: Mapping[str, str]) -> list[str]:
    """Return which pages are to be looked at: those not recorded as they are now, and a few of the others.

    They are the same ones for the same book, and others when something in it has changed.
    """
    known = load()
    changed = [name for name, digest in now.items() if known.get(name) != digest]
    return changed + sample(now.keys() - set(changed), SAMPLE, "".join(now.values()))


def audited(book: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Return axe's findings on each of these pages, light and dark, wide and on a phone."""
    found = browsers.reported("chromium", AUDIT, book, names, {"/axe.js": AXE.read_bytes()})
    assert found.keys() == set(names)
    return found


def main() -> int:
    """Look at all pages, record the clean ones, print the findings on the others, and return how many those are."""
    with tempfile.TemporaryDirectory() as folder:
        book = built(Path(folder))
        now = digests(book)
        found = audited(book, list(now))
    known = {name: digest for name, digest in now.items() if not found[name]}
    files.write(RECORD, known)
    for name in now.keys() - known.keys():
        print(name, *found[name], sep="\n    ")
    print(f"{len(known)} of {len(now)} pages are clean")
    return len(now) - len(known)


if __name__ == "__main__":
    raise SystemExit(bool(main()))
