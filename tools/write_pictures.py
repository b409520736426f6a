"""Draws the pictures of README.md: ``design/overview.png`` and ``design/page.png``.

Both are of the page of one kernel, in a real Chromium: a linear with a residual, with the time
line of a run on the machine. Needs torch, playwright and a Chromium, no GPU.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from browser import find_chromium
from interpreters import say

from examples.residual import RESIDUAL
from wsched.explore.model import Asked, book_of
from wsched.explore.page import page_html
from wsched.front.sizes import Extents, kernel_for
from wsched.trace.timeline import Trace

__all__ = ["main"]

DESIGN = Path(__file__).resolve().parent.parent / "design"

WIDTH, HEIGHT, TALL = 1280, 900, 1400

SMS = 4
"""Multiprocessors to plan for, as many as the machine pretends to have: a CTA has several tiles."""

FRAME = 188
"""Of the film in the picture of the machine: some stages are filling, others are full."""


EXTENTS = Extents(768, 512, 512)


def _asked() -> Asked:
    return Asked(RESIDUAL, RESIDUAL, EXTENTS, SMS, f"{SMS} multiprocessors of an H200")


def _trace(asked: Asked) -> Trace:
    """A run on the machine."""
    from wsched.cli.check import random_inputs

    kernel = kernel_for(asked.definition, EXTENTS, asked.sms, asked.params)
    return kernel.trace(*random_inputs(kernel.fusion, EXTENTS, 0, "cpu"))


def _draw(tab: Any) -> None:
    tab.locator(".overview > section").screenshot(path=DESIGN / "overview.png")
    tab.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    tab.keyboard.press("4")
    tab.locator("#frame").fill(str(FRAME))
    tab.evaluate("scrollTo(0, 0)")
    tab.wait_for_timeout(500)  # until all is drawn
    tab.screenshot(path=DESIGN / "page.png")


def main() -> int:
    """Write both; 1 if there is nothing to draw with."""
    from playwright.sync_api import sync_playwright

    path = find_chromium()
    if path is None:
        say("no Chromium on PATH (apt-get install chromium)")
        return 1
    asked = _asked()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "page.html")
        file.write_text(page_html(book_of(asked, _trace(asked))), encoding="utf-8")
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": WIDTH, "height": TALL}, color_scheme="light")
        tab.goto(file.as_uri())
        tab.wait_for_selector("#graph")
        _draw(tab)
        chromium.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
