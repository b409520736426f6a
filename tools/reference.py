"""The API reference: pages of HTML from the docstrings of ``wsched``'s public names, by pdoc.

    python tools/reference.py build/reference

It writes the pages and follows each of their links: to pages, to places within them. One that leads
nowhere is an error, as is a public name that has no place on the page of ``wsched``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlparse

from check_tree import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PAGE = "wsched.html"


class Links(HTMLParser):
    """The links of a page, and the places that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.places = list[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag with its attributes."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.places.add(value)


def public() -> Any:
    """The package with its names in it, which are loaded when they are asked for otherwise."""
    import wsched

    for name in wsched.__all__:
        setattr(wsched, name, getattr(wsched, name))
    return wsched


def _take_in(cls: Any) -> None:
    """Show what a class has from bases of ours, which have no pages: with them alone,
    ``Schedule`` had no ``split``.
    """
    for (module, _), members in cls.inherited_members.items():
        if module.partition(".")[0] in PACKAGES:
            cls.own_members = [*cls.own_members, *members]


def build(folder: Path) -> None:
    """Write the pages.

    Args:
        folder: is made if it is not there.
    """
    import pdoc
    import pdoc.render

    public()
    pdoc.render.configure(docformat="google", show_source=False, search=False)
    page = pdoc.doc.Module(public())
    for cls in page.members.values():
        if isinstance(cls, pdoc.doc.Class):
            _take_in(cls)
    folder.mkdir(parents=True, exist_ok=True)
    text = pdoc.render.html_module(page, {"wsched": page})
    (folder / PAGE).write_text(text, encoding="utf-8")


def faults(folder: Path) -> Iterator[str]:
    """Links that lead nowhere, and public names without a place."""
    pages = {p: Links(p.read_text(encoding="utf-8")) for p in sorted(folder.glob("*.html"))}
    for page, found in pages.items():
        for link in found.links:
            address, place = urldefrag(link)
            if urlparse(address).scheme in ("http", "https", "data"):
                continue
            target = (page.parent / unquote(address)).resolve() if address else page
            if target not in pages and not target.is_file():
                yield f"{page.name}: {link}: there is no such file"
            elif place and target in pages and unquote(place) not in pages[target].places:
                yield f"{page.name}: {link}: there is no such place"
    places = pages[folder / PAGE].places
    yield from (f"{PAGE}: {n} has no place" for n in public().__all__ if n not in places)


def main(folder: Path) -> int:
    """Write the pages, print what is wrong with them."""
    build(folder)
    found = list(faults(folder))
    print("\n".join(found) or f"{folder / PAGE}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
