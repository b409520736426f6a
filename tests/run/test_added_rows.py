"""Rows of groups that a kernel adds to those of a tensor, on the machine, and what calls make."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.nodes import FragRedGlobal, FragStoreGlobal, TmaStore
from lowering.kernel.visit import walk
from lowering.machine.adversary import Adversary
from tests.grouped import SIZES, given, grouped, product
from tests.run.test_grouped import SMALL
from tests.schedules import dynamic
from tests.tiers import dealt
from wsched.choose.heuristics import choose_params
from wsched.front.known import import_fusion
from wsched.front.own import kernel_of
from wsched.front.sizes import Extents
from wsched.fusion import DataType
from wsched.importer.input_error import InputError
from wsched.run.compiled import CompiledFusion
from wsched.schedule import Schedule, properties
from wsched.schedule.matmul.params import MatmulParams, SupportedVectorization
from wsched.schedule.matmul.scheduler import plan_matmul

SCHEDULES = {name: p for name, p in SMALL.items() if not p.exchange_operands}


def added(dtype: str = "BFloat16", index: str = "Int", into: bool = False, of: str = "") -> str:
    """Rows of a product, times a weight, added to rows of ``t``."""
    return grouped(
        f"r = fd.define_tensor(shape=[-1], dtype=DataType.{index})",
        "s = fd.define_tensor(shape=[-1], dtype=DataType.Float)",
        f"t = fd.define_tensor(shape=[-1, -1], dtype=DataType.{of or dtype})",
        "e = fd.ops.grouped_mm(x, w, o, dtype=DataType.Float)",
        "v = fd.ops.broadcast(s, is_broadcast_dim=[False, True])",
        f"d = fd.ops.cast(fd.ops.mul(e, v), dtype=DataType.{of or dtype})",
        "a = fd.ops.index_put_accumulate(t, r, d)",
        "fd.add_output(a, t)" if into else "fd.add_output(a)",
        dtype=dtype,
    )


def inputs(
    sizes: tuple[int, ...], n: int = 40, k: int = 48, tokens: int = 37, dtype: Any = torch.bfloat16
) -> list[Any]:
    """Of small integers, so that any order of sums is exact; some rows are added to none."""
    x, w, ends = given(sizes, n, k, behind=5, dtype=dtype)
    x, w = x.clamp(-1, 1) * (torch.rand(x.shape) < 0.2), w.clamp(-1, 1)
    rows = torch.randint(0, tokens, (len(x),))
    rows[::7], rows[3::11] = -1, tokens
    return [x, w, ends, rows, torch.randint(1, 3, (len(x),)).float(),
            torch.randint(-3, 4, (tokens, n)).to(dtype)]  # fmt: skip


def wanted(x: Any, w: Any, ends: Any, rows: Any, scale: Any, onto: Any) -> Any:
    last = int(ends[-1]) if len(ends) else 0
    made = product(x, w, ends) * scale[:last, None]
    known = (rows[:last] >= 0) & (rows[:last] < len(onto))
    return onto.float().index_add(0, rows[:last][known].long(), made[known]).to(onto.dtype)


def stores(params: MatmulParams) -> MatmulParams:
    return dynamic(replace(params, use_smem_epilogue=False))


def kernel(name: str, text: str = "") -> CompiledFusion:
    return wsched.compile(text or added(), inputs((1,)), params=stores(SCHEDULES[name]))


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "sizes"), dealt(SCHEDULES, list(SIZES)))
def test_sizes(name: str, sizes: str) -> None:
    """Rows behind the last group, and such as the tensor does not have, are added to none."""
    operands = inputs(SIZES[sizes])
    before = operands[-1].clone()
    (found,) = kernel(name)(*operands)
    assert torch.equal(found, wanted(*operands))
    assert torch.equal(operands[-1], before)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["cooperative", "ping-pong", "deferred", "cluster", "delayed"])
def test_all_claims_are_proved(name: str) -> None:
    proof = kernel(name).proof()
    assert proof.proved, "\n".join(map(str, proof.open))


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["eager", "lazy", "fair"])
def test_adversaries(adversary: Adversary, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order warps come."""
    from wsched.run import on_device

    run = on_device.run_on_cpu
    monkeypatch.setattr(on_device, "run_on_cpu", lambda *a: run(*a, adversary=adversary))
    operands = inputs((3, 0, 66, 16, 1), tokens=5)
    (found,) = kernel("ping-pong")(*operands)
    assert torch.equal(found, wanted(*operands))


@pytest.mark.parametrize("dtype", ["BFloat16", "Half"])
@pytest.mark.parametrize("of", ["", "Float"])
def test_types(dtype: str, of: str) -> None:
    """Results of 16 and 32 bits, numbers of 32 and 64, pairs of columns and single ones."""
    for n, index in ((40, "Int32"), (15, "Int")):
        operands = inputs((3, 70), n=n, dtype=getattr(torch, DataType[dtype].torch))
        operands[3] = operands[3].int() if index == "Int32" else operands[3]
        operands[5] = operands[5].float() if of else operands[5]
        params = stores(SCHEDULES["two groups"])
        params = replace(params, supported_vec_size=SupportedVectorization(2 if n % 2 == 0 else 1))
        made = wsched.compile(added(dtype, index, of=of), operands, params=params)
        (found,) = made(*operands)
        assert torch.equal(found, wanted(*operands))


def test_what_its_results_depend_on() -> None:
    """On who comes first, be it that the same rows would be."""
    plan = kernel("cooperative").plan
    assert not properties.deterministic(plan) and not properties.batch_invariant(plan)
    stored = wsched.compile(grouped(), inputs((1,))[:3], params=dynamic(SCHEDULES["cooperative"]))
    assert properties.deterministic(stored.plan) and properties.batch_invariant(stored.plan)


def test_the_kernel_adds_and_stores_nothing() -> None:
    found = [type(s) for s in walk(kernel("two groups").kernel.body)]
    assert FragRedGlobal in found and not {FragStoreGlobal, TmaStore} & {*found}


def test_numbers_that_lie_apart_are_read_as_they_are_in_each_call() -> None:
    operands = inputs((30, 9))
    both = torch.stack((operands[3], operands[3].flip(0)), 1)
    k = kernel("cooperative")
    for _ in range(2):
        (found,) = k(*operands[:3], both[:, 0], *operands[4:])
        assert torch.equal(found, wanted(*operands[:3], both[:, 0], *operands[4:]))
        both = both.flip(1)


def test_where_results_lie() -> None:
    """In memory of their own, in what the caller gives, and where the tensor lies."""
    operands, k = inputs((30, 9)), kernel("deferred")
    expected, out = wanted(*operands), torch.full_like(operands[-1], float("nan"))
    k(*operands, out=out)
    assert torch.equal(out, expected)
    launch = k.bind(*operands)
    for _ in range(2):  # what it holds is copied again by each launch
        (found,) = launch()
        assert torch.equal(found, expected)
    k(*operands, out=operands[-1])
    assert torch.equal(operands[-1], expected)


def test_gradients_of_what_rows_are_added_to_stop() -> None:
    """As those of any input do: its copy had required some, and was refused as a result."""
    operands = inputs((30, 9))
    expected = wanted(*operands)
    operands[-1].requires_grad_()
    (found,) = wsched.execute(added(), operands)
    assert torch.equal(found, expected) and not found.requires_grad
    with pytest.raises(InputError, match="input 5 requires gradients"):
        wsched.execute(added(into=True), operands)


def test_a_definition_that_writes_over_the_tensor_copies_nothing() -> None:
    operands = inputs((30, 9))
    expected = wanted(*operands)
    wsched.execute(added(into=True), operands)
    assert torch.equal(operands[-1], expected)
    operands = inputs((30, 9))
    (found,) = wsched.execute(added(), operands)
    assert torch.equal(found, expected)


TWICE = grouped(
    *(f"r{n} = fd.define_tensor(shape=[-1], dtype=DataType.Int)" for n in "01"),
    "t = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)",
    "u = fd.define_tensor(shape=[-1, -1, -1], dtype=DataType.BFloat16, stride_order=[2, 0, 1])",
    "p = fd.define_tensor(shape=[-1], dtype=DataType.Int32)",
    "d = fd.ops.grouped_mm(x, w, o)", "a = fd.ops.index_put_accumulate(t, r0, d)",
    "e = fd.ops.grouped_mm(x, u, p)", "b = fd.ops.index_put_accumulate(a, r1, e)",
)  # fmt: skip
"""Rows of two kernels, the second one's added to the result of the first."""


@pytest.mark.parametrize("outputs", ["b", "a b", "b, t", "a, t b"])
def test_one_behind_the_other(outputs: str) -> None:
    x, w, ends, rows, _, onto = inputs((30, 9))
    turned, others = w.flip(0).mT.contiguous().mT, rows.flip(0).contiguous()
    ones = torch.ones(len(x))
    first = wanted(x, w, ends, rows, ones, onto)
    both = wanted(x, turned, ends, others, ones, first)
    given = [x, w, ends, rows, others, onto, turned, ends.clone()]
    text = TWICE + "".join(
        f"    fd.add_output({name})\n" for name in re.findall("[ab](?:, t)?", outputs)
    )
    found = [*wsched.execute(text, given)]
    for name in outputs.replace(", ", "+").split():
        right = first if name[0] == "a" else both
        assert torch.equal(onto if "+" in name else found.pop(0), right)


def test_a_result_that_is_written_over_another_tensor() -> None:
    """What it is added to is copied there first, and stays as it is."""
    operands = inputs((30, 9))
    other = torch.full_like(operands[-1], 7.0)
    before, expected = operands[-1].clone(), wanted(*operands)
    lines = added().replace("fd.add_output(a)", "fd.add_output(a, q)").splitlines(keepends=True)
    more = "    q = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)\n"
    at = next(n for n, line in enumerate(lines) if "    e = " in line)
    text = "".join((*lines[:at], more, *lines[at:]))
    wsched.execute(text, [*operands, other])
    assert torch.equal(other, expected) and torch.equal(operands[-1], before)


CHOICES = {
    "use_smem_epilogue=True: TMA stores rows that lie one behind the other, threads add them": {},
    "batch_invariant=True: rows are added as CTAs come": {
        "use_smem_epilogue": False, "batch_invariant": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("why", CHOICES)
def test_schedules_that_add_nothing(why: str) -> None:
    params = replace(dynamic(SCHEDULES["two groups"]), **CHOICES[why])
    with pytest.raises(ScheduleError) as e:
        wsched.compile(added(), inputs((1,)), params=params)
    assert e.value.why == why


def test_a_promise_that_no_sum_in_any_order_keeps() -> None:
    with pytest.raises(UnsupportedError, match="batch_invariant=True of rows that are added to"):
        wsched.execute(added(), inputs((30, 9)), batch_invariant=True)


def test_tiles_whose_columns_are_rows_add_nothing() -> None:
    params = replace(dynamic(SMALL["exchanged"]), use_smem_epilogue=False)
    with pytest.raises(ScheduleError, match="rows that are added are columns of a tile"):
        wsched.compile(added(), inputs((1,)), params=params)


def test_what_is_chosen() -> None:
    """Threads add rows during the next main loop, where there is one; and the name says what."""
    text = added().replace(", stride_order=[2, 0, 1]", "")
    problem = Extents(8192, 4096, 14336, 8).problem(import_fusion(text), 132)
    params = choose_params(problem)
    assert not params.use_smem_epilogue and params.deferred_stores and not params.exchange_operands


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("t, r, d", "fd.ops.neg(t), r, d"), "neg of fd.ops.index_put_accumulate, which is comp"),
        (("t, r, d", "t, r, e"), "e, rows of fd.ops.index_put_accumulate, read twice"),
        (("fd.add_output(a)", "fd.add_output(a)\n    fd.add_output(d)"), "that is read"),
        (("fd.add_output(a)", "b = fd.ops.neg(a)\n    fd.add_output(b)"), "that is read"),
        (("DataType.Int)", "DataType.Float)"), "r of fd.ops.index_put_accumulate of 1 dim"),
        (("d = fd.ops.cast(fd.ops.mul(e, v), dtype=DataType.BFloat16)", "d = fd.ops.mul(e, v)"),
         "d of Float added to BFloat16"),
    ],
)  # fmt: skip
def test_definitions_that_are_no_kernel(change: tuple[str, str], why: str) -> None:
    text = added()
    assert change[0] in text
    with pytest.raises(UnsupportedError, match=why):
        wsched.compile(text.replace(*change), inputs((1,)))


@pytest.mark.parametrize(
    ("product", "why"),
    [
        ("d = fd.ops.grouped_mm(x, w, o)", "d added to rows of t is not supported"),
        ("d = fd.ops.matmul(x, w)", "index_put_accumulate in an epilogue is not supported"),
    ],
)
def test_other_products_than_of_groups_of_rows(product: str, why: str) -> None:
    """Sums over groups have no rows of groups, and a matmul has no groups."""
    text = grouped(
        "r = fd.define_tensor(shape=[-1], dtype=DataType.Int)",
        "t = fd.define_tensor(shape=[-1, -1], dtype=DataType.BFloat16)", product,
        "a = fd.ops.index_put_accumulate(t, r, d)", "fd.add_output(a)", ranks=(2, 2),
    )  # fmt: skip
    lines = text.splitlines(keepends=True)
    without = [x for x in lines if "    o = " not in x] if "matmul" in product else lines
    with pytest.raises(UnsupportedError, match=why):
        import_fusion("".join(without))


def test_sizes_that_do_not_fit() -> None:
    operands = inputs((30, 9))
    operands[3] = operands[3][1:]
    with pytest.raises(InputError, match="M is 44 in dimension 0 of input 0 and 43"):
        kernel("cooperative")(*operands)


def test_a_schedule_by_calls_that_stores_them_by_tma() -> None:
    """The calls that store the rows of a definition which adds none; it has two inputs less."""
    lines = added().splitlines(keepends=True)
    kept = (x for x in lines if "    r = " not in x and "    t = " not in x and "    a = " not in x)
    stored = import_fusion("".join(kept).replace("fd.add_output(a)", "fd.add_output(d)"))
    first, s = len(stored.tensors), Schedule(import_fusion(added()))

    def moved(x: Any) -> Any:
        is_new = isinstance(x, str) and x[:1] == "T" and x[1:].isdigit() and int(x[1:]) >= first
        return f"T{int(x[1:]) + 2}" if is_new else x

    for call in plan_matmul(stored, dynamic(SCHEDULES["two groups"])).fusion.history:
        getattr(s, call.op)(*map(moved, call.args), **dict(call.kwargs))
    with pytest.raises(UnsupportedError, match=r"T8 = .* of rows that are added to others"):
        kernel_of(s)
