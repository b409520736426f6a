"""Layers of experts: routing, the sum of each token's experts, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

import wsched
from wsched.front import moe
from wsched.front.operations import Operations
from wsched.importer.input_error import InputError


def layer(
    tokens: int, experts: int, choices: int, seed: int = 0, matrix: str = "nk"
) -> tuple[Any, Any, Any, Any, Any]:
    """x, ids, weights, gate and up, down; without a token that has an expert twice."""
    torch.manual_seed(seed)
    x = torch.randn(tokens, 40).bfloat16()
    ids = torch.stack([torch.randperm(experts)[:choices] for _ in range(tokens)])
    gate, up = (torch.randn(experts, 40, 24).mul(0.2).bfloat16() for _ in range(2))
    down = torch.randn(experts, 24, 40).mul(0.2).bfloat16()
    if matrix == "nk":
        gate, up, down = (t.mT.contiguous().mT for t in (gate, up, down))
    return x, ids, torch.rand(tokens, choices), (gate, up), down


def wanted(x: Any, ids: Any, weights: Any, up: Any, down: Any) -> Any:
    """Expert by expert, in fp32 but for what is stored."""
    silu = torch.nn.functional.silu
    total = torch.zeros(x.shape)
    for expert, third in enumerate(down):
        tokens, choice = (ids == expert).nonzero(as_tuple=True)
        gate, wide = ((x[tokens] @ m[expert]).float() for m in up)
        hidden = (silu(gate).bfloat16().float() * wide).bfloat16()
        rows = weights[tokens, choice, None].float() * (hidden @ third).float()
        total.index_add_(0, tokens, rows)
    return total


def close(found: Any, right: Any) -> bool:
    return float((found.float() - right).norm()) <= 1e-2 * float(right.norm())


@pytest.mark.parametrize(("experts", "choices", "matrix"), [(4, 1, "kn"), (5, 3, "nk")])
def test_a_layer(experts: int, choices: int, matrix: str) -> None:
    x, ids, weights, up, down = layer(33, experts, choices, matrix=matrix)
    found = wsched.moe(x, ids, weights, up, down)
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    assert close(found, wanted(x, ids, weights, up, down))
    again = wsched.moe(x, wsched.route(ids.int(), experts), weights, up, down)
    assert torch.equal(found, again)


def test_a_token_is_the_same_beside_others() -> None:
    """Rows of its experts lie elsewhere, but are computed and summed alike."""
    x, ids, weights, up, down = layer(40, 4, 2)
    whole = wsched.moe(x, ids, weights, up, down)
    ids[:20] = torch.tensor([3, 0])
    assert torch.equal(wsched.moe(x, ids, weights, up, down)[20:], whole[20:])


def relu(ops: Operations, up: Any) -> Any:
    return ops.relu(up)


def test_further_calls_are_not_checked_but_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is checked and written follows from the class of what is given, and from what else."""
    x, ids, weights, up, down = layer(33, 4, 2)
    routing = wsched.route(ids, 4)
    first = wsched.moe(x, routing, weights, up, down)
    checked = []
    require = moe._require
    monkeypatch.setattr(moe, "_require", lambda *given: [checked.append(0), require(*given)])
    assert torch.equal(wsched.moe(x.clone(), routing, weights, up, down), first)
    assert not checked
    turned = x.T.contiguous().T
    for _ in range(2):  # its rows are copied first
        assert torch.equal(wsched.moe(turned, routing, weights, up, down), first)
    assert len(checked) == 2
    other = wsched.moe(x, routing, weights, up, down, epilogue=lambda ops, g, u: ops.mul(g, u))
    assert len(checked) == 3 and not torch.equal(other, first)
    with pytest.raises(InputError):
        wsched.moe(x, routing, weights.int(), up, down)


def test_experts_without_a_gate_and_views_of_one_tensor() -> None:
    x, ids, weights, _, down = layer(12, 3, 2)
    both = torch.randn(3, 48, 40).mul(0.2).bfloat16()
    up = both[:, 24:].mT
    found = wsched.moe(x, ids, weights.bfloat16(), up, down, epilogue=relu)
    total = torch.zeros(x.shape)
    for t in range(12):
        for j, expert in enumerate(ids[t].tolist()):
            hidden = (x[t] @ up[expert]).relu()
            total[t] += weights[t, j].bfloat16().float() * (hidden @ down[expert]).float()
    assert close(found, total)


def test_a_routing() -> None:
    """Stable: rows of an expert are in the order of tokens."""
    ids = torch.tensor([[2, 0], [0, 2], [-1, 0], [2, 7]])
    found = wsched.route(ids, 4)
    assert found.ends.tolist() == [3, 3, 6, 6] and found.ends.dtype is torch.int32
    assert found.rows[:6].tolist() == [0, 1, 2, 0, 1, 3]
    assert found.places.tolist() == [[3, 0], [1, 4], [-1, 2], [5, -1]]
    for expert, (begin, end) in enumerate(pairwise([0, *found.ends.tolist()])):
        assert all(expert in ids[t] for t in found.rows[begin:end])


def test_an_expert_that_is_none_adds_nothing() -> None:
    """Of a token with no other the result is zero, whatever lies in rows of no expert."""
    x, ids, weights, up, down = layer(30, 4, 2)
    ids[3], ids[7, 1] = torch.tensor([-1, 9]), -1
    found = wsched.moe(x, ids, weights, up, down)
    assert not found[3].any()
    assert close(found, wanted(x, ids, weights, up, down))


def test_no_tokens() -> None:
    x, ids, weights, up, down = layer(3, 4, 2)
    found = wsched.moe(x[:0], ids[:0], weights[:0], up, down)
    assert found.shape == (0, 40)


Arguments = tuple[Any, Any, Any, Any, Any]


def changed(at: int, value: Any) -> Arguments:
    given = list(layer(6, 4, 2))
    given[1] = wsched.route(given[1], 4)
    given[at] = value(given[at])
    x, routing, weights, up, down = given
    return x, routing, weights, up, down


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (0, lambda x: None, "x is a NoneType, not a torch.Tensor"),
        (0, lambda x: x[0], "x has shape [40]"),
        (0, lambda x: x[:5], "the routing is of 6 tokens with 2 experts, x has 5"),
        (1, lambda r: replace(r, ends=r.ends[:3]), "the routing is of 3 experts, down has 4"),
        (1, lambda r: torch.zeros(6), "ids are [6] of torch.float32"),
        (1, lambda r: None, "ids is a NoneType, not a torch.Tensor"),
        (2, lambda w: w[:, :1], "weights has shape [6, 1]"),
        (2, lambda w: w.int(), "weights of torch.int32"),
        (3, lambda u: (), "up has no tensor"),
        (3, lambda u: None, "up is a NoneType, not a torch.Tensor"),
        (3, lambda u: u[0][0], "up has shape [40, 24]"),
        (4, lambda d: d[0], "down has shape [24, 40]"),
    ],
)
def test_refused(at: int, value: Any, said: str) -> None:
    with pytest.raises(InputError) as error:
        wsched.moe(*changed(at, value))
    assert str(error.value).startswith(said), str(error.value)


@pytest.mark.parametrize("kind", ["int32", "float32", "float64", "float8_e5m2"])
@pytest.mark.parametrize(("at", "name"), [(0, "x"), (3, "up"), (4, "down")])
def test_other_types_than_16_bits(at: int, name: str, kind: str) -> None:
    dtype = getattr(torch, kind)
    given = changed(at, lambda t: tuple(u.to(dtype) for u in t) if at == 3 else t.to(dtype))
    with pytest.raises(wsched.UnsupportedError) as e:
        wsched.moe(*given)
    assert (e.value.what, e.value.supported) == (
        f"{name} of torch.{kind}", "torch.bfloat16, torch.float16"
    )  # fmt: skip


def test_down_of_other_dimensions() -> None:
    """Where it says how many experts there are, and how long what comes out is without tokens."""
    x, ids, weights, up, down = layer(6, 4, 2)
    with pytest.raises(InputError, match=r"down has shape \[\]"):
        wsched.moe(x, ids, weights, up, down[0, 0, 0])
    for tokens in (6, 0):
        given = x[:tokens], ids[:tokens], weights[:tokens]
        assert wsched.moe(*given, up, down[:, :, :16]).shape == (tokens, 16)


@pytest.mark.parametrize(
    ("experts", "said"),
    [
        (0, "experts is 0"),
        ("8", "experts is '8', not a number of experts"),
        (None, "experts is None, not a number of experts"),
        (8.0, "experts is 8.0, not a number of experts"),
    ],
)
def test_no_experts(experts: Any, said: str) -> None:
    with pytest.raises(InputError) as error:
        wsched.route(torch.zeros(1, 1, dtype=torch.int64), experts)
    assert str(error.value).startswith(said), str(error.value)


def test_an_epilogue_of_other_arguments() -> None:
    """One matrix, and an epilogue of two products: Python's TypeError had come out."""
    x, ids, weights, up, down = layer(6, 4, 2)
    with pytest.raises(InputError, match="given the operations and 1 tensors: missing a required"):
        wsched.moe(x, ids, weights, up[0], down)


def test_what_is_no_array() -> None:
    ids = torch.zeros(3, 2, dtype=torch.int64)
    with pytest.raises(InputError, match=r"ids is a tensor of layout torch\.sparse_coo"):
        wsched.route(ids.to_sparse(), 2)
    up, down = torch.ones(2, 16, 8).bfloat16(), torch.ones(2, 8, 16).bfloat16()
    x, scales = torch.ones(3, 16).bfloat16(), torch.ones(3, 2)
    with pytest.raises(InputError, match=r"x is a tensor of layout torch\.sparse_coo"):
        wsched.moe(x.to_sparse(), ids, scales, (up, up), down)
    nothing: Any = None
    with pytest.raises(InputError, match="routing is a NoneType"):
        wsched.moe(x, moe.Routing(nothing, nothing, nothing), scales, (up, up), down)


@pytest.mark.parametrize("experts", [True, False])
def test_rows_that_are_added_in_any_order(experts: bool) -> None:
    """The same but for what each choice is rounded to; by the routing, and by experts of tokens."""
    x, ids, weights, up, down = layer(40, 6, 2)
    routing = ids if experts else wsched.route(ids, 6)
    wanted = wsched.moe(x, routing, weights, up, down).float()
    for _ in range(2):  # the second one is not checked
        found = wsched.moe(x, routing, weights, up, down, deterministic=False).float()
        assert (found - wanted).norm() < 4e-3 * wanted.norm()
    assert torch.equal(wsched.moe(x, routing, weights, up, down).float(), wanted)


def test_an_expert_that_is_none_adds_nothing_in_any_order() -> None:
    x, ids, weights, up, down = layer(9, 4, 2)
    ids[2] = -1
    found = wsched.moe(x, ids, weights, up, down, deterministic=False)
    assert (found[2] == 0).all() and (found[3] != 0).any()


def test_a_routing_without_choices() -> None:
    x, ids, weights, up, down = layer(9, 4, 2)
    known = wsched.route(ids, 4)
    assert known.choices is not None
    assert torch.equal(known.places.reshape(-1)[known.choices], torch.arange(18))
    routing = moe.Routing(known.ends, known.rows, known.places)
    wsched.moe(x, routing, weights, up, down)
    with pytest.raises(InputError, match="choices is a NoneType"):
        wsched.moe(x, routing, weights, up, down, deterministic=False)


def test_a_layer_in_any_order_compiled_by_torch() -> None:
    """Zeros that the call makes are written, and nothing of the caller's."""
    torch.compiler.reset()
    x, ids, weights, up, down = layer(20, 4, 2)
    routing = wsched.route(ids, 4)

    def called(x: torch.Tensor) -> torch.Tensor:
        return wsched.moe(x, routing, weights, up, down, deterministic=False) * 2

    made = torch.compile(called, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(made(x), called(x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("change", [lambda c: c.view(9, 2), lambda c: c.float(), lambda c: c[1:]])
def test_choices_unlike_rows(change: Any) -> None:
    x, ids, weights, up, down = layer(9, 4, 2)
    known = wsched.route(ids, 4)
    routing = replace(known, choices=change(known.choices))
    with pytest.raises(InputError, match="choices of"):
        wsched.moe(x, routing, weights, up, down, deterministic=False)
