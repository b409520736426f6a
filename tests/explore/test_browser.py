"""The page in a real browser: Chromium without a window and without a network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser as setup
import pytest

from tests.explore.pages import book, cut_book, page
from wsched.explore.page import page_html

CI = os.environ.get("CI", "") not in ("", "0", "false")

if not CI:  # there the set-up installs both, and their absence is a failure
    pytest.importorskip("playwright", reason="playwright is not installed")
    if setup.find_chromium() is None:
        pytest.skip("no Chromium on PATH (apt-get install chromium)", allow_module_level=True)

pytestmark = pytest.mark.slow

SIZE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = setup.find_chromium()
        assert path is not None, "no Chromium on PATH"
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page_html(book("256x256x256")), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def cut_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "cut.html"
    path.write_text(page_html(cut_book()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def tab(chromium: Any, url: str) -> Iterator[Any]:
    yield from opened(chromium, url)


@pytest.fixture
def cut(chromium: Any, cut_url: str) -> Iterator[Any]:
    """The page of a definition of two kernels."""
    yield from opened(chromium, cut_url)


def opened(chromium: Any, url: str) -> Iterator[Any]:
    """A page, open; whatever it complains about fails the test."""
    context = chromium.new_context(viewport=SIZE, color_scheme="light", offline=True)
    tab, faults = context.new_page(), []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else 0)
    tab.on("request", lambda r: None if r.url == url else faults.append(f"asks for {r.url}"))
    tab.goto(url)
    tab.wait_for_selector("h1")
    yield tab
    context.close()
    assert faults == []


def eventually(tab: Any, question: Callable[[], bool]) -> None:
    """The page draws when it has time to."""
    for _ in range(250):
        if question():
            return
        tab.wait_for_timeout(20)
    assert question()


TABS = ("Overview", "Code", "Passes", "Machine", "Time", "Parameters")


def test_it_opens_at_once(tab: Any) -> None:
    assert tab.inner_text("h1") == "wsched 256x256x256 on an H200"
    shown = tab.evaluate("performance.now()")
    assert shown < 10_000
    assert tab.locator("#graph .tensor").count() == len(page("256x256x256").graph.nodes)
    assert tab.locator("#graph .arrow.cut").count() == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_tab_by_its_key_and_nothing_runs_out_of_the_page(tab: Any, scheme: str) -> None:
    if scheme == "dark":
        tab.keyboard.press("t")
    tab.wait_for_selector(f"html[data-theme={scheme}]")
    for number, name in enumerate(TABS, 1):
        tab.keyboard.press(str(number))
        assert tab.get_attribute(f"#tab-{name}", "aria-selected") == "true"
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= SIZE["width"], name


CONTRAST = """
() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((c) =>
      c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("h1, h2, h3, p, td, th, button, pre, span, output")]
    .filter((e) => e.innerText && !e.closest(".cm-editor"))
    .map((e) => {
      const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.className, e.innerText];
    })
    .filter(([ratio]) => ratio < 4.5);
}
"""
"""Elements whose text has less contrast than WCAG 2 asks of small text (4.5 to 1)."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(tab: Any, scheme: str) -> None:
    if scheme == "dark":
        tab.keyboard.press("t")
    tab.wait_for_selector(f"html[data-theme={scheme}]")
    for number in range(1, len(TABS) + 1):
        tab.keyboard.press(str(number))
        assert tab.evaluate(CONTRAST) == []


def test_a_loop_marks_its_lines_in_each_text_and_back(tab: Any) -> None:
    tab.keyboard.press("2")
    tab.get_by_role("button", name="PTX").click()
    tab.get_by_role("button", name="T4 = mma").click()
    for language, word in (("kernel", "wgmma"), ("CUDA", "wgmma"), ("PTX", "wgmma"),
                           ("SASS", "GMMA")):  # fmt: skip
        marked = tab.locator(f"section[aria-label={language}] .cm-line.marked")
        marked.first.wait_for()
        assert word in " ".join(marked.all_inner_texts()), language
    line = tab.locator("section[aria-label=CUDA] .cm-line", has_text="wgmma_m64").first
    tab.get_by_role("button", name="clear marks").click()
    eventually(tab, lambda: tab.locator(".marked").count() == 0)
    line.click(position={"x": 60, "y": 5})
    pressed = tab.locator(".nest .line[aria-pressed=true]")
    eventually(tab, lambda: any(x.startswith("T4 = mma") for x in pressed.all_inner_texts()))


def test_the_slider_shows_what_a_pass_changed(tab: Any) -> None:
    tab.keyboard.press("3")
    slider = tab.locator("#pass")
    slider.focus()
    stages = page("256x256x256").stages
    at = next(i for i, s in enumerate(stages) if s.name == "allocate_mbarriers")
    for _ in range(at):
        slider.press("ArrowRight")
    assert tab.inner_text("output strong") == "allocate_mbarriers"
    changed = tab.locator(".cm-changedLine")
    eventually(tab, lambda: "mbarrier ring_full" in " ".join(changed.all_inner_texts()))
    assert "ring ring(" in tab.locator(".cm-deletedChunk").first.inner_text()
    tab.locator("main").click(position={"x": 5, "y": 5})
    tab.keyboard.press("p")
    before = next(i for i in reversed(range(at)) if stages[i].text != stages[i - 1].text)
    assert tab.inner_text("output strong") == stages[before].name


def test_the_player_goes_step_by_step_and_by_tile(tab: Any) -> None:
    tab.keyboard.press("4")
    count = len(page("256x256x256").films[0].frames)
    assert tab.inner_text("output") == f"1 of {count}"
    for key, at in (("ArrowRight", 2), ("ArrowLeft", 1), ("End", count), ("Home", 1)):
        tab.keyboard.press(key)
        assert tab.inner_text("output") == f"{at} of {count}"
    tab.keyboard.press(".")
    assert "tile" in tab.inner_text(".warps tr.actor")
    tab.keyboard.press("End")
    over = tab.locator(".warps tr.over")
    assert over.count() == len(page("256x256x256").films[0].warps)
    assert "full" in tab.inner_text(".ring") or "empty" in tab.inner_text(".ring")
    tab.keyboard.press("Home")
    tab.keyboard.press(" ")
    eventually(tab, lambda: int(tab.inner_text("output").split()[0]) > 3)
    tab.keyboard.press(" ")
    tab.locator(".strip canvas").click(position={"x": 300, "y": 3})
    eventually(tab, lambda: int(tab.inner_text("output").split()[0]) > count // 8)


def test_another_order_of_copies(tab: Any) -> None:
    tab.keyboard.press("4")
    tab.get_by_label("copies land").select_option(label="as late as can be (lazy)")
    lazy = page("256x256x256").films[2]
    assert tab.inner_text("output") == f"1 of {len(lazy.frames)}"
    seen = set()
    for _ in range(400):
        tab.keyboard.press("ArrowRight")
        seen |= {
            text.split()[0] for text in tab.locator(".stage span:nth-of-type(2)").all_inner_texts()
        }
        if "0" in seen and "full" in seen:
            break
    assert {"0", "full"} <= seen  # bytes of a stage that fills, then a full one


def test_help_and_what_a_parameter_would_cost(tab: Any) -> None:
    tab.keyboard.press("?")
    assert "play or stop" in tab.inner_text(".help")
    tab.keyboard.press("Escape")
    assert tab.locator(".help").count() == 0
    tab.keyboard.press("6")
    tab.locator("summary", has_text="cluster_dims").click()
    assert "2x1" in tab.inner_text("details[open]")
    tab.get_by_placeholder("ping-pong").fill("cluster 2x1")
    assert all("cluster 2x1" in text for text in tab.locator(".ways tr").all_inner_texts())


def test_a_cut_leads_to_each_of_its_kernels(cut: Any) -> None:
    """Its tab comes first, and the other tabs are of the kernel that was chosen."""
    program, kernels = cut_book().program, cut_book().kernels
    assert program is not None and len(kernels) == 2
    assert cut.get_attribute("#tab-Program", "aria-selected") == "true"
    assert cut.inner_text("h1") == "wsched 2 kernels on an H200"
    assert cut.locator("#program .step").count() == len(program.steps) == 2
    assert cut.locator("#program .arrow").all_text_contents() == ["c"]
    for at, kernel in enumerate(kernels):
        cut.keyboard.press("1")
        cut.locator("#program .step").nth(at).click()
        assert cut.get_attribute("#tab-Overview", "aria-selected") == "true"
        assert cut.input_value("#kernel") == str(at)
        assert cut.locator("#graph .tensor").count() == len(kernel.graph.nodes)
        assert dict(kernel.facts)["kernel"] in cut.inner_text(".facts")
    cut.keyboard.press("5")
    cut.keyboard.press("End")
    cut.select_option("#kernel", "0")
    assert cut.inner_text("output") == f"1 of {len(kernels[0].films[0].frames)}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cut_can_be_read(cut: Any, scheme: str) -> None:
    if scheme == "dark":
        cut.keyboard.press("t")
    cut.wait_for_selector(f"html[data-theme={scheme}]")
    assert cut.evaluate(CONTRAST) == []
    assert cut.evaluate("document.documentElement.scrollWidth") <= SIZE["width"]
