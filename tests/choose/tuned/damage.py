"""JSON files as they get damaged: by a disk, by an editor, by another program."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

__all__ = ["damaged"]

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 7, 2**31, 2**70, 10**400, -0.0, 0.5, 1e308, float("nan"), float("inf"),
    "", "x", "128", "auto", "\0", "\ud800", [], {}, [0], [1, 2, 3], {"m": 0},
    {"m": 2**70, "n": 1}, "a" * 9999,
)  # fmt: skip
DEEP = "[" * 100_000


def damaged(text: str, seed: int) -> bytes:
    """A JSON text with one to three bytes, or one to two values, that are others."""
    rng = random.Random(seed)
    if rng.random() < 0.35:
        return _in_bytes(text, rng)
    data = json.loads(text)
    for _ in range(rng.randint(1, 2)):
        holder, key = rng.choice(list(_places(data)))
        match rng.randrange(4):
            case 0:
                del holder[key]
                if not data:
                    break
            case 1 if isinstance(holder, dict):
                holder[rng.choice(["", "size", f"{key} ", key.upper()])] = holder.pop(key)
            case 2:
                other, name = rng.choice(list(_places(data)))
                holder[key] = json.loads(json.dumps(other[name]))
            case _:
                holder[key] = rng.choice(VALUES)
    return json.dumps(data).encode("utf-8", "surrogatepass")


def _in_bytes(text: str, rng: random.Random) -> bytes:
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data))
        match rng.randrange(6):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at]
            case 2:
                data.insert(at, rng.choice(b'"\\{}[],:-0\0\xff'))
            case 3:
                del data[at:]
            case 4:
                data[at:at] = data[: rng.randrange(len(data))]
            case _:
                data[at:at] = DEEP.encode()
        data = data or bytearray(b"{}")
    return bytes(data)


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """What holds a value, and under which key."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        yield data, key
        if isinstance(value, dict | list):
            yield from _places(value)
