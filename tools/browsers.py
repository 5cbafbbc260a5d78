"""Opens pages of the built book in a browser without a network, and returns the report of a script there."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BROWSERS = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "firefox": ("firefox-esr", "firefox")}
PATIENCE = 300  # seconds
CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
FIREFOX = """
user_pref("network.proxy.type", 1);
user_pref("network.proxy.http", "127.0.0.1"); user_pref("network.proxy.http_port", 9);
user_pref("network.proxy.ssl", "127.0.0.1"); user_pref("network.proxy.ssl_port", 9);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.homepage_override.mstone", "ignore");
"""  # requests to other machines go to a proxy that is not there

PRELUDE = """<!doctype html><meta charset="utf-8"><title>what is shown</title>
<script>
// Shows a page in a frame of that size, waits for its formulas and fonts, and opens what is folded.
async function show(name, width, height) {
  const frame = Object.assign(document.createElement("iframe"), {src: name, width, height});
  frame.style = "position: absolute; top: 0; left: 0";
  const loaded = new Promise(done => frame.onload = done);
  document.body.append(frame);
  await loaded;
  const page = frame.contentDocument, view = frame.contentWindow;
  if (view.MathJax) await view.MathJax.startup.promise;
  await page.fonts.ready;
  page.querySelectorAll("details").forEach(fold => fold.open = true);
  return {frame, page, view};
}
// Reports what `look` finds of each page, so many of which are looked at at a time, or where and why it could not.
async function report(look, atOnce) {
  const found = {}, left = [...NAMES];
  const go = async () => {
    for (let name; (name = left.shift());)
      found[name] = await look(name).catch(error => { throw `${name}: ${error}\n${error.stack}`; });
  };
  const all = Promise.all(Array.from({length: atOnce}, go));
  const body = JSON.stringify(await all.then(() => ({found}), failed => ({failed})));
  await fetch("/report", {method: "POST", body});
}
"""
"""The beginning of every script. A script ends by calling `report` when the window has loaded."""


def installed(browser: str) -> str | None:
    """Return where a browser of `BROWSERS` is, if it is."""
    return next(filter(None, map(shutil.which, BROWSERS[browser])), None)


def command(browser: str, profile: Path) -> list[str]:
    """Return the command that starts a browser, headless and without a network, with a profile of its own."""
    path = installed(browser)
    assert path, f"no {browser} on this machine"
    if browser == "chromium":
        return [path, *CHROMIUM, f"--user-data-dir={profile}"]
    (profile / "user.js").write_text(FIREFOX)
    return [path, "--headless", "--no-remote", "--profile", str(profile)]


def reported(
    browser: str, script: str, book: Path, names: Sequence[str], scripts: Mapping[str, bytes] | None = None
) -> dict[str, Any]:
    """Return a script's reports of the book's pages of these names, as a browser runs it after `PRELUDE`.

    Parameters
    ----------
    browser : str
        One of `BROWSERS` that is installed.
    script : str
    book : Path
        The folder of the pages.
    names : sequence of str
    scripts : mapping of str to bytes, optional
        What is served besides, by its path.

    Raises
    ------
    RuntimeError
        The script failed on a page; the message has where and why.
    TimeoutError
        Nothing was reported in five minutes; the message ends with what the browser said.
    """
    page = f"{PRELUDE.replace('NAMES', json.dumps(list(names)))}{script}</script>"
    own = {"/probe": ("text/html", page.encode())}
    own |= {path: ("text/javascript", content) for path, content in (scripts or {}).items()}
    reports: queue.Queue[dict[str, Any]] = queue.Queue()

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128  # of five, the default, a browser that shows many pages at once is refused some files

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in own:
                return super().do_GET()
            kind, content = own[self.path]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,  # a browser may write there to its end
        Server(("127.0.0.1", 0), functools.partial(Handler, directory=book)) as server,
        open(Path(folder, "log"), "w+") as log,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        start = [*command(browser, Path(folder)), f"http://127.0.0.1:{server.server_port}/probe"]
        # TERM is for the whole group: a browser is several processes, and may be started by a script.
        process = subprocess.Popen(start, stdout=log, stderr=log, start_new_session=True)
        try:
            report = reports.get(timeout=PATIENCE)
        except queue.Empty:
            log.seek(0)
            raise TimeoutError(f"{browser} reported nothing in {PATIENCE} seconds: {log.read()[-2000:]}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)
            server.shutdown()
    if "failed" in report:
        raise RuntimeError(f"{browser} on {report['failed']}")
    return report["found"]
