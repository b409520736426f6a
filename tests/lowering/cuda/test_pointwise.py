"""Pointwise operations: the table against the machine's, and which registers the text names."""

from __future__ import annotations

import re
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.literals import literal
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.pointwise import EXPRESSIONS
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.pointwise import OPS
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import run_kernel
from lowering.machine.pointwise import FUNCTIONS
from tests.lowering.cuda.epilogues import add_residual, bias_gelu, epilogue_kernel, everything
from tests.lowering.cuda.opcodes import count_opcodes
from tests.lowering.machine.epilogues import chain, epilogue

VALUES = [0.0, -0.0, 1.0, -1.0, 0.3, 2.0, -2.5, 17.0, 1e-3, float("inf"), float("nan")]

ONE = np.float32(1)
# What the functions of the C++ text mean, from CUDA's and this project's documentation.
C = {
    "fabsf": np.fabs, "expf": np.exp, "exp2f": np.exp2, "expm1f": np.expm1, "logf": np.log,
    "log2f": np.log2, "log10f": np.log10, "log1pf": np.log1p, "sqrtf": np.sqrt, "tanhf": np.tanh,
    "rsqrtf": lambda x: ONE / np.sqrt(x), "erff": FUNCTIONS["erf"], "erfcf": FUNCTIONS["erfc"],
    "powf": np.power, "ceilf": np.ceil, "floorf": np.floor, "truncf": np.trunc, "rintf": np.rint,
    "sine_of_turns": lambda x, turns: FUNCTIONS["cos" if turns else "sin"](x),
    "__uint_as_float": lambda bits: np.uint32(bits).view(np.float32),
    "ptx": SimpleNamespace(
        min_nan=np.minimum, max_nan=np.maximum, sigmoid=lambda x: ONE / (ONE + np.exp(-x))
    ),
}  # fmt: skip


def in_python(text: str) -> str:
    """A C++ expression as a Python one."""
    text = re.sub(r"(\d\.\d+)f", r"float32(\1)", text).replace("::", ".").replace("000u", "000")
    text = text.replace("&&", "and").replace("||", "or")
    text = re.sub(r"!(?!=)", "not ", text)
    return re.sub(r"(.*) \? (.*) : (.*)", r"(\2) if (\1) else (\3)", text)


@pytest.mark.parametrize("op", OPS)
def test_expression_is_what_the_machine_computes(op: str) -> None:
    """For all combinations of special and ordinary values, NaN and signs of zero aside."""
    text = in_python(EXPRESSIONS[op].format(x="x", y="y", z="z"))
    entry = OPS[op]
    kinds: list[list[Any]] = [
        [True, False] if i < entry.conditions else [np.float32(v) for v in VALUES]
        for i in range(entry.arity)
    ]
    with np.errstate(all="ignore"):
        for arguments in product(*kinds):
            names = dict(zip("xyz", arguments, strict=False))
            got = eval(text, {"__builtins__": {}, "float32": np.float32, **C}, names)
            np.testing.assert_array_equal(got, FUNCTIONS[op](*arguments), err_msg=str(arguments))


def test_tables_have_the_same_operations() -> None:
    assert EXPRESSIONS.keys() == OPS.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("op", OPS)
def test_expression_names_every_argument(op: str) -> None:
    assert set(re.findall(r"\{(\w)\}", EXPRESSIONS[op])) == set("xyz"[: OPS[op].arity])


# --- registers -----------------------------------------------------------------------------------


def kernel(body: str) -> Kernel:
    return parse_kernel(f"kernel k threads 128 cluster 1 grid 1 {{\n{body}\n}}\n")


def element(kind: str, register: int, half: int) -> tuple[int | None, int | None]:
    """Row and column of thread 0's element by ``FragmentType``; None where all are one."""
    dtype, rows, cols = re.match(r"(\w+), (\d+)x(\d+)", kind).groups()  # type: ignore[union-attr]
    places: list[tuple[int | None, int | None]] = []
    for block in range(max(int(rows) // 64, 1)):
        for group in range(max(int(cols) // 8, 1)):
            for row in (0, 8) if rows != "1" else (None,):
                for col in (0, 1) if cols != "1" else (None,):
                    places.append(
                        (row if row is None else 64 * block + row,
                         col if col is None else 8 * group + col)
                    )  # fmt: skip
    packed = dtype in ("bf16", "f16")
    if packed and len(places) % 2:  # a single value has a register of its own
        return places[register]
    return places[2 * register + half if packed else register]


ARGUMENTS = ["f32, 128x32", "bf16, 128x32", "f16, 128x32", "f32, 1x32", "bf16, 1x32",
             "f32, 128x1", "f16, 128x1", "f32, 1x1", "bf16, 1x1"]  # fmt: skip


RESULTS = ["f32, 128x32", "f32, 128x1", "f32, 1x32", "f32, 1x1"]


def negated(kind: str, out: str) -> Kernel:
    return kernel(f"a: frag<{kind}> = frag.fill 1.0\nd: frag<{out}> = frag.pointwise neg, a")


@pytest.mark.parametrize(
    ("kind", "out"),
    [(kind, out) for kind in ARGUMENTS for out in RESULTS if not verify(negated(kind, out))],
)
def test_registers_of_an_element(kind: str, out: str) -> None:
    """The argument's element lies in the row and column of the result's, or is shared."""
    text = emit_kernel(negated(kind, out))
    text = text[text.index("d[") + 2 :]
    seen = set()
    steps = 0
    for line in text.splitlines():
        if match := re.search(r"r < (\d+)", line):
            steps = int(match[1])
        match = re.search(r"d\[(.*)\] = -(?:ptx::cvt_f32_\w+<(\d)>\()?a\[(.*)\]", line)
        for r in range(steps if match else 0):
            assert match
            written = eval(match[1], {}, {"r": r})
            row, col = element(out, written, 0)
            found = element(kind, eval(match[3], {}, {"r": r}), int(match[2] or 0))
            assert found[0] in (None, row) and found[1] in (None, col)
            seen.add(written)
    assert len(seen) == negated(kind, out).body[1].out.type.registers  # type: ignore[attr-defined]


def test_columns_of_a_fragment_as_arguments() -> None:
    """Views begin where their columns do, in a row as in a tile."""
    text = emit_kernel(
        kernel(
            """
            a: frag<f32, 64x64> = frag.fill 1.0
            b: frag<bf16, 1x64> = frag.fill 2.0
            for c in 0 .. 2 unroll {
              x: frag<f32, 64x32> = frag.columns a, c * 32
              y: frag<bf16, 1x32> = frag.columns b, c * 32
              d: frag<f32, 64x32> = frag.pointwise add, x, y
            }
            """
        )
    )
    assert "d[4 * r + 3] = a[4 * r + c * 16 + 3] + ptx::cvt_f32_bf16<1>(b[r + c * 4]);" in text


def test_predicates_are_bools() -> None:
    text = emit_kernel(
        kernel(
            """
            a: frag<f32, 64x8> = frag.fill 1.0
            p: frag<pred, 64x8> = frag.pointwise lt, a, -0.5
            q: frag<f32, 64x8> = frag.pointwise where, p, a, nan
            """
        )
    )
    assert "bool p[4];  // frag<pred, 64x8>" in text
    assert "p[4 * r + 1] = a[4 * r + 1] < (-0.5f);" in text
    assert "q[4 * r] = p[4 * r] ? a[4 * r] : __uint_as_float(0x7fc00000u);" in text


def test_numbers_as_predicates() -> None:
    """They hold if they are not 0."""
    body = "a: frag<f32, 64x8> = frag.fill 1.0\n"
    body += "q: frag<f32, 64x8> = frag.pointwise where, 1.0, a, 0.0\n"
    body += "p: frag<pred, 64x8> = frag.pointwise logical_not, 0.0"
    text = emit_kernel(kernel(body))
    assert "q[4 * r] = true ? a[4 * r] : 0.0f;" in text and "p[4 * r] = !false;" in text


@pytest.mark.parametrize(("exponent", "value"), [("2.0", "a[4 * r] * a[4 * r]"),
                                                 ("3.0", "a[4 * r] * a[4 * r] * a[4 * r]"),
                                                 ("2.5", "powf(a[4 * r], 2.5f)")])  # fmt: skip
def test_powers(exponent: str, value: str) -> None:
    body = "a: frag<f32, 64x8> = frag.fill 1.0\n"
    body += f"b: frag<f32, 64x8> = frag.pointwise pow, a, {exponent}"
    assert f"b[4 * r] = {value};" in emit_kernel(kernel(body))


@pytest.mark.parametrize("value", [0.1, -0.0, 1 / 3, 1e-45, 3.4e38, 16777217.0, 2.5e-41])
def test_literals_are_exact(value: float) -> None:
    text = literal(value)
    assert text.endswith("f") and np.float32(text[:-1]).tobytes() == np.float32(value).tobytes()


@pytest.mark.parametrize(
    ("value", "bits"), [(float("inf"), 0x7F800000), (-1e39, 0xFF800000), (float("nan"), 0x7FC00000)]
)
def test_literals_that_are_no_numbers(value: float, bits: int) -> None:
    assert literal(value) == f"__uint_as_float(0x{bits:x}u)"


def test_conversions_of_small_fragments() -> None:
    text = emit_kernel(
        kernel(
            """
            one: frag<f32, 1x1> = frag.fill 1.5
            half: frag<bf16, 1x1> = frag.cast one
            back: frag<f32, 1x1> = frag.cast half
            column: frag<f32, 128x1> = frag.fill 1.5
            packed: frag<f16, 128x1> = frag.cast column
            """
        )
    )
    assert "half[0] = ptx::cvt_bf16x2(one[0], 0.0f);" in text
    assert "back[0] = ptx::cvt_f32_bf16<0>(half[0]);" in text
    assert "packed[r] = ptx::cvt_f16x2(column[2 * r], column[2 * r + 1]);" in text
    assert "packed[1 + r] = ptx::cvt_f16x2(column[2 + 2 * r], column[2 + 2 * r + 1]);" in text


def test_unknown_operation_is_rejected() -> None:
    with pytest.raises(InternalError) as e:
        emit_kernel(kernel("a: frag<f32, 64x8> = frag.pointwise frob, 1.0"))
    assert e.value.why == "no C++ for the pointwise operation frob"


# --- compiled ------------------------------------------------------------------------------------


def test_every_operation_compiles() -> None:
    """All at once, each used, without local memory."""
    lines = ["p = lt x, 0.0"]
    value, predicate = "x", "p"
    for i, (op, entry) in enumerate(OPS.items()):
        arguments = [*[predicate] * entry.conditions, value, "1.5", "2.5"][: entry.arity]
        lines.append(f"v{i} = {op} {', '.join(arguments)}")
        if entry.predicate:
            # Keeps the earlier ones in use.
            lines.append(f"w{i} = logical_or v{i}, {predicate}")
            predicate = f"w{i}"
        else:
            value = f"v{i}"
    lines.append(f"out = where {predicate}, {value}, x")
    k = parse_kernel(
        f"""
        kernel all threads 128 cluster 1 grid 1 {{
          param M: i32
          global T: f32[M, 8]
          shared s: f32[1][64x8] at 0
          x: frag<f32, 64x8> = frag.load_global T[0, 0]
          {chain(*lines).replace("64x64", "64x8")}
          st.shared s[0, 0, 0], out
        }}
        """
    )
    assert verify(k) == []
    resources = read_resources(compile_cubin(emit_cuda(k)), "all")
    assert resources.clean, str(resources)


@pytest.mark.slow
@pytest.mark.parametrize("compute", [bias_gelu, add_residual, everything])
def test_epilogue_of_the_cooperative_kernel_compiles_clean(compute: Any) -> None:
    """128x256 with 40/232 registers: no stack, no spills, no C75xx warnings."""
    k = epilogue_kernel(compute)
    assert verify(k) == []
    compiled = compile_cubin(emit_cuda(k))
    resources = read_resources(compiled, "cooperative")
    assert resources.clean, str(resources)
    sass = disassemble(compiled.cubin)
    counts = count_opcodes(sass)
    # A load of constant memory might be moved in front of the wait for earlier grids.
    assert "LDG.E.CONSTANT" not in sass
    assert counts["HGMMA"] == 4 and counts["USETMAXREG"] == 2
    assert not counts["LDL"] and not counts["STL"] and not counts["CALL"]
    assert counts["LDSM"] == (16 if compute is add_residual else 0)
    assert counts["LDG"] == {bias_gelu: 32, add_residual: 0, everything: 136}[compute]


def test_all_kinds_of_loads_compile() -> None:
    body = "".join(
        f"{name}: frag<{kind}> = frag.load_global {ref}\n"
        for name, kind, ref in (
            ("a", "bf16, 64x64", "y[r, c]"), ("b", "bf16, 1x64", "row[0, c]"),
            ("e", "bf16, 1x64", "pairs[0, c]"), ("f", "f32, 64x1", "column[r, 0]"),
            ("g", "f16, 64x1", "half[r, 0]"), ("h", "f32, 1x1", "one[0, 0]"),
        )
    )  # fmt: skip
    body += chain("t0 = add acc, a", "t1 = add t0, b", "t2 = add t1, e", "t3 = add t2, f",
                  "t4 = add t3, g", "out = add t4, h")  # fmt: skip
    resources = read_resources(compile_cubin(emit_cuda(epilogue(body))), "epilogue")
    assert resources.clean, str(resources)


UPDATE = """
kernel k threads 128 cluster 1 grid 1 {
  param n: i32
  global out: f32[64, 16]
  global x: f32[64, 16]
  global row: f32[1, 16]
  none: frag<f32, 64x16> = frag.fill 0.0
  for i in 0 .. n carry (sum: frag<f32, 64x16> = none -> total) {
    part: frag<f32, 64x16> = frag.load_global x[0, 0]
    line: frag<f32, 1x16> = frag.load_global row[0, 0]
    more: frag<f32, 64x16> = frag.update add, sum, part
    next: frag<f32, 64x16> = frag.update mul, more, line
    yield next
  }
  frag.store_global out[0, 0], total
}
"""


def test_updates_in_place() -> None:
    """All values that a loop carries share one array."""
    k = parse_kernel(UPDATE)
    assert verify(k) == []
    text = emit_kernel(k)
    assert re.findall(r"float (\w+)\[", text) == ["sum", "part", "line"]
    assert "sum[4 * r] = sum[4 * r] + part[4 * r];" in text
    assert "sum[4 * r + 3] = sum[4 * r + 3] * line[2 * r + 1];" in text
    assert read_resources(compile_cubin(emit_cuda(k)), k.name).clean


PARTS = """
kernel k threads 128 cluster 1 grid 1 {
  param n: i32
  global out: f32[128, 32]
  global x: f32[64, 16]
  none: frag<f32, 128x32> = frag.fill 1.0
  for i in 0 .. n carry (sum: frag<f32, 128x32> = none -> total) {
    part: frag<f32, 64x16> = frag.load_global x[0, 0]
    more: frag<f32, 128x32> = frag.update add, sum, part, row=64, rows=64, col=8, cols=16
    next: frag<f32, 128x32> = frag.update mul, more, 3.0, rows=64
    last: frag<f32, 128x32> = frag.update sub, next, 5.0, cols=8
    yield last
  }
  frag.store_global out[0, 0], total
}
"""
"""Updates of some rows and columns, of some rows and of some columns."""


def test_updates_of_parts() -> None:
    """Beside a part everything stays where it is."""
    k = parse_kernel(PARTS)
    assert verify(k) == []
    text = emit_kernel(k)
    assert re.findall(r"float (\w+)\[", text) == ["sum", "part"]
    assert "sum[4 * r + 20] = sum[4 * r + 20] + part[4 * r];" in text
    assert read_resources(compile_cubin(emit_cuda(k)), k.name).clean


def test_updates_of_parts_on_the_machine() -> None:
    x = np.random.default_rng(0).random((64, 16), np.float32)
    out, wanted = np.full((128, 32), np.nan, np.float32), np.ones((128, 32), np.float32)
    run_kernel(parse_kernel(PARTS), {"out": out, "x": x}, {"n": 2}, 1)
    for _ in range(2):
        wanted[64:, 8:24] += x
        wanted[:64] *= 3
        wanted[:, :8] -= 5
    np.testing.assert_array_equal(out, wanted)


def test_updates_in_place_on_the_machine() -> None:
    rng = np.random.default_rng(0)
    x, row = rng.random((64, 16), np.float32), rng.random((1, 16), np.float32)
    out = np.full((64, 16), np.nan, np.float32)
    run_kernel(parse_kernel(UPDATE), {"out": out, "x": x, "row": row}, {"n": 3}, 1)
    want = np.zeros_like(x)
    for _ in range(3):
        want = (want + x) * row
    assert np.array_equal(out, want)
