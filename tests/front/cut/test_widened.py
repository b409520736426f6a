"""Operands of 16 bits that are cast to fp32: what is multiplied is what is cast."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import wsched
from lowering.ground.errors import UnsupportedError
from tests.front.cut.features import Feature, inputs_of
from wsched.doors.fallback import interpret
from wsched.front.cut.epilogues import Take
from wsched.front.cut.infer import infer
from wsched.front.cut.segments import Cutter
from wsched.front.cut.widened import with_casts_last
from wsched.importer import Definition, record_text
from wsched.importer.definition import definition_text

X, W = "f = fd.ops.cast(t0, dtype=DataType.Float)", "g = fd.ops.cast(t1, dtype=DataType.Float)"
MATRICES = (24, 32), (16, 32)
LOGITS = "y = fd.ops.linear(f, g)"


def feature(
    *lines: str, shapes: tuple[tuple[int, ...], ...] = MATRICES, wide: tuple[int, ...] = ()
) -> Feature:
    return Feature("\n".join([*lines, "fd.add_output(y)"]), shapes, 1, 1, wide)


ONE = {
    "linear": feature(X, W, LOGITS),
    "bias": feature(
        X, W, "y = fd.ops.linear(f, g, t2)", shapes=(*MATRICES, (16,)), wide=(2,)
    ),
    "matmul_of_transposed": feature(
        X, W, "p = fd.ops.permute(g, dims=[1, 0])", "y = fd.ops.matmul(f, p)"
    ),
    "rounded": feature(
        X, W, "m = fd.ops.linear(f, g)", "y = fd.ops.cast(m, dtype=DataType.BFloat16)"
    ),
    "rows": feature(X, W, LOGITS, shapes=((2, 3, 24, 32), (16, 32))),
    "batches": feature(
        X, W, "y = fd.ops.matmul(f, g)", shapes=((2, 1, 3, 8, 32), (2, 1, 3, 32, 16))
    ),
    "a_slice": feature(
        X, W, "s = fd.ops.slice(g, start_indices=[16, 0], end_indices=[32, 32])",
        "y = fd.ops.linear(f, s)", shapes=((24, 32), (32, 32)),
    ),
    "heads": feature(
        X, W, "a = fd.ops.reshape(f, new_shape=[2, 8, 2, 16])",
        "b = fd.ops.permute(a, dims=[0, 2, 1, 3])",
        "c = fd.ops.reshape(g, new_shape=[2, 8, 2, 16])",
        "d = fd.ops.permute(c, dims=[0, 2, 3, 1])", "y = fd.ops.matmul(b, d)",
        shapes=((2, 8, 32), (2, 8, 32)),
    ),
    "repeated": feature(
        X, W, "e = fd.ops.broadcast_in_dim(g, shape=[3, 32, 16], broadcast_dims=[1, 2])",
        "y = fd.ops.matmul(f, e)", shapes=((3, 24, 32), (32, 16)),
    ),
    "itself": feature(X, "y = fd.ops.linear(f, f)", shapes=((24, 32),)),
    "itself_transposed": feature(
        X, "p = fd.ops.permute(f, dims=[1, 0])", "y = fd.ops.matmul(p, f)", shapes=((24, 32),)
    ),
    "read_beside": feature(
        X, W, "m = fd.ops.linear(f, g)", "y = fd.ops.add(m, f)", shapes=((24, 32), (32, 32))
    ),
    "gate_and_up": feature(
        X, W, "h = fd.ops.cast(t2, dtype=DataType.Float)", "a = fd.ops.linear(f, g)",
        "b = fd.ops.linear(f, h)", "y = fd.ops.mul(a, b)",
        shapes=((24, 32), (16, 32), (16, 32)),
    ),
}  # fmt: skip
"""One kernel."""

MORE = {
    "also_a_result": feature(X, W, "fd.add_output(f)", LOGITS),
    "also_summed": feature(
        X, W, "s = fd.ops.sum(f, dims=[1])", "fd.add_output(s)", LOGITS
    ),
    "beside_16_bits": feature(
        X, W, "n = fd.ops.linear(t0, t2)", "fd.add_output(n)", LOGITS,
        shapes=((24, 32), (16, 32), (8, 32)),
    ),
    "of_what_a_kernel_makes": feature(
        "m = fd.ops.linear(t0, t2)", "f = fd.ops.cast(m, dtype=DataType.Float)", W, LOGITS,
        shapes=((24, 8), (16, 32), (32, 8)),
    ),
    "of_what_is_normalised": feature(
        X, "s = fd.ops.sum(f, dims=[1], keepdim=True)", "b = fd.ops.sub(f, s)",
        "c = fd.ops.cast(b, dtype=DataType.BFloat16)",
        "d = fd.ops.cast(c, dtype=DataType.Float)", W, "y = fd.ops.linear(d, g)",
    ),
}  # fmt: skip
"""Each matmul is wsched's."""

REFUSED = {
    "types_apart": Feature(
        "c = fd.ops.cast(t1, dtype=DataType.Half)\ng = fd.ops.cast(c, dtype=DataType.Float)\n"
        f"{X}\n{LOGITS}\nfd.add_output(y)", MATRICES, 0, 1,
    ),
    "one_in_fp32": Feature(
        f"{X}\ny = fd.ops.linear(f, t1)\nfd.add_output(y)", MATRICES, 0, 1, (1,)
    ),
    "computed_in_fp32": Feature(
        f"{X}\n{W}\nn = fd.ops.exp(g)\ny = fd.ops.linear(f, n)\nfd.add_output(y)", MATRICES, 0, 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*ONE, *MORE])
def test_as_torch(name: str) -> None:
    made = (ONE | MORE)[name]
    inputs = inputs_of(made)
    found = wsched.execute(made.text, inputs)
    for mine, wanted in zip(found, interpret(record_text(made.text), inputs), strict=True):
        assert torch.equal(mine, wanted) and mine.dtype is wanted.dtype


@pytest.mark.parametrize("name", ONE)
def test_one_kernel(name: str) -> None:
    told = wsched.explain(ONE[name].text, inputs_of(ONE[name]))
    runs = [told.route] if told.kernel else [p.runs for p in told.parts or ()]
    assert runs == ["wsched"], told


@pytest.mark.parametrize("name", MORE)
def test_kernels_of_16_bits(name: str) -> None:
    told = wsched.explain(MORE[name].text, inputs_of(MORE[name]))
    assert told.matmuls and all(m.kernel and "bfloat16" in m.kernel for m in told.matmuls), told


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_more_bits_is_fp32(name: str) -> None:
    definition = record_text(REFUSED[name].text)
    (why,) = Cutter(definition).alone()
    assert isinstance(why, UnsupportedError)
    assert why.what == "fd.ops.linear of Float and Float"
    assert with_casts_last(definition, infer(definition)) is definition


def test_no_digit_is_lost() -> None:
    """Of numbers that are no small integers: as near to fp64 as a product of fp32 is."""
    draw = torch.Generator().manual_seed(3)
    x, w = (torch.randn(n, 512, generator=draw).bfloat16() for n in (40, 24))
    (y,) = wsched.execute(feature(X, W, LOGITS, shapes=((40, 512), (24, 512))).text, [x, w])
    exact = x.double() @ w.double().T
    assert y.dtype is torch.float32
    assert (y.double() - exact).norm() < 2e-7 * 512**0.5 * exact.norm()


@pytest.fixture
def allowed() -> Iterator[None]:
    """Torch's settings allow TF32 for the time of a test."""
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.usefixtures("allowed")
def test_the_setting_of_tf32_does_not_matter() -> None:
    test_as_torch("linear")
    test_kernels_of_16_bits("of_what_is_normalised")


def written(definition: Definition) -> list[str]:
    """The operations with casts last, without definitions of inputs."""
    text = definition_text(with_casts_last(definition, infer(definition))).splitlines()[1:]
    return [x.strip().replace("fd.ops.", "") for x in text if "fd.define_tensor" not in x]


def test_views_are_of_what_is_cast() -> None:
    assert written(record_text(ONE["matmul_of_transposed"].text)) == [
        "f = cast(t0, dtype=DataType.Float)",
        "g = cast(t1, dtype=DataType.Float)",
        "p = permute(g, dims=[1, 0])",
        "f_wide = cast(t0, dtype=DataType.Float)",
        "p_narrow = permute(t1, dims=[1, 0])",
        "p_wide = cast(p_narrow, dtype=DataType.Float)",
        "y = matmul(f_wide, p_wide)",
        "fd.add_output(y)",
    ]


def test_one_cast_serves_all_matmuls() -> None:
    casts = [x for x in written(record_text(ONE["gate_and_up"].text)) if "_wide = " in x]
    assert [x.partition(" ")[0] for x in casts] == ["f_wide", "g_wide", "h_wide"]


def test_a_cast_between_is_nobodys_work() -> None:
    """Nothing of it lies in memory: the kernel behind another one reads what that rounds."""
    first, second = Cutter(record_text(MORE["of_what_a_kernel_makes"].text)).all(Take.ALL).segments
    assert first.outputs == ("m",) and second.inputs == ("t1", "m")
