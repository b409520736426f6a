"""A page as one file: HTML with its style, its script and its data, which needs no network.

The data is compressed, since browsers can undo that themselves (``DecompressionStream``); without
that the frames of films would make up most of the file.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from dataclasses import asdict
from functools import cache
from importlib import resources

from wsched.explore.data import Book

__all__ = ["LARGEST", "packed", "page_html", "unpacked"]

LARGEST = 3_000_000
"""Bytes of a page of a kernel at 512x512x512 at most; a test holds it to that."""


def page_html(book: Book) -> str:
    """The whole file."""
    title = html.escape(f"wsched: {book.title}")
    return (
        _asset("page.html")
        .replace("{{title}}", title)
        .replace("{{style}}", _asset("page.css"))
        .replace("{{data}}", packed(book))
        .replace("{{script}}", _asset("page.js"))
    )


def packed(book: Book) -> str:
    """The data: JSON, compressed, as text. The same book gives the same text."""
    text = json.dumps(asdict(book), separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def unpacked(text: str) -> object:
    """The JSON in the data of a page."""
    return json.loads(gzip.decompress(base64.b64decode(text)))


@cache
def _asset(name: str) -> str:
    found = resources.files("wsched.explore").joinpath("assets", name)
    return found.read_text(encoding="utf-8")
