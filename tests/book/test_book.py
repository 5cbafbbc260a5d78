"""Builds the book as ``make book`` does, then reads it as a browser without a network would."""

import html.parser
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

import lab
import sgemm_tutorial as sg
from tools import audit, browsers

pytestmark = pytest.mark.slow

# What a browser fetches to show a page, by element: anything named here must come with the book.
FETCHED = {
    "script": ["src"],
    "link": ["href"],
    "img": ["src", "srcset"],
    "source": ["src", "srcset"],
    "iframe": ["src"],
    "video": ["src", "poster"],
    "audio": ["src"],
    "track": ["src"],
    "embed": ["src"],
    "object": ["data"],
    "input": ["src"],
    "use": ["href", "xlink:href"],
    "image": ["href", "xlink:href"],
}
IN_CSS = re.compile(r"""url\(\s*(?:"([^"]*)"|'([^']*)'|([^)"'\s]*))\s*\)|@import\s+(?:"([^"]*)"|'([^']*)')""")
IN_SCRIPT = re.compile(r"""["'`]((?:https?:)?//[\w-]+(?:\.[\w-]+)+[^"'`]*)""")
AMOUNTS = ("threads", "registers", "shared")  # of the occupancy player


class Page(html.parser.HTMLParser):
    """One HTML page: its elements in order, and the text of those whose text matters."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, {name: value or "" for name, value in attributes}))
        if tag in ("title", "script", "style"):
            self._open = tag

    def handle_data(self, data):
        if self._open:
            self.texts.append((self._open, data))

    def handle_endtag(self, tag):
        if tag == self._open:
            self._open = ""

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, tag):
        return "".join(text for name, text in self.texts if name == tag)

    @property
    def redirect(self):
        return any(meta.get("http-equiv", "").lower() == "refresh" for meta in self.all("meta"))

    @property
    def anchors(self):
        return {a[key] for _, a in self.elements for key in ("id", "name") if key in a}

    @property
    def fetched(self):
        for tag, attributes in self.elements:
            for name in FETCHED.get(tag, []):
                if name == "srcset":
                    yield from (part.split()[0] for part in attributes.get(name, "").split(",") if part.strip())
                elif name in attributes and attributes.get("rel") != "canonical":
                    yield attributes[name]
            yield from css_addresses(attributes.get("style", ""))
        yield from css_addresses(self.text("style"))
        yield from IN_SCRIPT.findall(self.text("script"))


def css_addresses(text):
    return ["".join(groups) for groups in IN_CSS.findall(text)]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Folder of the built book's pages."""
    return audit.built(tmp_path_factory.mktemp("book"))


@pytest.fixture(scope="module")
def all_pages(book):
    """Every page, the deeper ones among them, by its path in the book."""
    paths = [path for path in sorted(book.rglob("*.html")) if "_static" not in path.parts]
    return {path.relative_to(book).as_posix(): Page(path.read_text(encoding="utf-8")) for path in paths}


@pytest.fixture(scope="module")
def pages(all_pages):
    """Every page that is in no folder, by its name."""
    found = {name: page for name, page in all_pages.items() if "/" not in name}
    assert len(found) > 5
    return found


def resolve(book, page, address):
    """Return the file in the book that a page's relative address means, and the anchor in it."""
    address, anchor = urldefrag(urljoin(page, address))
    return book / unquote(urlsplit(address).path), unquote(anchor)


def missing(book, file, addresses):
    """Return the addresses that do not lie in the book."""
    relative = [address for address in addresses if not address.startswith(("data:", "#"))]
    return [a for a in relative if urlsplit(a).scheme or a.startswith("/") or not resolve(book, file, a)[0].is_file()]


def test_nothing_is_fetched_from_elsewhere(book, pages):
    bad = {name: found for name, page in pages.items() if (found := missing(book, name, page.fetched))}
    for sheet in book.rglob("*.css"):
        name = sheet.relative_to(book).as_posix()
        if found := missing(book, name, css_addresses(sheet.read_text(encoding="utf-8"))):
            bad[name] = found
    assert not bad


def test_scripts_run_from_a_file(pages):
    """Over file://, a browser refuses modules; classic scripts it runs."""
    assert not [name for name, page in pages.items() for script in page.all("script") if script.get("type") == "module"]


def test_links_within_the_book_lead_somewhere(book, all_pages):
    """The links of the deeper pages count too."""
    anchors, bad = {book / name: page.anchors for name, page in all_pages.items()}, []
    for name, page in all_pages.items():
        for address in (link["href"] for link in page.all("a") if "href" in link):
            if urlsplit(address).scheme in ("http", "https", "mailto"):
                continue
            file, anchor = resolve(book, name, address)
            if not file.is_file() or (anchor and anchor not in anchors[file]):
                bad.append((name, address))
    assert not bad


def test_no_page_names_a_folder_of_this_machine(book):
    """The reference to the package shows defaults and values, which may be folders."""
    assert not [path.name for path in book.glob("*.html") if str(audit.ROOT) in path.read_text(encoding="utf-8")]


def test_every_public_name_is_described(pages):
    described = {anchor for anchor in pages["api.html"].anchors if anchor.startswith(("sgemm_tutorial.", "module-"))}
    objects = {anchor.rpartition(".")[2] for anchor in described if not anchor.startswith("module-")}
    for name in sg.__all__:
        public = getattr(sg, name)
        assert f"module-{public.__name__}" in described if isinstance(public, ModuleType) else name in objects, name
    assert {"lab.check", "lab.suite", "module-lab.correctness"} <= set(pages["api.html"].anchors)


def test_pages_have_titles_of_their_own(pages):
    titles = [page.text("title").strip() for page in pages.values() if not page.redirect]
    assert all(titles)
    assert len(set(titles)) == len(titles)


def test_pictures_are_described(pages):
    bad = []
    for name, page in pages.items():
        for image in page.all("img"):
            alt = image.get("alt", "")
            if not alt.strip() or re.search(r"\.(png|svg|jpe?g|gif)$", alt):
                bad.append((name, image))
        for drawing in page.all("svg"):
            hidden = drawing.get("aria-hidden") == "true"  # an icon beside its text
            if not hidden and not (drawing.get("role") == "img" and drawing.get("aria-label", "").strip()):
                bad.append((name, drawing))
    assert not bad


# Shows each page in a frame as wide as a phone, and reports what a reader would see.
PROBE = """
const ERRORS = "mjx-merror, mjx-container [style*='color: red'], .problematic, .system-message";
const LEAST = 11;  // pixels
const size = (text, view) => {
  const {a, b} = text.getScreenCTM();  // a text may be turned
  return parseFloat(view.getComputedStyle(text).fontSize) * Math.hypot(a, b);
};
const rest = milliseconds => new Promise(done => setTimeout(done, milliseconds));
const until = async met => { for (let tries = 250; tries && !met(); tries--) await rest(20); };
// Drives a player as a reader would, and reports for each state what it says to those who don't see it.
async function drive(box, view) {
  const {controls, preset, picks = [], areas = []} = JSON.parse(box.querySelector("script").textContent);
  const inputs = [...box.querySelectorAll(".sg-controls :is(input, select)")];
  const said = () => [...box.querySelectorAll("svg")].map(svg => svg.getAttribute("aria-label"));
  const drawn = () => [...box.querySelectorAll("svg")].map(svg => svg.children.length);
  const press = key => box.dispatchEvent(new view.KeyboardEvent("keydown", {key, bubbles: true}));
  const states = {};
  const state = () => inputs.map(input => Number(input.type === "checkbox" ? input.checked : input.value));
  const hash = state => `#${box.dataset.name}=${state.join(".")}`;
  const addressFollows = () => until(() => view.location.hash === hash(state()));
  const note = async (what, wait = addressFollows) => {
    states[what] = {said: said(), drawn: drawn(), state: state()};
    await wait();
    states[what].hash = view.location.hash;
  };
  const put = (i, value) => {
    if (inputs[i].type === "checkbox") inputs[i].checked = value;
    else inputs[i].value = value;
    inputs[i].dispatchEvent(new view.Event(inputs[i].type === "range" ? "input" : "change"));
  };
  const link = async state => {
    if (view.location.hash === hash(state)) return;
    const followed = new Promise(done => view.addEventListener("hashchange", done, {once: true}));
    view.location.hash = hash(state);
    await followed;
  };
  view.history.replaceState(null, "", view.location.pathname);
  await note("begin", () => rest(150));
  const begin = controls.map(control => control.start), steps = controls.findIndex(control => control.kind === "step");
  if (steps >= 0) {
    box.querySelector("[aria-label='One step forward']").click();
    await note("forward");
    press("ArrowRight");
    await note("right");
    press("ArrowLeft");
    await note("left");
    put(steps, 5);
    await note("slider");
    const first = Math.min(3, controls[steps].values.length - 4);  // so that three can be played
    await link(begin.with(steps, first));
    await note("link");
    const played = new Promise(done => {  // told at each change: who polls on a busy machine may come too late to pause
      const watch = new view.MutationObserver(() => state()[steps] >= first + 2 && done());
      watch.observe(box, {subtree: true, childList: true, attributes: true});
    });
    box.querySelector("[aria-label=Play]").click();
    await played;
    box.querySelector("[aria-label=Pause]").click();
    await note("played");
    const last = controls[steps].values.length - 1, other = controls.findIndex((control, i) => i !== steps);
    await link(begin.with(steps, last));
    box.querySelector("[aria-label=Play]").click();
    if (other >= 0) put(other, controls[other].values.length - 1);  // before the first step is due
    box.querySelector("[aria-label='One step forward']").click();
    await note("played from the end");
  }
  await link(begin.map((start, i) => start ? 0 : controls[i].values.length - 1));
  await note("far");
  const point = (type, panel, x, y, pointerType = "mouse") => {
    const drawing = box.querySelectorAll("svg")[panel];
    const {left, top, width} = drawing.getBoundingClientRect(), scale = width / drawing.viewBox.baseVal.width;
    const at = {clientX: left + x * scale, clientY: top + y * scale};
    drawing.dispatchEvent(new view.PointerEvent(type, {...at, pointerType}));
  };
  // Moves a mouse and a finger to a place, away again, and clicks there.
  const pick = async (what, panel, ...there) => {
    await link(begin);
    point("pointermove", panel, ...there, "touch");
    point("pointerdown", panel, ...there, "touch");  // a finger that scrolls does no more
    await note(`finger on ${what}`, () => rest(150));
    point("pointermove", panel, ...there);
    await note(`mouse over ${what}`, () => rest(150));
    point("pointerleave", panel, ...there);
    await note(`mouse off ${what}`, () => {});
    point("click", panel, ...there);
  };
  for (const [i, {panel, axis, at}] of picks.entries()) {
    await pick(`pick ${i}`, panel, ...(axis === "x" ? [at[4][0], 9] : [9, at[4][0]]));
    await note(`pick ${i}`);
  }
  for (const [i, {panel, box: [left, top, width, height], cells}] of areas.entries()) {
    const [down, across] = [cells.length, cells[0].length].map(count => (Math.floor(count / 2) + 0.5) / count);
    await pick(`area ${i}`, panel, left + width * across, top + height * down);
    for (const type of ["pointermove", "click"]) point(type, panel, left - 3, top - 3);  // beside it
    await note(`area ${i}`);
  }
  await link(begin);
  for (const [i, control] of controls.entries()) {
    put(i, control.values.length - 1);
    await note(`set ${i}`);
  }
  if (preset) {
    for (const [second] of controls[preset.of[1]].values.entries()) {
      for (const [first] of controls[preset.of[0]].values.entries()) {
        put(preset.of[1], second);
        put(preset.of[0], first);
        states[`preset ${first},${second}`] = {said: said(), state: state()};
      }
    }
    for (const control of preset.sets) {
      await link(begin);
      put(control, begin[control] - 1);
      await note(`away ${control}`);
    }
  }
  return states;
}
// Whether what can be read on a fold is in the name that is read out.
function named(summary) {
  const text = summary.innerText.trim(), label = summary.getAttribute("aria-label");
  return text && (!label || label.startsWith(text));
}
// The longest line of a listing, its number included.
const longest = listing => Math.max(...listing.textContent.split("\\n").map(line => line.length));
// Boxes that go on to the right, and don't fade there.
const cut = page => [...page.querySelectorAll("article *")]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "auto" && e.clientWidth)
  .filter(e => e.dataset.more !== "right" || !getComputedStyle(e).maskImage.includes("gradient"))
  .map(e => e.tagName + "." + e.className);
// Players of which no control can be seen while the lower end of a picture is.
async function lost(page, view) {
  const found = [];
  for (const box of page.querySelectorAll(".sg-player")) {
    for (const picture of box.querySelectorAll("svg")) {
      picture.scrollIntoView({block: "end", behavior: "instant"});
      await new Promise(done => view.requestAnimationFrame(done));
      const {top, bottom} = box.querySelector(".sg-controls").getBoundingClientRect();
      if (top < 0 || bottom > view.innerHeight) found.push(`${box.dataset.name}: ${top} to ${bottom}`);
    }
  }
  return found;
}
// Folds that stay closed when a link leads into them.
async function closed(page, view) {
  const inside = page.querySelector("article details [id]");
  if (!inside) return [];
  page.querySelectorAll("details").forEach(fold => fold.open = false);
  const followed = new Promise(done => view.addEventListener("hashchange", done, {once: true}));
  view.location.hash = inside.id;
  await followed;
  const shut = inside.closest("details:not([open])") ? [inside.id] : [];
  page.querySelectorAll("details").forEach(fold => fold.open = true);
  return shut;
}
// The theme on paper, and after it, of a page that is dark.
function printed(page, view) {
  const {dataset} = page.documentElement, found = [];
  dataset.theme = "dark";
  for (const type of ["beforeprint", "afterprint"]) {
    view.dispatchEvent(new view.Event(type));
    found.push(dataset.theme);
  }
  return found;
}
// What is wider than A4 less its margins, given the styles for paper.
async function overPaper(frame, page, view) {
  for (const sheet of page.styleSheets) {
    for (const rule of sheet.cssRules) {
      const swapped = {print: "all", screen: "not all"}[rule.media?.mediaText];
      if (swapped) rule.media.mediaText = swapped;
    }
  }
  frame.width = 688;
  await new Promise(done => view.requestAnimationFrame(() => view.requestAnimationFrame(done)));
  const end = (page.querySelector("article") || page.body).getBoundingClientRect().right + 1;
  return [...page.querySelectorAll("article :is(table, pre, svg.sg-figure)")]
    .filter(e => e.getBoundingClientRect().right > end).map(e => `${e.tagName}: ${e.textContent.slice(0, 80)}`);
}
async function look(name) {
  const {frame, page, view} = await show(name, 400, 800);
  const fetched = view.performance.getEntriesByType("resource");
  const seen = {
    formulas: page.querySelectorAll(".math").length,
    typeset: page.querySelectorAll(".math mjx-container").length,
    errors: [...page.querySelectorAll(ERRORS)].map(box => box.outerHTML.slice(0, 200)),
    fonts: [...page.fonts].filter(font => font.status === "error").map(font => font.family),
    width: page.documentElement.scrollWidth,
    wide: [...page.querySelectorAll("article *")].filter(e => e.getBoundingClientRect().right > 401)
      .map(e => e.tagName + "." + e.className).slice(0, 5),
    wrapped: [...page.querySelectorAll("article :not(.traceback) > .highlight pre")]
      .filter(e => view.getComputedStyle(e).whiteSpace !== "pre").map(e => e.textContent.slice(0, 80)),
    unnamed: [...page.querySelectorAll("article summary")].filter(e => !named(e)).map(e => e.outerHTML.slice(0, 200)),
    letters: page.querySelectorAll("svg.sg-figure text").length,
    small: [...page.querySelectorAll("svg.sg-figure text")].filter(e => size(e, view) < LEAST).map(e => e.textContent),
    foreign: fetched.map(e => e.name).filter(url => !url.startsWith(location.origin) && !url.startsWith("data:")),
    failed: fetched.filter(e => e.responseStatus >= 400).map(e => e.name),
  };
  seen.players = {};
  for (const box of page.querySelectorAll(".sg-player")) seen.players[box.dataset.name] = await drive(box, view);
  await until(() => !cut(page).length);  // a box that has been unfolded fades when the browser next draws
  seen.cut = cut(page);
  seen.lost = await lost(page, view);
  seen.closed = await closed(page, view);
  seen.printed = printed(page, view);
  frame.width = 1280;
  await new Promise(done => view.requestAnimationFrame(() => view.requestAnimationFrame(done)));
  const letters = [...page.querySelectorAll("svg.sg-figure text")];
  seen.large = letters.filter(e => size(e, view) > 16.5).map(e => e.textContent);
  seen.code = [...page.querySelectorAll("article .highlight pre")].map(e => view.getComputedStyle(e).fontSize);
  seen.beyond = [...page.querySelectorAll("article .highlight-cuda pre")]
    .filter(e => !e.closest("details") && e.scrollWidth > e.clientWidth && longest(e) <= 122)
    .map(e => e.textContent.slice(0, 80));
  seen.overPaper = await overPaper(frame, page, view);
  frame.remove();
  return seen;
}
addEventListener("load", () => report(look, 16));
"""


def installed(browser):
    """Skip the test if there is no such browser."""
    if not browsers.installed(browser):
        pytest.skip(f"no {browser} on this machine: install it to look at the pages in a browser")
    return browser


@pytest.fixture(scope="module")
def shown(pages):
    """The names of the pages that a reader sees."""
    return [name for name, page in pages.items() if not page.redirect]


@pytest.fixture(scope="module")
def looks(book, shown):
    """Futures of what each browser here shows: all look at the same time, as players let them wait."""
    here = [browser for browser in browsers.BROWSERS if browsers.installed(browser)]
    with ThreadPoolExecutor() as pool:
        yield {browser: pool.submit(browsers.reported, browser, PROBE, book, shown) for browser in here}


@pytest.fixture(scope="module", params=browsers.BROWSERS)
def seen(request, looks):
    """Return each page as a browser without a network shows it: the probe sends it back."""
    return looks[installed(request.param)].result()


def test_axe_finds_nothing_that_keeps_readers_out(book, shown, looks, record_property):
    """Light and dark, wide and on a phone; which rules there are is axe's to know."""
    now = audit.digests(book)
    assert list(now) == shown
    due = audit.due(now)
    assert len(due) >= audit.SAMPLE
    installed("chromium")
    found = audit.audited(book, due)
    assert not {name: violations for name, violations in found.items() if violations}
    record_property("summary", f"axe: {len(due)} of {len(now)} pages looked at, the others as `make audit` found them")


def test_formulas_are_typeset(seen):
    assert sum(page["formulas"] for page in seen.values()) > 0
    assert {name: page["typeset"] for name, page in seen.items()} == {name: p["formulas"] for name, p in seen.items()}


@pytest.mark.parametrize("trouble", ["errors", "fonts", "foreign", "failed"])
def test_no_page_shows_or_fetches_what_it_should_not(seen, trouble):
    assert not {name: page[trouble] for name, page in seen.items() if page[trouble]}


def test_text_in_figures_can_be_read_on_a_phone(seen):
    assert sum(page["letters"] for page in seen.values()) > 1000
    assert not {name: page["small"][:5] for name, page in seen.items() if page["small"]}


def test_figures_and_code_have_one_size(seen):
    """Titles of figures have 16 pixels, their other text 14 or less, and code has 13.5."""
    assert not {name: page["large"][:5] for name, page in seen.items() if page["large"]}
    assert {size for page in seen.values() for size in page["code"]} == {"13.5px"}


def test_code_keeps_its_lines(seen):
    assert not {name: page["wrapped"] for name, page in seen.items() if page["wrapped"]}


def test_lines_of_a_kernel_fit_a_laptop(seen):
    """The list of a page's sections makes room for them."""
    assert not {name: page["beyond"] for name, page in seen.items() if page["beyond"]}


def test_what_scrolls_shows_it(seen):
    assert not {name: page["cut"][:5] for name, page in seen.items() if page["cut"]}


def test_controls_stay_beside_their_picture_on_a_phone(seen):
    assert not {name: page["lost"] for name, page in seen.items() if page["lost"]}


def test_a_link_into_a_fold_opens_it(seen):
    assert not {name: page["closed"] for name, page in seen.items() if page["closed"]}


def test_folds_are_called_what_stands_on_them(seen):
    assert not {name: page["unnamed"][:5] for name, page in seen.items() if page["unnamed"]}


def test_paper_is_white_and_wide_enough(seen):
    assert {tuple(page["printed"]) for page in seen.values()} == {("light", "dark")}
    assert not {name: page["overPaper"][:5] for name, page in seen.items() if page["overPaper"]}


def test_no_page_is_wider_than_a_phone(seen):
    assert not {name: (page["width"], page["wide"]) for name, page in seen.items() if page["width"] > 400}


def carried(book, page, player):
    """Return the JSON that a page holds for a player."""
    (found,) = re.findall(
        rf'data-name="{player}".*?<script type="application/json">(.*?)</script>',
        (book / page).read_text(encoding="utf-8"),
        re.DOTALL,
    )
    return json.loads(found)


def driven(seen):
    return [(name, player, states) for name, page in seen.items() for player, states in page["players"].items()]


def calculates(data):
    """Whether a script computes what a player shows, so that its JSON doesn't tell."""
    return "computed" in data and data["computed"]["script"] != "lookedUp"


def wanted_of(data, state):
    """Return what each panel of a player says and how many elements it has, by its JSON, if it needs no computing."""
    values = dict(enumerate(state))
    if "computed" in data:
        for table in data["computed"]["data"]["tables"]:
            row = table["rows"][",".join(str(state[on]) for on in table["on"])]
            values |= dict(zip(table["names"], row, strict=True))
    states = [
        [layer["states"].get(",".join(str(values[on]) for on in layer["on"]), [""]) for layer in panel["layers"]]
        for panel in data["panels"]
    ]
    said = [" ".join(words for words, *_ in layers if words) for layers in states]
    for name, value in values.items():
        said = [words.replace(f"{{{name}}}", f"{value:,}" if isinstance(value, int) else value) for words in said]
    return said, [sum(sum(runs[1::2]) for _, *runs in layers) for layers in states]


def test_players_show_what_they_carry(seen, book):
    """Stepped, by keys, by the slider, by a link and played: each state says and draws what the page's JSON holds."""
    assert driven(seen)
    for name, player, states in driven(seen):
        data = carried(book, name, player)
        if calculates(data):
            continue
        controls = data["controls"]
        begin = [control["start"] for control in controls]
        wanted = {"begin": begin}
        for at, control in enumerate(controls):
            if control["kind"] == "step":
                last = len(control["values"]) - 1
                forward = min(control["start"] + 1, last)
                right = min(forward + 1, last)
                link = min(3, last - 3)
                steps = {"forward": forward, "right": right, "left": right - 1, "slider": min(5, last), "link": link}
                wanted |= {what: [*begin[:at], step, *begin[at + 1 :]] for what, step in steps.items()}
                wanted["played"] = [*begin[:at], link + 2, *begin[at + 1 :]]
                again = [*begin[:at], 1, *begin[at + 1 :]]
                if others := [i for i in range(len(controls)) if i != at]:
                    again[others[0]] = len(controls[others[0]]["values"]) - 1
                wanted["played from the end"] = again
        lasts = [len(control["values"]) - 1 for control in controls]
        wanted["far"] = [0 if start else last for start, last in zip(begin, lasts, strict=True)]
        for i, pick in enumerate(data.get("picks", ())):
            there = list(begin)
            there[pick["control"]] = pick["at"][4][1]
            wanted[f"pick {i}"] = there
        for i, area in enumerate(data.get("areas", ())):
            there, cells = list(begin), area["cells"]
            number = cells[len(cells) // 2][len(cells[0]) // 2]
            for control in reversed(area["controls"]):
                number, there[control] = divmod(number, len(controls[control]["values"]))
            assert there != begin, (name, player)
            wanted[f"area {i}"] = there
        for what in [what for what in wanted if what.startswith(("pick", "area"))]:
            over = states[f"mouse over {what}"]
            assert over["said"] == wanted_of(data, wanted[what])[0], (name, player, "pointing previews")
            for before in ("finger on", "mouse over", "mouse off"):
                found = states[f"{before} {what}"]
                address = f"#{player}={'.'.join(map(str, begin))}"
                assert (found["state"], found["hash"]) == (begin, address), (name, player, before)
                assert before == "mouse over" or found["said"] == wanted_of(data, begin)[0], (name, player, before)
        wanted |= {f"set {i}": [*lasts[: i + 1], *begin[i + 1 :]] for i in range(len(controls))}
        for what, state in wanted.items():
            assert (states[what]["said"], states[what]["drawn"]) == wanted_of(data, state), (name, player, what)
            assert states[what]["state"] == state, (name, player, what)
            address = "" if what == "begin" else f"#{player}={'.'.join(map(str, state))}"
            assert states[what]["hash"] == address, (name, player, what)


def test_the_calculator_of_the_page_is_that_of_the_package(seen, book):
    """Each kernel of the tables on each GPU of the tables: chosen on the page, it says what Python computes."""
    ((page, player, states),) = [found for found in driven(seen) if calculates(carried(book, *found[:2]))]
    data = carried(book, page, player)
    names, gpus = (control["values"] for control in data["controls"][:2])
    assert names[1:] == [kernel.name for kernel in sg.CATALOGUE]
    assert gpus == [gpu.name for gpu in lab.boards.GPUS]
    fitting = 0
    for i, kernel in enumerate(sg.CATALOGUE, 1):
        for j, gpu in enumerate(lab.boards.GPUS):
            found = states[f"preset {i},{j}"]
            at = found["state"]
            try:
                fit = lab.kernel_occupancy(kernel, gpu)
            except sg.ArgumentError:
                assert at[:2] == [0, j], (kernel.name, gpu.name)
                continue
            fitting += 1
            used = lab.resources(kernel, gpu.architecture)
            amounts = [data["computed"]["data"][name][at[2 + k]] for k, name in enumerate(AMOUNTS)]
            assert (at[:2], amounts) == ([i, j], [kernel.threads, used.registers, used.shared_bytes])
            limits, places = found["said"]
            for name, allowed in fit.limits.items():
                binds = ", the limit" * (name in fit.limiter.split(" and "))
                unit = " bytes" * (name == "shared memory")
                assert (
                    f"{name.capitalize()}: a block takes {fit.needs[name]:,} of {fit.has[name]:,}{unit}, "
                    f"room for {allowed}{binds}."
                ) in limits, (kernel.name, gpu.name)
            most = gpu.limits.max_threads_per_sm // 32
            assert f"{fit.warps} of {most} warps: {100 * fit.fraction:.1f}%, limited by {fit.limiter}." in places
            assert f" {fit.blocks_per_sm} block" in places
    assert fitting > 100


def test_who_moves_a_slider_leaves_the_preset(seen, book):
    for page, player, states in driven(seen):
        data = carried(book, page, player)
        preset = data.get("preset", {"sets": []})
        for control in preset["sets"]:
            away = [at["start"] for at in data["controls"]]
            away[preset["of"][0]], away[control] = 0, away[control] - 1
            assert states[f"away {control}"]["state"] == away


@pytest.mark.parametrize(
    ("word", "page"),
    [("02_coalesced", "02_coalesced.html"), ("ldmatrix", "16_mma.html"), ("wavefront", "glossary.html#term-wavefront")],
)
def test_search_finds_it_from_a_file(book, tmp_path, word, page):
    address = f"{(book / 'search.html').as_uri()}?q={word}"
    start = [*browsers.command(installed("chromium"), tmp_path), "--virtual-time-budget=60000", "--dump-dom", address]
    done = subprocess.run(start, capture_output=True, text=True, timeout=300)
    found = re.findall(r'<li><a href="([^"]+)"', done.stdout)
    assert page in [address.partition("?")[0] for address in found], found


def test_formulas_are_typeset_from_a_file(book, pages, tmp_path):
    """The probe reads pages over HTTP; a reader opens a file."""
    formulas = {
        name: sum("math" in a.get("class", "").split() for _, a in page.elements) for name, page in pages.items()
    }
    name = max(formulas, key=formulas.get)
    browser = browsers.command(installed("chromium"), tmp_path)
    start = [*browser, "--virtual-time-budget=120000", "--dump-dom", (book / name).as_uri()]
    done = subprocess.run(start, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("<mjx-container") == formulas[name] > 0
