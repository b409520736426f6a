"""Definitions that are no single kernel: cut by execute and explain as install cuts them."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.conftest import Golden
from tests.front.cut.features import FEATURES, Feature, inputs_of, torch
from tests.front.cut.ranks import RANKS
from wsched.choose.gpus import GPUS
from wsched.doors.dropin import decide, decision_of
from wsched.doors.fallback import interpret, rebuild
from wsched.front import known, routes
from wsched.front.cut.epilogues import Take
from wsched.front.cut.forms import form_of
from wsched.front.cut.infer import infer
from wsched.front.cut.segments import Cutter
from wsched.front.explain import explain_definition, explain_on
from wsched.importer import record_text
from wsched.importer.input_error import InputError
from wsched.run.compiled import CompiledFusion


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_texts", {})


def own_of(explanation: Any) -> int:
    return sum(bool(m.kernel) for m in explanation.matmuls)


ALL = FEATURES | RANKS
each_feature = pytest.mark.parametrize("name", ALL)


@pytest.mark.sampled
@each_feature
def test_execute_runs_the_parts(name: str) -> None:
    feature = ALL[name]
    inputs = inputs_of(feature)
    before = [t.clone() for t in inputs]
    found = wsched.execute(feature.text, inputs)
    wanted = interpret(record_text(feature.text), inputs)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype is theirs.dtype and ours.shape == theirs.shape
        assert ours.stride() == theirs.stride()
        # One rounding less than where each product is rounded before it is read.
        torch.testing.assert_close(ours.float(), theirs.float(), rtol=2**-6, atol=2**-6)
    assert all(torch.equal(a, b) for a, b in zip(inputs, before, strict=True))
    (route,) = known.known(feature.text).routes.values()
    assert route.name == "cut" and sum(p.kernel is not None for p in route.parts) == feature.kernels


@pytest.mark.sampled
@each_feature
def test_explain_says_of_each_matmul(name: str) -> None:
    feature = ALL[name]
    found = wsched.explain(feature.text, inputs_of(feature))
    assert found.route == "cut" and len(found.matmuls) == feature.all
    assert own_of(found) == feature.own
    assert all(m.kernel or m.reason for m in found.matmuls)
    made = [n for n in record_text(feature.text).nodes if n.op in ("linear", "matmul")]
    assert {m.result for m in found.matmuls} == {n.results[0] for n in made}  # as kernels come
    kernels = [p.kernel.kernel for p in found.parts if p.kernel is not None]
    assert {m.kernel for m in found.matmuls if m.kernel} == {*kernels}
    assert len(kernels) == feature.kernels
    assert found.predicted_us is not None and found.nvfuser is not None
    assert len(found.to_dict()["parts"]) == len(found.parts)


@pytest.mark.sampled(1)
@each_feature
def test_a_text_alone_is_explained_alike(name: str) -> None:
    feature = ALL[name]
    inputs = inputs_of(feature)
    alone = explain_definition(feature.text, "a GPU", lambda fusion: None)  # type: ignore[arg-type]
    for found in (alone, explain_on(GPUS["H200"], feature.text, inputs)):
        assert found.route == "cut" and own_of(found) == feature.own


@each_feature
def test_install_cuts_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may leave the definition to nvFuser for its time, not for what it is."""
    monkeypatch.setattr(decide, "runs_on", lambda device: True)
    feature = ALL[name]
    found = decision_of(rebuild(record_text(feature.text)), inputs_of(feature))
    assert found.cost is not None and found.nvfuser is not None
    if found.taken:
        assert 0 < sum(s.matmul for s in found.segments) <= feature.kernels


def test_the_explanation(golden: Golden) -> None:
    feature = FEATURES["heads"]
    text = str(explain_on(GPUS["H200"], feature.text, inputs_of(feature)))
    for kernel in {w.strip(",") for w in text.split() if w.startswith(("matmul_", "sweep_"))}:
        text = text.replace(kernel, "KERNEL")
    assert text == golden


# --- what is decided ------------------------------------------------------------------------------


def test_the_parts_are_made_once_for_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    feature, made = FEATURES["gated"], list[Any]()

    def counting(*args: Any) -> Any:
        made.append(args)
        return real(*args)

    real = routes.cut_route
    monkeypatch.setattr(routes, "cut_route", counting)
    for seed in range(3):
        wsched.execute(feature.text, inputs_of(feature, seed))
    assert len(made) == 1


@pytest.mark.slow
def test_a_shape_of_its_own_is_another_class() -> None:
    feature = FEATURES["gated"]
    text = feature.text.replace("shape=[24, 16]", "shape=[-1, 16]")
    _, *weights = inputs_of(feature)
    for rows in (24, 7, 40):
        given = torch.randint(-1, 2, (rows, 16)).bfloat16()
        (found,) = wsched.execute(text, [given, *weights])
        (wanted,) = interpret(record_text(text), [given, *weights])
        assert torch.equal(found, wanted)
    assert len(known.known(text).routes) == 3


def test_a_kernel_that_refuses_leaves_all_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    feature = FEATURES["gated"]
    inputs = inputs_of(feature)

    def refusing(self: Any, inputs: Any) -> None:
        raise UnsupportedError("this", "that")

    monkeypatch.setattr(CompiledFusion, "admit", refusing)
    (found,) = wsched.execute(feature.text, inputs)
    assert torch.equal(found, interpret(record_text(feature.text), inputs)[0])
    explained = wsched.explain(feature.text, inputs)
    assert explained.route == "torch"
    assert ("cut", "this is not supported; supported: that") in [
        (r.what, r.reason) for r in explained.refusals
    ]


def test_a_rest_that_nobody_runs() -> None:
    feature = Feature(
        """
        y = fd.ops.linear(t0, t1)
        n, g = fd.ops.nv_block_quantize(y)
        fd.add_output(n)
        """,
        ((24, 32), (16, 32)), 0, 1,
    )  # fmt: skip
    with pytest.raises(UnsupportedError) as caught:
        wsched.execute(feature.text, inputs_of(feature))
    assert str(caught.value).startswith("fd.ops.nv_block_quantize by torch is not supported")


def test_inputs_that_do_not_fit() -> None:
    feature = FEATURES["gated"]
    x, *weights = inputs_of(feature)
    with pytest.raises(InputError) as caught:
        wsched.execute(feature.text, [x[:, :8], *weights])
    assert str(caught.value) == "dimension 1 of input 0 is 8, the definition says 16"


RANDOM = Feature(
    """
    y = fd.ops.linear(t0, t1)
    f = fd.ops.cast(y, dtype=DataType.Float)
    m = fd.ops.uniform(0.0, 1.0, shape=[24, 16], dtype=DataType.Float)
    z = fd.ops.mul(f, m)
    fd.add_output(z)
    """,
    ((24, 32), (16, 32)), 0, 1,
)  # fmt: skip


def test_random_numbers_are_the_whole_definitions() -> None:
    found = explain_definition(RANDOM.text, "a GPU", lambda fusion: None)  # type: ignore[arg-type]
    assert found.route == "nvfuser"
    (fate,) = found.matmuls
    assert fate.kernel == "" and fate.reason == (
        "fd.ops.uniform beside a matmul is not supported; supported: random numbers of a given "
        "seed and offset. nvFuser draws others from torch's generator, which a kernel for a part "
        "of the definition would find elsewhere"
    )
    assert found.refusals[0].reason == (
        "fd.ops.uniform (random numbers, which nvFuser draws) in an epilogue "
        "is not supported; supported: the operations of design/pointwise-ops.md"
    )


def test_dropout_of_a_given_seed_is_behind_the_kernel() -> None:
    """By nvFuser, which numbers are the same in any segment; its mask is no constant."""
    text = RANDOM.text.replace("dtype=DataType.Float)\n    z", """dtype=DataType.Float, rng_seed=1,
        rng_offset=0)
    k = fd.ops.lt(m, 0.9)
    z""").replace("mul(f, m)", "mul(f, k)")  # fmt: skip
    pytest.importorskip("nvfuser_direct")
    found = explain_definition(text, "a GPU", lambda fusion: None)  # type: ignore[arg-type]
    assert found.route == "cut"
    assert [p.runs for p in found.parts] == ["wsched", "nvfuser"]
    assert "uniform" in found.parts[1].operations
    assert "fd.ops.uniform (random numbers" in found.refusals[0].reason


# --- shapes ---------------------------------------------------------------------------------------


def test_what_does_not_lie_as_one_batch_is_copied() -> None:
    """Heads beside rows in memory: three batch dimensions, of which one has the larger stride."""
    feature = RANKS["matmul_5d"]
    x, w = inputs_of(feature)
    moved = x.transpose(2, 3).contiguous().transpose(2, 3)
    found = wsched.explain(feature.text, [moved, w])
    (part,) = found.parts
    assert part.copied == "input 0 is copied: its elements do not lie as [6, 8, 32]"
    (made,) = wsched.execute(feature.text, [moved, w])
    assert torch.equal(made, torch.matmul(x, w).relu())
    assert not any(p.copied for p in wsched.explain(feature.text, [x, w]).parts)


def test_open_sizes_of_a_batch() -> None:
    """One definition for all sizes; the kernel is that of batches of matrices."""
    feature = RANKS["matmul_5d"]
    text = feature.text.replace("[2, 1, 3, 8, 32]", "[-1, -1, -1, -1, 32]").replace(
        "[2, 1, 3, 32, 16]", "[-1, -1, -1, 32, 16]"
    )
    text = text.replace("None", "True")
    for shape in ((2, 2, 3, 8), (1, 2, 5, 9), (4, 1, 1, 3)):
        x = torch.randint(-1, 2, (*shape, 32)).bfloat16()
        w = torch.randint(-1, 2, (*shape[:3], 32, 16)).bfloat16()
        (found,) = wsched.execute(text, [x, w])
        assert torch.equal(found, torch.matmul(x, w).relu())
    assert {r.name for r in known.known(text).routes.values()} == {"cut"}


MIXED = Feature(
    """
    y = fd.ops.matmul(t0, t1)
    f = fd.ops.cast(y, dtype=DataType.Float)
    z = fd.ops.add(f, t2)
    fd.add_output(z)
    """,
    ((2, 2, 3, 8, 32), (2, 2, 3, 32, 16), (2, 1, 1, 1, 16)), 1, 1,
)  # fmt: skip


def test_an_epilogue_along_one_of_the_batches_is_left_out() -> None:
    inputs = inputs_of(MIXED)
    found = wsched.explain(MIXED.text, inputs)
    (fate,) = found.matmuls
    assert fate.kernel and fate.reason == (
        "fd.ops.add (line 7) is not in it: t2 along some of the dimensions that are the rows or "
        "the batches of fd.ops.matmul is not supported; supported: along all of them, or none"
    )
    (made,) = wsched.execute(MIXED.text, inputs)
    assert torch.equal(made, interpret(record_text(MIXED.text), inputs)[0])


@pytest.mark.parametrize("batches", [(4, 1), (1, 16), (1, 1)])
def test_a_product_of_one_batch_in_a_dimension_of_a_larger_tensor(batches: tuple[int, int]) -> None:
    """The sizes are open, so that both would be called the same."""
    ranks = ", ".join("1" if n == 1 else "-1" for n in batches)
    flags = ", ".join("None" if n == 1 else "True" for n in (*batches, 2, 2))
    text = f"""\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    r = fd.define_tensor(shape=[-1, -1, -1, -1], contiguity={[True] * 4}, dtype=DataType.BFloat16)
    a = fd.define_tensor(shape=[{ranks}, -1, -1], contiguity=[{flags}], dtype=DataType.BFloat16)
    b = fd.define_tensor(shape=[{ranks}, -1, -1], contiguity=[{flags}], dtype=DataType.BFloat16)
    c = fd.ops.matmul(a, b)
    d = fd.ops.add(r, c)
    fd.add_output(d)
"""
    shapes = (4, 16, 8, 40), (*batches, 8, 8), (*batches, 8, 40)
    torch.manual_seed(0)
    given = [torch.randint(-2, 3, shape).bfloat16() for shape in shapes]
    (found,), (wanted,) = wsched.execute(text, given), interpret(record_text(text), given)
    assert found.shape == (4, 16, 8, 40) and torch.equal(found.float(), wanted.float())


def test_batches_that_are_more_than_two_runs() -> None:
    """A cut has stored one of them with more batches by then."""
    feature = Feature(
        """
        y = fd.ops.matmul(t0, t1)
        fd.add_output(y)
        """,
        ((2, 3, 1, 8, 32), (1, 3, 4, 32, 16)), 0, 1,
    )  # fmt: skip
    definition = record_text(feature.text)
    matmul = next(n for n in definition.nodes if n.op == "matmul")
    with pytest.raises(UnsupportedError) as error:
        form_of(definition, matmul, infer(definition).types)
    assert str(error.value) == (
        "fd.ops.matmul of t0 with batches [2, 3, 1] and t1 with [1, 3, 4] is not supported; "
        "supported: the same batches of both operands, or two runs of dimensions of batches one "
        "behind the other, of which each operand has one or both; or a matrix"
    )


@pytest.mark.parametrize(
    ("name", "runs", "views"),
    [
        (
            "heads_of_one_sequence",
            ["wsched", "wsched"],
            [
                "e is y by slice from [0, 0, 0], reshape to [1, 8, 2, 16], permute to "
                "[0, 2, 1, 3], reshape to [2, 8, 16]",
                "f is y by slice from [0, 0, 32], reshape to [1, 8, 2, 16], permute to "
                "[0, 2, 3, 1], reshape to [2, 16, 8]",
            ],
        ),
        (
            "sliced_weight",
            ["wsched"],
            ["x is t0 by reshape to [24, 32]", "w is t1 by slice from [16, 8]"],
        ),
        (
            "squeezed_operand",
            ["wsched"],
            [
                "x is t0 by reshape to [16, 24]",
                "v is t1 by permute to [2, 0, 1], reshape to [32, 16]",
            ],
        ),
        ("reshaped_by_a_copy", ["wsched"] * 3, ["h@1 is h by reshape to [4, 6, 2, 16]"]),
    ],
)
def test_operands_that_are_views_are_read_by_strides(
    name: str, runs: list[str], views: list[str]
) -> None:
    found = wsched.explain(ALL[name].text, inputs_of(ALL[name]))
    assert [p.runs for p in found.parts] == runs
    assert sorted(v for p in found.parts for v in p.views) == sorted(views)
    assert not any(p.copied for p in found.parts)
    assert all(v in str(found) for v in views)


@pytest.mark.parametrize(
    ("spread", "moved"),
    [
        ("expand(t3, shape=[n, 3, 8, 16])", "set"),
        ("broadcast_in_dim(t4, shape=[n, 3, 8, 16], broadcast_dims=[3])", "broadcast"),
    ],
)
def test_sizes_that_are_implied_are_not_asked_for(spread: str, moved: str) -> None:
    """Nor is the tensor whose size it is read: a kernel has its own dimensions."""
    body = f"""
        n = fd.ops.size(t2, dim=0)
        y = fd.ops.linear(t0, t1)
        e = fd.ops.{spread}
        f = fd.ops.add(y, e)
        fd.add_output(f)
    """
    shapes = (2, 3, 8, 32), (16, 32), (2, 3, 8, 16), (1, 1, 1, 16), (16,)
    cutter = Cutter(record_text(Feature(body, shapes, 1, 1).text))
    (kernel,) = cutter.all(Take.ALL).segments
    assert kernel.inputs == ("t0", "t1", spread.partition("(")[2][:2])
    ops = [n.op for n in kernel.definition.nodes if not n.is_input]
    assert ops == ["linear", moved, "add"]
