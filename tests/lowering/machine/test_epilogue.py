"""Pointwise operations and the inputs of an epilogue on the machine, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.kernel.pointwise import OPS
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine import MachineError
from lowering.machine.fragment import convert, to_float32
from lowering.machine.pointwise import FUNCTIONS
from tests.lowering.machine.epilogues import (
    LOAD,
    LOAD32,
    chain,
    epilogue,
    floats,
    inputs,
    run_epilogue,
)

TAIL = (100, 72)
ROW = "b: frag<bf16, 1x64> = frag.load_global row[0, c]\n"
COLUMN = "s: frag<f32, 64x1> = frag.load_global column[r, 0]\n"
GELU = chain(
    "cube = mul acc, acc", "cube3 = mul cube, acc", "in = mul cube3, 0.044715",
    "sum = add acc, in", "arg = mul sum, 0.7978845608028654", "t = tanh arg", "u = add t, 1.0",
    "v = mul acc, u", "out = mul v, 0.5",
)  # fmt: skip


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def check(body: str, wanted: object, tensors: dict[str, np.ndarray] | None = None) -> None:
    """``wanted`` maps the tensors to the result, in float64."""
    tensors = tensors or inputs(*TAIL)
    kernel = epilogue(body)
    for seed, adversary in enumerate(("eager", "lazy", "random")):
        tensors["d"][:] = np.nan
        got = run_epilogue(kernel, tensors, seed=seed, adversary=adversary)
        wide = {k: floats(v) if v.dtype == np.uint16 else v for k, v in tensors.items()}
        exact = wanted({k: v.astype(np.float64) for k, v in wide.items()})  # type: ignore[operator]
        np.testing.assert_allclose(got, exact, rtol=2e-6, atol=1e-6)


def test_bias_row() -> None:
    check(ROW + chain("out = add acc, b"), lambda t: t["x"] + t["row"])


def test_bias_row_two_columns_at_a_time() -> None:
    body = "b: frag<bf16, 1x64> = frag.load_global pairs[0, c]\n" + chain("out = add acc, b")
    check(body, lambda t: t["x"] + t["pairs"])


def test_column() -> None:
    check(COLUMN + chain("out = mul acc, s"), lambda t: t["x"] * t["column"])


def test_16_bit_column() -> None:
    body = "s: frag<f16, 64x1> = frag.load_global half[r, 0]\n" + chain("out = mul acc, s")
    check(body, lambda t: t["x"] * t["half"])


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_pairs_of_16_bits_are_rounded_once(kind: str) -> None:
    """Columns, and numbers, of the same type; the difference has less bits than its arguments."""
    column = "y[r, 0]" if kind == "bf16" else "half[r, 0]"
    body = f"""a: frag<{kind}, 64x64> = frag.cast acc
    s: frag<{kind}, 64x1> = frag.load_global {column}
    low: frag<{kind}, 64x64> = frag.pointwise sub, a, s
    kept: frag<{kind}, 64x64> = frag.pointwise add, low, 8.0
    out: frag<f32, 64x64> = frag.cast kept
    """

    def rounded(x: np.ndarray) -> np.ndarray:
        return to_float32(convert(x.astype(np.float32), DType.F32, dtype), dtype).astype(float)

    dtype = DType(kind)
    name = "y" if kind == "bf16" else "half"
    check(body, lambda t: rounded(rounded(rounded(t["x"]) - t[name][:, :1]) + 8))


def test_single_value() -> None:
    body = "s: frag<f32, 1x1> = frag.load_global one[0, 0]\n" + chain("out = div acc, s")
    check(body, lambda t: t["x"] / t["one"])


def test_row_and_column_make_a_matrix() -> None:
    body = ROW + COLUMN + chain("o = mul b, s", "out = add o, acc")
    check(body, lambda t: t["x"] + t["row"] * t["column"])


def test_small_values_are_computed_once() -> None:
    """A row and a column stay what they are until they meet the tile."""
    body = ROW + COLUMN
    body += "b2: frag<f32, 1x64> = frag.pointwise exp, b\n"
    body += "s2: frag<f32, 64x1> = frag.pointwise neg, s\n"
    body += "b3: frag<f32, 1x32> = frag.columns b2, 32\n"
    body += "b4: frag<bf16, 1x32> = frag.cast b3\nb5: frag<f32, 1x32> = frag.cast b4\n"
    body += chain("o = mul acc, s2", "out = add o, b2")
    check(body, lambda t: -t["x"] * t["column"] + np.exp(t["row"]))


def test_residual_by_loads() -> None:
    body = "y: frag<bf16, 64x64> = frag.load_global y[r, c]\n" + chain("out = sub acc, y")
    check(body, lambda t: t["x"] - t["y"])


def test_transposed_loads() -> None:
    """A row read as a column and so on, and a matrix whose rows are columns."""
    body = "y: frag<bf16, 64x64> = frag.load_global y[c, r], trans=true\n"
    body += "s: frag<f32, 1x64> = frag.load_global column[c, 0], trans=true\n"
    body += "b: frag<bf16, 64x1> = frag.load_global row[0, r], trans=true\n"
    body += chain("o = add acc, y", "p = mul o, s", "out = sub p, b")
    tensors = inputs(72, 72)
    got = run_epilogue(epilogue(body), tensors)
    y, row = floats(tensors["y"]).T, floats(tensors["row"]).T
    assert np.array_equal(got, (tensors["x"] + y) * tensors["column"].T - row)


def test_residual_through_shared_memory() -> None:
    check(LOAD + chain("out = add acc, before"), lambda t: t["x"] + t["old"])


def test_32_bit_residual_through_shared_memory() -> None:
    body = LOAD32 + "left: frag<f32, 64x32> = frag.columns acc, 0\n"
    body += "sum: frag<f32, 64x32> = frag.pointwise add, left, before\n"
    tensors = inputs(64, 32)
    got = run_epilogue(epilogue(body + chain("out = neg acc"), left="sum"), tensors)
    assert np.array_equal(got, tensors["x"] + tensors["old32"])


def test_gelu() -> None:
    check(GELU, lambda t: gelu(t["x"]))


def test_bias_silu_and_residual() -> None:
    body = ROW + LOAD + chain("a = add acc, b", "s = silu a", "out = add s, before")

    def wanted(t: dict[str, np.ndarray]) -> np.ndarray:
        a = t["x"] + t["row"]
        return a / (1 + np.exp(-a)) + t["old"]

    check(body, wanted)


def test_where_and_comparisons() -> None:
    body = COLUMN + chain(
        "low = lt acc, -1.0", "high = gt acc, s", "either = logical_or low, high",
        "clean = logical_not either", "out = where clean, acc, 0.5",
    )  # fmt: skip
    check(body, lambda t: np.where((t["x"] < -1) | (t["x"] > t["column"]), 0.5, t["x"]))


def test_numbers_as_predicates() -> None:
    check(chain("n = logical_and 1.0, 0.0", "out = where n, 2.0, acc"), lambda t: t["x"])


def test_constants_are_rounded_to_fp32() -> None:
    tensors = inputs(*TAIL)
    tensors["x"][:] = 0
    got = run_epilogue(epilogue(chain("out = add acc, 0.1")), tensors)
    assert (got == np.float32(0.1)).all()


def test_empty_tensor_gives_zero() -> None:
    """Nothing is in bounds, so no CTA should run; one that does reads zeros."""
    tensors = inputs(8, 8)
    tensors["row"] = np.zeros((1, 8), np.uint16)
    body = "b: frag<bf16, 1x64> = frag.load_global row[1, c]\n" + chain("out = add acc, b")
    assert np.array_equal(run_epilogue(epilogue(body), tensors), tensors["x"])


@pytest.mark.parametrize("seed", range(4))
def test_read_before_the_bytes_have_landed(seed: int) -> None:
    """A missing wait: the load would overwrite what is being read."""
    body = LOAD.replace("mbarrier.wait full[0], 0", "") + chain("out = add acc, before")
    body += "\nmbarrier.wait full[0], 0"
    tensors = inputs(64, 64)
    with pytest.raises(MachineError, match="a load overwrites what warp 0 may still be reading"):
        run_epilogue(epilogue(body), tensors, seed=seed, adversary="lazy")


def test_wrong_column_of_a_bias_is_seen() -> None:
    body = ROW.replace("[0, c]", "[0, c + 8]") + chain("out = add acc, b")
    tensors = inputs(64, 64)
    got = run_epilogue(epilogue(body), tensors)
    assert not np.array_equal(got, tensors["x"] + floats(tensors["row"]))


def test_wrong_swizzle_of_a_residual_is_seen() -> None:
    kernel = epilogue(LOAD + chain("out = add acc, before"))
    buffer = "old_s: bf16[1][64x64]"
    text = print_kernel(kernel).replace(f"{buffer} swizzle 128", buffer)
    tensors = inputs(64, 64)
    got = run_epilogue(parse_kernel(text), tensors)
    assert not np.array_equal(got, tensors["x"] + floats(tensors["old"]))


def test_odd_column_of_a_load_of_two() -> None:
    body = "b: frag<bf16, 1x64> = frag.load_global pairs[0, c + 1]\n" + chain("out = add acc, b")
    with pytest.raises(MachineError) as error:
        run_epilogue(epilogue(body), inputs(64, 64))
    assert (
        error.value.what == "2 columns at once of pairs from column 1 on, which is no multiple of 2"
    )


def stored(ref: str, m: int, n: int, how: str = "") -> tuple[np.ndarray, np.ndarray]:
    """``x`` and ``minus`` after a kernel that stores its negative at ``ref``."""
    tensors = inputs(m, n)
    store = f"\nfrag.store_global {ref}, out{how}"
    run_epilogue(epilogue(chain("out = neg acc") + store), tensors)
    return tensors["x"], tensors["minus"]


def test_stores_by_threads() -> None:
    x, z = stored("minus[r, c]", *TAIL)
    assert np.array_equal(z, -x)


def test_transposed_stores_by_threads() -> None:
    """Single elements: an odd column is as good as an even one."""
    x, z = stored("minus[c, r]", 72, 72, ", trans=true")
    assert np.array_equal(z, -x.T)
    x, z = stored("minus[c, r + 1]", 72, 72, ", trans=true")
    assert np.array_equal(z[:, 1:], -x.T[:, :-1])


def test_stores_out_of_bounds_are_dropped() -> None:
    x, z = stored("minus[r + 32, c - 24]", 64, 64)
    assert np.array_equal(z[32:, :40], -x[:32, 24:])
    z[32:, :40] = np.nan
    assert np.isnan(z).all()


def test_odd_column_of_a_store_of_two() -> None:
    with pytest.raises(MachineError) as error:
        stored("minus[r, c + 1]", 64, 64)
    assert (
        error.value.what == "2 columns at once of minus from column 1 on, which is no multiple of 2"
    )


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("row", np.zeros((1, 64), np.float32),
         "tensor row of float32 and 2 dimensions is not supported; "
         "supported: 2-D arrays of bfloat16 or uint16"),
        ("row", np.zeros(64, np.uint16),
         "tensor row of uint16 and 1 dimensions is not supported; "
         "supported: 2-D arrays of bfloat16 or uint16"),
        ("row", np.zeros((64, 1), np.uint16),
         "tensor row of shape 64x1 is not supported; supported: 1x64, as the parameters say"),
        ("x", np.zeros((64, 64), np.float32).T,
         "tensor x with 256 bytes from column to column is not supported; "
         "supported: contiguous columns, 4 bytes apart"),
        ("pairs", np.zeros(66, np.uint16)[1:65].reshape(1, 64), "of 4 bytes"),
    ],
)  # fmt: skip
def test_tensor_is_refused(name: str, array: np.ndarray, message: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        run_epilogue(epilogue(chain("out = neg acc")), inputs(64, 64) | {name: array})
    assert message in str(error.value)


def test_every_operation_has_a_function() -> None:
    assert FUNCTIONS.keys() == OPS.keys()


SPECIAL = np.array(
    [[0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 80.0, -80.0, 1e-30, np.inf, -np.inf, np.nan]],
    np.float32,
)


def reference(op: str) -> object:
    """torch's function of that name, where it has another."""
    import torch

    names = {"neg": "negative", "silu": "nn.functional.silu", "relu": "relu"}
    found: object = torch
    for part in names.get(op, op).split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("op", OPS)
def test_special_values_as_in_torch(op: str) -> None:
    torch = pytest.importorskip("torch")
    y = np.broadcast_to(SPECIAL, (SPECIAL.size, SPECIAL.size))
    values = [np.ascontiguousarray(y.T), np.ascontiguousarray(y), np.full_like(y, 7.0)]
    args = [v > 0 if i < OPS[op].conditions else v for i, v in enumerate(values[: OPS[op].arity])]
    with np.errstate(all="ignore"):
        got = FUNCTIONS[op](*args)
    tensors = (torch.from_numpy(np.array(a)) for a in args)
    wanted = reference(op)(*tensors).numpy()  # type: ignore[operator]
    assert got.dtype == (np.bool_ if OPS[op].predicate else np.float32)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_erf() -> None:
    x = np.linspace(-4, 4, 65, dtype=np.float32)
    assert np.array_equal(FUNCTIONS["erf"](x), np.float32([math.erf(v) for v in x]))
