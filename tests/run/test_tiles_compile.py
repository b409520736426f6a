"""A pairwise cover of all that a kernel can differ in, through NVRTC: no spills, no warnings; and
every claim about it is proved.
"""

from __future__ import annotations

from functools import cache

import pytest

from lowering.target.hopper import HOPPER
from tests.pairwise import Pair, Row, pairs_of, pairwise
from wsched.front.known import import_fusion
from wsched.fusion import Fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import ClusterDims, GemmTile, MatmulParams
from wsched.schedule.matmul.tiles import TileChoice, tile_choice

FACTORS = {
    "m": (64, 128, 192, 256),
    "n": (8, 16, 24, 64, 80, 128, 192, 256, 320, 384),
    "k": (32, 64, 128),
    "way": ((1, False), (2, False), (3, False), (2, False, 2), (4, False, 2), (2, True)),
    "cluster": ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4)),
    "in_flight": (1, 0, 2),
    "exchanged": (False, True),
    "operand": ("BFloat16", "Half"),
    "a": ("K", "M"),
    "b": ("K", "N"),
    "result": ("BFloat16", "Half", "Float"),
    "epilogue": ("none", "gelu", "residual", "two results"),
}
TILE = ("m", "n", "k", "way", "exchanged")
"""What decides on legality together; the first value of any other factor refuses nothing."""

PARTS = 12
"""Tests that the cover is dealt out to, so that two workers share it."""


def definition(row: Row) -> str:
    """A linear with the operands' layouts, a result type and an epilogue."""
    operand = f"dtype=DataType.{row['operand']}"
    layouts = ["stride_order=[0, 1], " if row[x] != "K" else "" for x in "ab"]
    lines = [f"{x} = fd.define_tensor(shape=[-1, -1], {o}{operand})"
             for x, o in zip("xw", layouts, strict=True)]  # fmt: skip
    if row["epilogue"] == "residual":
        lines.append(f"r = fd.define_tensor(shape=[-1, -1], {operand})")
    lines += ["y = fd.ops.linear(x, w)", "f = fd.ops.cast(y, dtype=DataType.Float)"]
    lines += {
        "none": ["d = f"],
        "gelu": ["f2 = fd.ops.mul(f, f)", "u = fd.ops.mul(f2, f)", "t = fd.ops.tanh(u)",
                 "d = fd.ops.mul(f, t)"],
        "residual": ["d = fd.ops.add(f, r)"],
        "two results": ["d = fd.ops.relu(f)", "e = f"],
    }[row["epilogue"]]  # fmt: skip
    results = [line for line in lines if line[0] in "de"]
    outputs = []
    for name, _, value in (line.partition(" = ") for line in results):
        source = value if value == "f" else name
        lines = [line for line in lines if line != f"{name} = f"]
        if row["result"] != "Float":
            lines.append(f"{name}o = fd.ops.cast({source}, dtype=DataType.{row['result']})")
            source = f"{name}o"
        outputs.append(f"fd.add_output({source})")
    body = "".join(f"    {line}\n" for line in [*lines, *outputs])
    return f"def nvfuser_fusion(fd : FusionDefinition) -> None :\n{body}"


def fusion_of(row: Row) -> Fusion:
    return import_fusion(definition(row))


def choice_of(row: Row) -> TileChoice:
    base = MatmulParams(
        cluster_dims=ClusterDims(*row["cluster"]),
        wgmma_in_flight=row["in_flight"],
        exchange_operands=row["exchanged"],
    )
    return tile_choice(fusion_of(row), base, GemmTile(row["m"], row["n"], row["k"]), *row["way"])


@cache
def cover() -> tuple[list[Row], list[Pair]]:
    return pairwise(FACTORS, lambda row: choice_of(row).legal, TILE)


IMPOSSIBLE = {
    (("m", 64), ("way", (2, False))), (("m", 64), ("way", (3, False))),
    (("m", 128), ("way", (3, False))), (("m", 192), ("way", (2, False))),
    (("m", 256), ("way", (3, False))),  # warp tiles of whole wgmmas
    (("m", 192), ("n", 256)), (("m", 256), ("n", 256)), (("n", 256), ("way", (3, False))),
    # accumulators
    *((("n", n), ("way", (groups, False))) for n in (320, 384) for groups in (1, 2, 3)),
    *((("n", n), ("way", (2, True))) for n in (320, 384)),  # wgmma has 256 columns
    *((("m", m), ("n", n)) for m in (192, 256) for n in (320, 384)),
    *((("n", n), ("way", (4, False, 2))) for n in (320, 384)),  # accumulators
    (("n", 384), ("k", 128)),  # shared memory
    (("m", 64), ("way", (4, False, 2))), (("m", 192), ("way", (4, False, 2))),
    *((("n", n), ("way", (groups, False, 2))) for n in (8, 24) for groups in (2, 4)),
    # warp tiles of whole wgmmas, side by side
    (("exchanged", True), ("result", "Float")),  # stmatrix transposes 16 bits
}  # fmt: skip


@pytest.mark.slow
def test_the_cover_has_every_legal_pair() -> None:
    rows, impossible = cover()
    covered = set().union(*map(pairs_of, rows))
    assert set(impossible) == IMPOSSIBLE and not covered & IMPOSSIBLE
    names = list(FACTORS)
    every = {
        ((a, v), (b, w))
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        for v in FACTORS[a]
        for w in FACTORS[b]
    }
    assert covered | IMPOSSIBLE == every
    assert len(rows) <= 120


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_legal_compiles_clean(part: int) -> None:
    for row in cover()[0][part::PARTS]:
        compiles_clean(row)


def test_a_small_one_compiles_clean() -> None:
    """As each of the cover."""
    row = {name: values[0] for name, values in FACTORS.items()} | {"a": "M", "epilogue": "gelu"}
    assert choice_of(row).legal
    compiles_clean(row)


def compiles_clean(row: Row) -> None:
    """No spills, no warnings, all proved, and as many registers as were asked for."""
    choice = choice_of(row)
    kernel = compile_fusion(fusion_of(row), choice.params)
    assert kernel.resources.clean, f"{row}: {kernel.resources}"
    proof = kernel.proof()
    assert proof.proved, f"{row}: {', '.join(map(str, proof.open))}"
    entry = HOPPER.registers_at_entry(kernel.kernel.threads)
    if choice.params.num_registers is None:
        # Beyond whole steps of setmaxnreg a thread may have what an instruction can name.
        most = max(entry, HOPPER.registers // kernel.kernel.threads - 1)
        assert kernel.resources.registers <= most
    else:
        assert kernel.resources.registers == entry
