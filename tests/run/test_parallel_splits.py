"""Kernels whose results are parts of K, and what adds these, on the machine: all layouts, schedules
and sizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.ground.expr import Const
from tests.batches import batched, integers, product
from tests.grouped import grouped
from tests.lists import side_by_side
from tests.proofs import proved
from tests.reductions import Reduced
from tests.reductions import definition as reduced
from tests.schedules import (
    LAYOUTS,
    QUICK,
    SCHEDULES,
    cooperative,
    definition,
    dynamic,
    for_result,
    parallel_split,
    ping_pong,
    split_k,
)
from tests.tiers import in_tiers
from wsched.choose.problem import demands
from wsched.choose.stored_parts import in_parts_at_all
from wsched.front import kernels
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.schedule.matmul.demands import Demands
from wsched.schedule.matmul.limits import require_legal
from wsched.schedule.matmul.params import Accumulators, MatmulParams, SplitKMode
from wsched.schedule.matmul.part_limits import not_in_parts

torch = pytest.importorskip("torch")

SMALL = cooperative(64, 16, 16, stages=3, groups=1, registers=None)

WAYS = tuple(
    name for name, p in SCHEDULES.items() if p.splitk_factor == 1 and not p.stream_k
)  # fmt: skip
"""Every schedule whose K is whole."""


def matrices(m: int, n: int, k: int, layout: str = "tn") -> tuple[Any, Any]:
    """Integers whose sums fp32 holds, each contiguous as the layout says."""
    torch.manual_seed(0)
    a, b = (torch.randint(-2, 3, s).bfloat16() for s in ((m, k), (n, k)))
    a = a.T.contiguous().T if layout[0] == "n" else a
    return a, b.T.contiguous().T if layout[1] == "t" else b


def wanted(a: Any, b: Any, dtype: Any = torch.bfloat16) -> Any:
    return (a.double() @ b.double().T).to(dtype)


def run(params: MatmulParams, a: Any, b: Any, layout: str = "tn", result: str = "bf16") -> Any:
    (found,) = wsched.execute(definition(result=result, layout=layout), [a, b], params=params)
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers(WAYS, QUICK))
def test_schedules(name: str) -> None:
    """Three parts of two steps, the last of which has one, and of that a part."""
    params = for_result(parallel_split(SCHEDULES[name], 3), "f32")
    a, b = matrices(200, 136, 4 * params.output_tile.k + 24)
    assert torch.equal(run(params, a, b), wanted(a, b))


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    a, b = matrices(72, 136, 424, layout)
    found = run(parallel_split(cooperative(64, 64, groups=1, registers=None), 2), a, b, layout)
    assert torch.equal(found, wanted(a, b))


@pytest.mark.sampled
@pytest.mark.parametrize("parts", [2, 3, 7, 16, 32, 44])
def test_parts(parts: int) -> None:
    """Also more than there are steps of K: then some sum nothing."""
    for k in (1000, 640, 40, 8):
        a, b = matrices(65, 24, k)
        assert torch.equal(run(parallel_split(SMALL, parts), a, b), wanted(a, b)), k


@pytest.mark.sampled
@pytest.mark.parametrize("size", [(1, 8, 64), (3, 4, 72), (70, 12, 40), (0, 8, 16), (8, 0, 16),
                                  (9, 8, 0)])  # fmt: skip
def test_sizes(size: tuple[int, int, int]) -> None:
    """Results of fp32 may be narrower where TMA stores them."""
    a, b = matrices(*size)
    found = run(parallel_split(SMALL, 3), a, b, result="f32")
    assert torch.equal(found, wanted(a, b, torch.float32))


@pytest.mark.sampled
@pytest.mark.parametrize("n", [7, 10, 36])
def test_rows_that_tma_does_not_store(n: int) -> None:
    """Threads store the parts, and add pairs or single columns of them."""
    params = replace(parallel_split(SMALL, 3), use_smem_epilogue=False)
    params = replace(params, supported_vec_size=replace(params.supported_vec_size, epilogue=1))
    a, b = matrices(66, n, 200)
    assert torch.equal(run(params, a, b), wanted(a, b))


def test_stored_by_columns() -> None:
    """The fusion has the transposed product, and so have its parts."""
    columns = "fd.ops.stride_order(d, stride_order=[0, 1])"
    text = definition().replace("add_output(d)", f"add_output({columns})")
    a, b = matrices(72, 40, 104)
    (found,) = wsched.execute(text, [a, b], params=parallel_split(SMALL, 3))
    assert found.stride() == (1, 72)
    assert torch.equal(found, wanted(a, b))


@pytest.mark.sampled
@pytest.mark.parametrize("ranks", [(3, 3), (3, 2)])
def test_batches(ranks: tuple[int, int]) -> None:
    """All matrices of a part, then those of the next."""
    torch.manual_seed(0)
    shapes = [(3, 70, 104), (3, 104, 40)]
    a, b = (
        integers(s[3 - rank :], "k", torch.bfloat16) for s, rank in zip(shapes, ranks, strict=True)
    )
    (found,) = wsched.execute(
        batched("k", "mn", ranks=ranks), [a, b], params=parallel_split(SMALL, 3)
    )
    assert torch.equal(found, product(a, b))


def test_the_same_bits() -> None:
    """Parts are added in the order of K."""
    torch.manual_seed(0)
    a, b = torch.randn(70, 500).bfloat16(), torch.randn(24, 500).bfloat16()
    kernel = wsched.compile(definition(result="f32"), [a, b], params=parallel_split(SMALL, 4))
    (first,) = kernel(a, b)
    torch.testing.assert_close(first.double(), a.double() @ b.double().T, rtol=1e-5, atol=1e-4)
    (parts,) = kernel.alone(a, b)
    assert parts.shape == (4, 70, 24)
    total = torch.zeros(70, 24)
    for part in parts:
        total = total + part
    assert torch.equal(first, total)


def test_bound_and_given_memory() -> None:
    """A launch for given tensors adds the parts, too, into the caller's memory of any strides."""
    a, b = matrices(72, 40, 104)
    kernel = wsched.compile(definition(), [a, b], params=parallel_split(SMALL, 3))
    for out in (torch.zeros(72, 40), torch.zeros(72, 80)[:, :40], torch.zeros(40, 72).T):
        given = torch.empty_strided(out.shape, out.stride(), dtype=torch.bfloat16)
        bound = kernel.bind(a, b, out=given)
        assert bound()[0] is given
        assert torch.equal(given, wanted(a, b))
        kernel(a, b, out=given.zero_())
        assert torch.equal(given, wanted(a, b))


def test_in_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are added before the next kernel reads their sum, and those of a result."""
    monkeypatch.setattr(kernels, "choose_params", lambda _: parallel_split(SMALL, 3))
    text = definition().replace(
        "    fd.add_output(d)",
        "    v = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], "
        "dtype=DataType.BFloat16)\n"
        "    e = fd.ops.linear(d, v)\n    wide = fd.ops.cast(d, DataType.Float)\n"
        "    s = fd.ops.sum(wide, dims=[1], keepdim=True, dtype=DataType.Null)\n"
        "    fd.add_output(e)\n    fd.add_output(fd.ops.mul(wide, s))\n    fd.add_output(d)",
    )
    a, b = matrices(72, 40, 104)
    v = torch.randint(-1, 2, (24, 40)).bfloat16()
    e, scaled, d = wsched.execute(text, [a, b, v])
    assert "_parts3_" in str(wsched.explain(text, [a, b, v]))
    assert torch.equal(d, wanted(a, b))
    assert torch.equal(e, wanted(d, v))
    assert torch.equal(scaled, d.float() * d.float().sum(1, keepdim=True))


def test_kernel() -> None:
    """Nobody waits: no workspace, no counters, one CTA along z; tiles of all parts are dealt out
    as those of a batch are.
    """
    a, b = matrices(72, 40, 104)
    kernel = wsched.compile(definition(), [a, b], params=parallel_split(SMALL, 3))
    final = kernel.kernel
    assert not (final.workspaces or final.counters) and final.splits == 1
    assert final.tensor_map("T5").sizes[0] == Const(3)
    assert "_parts3_" in final.name
    serial = wsched.compile(definition(), [a, b], params=split_k(SMALL, 3)).kernel
    assert serial.workspaces and serial.splits == 3 and "_split3_" in serial.name


@pytest.mark.sampled
@pytest.mark.parametrize(
    "params",
    [
        parallel_split(SMALL, 3), parallel_split(ping_pong(64, 16, 16, cluster=(1, 2)), 4),
        parallel_split(dynamic(cooperative(64, 16, 16, groups=1, registers=None)), 2),
    ],
    ids=["cooperative", "ping_pong_cluster", "dynamic"],
)  # fmt: skip
def test_proved(params: MatmulParams) -> None:
    """A part that is stored is of the slices of K that are its own, each once."""
    made = wsched.compile(definition(), matrices(72, 40, 104), params=params)
    proved(made.kernel, made.plan)


WANTED = "Parallel for one product of fp32 sums that is stored, or rounded once and stored; Serial"
PLAIN = parallel_split(SMALL, 3)
LINEAR = definition()
EPILOGUE = LINEAR.replace("fd.add_output(d)", "fd.add_output(fd.ops.relu(d))")
TWICE = LINEAR.replace("fd.add_output(d)", "fd.add_output(fd.ops.cast(d, DataType.Half))")
BOTH = f"{LINEAR}    fd.add_output(fd.ops.cast(d, DataType.Float))\n"


@pytest.mark.parametrize(
    ("text", "params", "of"),
    [
        (EPILOGUE, PLAIN, "an epilogue that computes"),
        (TWICE, PLAIN, "an epilogue that computes"),
        (BOTH, PLAIN, "2 results"),
        (LINEAR, replace(PLAIN, accumulators=Accumulators.Half), "accumulators=Half"),
    ],
    ids=["epilogue", "rounded_twice", "results", "halves"],
)
def test_refused(text: str, params: MatmulParams, of: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        wsched.compile(text, matrices(72, 40, 104), params=params)
    assert str(error.value) == (
        f"splitk_factor=3 with splitk_mode=Parallel of {of} is not supported; supported: {WANTED}"
    )


@pytest.mark.parametrize(
    ("text", "of"),
    [(grouped(), "groups"), (side_by_side(), "tensors that stand side by side")],
    ids=["groups", "side by side"],
)
def test_what_no_tile_of_parts_is_of(text: str, of: str) -> None:
    with pytest.raises(UnsupportedError, match=f"splitk_mode=Parallel of {of} is not supported"):
        require_legal(import_fusion(text), PLAIN)


def test_reductions_are_refused() -> None:
    a, b = matrices(72, 40, 104)
    text = reduced((Reduced("sum", (0,)),), result=False)
    with pytest.raises(UnsupportedError, match="Parallel of results that are reductions"):
        wsched.compile(text, [a, b, torch.zeros(40).bfloat16()], params=PLAIN)


def test_batch_invariance_excludes_it() -> None:
    with pytest.raises(ScheduleError) as error:
        wsched.compile(LINEAR, matrices(72, 40, 104), params=replace(PLAIN, batch_invariant=True))
    assert error.value.wrote == "MatmulParams(batch_invariant=True, splitk_factor=3)"


def test_of_one_part() -> None:
    """The kernel is the one that has no parts."""
    one = replace(SMALL, splitk_mode=SplitKMode.Parallel)
    kernel = wsched.compile(LINEAR, matrices(72, 40, 104), params=one)
    assert not kernel.finishes
    assert kernel.kernel == wsched.compile(LINEAR, matrices(72, 40, 104), params=SMALL).kernel


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (LINEAR, True), (EPILOGUE, False), (TWICE, False), (BOTH, False), (side_by_side(), False),
        (reduced((Reduced("sum", (0,)),)), False), (grouped(), False),
    ],
    ids=["linear", "epilogue", "rounded_twice", "results", "side by side", "reduced", "grouped"],
)  # fmt: skip
def test_the_choice_asks_for_no_more_than_there_is(text: str, stored: bool) -> None:
    """Whether parts may be results is the same question of a problem and of its fusion."""
    fusion = import_fusion(text)
    asked = Extents(256, 192, 512).problem(fusion)
    assert in_parts_at_all(asked) is stored
    assert not_in_parts(demands(asked)) == not_in_parts(Demands.of(fusion))
