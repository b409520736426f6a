"""Operands with either dimension contiguous, views of them, and results by columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.kernel.nodes import TmaLoad, Wgmma
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.visit import walk
from tests.front.test_execute import K, M, N, integers, live, product
from tests.schedules import LAYOUTS, SCHEDULES, cooperative, definition, for_result, ping_pong
from tests.tiers import in_tiers
from wsched.front.known import import_fusion
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import MatmulParams

torch = pytest.importorskip("torch", reason="torch is not installed")

BF16 = torch.bfloat16


KERNELS: dict[str, MatmulParams] = {
    "cooperative": SCHEDULES["coop_128x128"],
    "rows_256": SCHEDULES["coop_256x128"],
    "k_128": SCHEDULES["coop_k128"],
    "span_64": cooperative(128, 96),
    "span_32": cooperative(128, 80),
    "ping_pong": SCHEDULES["pingpong_64x256"],
    "ping_pong_rows_128": SCHEDULES["pingpong_128x128"],
    "tile_per_cta": SCHEDULES["tile_per_cta"],
    "pipelined": SCHEDULES["pipelined"],
    "cluster_2x1": SCHEDULES["cluster_2x1"],
    "cluster_1x2": SCHEDULES["cluster_1x2"],
    "cluster_2x2": SCHEDULES["cluster_2x2"],
    "cluster_2x1_slices_of_k": cooperative(128, 192, stages=3, cluster=(2, 1)),
    "cluster_1x2_ping_pong": ping_pong(64, 128, cluster=(1, 2)),
}


def run(text: Any, inputs: Sequence[Any], params: MatmulParams | None = None) -> Any:
    """Results of wsched's own kernel: ``execute`` would hand a refusal on to another route."""
    return wsched.compile(text, inputs, params=params)(*inputs)


def by_columns(x: Any) -> Any:
    """The same matrix with its first dimension contiguous."""
    return x.T.contiguous().T


def arranged(layout: str, x: Any, w: Any) -> tuple[Any, Any]:
    return (
        x if layout[0] == "t" else by_columns(x),
        w if layout[1] == "n" else by_columns(w),
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", in_tiers(KERNELS, {"cooperative", "span_32", "ping_pong"}))
def test_every_layout_on_every_kind_of_kernel(name: str, layout: str) -> None:
    """Tails in all dimensions, and several tiles for a CTA."""
    x, w = integers(264, 136), integers(328, 136, seed=1)
    (d,) = run(definition(), arranged(layout, x, w), params=KERNELS[name])
    assert torch.equal(d, product(x, w))


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_kernel_says_its_layout(layout: str) -> None:
    inputs = arranged(layout, integers(M, K), integers(N, K))
    kernel = wsched.compile(definition(), inputs)
    found = {(s.trans_a, s.trans_b) for s in walk(kernel.kernel.body) if isinstance(s, Wgmma)}
    wanted = (layout[0] == "n", layout[1] == "t")
    assert found == {wanted[::-1] if kernel.params.exchange_operands else wanted}
    assert (f"_{layout}_" in kernel.kernel.name) is (layout != "tn")
    maps = {t.name: f"{t.rows}, {t.cols}" for t in kernel.kernel.tensor_maps}
    assert maps["T0"] == ("M, K" if layout[0] == "t" else "K, M")
    assert maps["T1"] == ("N, K" if layout[1] == "n" else "K, N")
    assert parse_kernel(print_kernel(kernel.kernel)) == kernel.kernel


def test_boxes_of_an_mn_major_tile() -> None:
    """256 columns of N are four boxes of 64, each with all of the slice's K as rows."""
    inputs = arranged("tt", integers(M, K), integers(N, K))
    kernel = wsched.compile(definition(), inputs, params=SCHEDULES["coop_128x256"]).kernel
    loads = [s for s in walk(kernel.body) if isinstance(s, TmaLoad)]
    assert [str(s.dst.col) for s in loads if s.src.map == "T1"] == ["0", "64", "128", "192"]
    assert kernel.tensor_map("T1").box == (64, 64)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_machine_code_is_clean(layout: str) -> None:
    inputs = arranged(layout, integers(M, K), integers(N, K))
    for name in ("coop_128x256", "coop_3_groups", "pingpong_64x256", "pingpong_128x128"):
        kernel = wsched.compile(definition(), inputs, params=SCHEDULES[name])
        assert kernel.resources.clean, f"{name}: {kernel.resources}"


# --- which layout -------------------------------------------------------------------------------


def test_one_kernel_for_each_layout() -> None:
    x, w = integers(M, K), integers(N, K)
    kernels = [wsched.compile(definition(), arranged(layout, x, w)) for layout in LAYOUTS]
    assert len({id(k) for k in kernels}) == 4
    for layout, kernel in zip(LAYOUTS, kernels, strict=True):
        wide = arranged(layout, integers(M, K + 64)[:, 8 : K + 8], integers(N, K))
        assert wsched.compile(definition(), wide) is kernel, "strides are no part of a kernel"


def test_the_definition_and_the_tensors_may_say_the_same() -> None:
    """matmul of [K, N] by rows is linear of [N, K] by columns: the tensors decide."""
    x, w = integers(M, K), integers(N, K, seed=1)
    rows = definition(op="matmul").replace("stride_order=[0, 1], ", "")
    for second in (w.T, w.T.contiguous()):
        for text in (rows, definition(op="matmul")):
            (d,) = run(text, [x, second])
            assert torch.equal(d, product(x, w))


def order(tensor: Any, declared: str = "[1, 0]") -> str:
    """The order in memory that A gets, as a definition would write it down."""
    x = "fd.define_tensor(shape=[-1, -1], contiguity"
    text = definition().replace(x, x.replace("contiguity", f"stride_order={declared}, contiguity"))
    fusion = laid_out(import_fusion(text), [tensor, tensor.new_zeros(8, tensor.shape[1])])
    return " ".join(str(d.extent) for d in fusion.tensor("T0").in_memory)


@pytest.mark.parametrize(
    ("shape", "strides", "wanted"),
    [
        ((16, 24), (24, 1), "M K"),
        ((16, 24), (1, 16), "K M"),
        ((16, 24), (32, 1), "M K"),
        # Strides of dimensions of size 1 mean nothing; what is left decides, if anything.
        ((1, 24), (3, 1), "M K"),
        ((1, 24), (24, 1), "M K"),
        ((1, 24), (0, 1), "M K"),
        ((1, 24), (1, 8), "K M"),
        ((16, 1), (1, 1), "K M"),
        ((16, 1), (8, 1), "M K"),
        ((16, 1), (8, 5), "M K"),
        ((1, 1), (7, 7), "M K"),
        # Both can be read; the definition decides.
        ((8, 0), (0, 0), "M K"),
    ],
)
def test_order_from_strides(shape: tuple[int, int], strides: tuple[int, int], wanted: str) -> None:
    tensor = torch.zeros(1024, dtype=BF16).as_strided(shape, strides)
    assert order(tensor) == wanted


@pytest.mark.parametrize("shape", [(1, 1), (8, 0), (0, 8)])
def test_where_both_orders_fit_the_definition_decides(shape: tuple[int, int]) -> None:
    assert order(torch.zeros(shape, dtype=BF16), "[1, 0]") == "M K"
    assert order(torch.zeros(shape, dtype=BF16), "[0, 1]") == "K M"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 72, 136), (136, 1, 8), (72, 8, 1), (1, 8, 1)])
def test_dimensions_of_size_one(m: int, n: int, k: int, layout: str) -> None:
    x, w = arranged(layout, integers(m, k), integers(n, k, seed=1))
    (d,) = run(definition(), [x, w])
    assert torch.equal(d, product(x, w))


def test_views_of_mn_major_tensors() -> None:
    """Slices of both dimensions and every second row of memory."""
    wide = integers(K + 32, 312)
    for view in (wide[16 : K + 16, 8 : M + 8], wide[:144:2, :M]):
        x = view.T
        w = integers(N, x.shape[1], seed=1)
        (d,) = run(definition(), [x, w])
        assert torch.equal(d, product(x, w))


def test_an_empty_sum_of_mn_major_operands() -> None:
    x, w = torch.zeros(0, M, dtype=BF16).T, torch.zeros(0, N, dtype=BF16).T
    (d,) = run(definition(), [x, w])
    assert torch.equal(d, torch.zeros(M, N, dtype=BF16))


# --- results by columns -------------------------------------------------------------------------


def moved(*ops: str) -> str:
    """A linear followed by operations that move no data, each written without its operand."""
    lines = [f"    d{n + 1} = fd.ops.{op.replace('(', f'(d{n}, ')}" for n, op in enumerate(ops)]
    text = definition().replace("d = fd.ops.linear", "d0 = fd.ops.linear")
    output = "\n".join([*lines, f"    fd.add_output(d{len(ops)})"])
    return text.replace("    fd.add_output(d)", output)


COLUMNS = moved("stride_order(stride_order=[0, 1])")


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["cooperative", "ping_pong", "cluster_2x1"])
def test_a_result_by_columns(name: str, layout: str) -> None:
    x, w = integers(136, K), integers(N, K, seed=1)
    (d,) = run(COLUMNS, arranged(layout, x, w), params=KERNELS[name])
    assert d.stride() == (1, 136)
    assert torch.equal(d, product(x, w))


def test_a_permuted_result() -> None:
    x, w = integers(136, K), integers(N, K, seed=1)
    (d,) = run(moved("permute(dims=[1, 0])"), [x, w])
    assert d.stride() == (136, 1)
    assert torch.equal(d, product(x, w).T)


def test_a_permuted_result_by_columns() -> None:
    text = moved("permute(dims=[1, 0])", "stride_order(stride_order=[0, 1])")
    x, w = integers(M, K), integers(N, K, seed=1)
    (d,) = run(text, [x, w])
    assert d.stride() == (1, N)
    assert torch.equal(d, product(x, w).T)


def test_out_by_columns() -> None:
    x, w = integers(136, K), integers(N, K, seed=1)
    out = torch.full((N + 8, 144), 7.0, dtype=BF16)[:N, :136].T
    kernel = wsched.compile(COLUMNS, [x, w])
    (d,) = kernel(x, w, out=[out])
    assert d is out
    assert torch.equal(out, product(x, w))


def test_a_kernel_that_stores_by_columns_takes_no_rows() -> None:
    x, w = integers(136, K), integers(N, K, seed=1)
    with pytest.raises(wsched.UnsupportedError) as error:
        wsched.compile(COLUMNS, [x, w])(x, w, out=[torch.zeros(136, N, dtype=BF16)])
    assert str(error.value) == (
        f"output 0 with stride {N} along M is not supported; supported: M contiguous (stride 1)"
    )


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_epilogue_of_a_result_by_columns(layout: str) -> None:
    """The row of a bias is a column of the product that is computed, and a matrix is turned."""
    bf16 = "dtype=DataType.BFloat16"
    text = definition().replace(
        "    d = fd.ops.linear(x, w)\n    fd.add_output(d)",
        f"    b = fd.define_tensor(shape=[-1], contiguity=[True], {bf16})\n"
        f"    r = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], {bf16})\n"
        "    d = fd.ops.linear(x, w, b)\n"
        "    e = fd.ops.add(d, r)\n"
        f"    f = fd.ops.cast(e, {bf16})\n"
        "    s = fd.ops.stride_order(f, stride_order=[0, 1])\n"
        "    fd.add_output(s)",
    )
    assert "fd.add_output(s)" in text
    x, w = integers(136, K), integers(N, K, seed=1)
    bias, residual = integers(1, N, seed=2)[0], integers(136, N, seed=3)
    product_ = (x.float() @ w.float().T + bias.float()).to(BF16)
    for stages in (0, 2):  # read by the threads, loaded by TMA
        params = replace(SCHEDULES["coop_128x64"], epilogue_input_stages=stages)
        params = for_result(params, "bf16", inputs=("bf16",))
        (d,) = run(text, [*arranged(layout, x, w), bias, residual], params=params)
        assert d.stride() == (1, 136)
        assert torch.equal(d, (product_.float() + residual.float()).to(BF16))


# --- live definitions ---------------------------------------------------------------------------


def test_a_live_matmul_with_rows() -> None:
    fd = live(lambda fd, x, w: fd.ops.matmul(x, w))
    x, w = integers(M, K), integers(N, K, seed=1)
    (d,) = run(fd, [x, w.T.contiguous()])
    assert torch.equal(d, product(x, w))


@pytest.mark.parametrize(("op", "order"), [("stride_order", [0, 1]), ("permute", [1, 0])])
def test_a_live_result_by_columns(op: str, order: list[int]) -> None:
    fd = live(lambda fd, x, w: getattr(fd.ops, op)(fd.ops.linear(x, w), order))
    x, w = integers(136, K), integers(N, K, seed=1)
    (d,) = run(fd, [x, w])
    wanted = product(x, w)
    assert torch.equal(d, wanted if op == "stride_order" else wanted.T)
