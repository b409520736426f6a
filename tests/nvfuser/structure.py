"""What nvFuser's printed kernel and wsched's kernel text have in common: roles, loops, events.

Both are texts in braces. :func:`nvfuser_structure` and :func:`wsched_structure` keep of each the
loops of the two roles and what they do to barriers, tensor core and copies, in one vocabulary::

    for            a loop with a run-time count, "for 4" one with a constant one
    wait full      an mbarrier: full, empty, or that of the order in ping-pong
    expect_tx 49152
    wgmma 64x256x16
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["facts", "nvfuser_structure", "wsched_structure"]

Structure = dict[str, Any]
"""``threads``, ``registers`` (load, compute), ``barriers`` (kind -> [number, arrivals]), and the
roles ``load`` and ``compute`` as lines, indented by their loops."""


@dataclass
class Block:
    """A line that opens a brace, and what is inside: lines and blocks."""

    head: str
    body: list[str | Block] = field(default_factory=list)

    def find(self, word: str) -> Block:
        """The first block below whose head or body has a line with this word."""
        for block in self.blocks():
            if any(isinstance(x, str) and word in x for x in (block.head, *block.body)):
                return block
        raise AssertionError(f"no block with {word!r}")

    def blocks(self) -> Iterator[Block]:
        """This one and all below, outermost first."""
        yield self
        for x in self.body:
            if isinstance(x, Block):
                yield from x.blocks()


def parse(text: str) -> Block:
    """A text in braces, one at a line's end."""
    stack = [Block("")]
    for line in map(str.strip, text.splitlines()):
        opens, closes = line.endswith("{"), line.startswith("}")
        if closes:
            stack.pop()
        if opens:
            block = Block(line)
            stack[-1].body.append(block)
            stack.append(block)
        elif not closes and line:
            stack[-1].body.append(line)
        if not stack:  # what follows the kernel
            break
    return stack[0] if stack else Block("")


Rules = Sequence[tuple[str, str]]
"""(pattern, event), the first that is found in a line; ``\\1`` stands for the group."""

NVFUSER: Rules = (
    (r"arriveExpectTX\(.*, (\d+)U\)", r"expect_tx \1"),
    (r"cpAsyncBulkTensorTileG2S\(", "tma.load"),
    (r"cpAsyncBulkTensorTileS2G\(", "tma.store"),
    (r"cpAsyncBulkCommitGroup", "bulk.commit"),
    (r"cpAsyncBulkWaitGroup<(\d+)LL>", r"bulk.wait \1"),
    (r"wgmma::fence", "wgmma.fence"),
    (r"wgmma::m(\d+)n(\d+)k(\d+)", r"wgmma \1x\2x\3"),
    (r"wgmma::commit", "wgmma.commit"),
    (r"wgmma::wait<(\d+)LL>", r"wgmma.wait \1"),
    (r"stmatrix4", "stmatrix"),
    (r"__float2bfloat", "cast"),
    (r"block_sync::sync<false>\(dim3\(128, 1,", "bar.sync 128"),
    (r"block_sync::sync<false>\(dim3\(128, 2,", "bar.sync 256"),
    (r"fenceAsyncProxy", "fence.proxy.async"),
)

WSCHED: Rules = (
    (r"mbarrier\.wait ring_(full|empty)", r"wait \1"),
    (r"mbarrier\.arrive ring_(full|empty)", r"arrive \1"),
    (r"mbarrier\.expect_tx .* bytes=(\w+)", r"expect_tx \1"),
    (r"tma\.load", "tma.load"),
    (r"tma\.store", "tma.store"),
    (r"bulk\.commit", "bulk.commit"),
    (r"bulk\.wait (\d+)", r"bulk.wait \1"),
    (r"wgmma\.fence", "wgmma.fence"),
    (r"frag<f32, (\d+)x(\d+), async> = wgmma ", r"wgmma \1x\2x16"),
    (r"wgmma\.commit", "wgmma.commit"),
    (r"= wgmma\.wait \w+, (\d+)", r"wgmma.wait \1"),
    (r"stmatrix", "stmatrix"),
    (r"frag\.cast", "cast"),
    (r"bar\.sync order", "wait order"),
    (r"bar\.arrive order", "arrive order"),
    (r"bar\.sync T5_store", "bar.sync 128"),
    (r"fence\.proxy\.async", "fence.proxy.async"),
)


def nvfuser_structure(text: str) -> Structure:
    """Of the kernel that nvFuser prints with ``NVFUSER_DUMP=cuda_kernel``."""
    ring = re.search(r"arriveExpectTX\(toSmem\(\(&(T\d+)\[", text)
    assert ring is not None
    barriers: dict[str, list[int]] = {}
    inits = (
        r"< (\d+); \+\+\w+\) \{\s*if .*\{\s*mbarrier::init\(toSmem\(\(&(T\d+)\[(.*?)\]\)\), (\d+)U"
    )
    for number, array, index, arrivals in re.findall(inits, text):
        kind = _kind(array, index, ring[1])
        barriers[kind] = [int(number), int(arrivals)]

    def barrier(line: str) -> str:
        found = re.search(r"mbarrier::(waitParity|arrive)\(toSmem\(\(&(T\d+)\[(.*?)\]\)\)", line)
        if found is None:
            return ""
        verb = "wait" if found[1] == "waitParity" else "arrive"
        return f"{verb} {_kind(found[2], found[3], ring[1])}"

    whole = parse(text)
    load, compute = whole.find("decreaseRegisters"), whole.find("increaseRegisters")
    return {
        "threads": _number(r"maxThreadsPerBlock=\*/(\d+)", text),
        "registers": [_number(rf"{way}creaseRegisters<(\d+)>", text) for way in ("de", "in")],
        "barriers": barriers,
        "load": list(_lines(load, NVFUSER, barrier)),
        "compute": list(_lines(compute, NVFUSER, barrier)),
    }


def wsched_structure(text: str) -> Structure:
    """Of wsched's final kernel, the text of the stage ``kernel``."""
    barriers = {
        kind: [int(number), int(arrivals)]
        for kind, number, arrivals in re.findall(
            r"mbarrier ring_(\w+)\[(\d+)\] arrivals (\d+)", text
        )
    }
    for number, threads in re.findall(r"named_barrier order\[(\d+)\] id \d+ threads (\d+)", text):
        barriers["order"] = [int(number), int(threads)]
    # A box is clipped where the tensor is smaller; bytes are those of a whole one.
    step = re.search(r"let step_bytes: i32 = (.*?) once", text)
    assert step is not None
    terms = re.findall(r"min\([MN], (\d+)\) \* (\d+)", step[1])
    whole_step = str(sum(int(rows) * int(width) for rows, width in terms))
    text = text.replace("bytes=step_bytes", f"bytes={whole_step}")
    whole = parse(text)
    load, compute = whole.find("role load"), whole.find("role compute")
    return {
        "threads": _number(r" threads (\d+) cluster", text),
        "registers": [_number(rf"setmaxnreg {way}, (\d+)", text) for way in ("dec", "inc")],
        "barriers": barriers,
        "load": list(_lines(load, WSCHED, lambda line: "")),
        "compute": list(_lines(compute, WSCHED, lambda line: "")),
    }


def facts(found: Structure) -> Structure:
    """What a structure says in numbers: the rows of the table in the design note."""
    load, compute = found["load"], found["compute"]
    k_loop = _loop_with(compute, "wgmma ")
    return {
        "threads": found["threads"],
        "registers": found["registers"],
        "stages": found["barriers"]["full"][0],
        "full arrivals": found["barriers"]["full"][1],
        "empty arrivals": found["barriers"]["empty"][1],
        "order barriers": found["barriers"].get("order", [0, 0])[0],
        "load loops": sum(line.strip().startswith("for") for line in load),
        "waits of a load step": _count(load, "wait empty"),
        "bytes of a load step": sum(int(line.split()[-1]) for line in load if "expect_tx" in line),
        "expect_tx of a load step": _count(load, "expect_tx"),
        "loads of a step": _count(load, "tma.load"),
        "wgmmas of a k step": _instructions(k_loop),
        "wgmma fences of a k step": _times(k_loop, "wgmma.fence"),
        "groups in flight": next(int(x.split()[-1]) for x in k_loop if "wgmma.wait" in x),
        "releases of a k step": _count(k_loop, "arrive empty"),
        "order waits of a tile": _count(compute, "wait order"),
        "stores kept in flight": _stores(compute),
    }


def _kind(array: str, index: str, ring: str) -> str:
    """An mbarrier of nvFuser's: the ring's first half is full, the second empty."""
    if array != ring:
        return "order"
    return "empty" if re.search(r"\+ \d+LL\)$", index) else "full"


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return int(found[1])


def _lines(block: Block, rules: Rules, barrier: Any, indent: str = "") -> Iterator[str]:
    """Events and loops of a block; loops without an event are left out."""
    for x in block.body:
        if isinstance(x, str):
            event = barrier(x) or _event(x, rules)
            if event:
                yield indent + event
            continue
        loop = re.match(
            r"for\s*\(.* < (\w+); |for \w+ in 0 \.\. (\d+|\w+|.*?) (?:carry|unroll)", x.head
        )
        inside = list(_lines(x, rules, barrier, indent + "  " * bool(loop)))
        if loop and inside:
            count = loop[1] or loop[2]
            yield f"{indent}for {count}" if count.isdigit() else f"{indent}for"
        yield from inside


def _event(line: str, rules: Rules) -> str:
    for pattern, event in rules:
        found = re.search(pattern, line)
        if found is not None:
            return found.expand(event)
    return ""


def _loop_with(lines: list[str], word: str) -> list[str]:
    """The lines of the run-time loop around the first line with this word, dedented."""
    at = next(i for i, line in enumerate(lines) if word in line)
    start = next(i for i in range(at, -1, -1) if lines[i].strip() == "for")
    depth = _depth(lines[start])
    body = []
    for line in lines[start + 1 :]:
        if _depth(line) <= depth:
            break
        body.append(line[2 * (depth + 1) :])
    return body


def _depth(line: str) -> int:
    return (len(line) - len(line.lstrip())) // 2


def _count(lines: list[str], word: str) -> int:
    return sum(word in line for line in lines)


def _times(lines: list[str], word: str, weight: Any = lambda line: 1) -> int:
    """How often a line with this word runs, with the constant loops around it."""
    total, around = 0, []
    for line in lines:
        around = around[: _depth(line)]
        if line.strip().startswith("for"):
            around.append(int(line.split()[1]))
        elif word in line:
            times = weight(line)
            for count in around:
                times *= count
            total += times
    return total


def _instructions(lines: list[str]) -> int:
    """wgmma instructions of 64 rows; wsched's IR has one for all rows of a warpgroup."""
    return _times(lines, "wgmma 6", _blocks) + _times(lines, "wgmma 1", _blocks)


def _blocks(line: str) -> int:
    return int(line.split()[1].split("x")[0]) // 64


def _stores(compute: list[str]) -> int:
    """Store groups that may be under way when the buffer's next writer goes on."""
    tile = [line for line in compute if _depth(line) > 0]
    return next(int(line.split()[-1]) for line in tile if "bulk.wait" in line)
