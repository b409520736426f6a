"""``wsched.linear`` on the machine, beside fp64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wsched
from lowering.cuda.emit import emit_cuda
from lowering.ground.errors import UnsupportedError
from tests.computed import drawn, words
from tests.tiers import dealt
from wsched.front import linear as door
from wsched.front.linear import linear_call
from wsched.fusion import DataType
from wsched.importer import build_fusion, record_text
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")
TorchDispatchMode = pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode

M, N, K = 24, 72, 208
LIMITS = {"bfloat16": 4e-3, "float16": 6e-4}


def vectors() -> tuple[Any, Any, Any]:
    """Scales, zero points, a bias."""
    draw = torch.Generator().manual_seed(3)
    zero = torch.randint(-20, 20, (N,), generator=draw).float()
    return torch.rand(N, generator=draw) + 0.5, zero, torch.linspace(-9, 9, N)


def wanted(x: Any, w: Any, scale: Any = None, zero: Any = None, bias: Any = None) -> Any:
    wide = w.double() if zero is None else (w.float() - zero[:, None]).to(x.dtype).double()
    found = x.double() @ wide.T
    found = found if scale is None else found * scale.double()
    return found if bias is None else found + bias.double()


def error(found: Any, exact: Any) -> float:
    return float((found.double() - exact).norm() / exact.norm())


@pytest.mark.sampled
@pytest.mark.parametrize("given", [(), ("scale",), ("scale", "zero", "bias")])
@pytest.mark.parametrize(
    ("weights", "rows"),
    dealt(["int8", "uint8", "float8_e4m3fn", "float8_e5m2"], list(LIMITS)),
)
def test_every_type(weights: str, rows: str, given: tuple[str, ...]) -> None:
    x, w = drawn(rows, M, K), drawn(weights, N, K, 1)
    named = zip(("scale", "zero", "bias"), vectors(), strict=True)
    more = {name: v for name, v in named if name in given}
    found = wsched.linear(x, w, **more)
    assert found.dtype is x.dtype and error(found, wanted(x, w, **more)) < LIMITS[rows]
    kernel = wsched.compile(*linear_call(x, w, **more))
    assert kernel.fusion.inputs[1].dtype.element.torch == weights
    assert kernel.params.exchange_operands


@pytest.mark.parametrize("given", [(), ("scale",), ("scale", "zero", "bias")])
@pytest.mark.parametrize(("rows", "columns"), [("bfloat16", 256), ("float16", K)])
def test_weights_of_4_bits(rows: str, columns: int, given: tuple[str, ...]) -> None:
    """Read where they lie, or copied where rows are no multiples of 16 bytes."""
    draw = torch.Generator().manual_seed(1)
    x, w = drawn(rows, M, columns), torch.randint(0, 16, (N, columns), generator=draw)
    named = zip(("scale", "zero", "bias"), vectors(), strict=True)
    more = {name: v for name, v in named if name in given}
    q = words(w)
    found = wsched.linear(x, q, **more)
    assert found.dtype is x.dtype and error(found, wanted(x, w, **more)) < LIMITS[rows]
    text, inputs = linear_call(x, q, **more)
    assert (inputs[1] is q) is (columns % 32 == 0) and torch.equal(inputs[1], q)
    assert wsched.compile(text, inputs).fusion.inputs[1].dtype is DataType.UInt4


def test_weights_of_4_bits_that_are_widened_first(monkeypatch: pytest.MonkeyPatch) -> None:
    w = torch.randint(0, 16, (N, 256), generator=torch.Generator().manual_seed(1))
    x, q = drawn("bfloat16", M, 256), words(w)
    own = wsched.linear(x, q, *vectors())
    monkeypatch.setattr(door, "_first", {})
    monkeypatch.setattr(door, "_widening_us", lambda form, elements: -1e6)
    assert torch.equal(wsched.linear(x, q, *vectors()), own)


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("weights", ["uint8", "float8_e4m3fn", "int32"])
def test_scales_of_groups(weights: str, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads widen the weights, or a kernel in front: in both the scales are in the product."""
    draw = torch.Generator().manual_seed(1)
    columns = 416 if weights == "int32" else 392  # no multiple of a group of 64 or 128
    x, w = drawn("bfloat16", M, columns), torch.randint(0, 16, (N, columns), generator=draw)
    w = w if weights == "int32" else drawn(weights, N, columns, 1)
    q = words(w) if weights == "int32" else w
    scale = torch.rand(N, -(-columns // group), generator=draw) + 0.5
    _, zero, bias = vectors()
    exact = (w.double() - zero.double()[:, None]).bfloat16().double()
    exact = exact * scale.repeat_interleave(group, 1)[:, :columns].double()
    exact = x.double() @ exact.T + bias.double()
    given = (x, q, scale, zero, bias)
    assert error(wsched.linear(*given, group=group), exact) < LIMITS["bfloat16"]
    monkeypatch.setattr(door, "_first", {})
    monkeypatch.setattr(door, "_widening_us", lambda form, elements: -1e6)
    assert error(wsched.linear(*given, group=group), exact) < LIMITS["bfloat16"]
    kernel = wsched.compile(*linear_call(*given, group=group))
    assert f"promotion = {group}, scales = {{" in str(kernel.fusion.mmas[0])


@pytest.mark.parametrize("group", [32, 128])
@pytest.mark.parametrize("weights", ["int8", "int32"])
def test_zero_points_of_groups(weights: str, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last group is what is left of K. Threads take them away, or a kernel in front."""
    draw = torch.Generator().manual_seed(1)
    columns = 416 if weights == "int32" else 392
    w = torch.randint(0, 16, (N, columns), generator=draw)
    w = w if weights == "int32" else drawn(weights, N, columns, 1)
    x, q = drawn("bfloat16", M, columns), words(w) if weights == "int32" else w
    scale, zero = (torch.rand(N, -(-columns // group), generator=draw) + 0.5 for _ in range(2))
    zero = (16 * zero).round()
    shift, factor = (t.repeat_interleave(group, 1)[:, :columns].double() for t in (zero, scale))
    exact = x.double() @ ((w.double() - shift).bfloat16().double() * factor).T
    assert error(wsched.linear(x, q, scale, zero, group=group), exact) < LIMITS["bfloat16"]
    monkeypatch.setattr(door, "_first", {})
    monkeypatch.setattr(door, "_widening_us", lambda form, elements: -1e6)
    assert error(wsched.linear(x, q, scale, zero, group=group), exact) < LIMITS["bfloat16"]
    assert "behind zero points" in str(
        build_fusion(record_text(linear_call(x, q, scale, zero, group=group)[0])).mmas[0]
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("group", [None, 128])
@pytest.mark.parametrize(
    ("weights", "rows"), dealt(["int8", "uint8", "float8_e4m3fn", "int32"], list(LIMITS))
)
def test_zero_points_of_the_type_of_x(rows: str, weights: str, group: int | None) -> None:
    """What pairs of 16 bits come to is what fp32 comes to, to the bit; numbers that are no
    integers, too.
    """
    draw = torch.Generator().manual_seed(1)
    columns, groups = 256, () if group is None else (2,)
    w = torch.randint(0, 16, (N, columns), generator=draw)
    q = words(w) if weights == "int32" else drawn(weights, N, columns, 1)
    x, scale = drawn(rows, M, columns), torch.rand(N, *groups, generator=draw) + 0.5
    zero = (16 * torch.rand(N, *groups, generator=draw)).to(x.dtype)
    found, in_fp32 = (wsched.linear(x, q, scale, z, group=group) for z in (zero, zero.float()))
    assert torch.equal(found, in_fp32)
    kernel = wsched.compile(*linear_call(x, q, scale, zero, group=group))
    assert kernel.proof().proved
    text = emit_cuda(kernel.kernel)
    assert f"sub.{kernel.fusion.inputs[0].dtype.element.ptx}x2" in text


def test_zero_points_of_another_type_than_x() -> None:
    x, q = drawn("bfloat16", M, K), drawn("int8", N, K)
    with pytest.raises(UnsupportedError) as e:
        wsched.linear(x, q, zero=torch.zeros(N, dtype=torch.float16))
    assert str(e.value) == (
        "a zero of torch.float16 is not supported; supported: float32, bfloat16"
    )


def test_what_widening_first_takes() -> None:
    """64 MiB of int8 in 182 us were measured."""
    form = door._Form(DataType.BFloat16, DataType.Int8, None, None, None)
    assert door._widening_us(form, 8192 * 8192) == pytest.approx(189, abs=1)


@pytest.mark.parametrize("zero", [None, DataType.Float], ids=["plain", "zero points"])
@pytest.mark.parametrize("weights", [DataType.Int8, DataType.UInt4])
def test_what_widening_first_moves(weights: DataType, zero: DataType | None) -> None:
    """The kernels that torch runs, and the bytes of what each reads and writes, but vectors."""
    moved = list[int]()

    class Counted(TorchDispatchMode):
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            made = op(*args, **(kwargs or {}))
            if not op.is_view:
                read = args[0] if isinstance(args[0], list) else [args[0]]
                moved.append(sum(t.numel() * t.itemsize for t in (*read, made)))
            return made

    form = door._Form(DataType.BFloat16, weights, None, zero, None)
    per_word = 8 if weights is DataType.UInt4 else 1
    w = torch.zeros(N, K // per_word, dtype=torch.int32 if per_word > 1 else torch.int8)
    x = torch.zeros(M, K, dtype=torch.bfloat16)
    inputs = [x, w, *([torch.zeros(N)] if zero else [])]
    with Counted():
        door._widened(form, inputs)
    wanted = door._WIDENING_US + door._FURTHER_US * (len(moved) - 1)
    wanted += sum(moved) / door._WIDENED_BYTES_PER_US
    assert door._widening_us(form, N * K) == pytest.approx(wanted)


def test_rows_of_several_dimensions() -> None:
    x, w = drawn("bfloat16", M, K), drawn("int8", N, K, 1)
    found = wsched.linear(x.reshape(2, 3, 4, K), w)
    assert found.shape == (2, 3, 4, N) and torch.equal(found.reshape(M, N), wsched.linear(x, w))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("rows", "weights"),
    [
        (lambda x: torch.cat([x, x[:, :3]], 1)[:, : x.shape[1]], lambda q: q),
        (lambda x: x, lambda q: q[:1].expand_as(q)),
        (lambda x: x[:1].expand_as(x), lambda q: q[:1].expand_as(q)),
    ],
    ids=["rows of an odd size", "one row of words", "one row of both"],
)
@pytest.mark.parametrize("group", [None, 64])
def test_weights_of_4_bits_beside_what_is_copied(
    rows: Callable[[Any], Any], weights: Callable[[Any], Any], group: int | None
) -> None:
    """Copies count the elements of a tensor: of words there are eight times as many."""
    draw = torch.Generator().manual_seed(1)
    x, q = rows(drawn("bfloat16", M, K)), words(torch.randint(0, 16, (N, K), generator=draw))
    q, shape = weights(q), (N,) if group is None else (N, -(-K // group))
    scale = torch.rand(shape, generator=draw) + 0.5
    found = wsched.linear(x, q, scale, group=group)
    assert torch.equal(found, wsched.linear(x.contiguous(), q.contiguous(), scale, group=group))


def test_numbers_that_gradients_are_wanted_for() -> None:
    x, w = drawn("bfloat16", M, K), drawn("int8", N, K, 1)
    given = [v.requires_grad_() for v in vectors()]
    found = wsched.linear(x, w, *given)
    assert torch.equal(found, wsched.linear(x, w, *vectors())) and not found.requires_grad


@pytest.mark.parametrize("shape", [(2, 3, 0), (2, 0, K), (0, 3, K)])
def test_rows_of_several_dimensions_without_elements(shape: tuple[int, ...]) -> None:
    x, w = torch.zeros(shape, dtype=torch.bfloat16), drawn("int8", N, shape[-1])
    found = wsched.linear(x, w, bias=torch.ones(N))
    assert torch.equal(found, torch.ones(*shape[:-1], N).bfloat16())


def test_weights_that_are_widened_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that is predicted to be faster: the kernel is one of 16 bits, the result the same."""
    x, w = drawn("bfloat16", M, K), drawn("int8", N, K, 1)
    scale, zero, bias = vectors()
    own = wsched.linear(x, w, scale, zero, bias)
    ran: list[tuple[str, list[Any]]] = []
    run = door.run
    monkeypatch.setattr(door, "run", lambda text, inputs: ran.append((text, inputs)) or
                        run(text, inputs))  # fmt: skip
    monkeypatch.setattr(door, "_first", {})
    monkeypatch.setattr(door, "_widening_us", lambda form, elements: -1e6)
    assert torch.equal(wsched.linear(x, w, scale, zero, bias), own)
    ((text, inputs),) = ran
    assert "Int8" not in text and [t.dtype for t in inputs] == [
        torch.bfloat16, torch.bfloat16, torch.float32, torch.float32,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "words", "columns"), [(64, 1, 72), (64, 1, 1), (64, 0, 72), (64, 1, 0), (64, 0, 0)]
)
def test_few_weights_of_4_bits_that_are_widened_first(
    rows: int, words: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One word in a row, or none: rows of them are apart as TMA wants them whatever their words'
    strides are.
    """
    draw = torch.Generator().manual_seed(0)
    given = torch.randint(-(1 << 31), 1 << 31, (columns, 4), generator=draw).int()[:, ::4]
    w, x = given[:, :words], drawn("bfloat16", rows, 8 * words)
    shifts = torch.arange(0, 32, 4)
    wide = ((w.clone()[:, :, None] >> shifts) & 15).flatten(1)
    monkeypatch.setattr(door, "_first", {})
    for us in (-1e6, 1e6):
        monkeypatch.setattr(door, "_widening_us", lambda form, elements, us=us: us)
        door._first.clear()
        found = wsched.linear(x, w)
        assert found.shape == (rows, columns)
        exact = x.double() @ wide.double().T
        assert torch.allclose(found.double(), exact, rtol=LIMITS["bfloat16"], atol=1e-2)


def test_many_rows_are_predicted_to_lose() -> None:
    """What is computed for each tile of rows again costs more than a kernel in front."""
    form, inputs = door._form(
        drawn("bfloat16", 8, 64), torch.empty(8192, 64, dtype=torch.int8), *[None] * 4
    )
    assert form.w is DataType.Int8 and not door._loses(form, inputs)
    x, w = (torch.empty(s, dtype=t, device="meta") for s, t in
            (((65536, 8192), torch.bfloat16), ((1024, 8192), torch.int8)))  # fmt: skip
    assert door._loses(form, [x, w])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"x": [1.0]}, "x is a list, not a torch.Tensor"),
        ({"w": torch.zeros(N, K, 1, dtype=torch.int8)}, "w has shape [72, 208, 1], not [N, K]"),
        ({"x": torch.zeros(K, dtype=torch.bfloat16)}, "x has shape [208], not [..., M, K]"),
        ({"w": torch.zeros(N, K - 16, dtype=torch.int8)}, "x has 208 columns, w 192"),
        ({"w": torch.zeros(N, 25, dtype=torch.int32)}, "x has 208 columns, w 200"),
        ({"scale": torch.ones(N, 1)}, "scale has shape [72, 1]"),
        ({"scale": 2.0}, "scale is a float, not a torch.Tensor"),
        ({"scale": torch.ones(N), "group": 128}, "scale has shape [72]"),
        ({"group": 128}, "groups of 128 without a scale"),
        (
            {"scale": torch.ones(N, 2), "zero": torch.ones(N, 3), "group": 128},
            "zero has shape [72, 3]",
        ),
        ({"zero": torch.ones(N, 2)}, "zero has shape [72, 2]"),
    ],
)
def test_inputs_that_do_not_fit(change: dict[str, Any], what: str) -> None:
    given = {"x": drawn("bfloat16", M, K), "w": drawn("int8", N, K)} | change
    with pytest.raises(InputError) as e:
        wsched.linear(**given)
    assert what in str(e.value)


@pytest.mark.parametrize(
    ("change", "what", "supported"),
    [
        ({"x": torch.zeros(M, K)}, "linear of torch.float32", "bfloat16, float16"),
        ({"w": torch.zeros(N, K)}, "weights of torch.float32",
         "int8, uint8, float8_e4m3fn, float8_e5m2, int32"),
        ({"scale": torch.ones(N, 13), "group": 16}, "groups of 16", "32, 64, 128"),
        ({"scale": torch.ones(N, 2), "group": 128.0}, "groups of 128.0", "32, 64, 128"),
        ({"scale": torch.ones(N, 2), "group": "128"}, "groups of '128'", "32, 64, 128"),
        ({"scale": torch.ones(N).half()}, "a scale of torch.float16", "float32"),
        ({"bias": torch.ones(N).int()}, "a bias of torch.int32", "float32, bfloat16, float16"),
    ],
)  # fmt: skip
def test_types_that_are_not_built(change: dict[str, Any], what: str, supported: str) -> None:
    given = {"x": drawn("bfloat16", M, K), "w": drawn("int8", N, K)} | change
    with pytest.raises(UnsupportedError) as e:
        wsched.linear(**given)
    assert (e.value.what, e.value.supported) == (what, supported)


@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested")
def test_tensors_that_are_no_arrays() -> None:
    """They have no strides, or no shape, and raise where torch is asked for these."""
    x, w = drawn("bfloat16", M, K), drawn("int8", N, K)
    nested = torch.nested.nested_tensor([torch.zeros(K), torch.zeros(2)])
    for given, what in (
        ((x.to_sparse_csr(), w), "x is a tensor of layout torch.sparse_csr"),
        ((x, w.to_sparse_csr()), "w is a tensor of layout torch.sparse_csr"),
        ((nested, w), "x is a tensor of layout nested"),
        ((x, w, torch.ones(N).to_sparse()), "scale is a tensor of layout torch.sparse_coo"),
    ):
        with pytest.raises(InputError) as e:
            wsched.linear(*given)
        assert str(e.value) == f"{what}, not torch.strided"
