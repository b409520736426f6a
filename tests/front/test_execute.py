"""``wsched.execute`` and a kernel's call on CPU tensors: results, types, layouts, outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.run.test_once import at_once
from tests.schedules import SCHEDULES, definition
from wsched.front import known
from wsched.front.api import remembered
from wsched.importer import UnfinishedError
from wsched.program.classes import class_key
from wsched.schedule.matmul.params import ClusterDims

torch = pytest.importorskip("torch", reason="torch is not installed")

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
M, N, K = 137, 72, 136


def integers(rows: int, cols: int, dtype: str = "bf16", seed: int = 0) -> Any:
    """Integers in [-2, 2]: every partial sum is exact."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, (rows, cols), generator=generator).to(DTYPES[dtype])


def product(x: Any, w: Any, dtype: str = "bf16") -> Any:
    """``x · wᵀ`` in fp32, rounded once."""
    return (x.float() @ w.float().T).to(DTYPES[dtype])


@pytest.mark.sampled
@pytest.mark.parametrize("operand", ["bf16", "f16"])
@pytest.mark.parametrize("result", ["bf16", "f16", "f32"])
def test_linear(operand: str, result: str) -> None:
    x, w = integers(M, K, operand), integers(N, K, operand, 1)
    (d,) = wsched.execute(definition(operand, result), [x, w])
    assert d.dtype is DTYPES[result]
    assert torch.equal(d, product(x, w, result))


def test_casts_round_in_their_order() -> None:
    """The matmul's own is one of them, unless the product says that it is fp32."""
    x, w = torch.ones(8, 264, dtype=torch.bfloat16), torch.ones(8, 264, dtype=torch.bfloat16)
    x[0, 0] = 2.0  # 265 in the first row, which bf16 has not: 264 and 266 are its neighbours
    (wide,) = wsched.execute(definition("bf16", "f32"), [x, w])
    assert wide[0, 0].item() == 265.0
    text = definition("bf16", "f16").replace(
        "    fd.add_output(c)",
        "    e = fd.ops.cast(c, dtype=DataType.BFloat16)\n"
        "    f = fd.ops.cast(e, dtype=DataType.Float)\n    fd.add_output(f)",
    )
    (rounded,) = wsched.execute(text, [x, w])
    assert (rounded.dtype, rounded[0, 0].item()) == (torch.float32, 264.0)


def test_matmul_takes_the_second_operand_by_columns() -> None:
    x, w = integers(M, K), integers(N, K, seed=1)
    (d,) = wsched.execute(definition(op="matmul"), [x, w.T])
    assert torch.equal(d, product(x, w))


def test_matmul_of_a_permutation_takes_rows() -> None:
    x, w = integers(M, K), integers(N, K, seed=1)
    (d,) = wsched.execute(definition(op="matmul_t"), [x, w])
    assert torch.equal(d, product(x, w))


def live(build: Callable[[Any, Any, Any], Any], w_columns: bool = False) -> Any:
    """A definition of the real nvFuser of two bf16 matrices."""
    nvfuser = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    tensor = {
        "shape": [-1, -1],
        "contiguity": [True, True],
        "dtype": nvfuser.DataType.BFloat16,
    }
    with nvfuser.FusionDefinition() as fd:
        x = fd.define_tensor(**tensor)
        w = fd.define_tensor(**tensor, **({"stride_order": [0, 1]} if w_columns else {}))
        fd.add_output(build(fd, x, w))
    return fd


def test_a_live_definition() -> None:
    x, w = integers(M, K), integers(N, K, seed=1)
    (d,) = wsched.execute(live(lambda fd, x, w: fd.ops.linear(x, w)), [x, w])
    assert torch.equal(d, product(x, w))


def test_a_live_definition_with_a_cast() -> None:
    fd = live(lambda fd, x, w: _cast_to_float(fd, fd.ops.linear(x, w)))
    x, w = integers(M, K), integers(N, K, seed=1)
    (d,) = wsched.execute(fd, [x, w])
    assert d.dtype is torch.float32
    assert torch.equal(d, product(x, w, "f32"))


def _cast_to_float(fd: Any, value: Any) -> Any:
    nvfuser = pytest.importorskip("nvfuser_direct")
    return fd.ops.cast(value, dtype=nvfuser.DataType.Float)


def test_live_rows_and_columns_by_an_index() -> None:
    """In front of a matmul and behind it; nvFuser prints the index as of the table's dimensions."""
    nvf = pytest.importorskip("nvfuser_direct")
    with nvf.FusionDefinition() as fd:
        x, w = (
            fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=nvf.DataType.BFloat16)
            for _ in range(2)
        )
        i, j = (
            fd.define_tensor(shape=[-1], contiguity=True, dtype=nvf.DataType.Int) for _ in range(2)
        )
        d = fd.ops.linear(fd.ops.index_select(x, i, dim=0), w)
        fd.add_output(fd.ops.index_select(d, j, dim=1))
    x, w = integers(M, K), integers(N, K, seed=1)
    i, j = torch.arange(M).flip(0)[:40], torch.tensor([3, 0, N - 1])
    (d,) = wsched.execute(fd, [x, w, i, j])
    assert torch.equal(d, product(x[i], w)[:, j])


@pytest.mark.parametrize(("rows", "columns"), [(40, 24), (20, 24), (40, 10), (40, 4), (0, 24)])
def test_live_slices_of_open_sizes(rows: int, columns: int) -> None:
    """Halves of a result that are gated, and part of an operand: nvFuser prints where they end as
    the smaller of two sizes.
    """
    nvf = pytest.importorskip("nvfuser_direct")
    with nvf.FusionDefinition() as fd:
        x, w = (
            fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=nvf.DataType.BFloat16)
            for _ in range(2)
        )
        some = fd.ops.slice(x, start_indices=[0, 8], end_indices=[32, 8 + K])
        d = fd.ops.linear(some, w)
        gate = fd.ops.slice(d, start_indices=[0, 0], end_indices=[32, 8])
        up = fd.ops.slice(d, start_indices=[0, 0], end_indices=[30, 8])
        fd.add_output(fd.ops.cast(fd.ops.neg(gate), dtype=nvf.DataType.BFloat16))
        fd.add_output(up)
    x, w = integers(rows, 16 + K), integers(columns, K, seed=1)
    negated, part = wsched.execute(fd, [x, w])
    wanted = product(x[:32, 8 : 8 + K], w)[:, :8]
    assert torch.equal(negated, -wanted) and torch.equal(part, wanted[:30])
    assert wsched.explain(fd, [x, w]).route == ("cut" if rows else "torch")


def test_a_live_matmul_with_columns() -> None:
    fd = live(lambda fd, x, w: fd.ops.matmul(x, w), w_columns=True)
    x, w = integers(M, K), integers(N, K, seed=1)
    (d,) = wsched.execute(fd, [x, w.T])
    assert torch.equal(d, product(x, w))


def test_a_live_definition_and_its_text_have_one_kernel() -> None:
    fd = live(lambda fd, x, w: fd.ops.linear(x, w))
    inputs = [integers(M, K), integers(N, K)]
    assert wsched.compile(fd, inputs) is wsched.compile(repr(fd), inputs)


def test_a_live_definition_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fd = live(lambda fd, x, w: fd.ops.linear(x, w))
    inputs = [integers(M, K), integers(N, K)]
    first = wsched.compile(fd, inputs)
    monkeypatch.setattr("wsched.front.known.definition_of", None)
    assert wsched.compile(fd, inputs) is first


def test_a_definition_is_read_again_when_it_has_another_output() -> None:
    kept = []

    def build(fd: Any, x: Any, w: Any) -> Any:
        kept.append(fd.ops.linear(x, w))
        kept.append(_cast_to_float(fd, kept[0]))
        return kept[0]

    fd = live(build)
    x, w = integers(M, K), integers(N, K, seed=1)
    assert len(wsched.execute(fd, [x, w])) == 1
    fd.add_output(kept[1])
    assert [d.dtype for d in wsched.execute(fd, [x, w])] == [torch.bfloat16, torch.float32]


def test_a_definition_that_is_not_finished() -> None:
    """Nothing is remembered of it."""
    nvfuser = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    x, w = integers(M, K), integers(N, K, seed=1)
    tensor = {"shape": [-1, -1], "contiguity": [True, True], "dtype": nvfuser.DataType.BFloat16}
    fd = nvfuser.FusionDefinition()
    for call in (wsched.execute, wsched.compile, wsched.explain):
        with pytest.raises(UnfinishedError, match=r"^the FusionDefinition is empty; "):
            call(fd, [x, w])
    with fd:
        fd.add_output(fd.ops.linear(fd.define_tensor(**tensor), fd.define_tensor(**tensor)))
        with pytest.raises(UnfinishedError, match="still being written"):
            wsched.execute(fd, [x, w])
    assert torch.equal(wsched.execute(fd, [x, w])[0], product(x, w))


def test_the_texts_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_texts", {})
    monkeypatch.setattr(known, "_TEXTS", 3)
    texts = [definition() + "\n" * i for i in range(5)]
    for text in texts:
        known.import_fusion(text)
        known.import_fusion(texts[0])
    assert list(known._texts) == [texts[3], texts[4], texts[0]]


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_route_that_refuses_is_not_asked_again(
    forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who remembers it asks the one that has been found since, for whatever is known of the text
    by then.
    """
    x, w = integers(M, K), integers(N, K, seed=1)
    wsched.execute(definition(), [x, w])
    key, found = class_key([x, w]), known.known(definition())
    assert key is not None
    asked = list[Any]()

    def refuses(_: Any, inputs: Any) -> Any:
        asked.append(inputs)
        raise UnsupportedError("this", "something else")

    found.routes[key] = replace(found.routes[key], run=refuses)
    run = remembered(definition(), key)
    if forgotten:
        monkeypatch.setattr(known, "_texts", {})
    for _ in range(3):
        assert torch.equal(run([x, w])[0], product(x, w))
    assert len(asked) == 1


def test_threads_find_out_about_a_text_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_texts", {})
    found = at_once(lambda: known.known(definition()))
    assert len(found) == 4 and len(set(map(id, found))) == 1


def test_names_of_the_package_are_there() -> None:
    for name in wsched.__all__:
        assert getattr(wsched, name) is not None
    assert wsched.ClusterDims is ClusterDims


@pytest.mark.parametrize("name", ["cluster_2x1", "cluster_2x2", "cluster_pingpong"])
def test_clusters(name: str) -> None:
    x, w = integers(M, K), integers(N, K, seed=1)
    (d,) = wsched.execute(definition(), [x, w], params=SCHEDULES[name])
    assert torch.equal(d, product(x, w))


def test_a_cluster_larger_than_the_pretended_device() -> None:
    params = replace(SCHEDULES["coop_128x64"], cluster_dims=ClusterDims(8, 1))
    x, w = integers(M, K), integers(N, K, seed=1)
    (d,) = wsched.execute(definition(), [x, w], params=params)
    assert torch.equal(d, product(x, w))


# --- layouts ------------------------------------------------------------------------------------


def test_rows_may_be_further_apart_than_they_are_long() -> None:
    wide = [integers(M, K + 24), integers(N, K + 64, seed=1)]
    x, w = wide[0][:, 8 : K + 8], wide[1][:, 32 : K + 32]
    (d,) = wsched.execute(definition(), [x, w])
    assert torch.equal(d, product(x, w))


def test_a_single_row_may_have_any_stride() -> None:
    x, w = integers(1, K), integers(N, K, seed=1)
    (d,) = wsched.execute(definition(), [x.as_strided((1, K), (3, 1)), w])
    assert torch.equal(d, product(x, w))


def test_parameters_that_require_a_gradient() -> None:
    x, w = integers(M, K), torch.nn.Parameter(integers(N, K, seed=1))
    (d,) = wsched.execute(definition(), [x, w])
    assert torch.equal(d, product(x, w.detach()))


@pytest.mark.parametrize(("m", "n"), [(0, N), (M, 0), (0, 0)])
def test_an_empty_result(m: int, n: int) -> None:
    (d,) = wsched.execute(definition(), [integers(m, K), integers(n, K)])
    assert d.shape == (m, n)


@pytest.mark.parametrize("name", ["coop_128x64", "pingpong_64x128", "tile_per_cta"])
def test_an_empty_sum_is_zero(name: str) -> None:
    inputs = [integers(M, 0), integers(N, 0)]
    (d,) = wsched.execute(definition(), inputs, params=SCHEDULES[name])
    assert torch.equal(d, torch.zeros(M, N, dtype=torch.bfloat16))


# --- out= ---------------------------------------------------------------------------------------


def test_results_are_written_to_out() -> None:
    x, w = integers(M, K), integers(N, K, seed=1)
    wide = torch.full((M, N + 16), 7.0, dtype=torch.bfloat16)
    out = wide[:, 8 : N + 8]
    kernel = wsched.compile(definition(), [x, w])
    (d,) = kernel(x, w, out=[out])
    assert d is out
    assert torch.equal(out, product(x, w))
    beside = torch.cat([wide[:, :8], wide[:, N + 8 :]], 1)
    assert torch.equal(beside, torch.full_like(beside, 7.0))


def test_one_kernel_serves_many_shapes() -> None:
    kernel = wsched.compile(definition(), [integers(8, 8), integers(8, 8)])
    for m, n, k in ((8, 8, 8), (200, 16, 72), (65, 136, 8)):
        x, w = integers(m, k), integers(n, k, seed=1)
        (d,) = kernel(x, w)
        assert torch.equal(d, product(x, w))


def test_types_that_wsched_has_no_elements_of() -> None:
    """Complex numbers beside a product are somebody else's; the product is not."""
    text = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[24, 32], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[40, 32], contiguity=[True, True], dtype=DataType.BFloat16)
    c = fd.define_tensor(shape=[40], contiguity=[True], dtype=DataType.ComplexFloat)
    y = fd.ops.linear(x, w)
    fd.add_output(fd.ops.mul(y, c))
"""
    x, w = torch.randn(24, 32).bfloat16(), torch.randn(40, 32).bfloat16()
    c = torch.randn(40, dtype=torch.complex64)
    (found,) = wsched.execute(text, [x, w, c])
    torch.testing.assert_close(found, (x @ w.T) * c, rtol=2**-6, atol=2**-6)
    assert wsched.explain(text, [x, w, c]).route == "cut"
