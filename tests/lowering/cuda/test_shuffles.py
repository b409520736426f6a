"""Lane exchange as CUDA C++: the emitted text, executed for the 32 lanes of a warp."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import FragShuffle
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine.fragment import Array, element_index
from tests.lowering.machine.test_shuffle import BYTES, exchange

FORMS = [("e4m3", 2, 4), ("e4m3", 4, 2), ("bf16", 1, 2), ("bf16", 2, 1), ("bf16", 2, 4),
         ("bf16", 4, 2), ("f32", 1, 2), ("f32", 2, 1), ("f32", 2, 4), ("f32", 4, 2)]  # fmt: skip


def kernel(dtype: str, span: int, other: int) -> tuple[Kernel, FragShuffle]:
    """A shuffle of a filled fragment, 128 x 32."""
    first, second = (
        f"frag<{dtype}, 128x32{f', span {n}' if n != 2 else ''}>" for n in (span, other)
    )
    k = parse_kernel(
        f"kernel k threads 128 cluster 1 grid 1 {{ t: {first} = frag.fill 0.0 "
        f"u: {second} = frag.shuffle t }}"
    )
    assert verify(k) == []
    node = k.body[1]
    assert isinstance(node, FragShuffle)
    return k, node


def text_of(dtype: str, span: int, other: int) -> str:
    """The block of the shuffle, of 8 bits without the fill, of which there is none."""
    k, node = kernel(dtype, span, other)
    if dtype == "e4m3":
        k = parse_kernel(
            f"kernel k threads 128 cluster 1 grid 1 {{ shared S: e4m3[1][128x64] swizzle 64 at 0 "
            f"w: frag<e4m3, 128x32, span 4> = ldmatrix S[0, 0, 0] "
            f"{'' if span == 4 else 't: frag<e4m3, 128x32> = frag.shuffle w '}"
            f"u: {node.out.type} = frag.shuffle {'w' if span == 4 else 't'} }}"
        )
    text = re.sub(r"\(\n\s+|,\n\s+", lambda m: m[0][0] + " ", emit_kernel(k))
    return text[text.index(f" u[{node.out.type.registers}]") :]


def packed(values: Array, bits: int) -> list[list[int]]:
    """Registers by lane of elements in their order."""
    by_lane = values.reshape(32, -1).astype(np.uint64)
    per = 32 // bits
    words = by_lane.reshape(32, -1, per)
    shifts = np.arange(per, dtype=np.uint64) * np.uint64(bits)
    return [[int(w) for w in lane] for lane in (words << shifts).sum(-1)]


def registers(values: Array, dtype: str) -> list[list[int]]:
    """Elements as a thread's registers pack them: 16 bits of a row or of two rows, at least."""
    bits = {"e4m3": 8, "bf16": 16, "f32": 32}[dtype]
    return packed(values, bits)


def execute(text: str, given: list[list[int]], count: int) -> list[list[int]]:
    """The registers ``u`` of all lanes, from ``t`` or ``w``."""
    lanes: list[dict[str, Any]] = [
        {"lane": n, "u": [0] * count, "t": given[n], "w": given[n]} for n in range(32)
    ]

    def value(env: dict[str, Any], expr: str) -> int:
        return int(eval(expr, {"unsigned": int, "int": int, "__float_as_uint": int,
                               "__uint_as_float": int, "__byte_perm": byte_perm}, env))  # fmt: skip

    def put(env: dict[str, Any], where: str, found: int) -> None:
        if match := re.fullmatch(r"(\w+)\[(.*)\]", where):
            env[match[1]][value(env, match[2])] = found
        else:
            env[where] = found

    def run(line: str) -> None:
        if match := re.fullmatch(r"const \w+ (\w+) = (.*);", line):
            for env in lanes:
                env[match[1]] = value(env, match[2])
        elif match := re.fullmatch(r"exchange\((.*)\);", line):
            a, b, other, from0, from1, swap, low, high = match[1].split(", ")
            sent = [[value(env, x) for x in (a, b)][:: -1 if env[other] else 1] for env in lanes]
            got = [(sent[env[from0]][0], sent[env[from1]][1]) for env in lanes]
            for env, pair in zip(lanes, got, strict=True):
                for where, found in zip((low, high), pair[:: -1 if env[swap] else 1], strict=True):
                    put(env, where, found)
        elif match := re.fullmatch(r"(\w+\[.*?\]|\w+) = (.*);", line):
            for env in lanes:
                put(env, match[1], value(env, match[2]))
        else:
            assert re.fullmatch(r"unsigned \w+, \w+;", line), line

    body: list[str] = []
    steps = 0
    for line in (line.strip() for line in text.splitlines()[2:]):
        if match := re.search(r"r < (\d+)", line):
            steps, body = int(match[1]), []
        elif line == "}":
            for r in range(steps):
                for env in lanes:
                    env["r"] = r
                for each in body:
                    run(each)
            steps = 0
        elif not line.startswith(("#", "//")) and line:
            body.append(line) if steps else run(line)
    return [env["u"] for env in lanes]


def byte_perm(a: int, b: int, selector: int) -> int:
    """``prmt`` in its default mode."""
    pool = [(x >> 8 * i) & 255 for x in (a, b) for i in range(4)]
    return sum(pool[selector >> 4 * i & 7] << 8 * i for i in range(4))


@pytest.mark.sampled
@pytest.mark.parametrize(("dtype", "span", "other"), FORMS)
def test_every_element_arrives(dtype: str, span: int, other: int) -> None:
    """Rows and columns of elements, as registers hold them, before and after."""
    _, node = kernel(dtype, span, other)
    text = text_of(dtype, span, other)
    for axis in (0, 1):
        before, after = (
            np.broadcast_to(element_index(kind, 1)[axis], (32, *kind.held)).copy()
            for kind in (node.value.type, node.out.type)
        )
        found = execute(text, registers(before, dtype), node.out.type.registers)
        assert found == registers(after, dtype)


def test_text(golden: object) -> None:
    """8 bits to 16-bit words of two rows, and 16 bits, of which a piece is a word."""
    k = parse_kernel(
        """kernel k threads 128 cluster 1 grid 1 {
          shared S: e4m3[1][64x64] swizzle 64 at 0
          t: frag<e4m3, 64x32, span 4> = ldmatrix S[0, 0, 0]
          u: frag<e4m3, 64x32> = frag.shuffle t
          v: frag<e4m3, 64x32, span 4> = frag.shuffle u
          a: frag<bf16, 64x32> = frag.fill 0.0
          b: frag<bf16, 64x32, span 4> = frag.shuffle a
          x: frag<f32, 128x16> = frag.fill 0.0
          y: frag<f32, 128x16, span 1> = frag.shuffle x
        }"""
    )
    assert verify(k) == []
    assert emit_kernel(k) == golden


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "span", "other"), [f for f in FORMS if f[0] != "e4m3"])
def test_machine_code(dtype: str, span: int, other: int) -> None:
    """A shuffle for each word that changes its lane, no spills."""
    compiled = compile_cubin(emit_cuda(parse_kernel(exchange(dtype, span, other))))
    assert read_resources(compiled, "k").clean
    count = 32 if dtype == "f32" else 16
    assert disassemble(compiled.cubin).count("SHFL.IDX") - 1 == count, "beside the warp's index"


@pytest.mark.slow
def test_bytes_compile() -> None:
    compiled = compile_cubin(emit_cuda(parse_kernel(BYTES)))
    assert read_resources(compiled, "bytes").clean
    assert disassemble(compiled.cubin).count("SHFL.IDX") == 1 + 2 * 8
