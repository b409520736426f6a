"""The file: one piece, valid, without a network, and with the script that the sources make."""

from __future__ import annotations

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import write_page_types

from tests.explore.pages import book
from wsched.explore.page import page_html, unpacked

ROOT = Path(__file__).resolve().parents[2]
PAGE, ASSETS = ROOT / "page", ROOT / "wsched" / "explore" / "assets"


class Elements(HTMLParser):
    """The elements of a text, and what stands in those of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.inside.append(data)


@pytest.fixture(scope="module")
def html() -> str:
    return page_html(book())


def test_nothing_is_loaded_from_anywhere(html: str) -> None:
    found = Elements(html)
    assert not any({"src", "href"} & set(attributes) for _, attributes in found.tags)
    (policy,) = [a["content"] for _, a in found.tags if a.get("http-equiv")]
    assert policy is not None and policy.startswith("default-src 'none';")
    css = (ASSETS / "page.css").read_text()
    assert "url(" not in css and "@import" not in css


def test_the_parts_are_whole(html: str) -> None:
    """Nothing in the script ends its element, no mark of the template is left."""
    found = Elements(html)
    tags = [tag for tag, _ in found.tags]
    assert (tags.count("script"), tags.count("style")) == (2, 1)
    assert unpacked(next(x for x in found.inside if x.startswith("H4sI")))
    assert any(x == (ASSETS / "page.js").read_text() for x in found.inside)
    assert "{{" not in (ASSETS / "page.html").read_text().replace("{{title}}", "").replace(
        "{{style}}", ""
    ).replace("{{data}}", "").replace("{{script}}", "")
    assert "<title>wsched: 128x128x128 on an H200</title>" in html


def test_the_script_is_of_the_sources() -> None:
    """`npm run build` in page/ makes it anew."""
    sources = sorted(f"src/{path.name}" for path in (PAGE / "src").iterdir())
    digest = hashlib.sha256()
    for name in ("build.mjs", "package.json", "package-lock.json", *sources):
        digest.update(f"{name}\n".encode() + (PAGE / name).read_bytes())
    first, _, rest = (ASSETS / "page.js").read_text().partition("\n")
    assert first == f"// {digest.hexdigest()}"
    assert len(rest) > 100_000 and "</script" not in rest and "<!--" not in rest


def test_the_types_of_the_script_are_those_of_the_model() -> None:
    assert (PAGE / "src" / "model.ts").read_text() == write_page_types.types_text()


def test_a_field_without_a_type_is_refused() -> None:
    with pytest.raises(TypeError, match="has no type in a page's model"):
        write_page_types._type(Path)


def test_packages_are_pinned_and_name_no_server() -> None:
    lock = (PAGE / "package-lock.json").read_text()
    assert "://" not in lock and '"integrity"' in lock
    wanted = re.findall(
        r'^    "(?!check|build)[^"]+": "(.*)"', (PAGE / "package.json").read_text(), re.M
    )
    assert wanted and all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted)


def test_licences_of_what_is_bundled_are_there() -> None:
    text = (ASSETS / "LICENSES.txt").read_text()
    for name in (
        "preact",
        "@preact/signals",
        "@codemirror/view",
        "@codemirror/merge",
        "@lezer/common",
    ):
        assert re.search(rf"^{name} \d", text, re.M), name
    assert text.count("Permission is hereby granted") == len(re.findall(r"^\S+ \d\S*$", text, re.M))
