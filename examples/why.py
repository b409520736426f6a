"""What a matmul's time is lost to, and what would mend it; no GPU is asked.

``python -m examples.why [MxNxK] [PICTURE.png]``: the roofline, losses as a waterfall, who waits.
"""

from __future__ import annotations

import sys

import wsched
from examples.linear import LINEAR

__all__ = ["main"]


def main(shape: str = "2304x4352x1024", path: str | None = None) -> str:
    """The text."""
    found = wsched.why(LINEAR, shape, params=wsched.MatmulParams())
    print(found)
    if path is not None:
        found.draw(path)
    largest = found.largest[0]
    print(f"{largest.loss.us:.1f} us of {found.us:.1f} are lost to {largest.loss.effect}")
    return str(found)


if __name__ == "__main__":
    main(*sys.argv[1:3])
