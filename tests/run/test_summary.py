"""Summaries on torch tensors: of any strides, new or given memory, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.kernel.text import print_kernel
from lowering.summary.kernel import ALONGSIDE_REGISTERS
from tests.lowering.summary.summaries import deviation, rms
from wsched.fusion import DataType
from wsched.fusion.summary import Extent, Result, Summary, Value
from wsched.importer.input_error import InputError
from wsched.run.cpu import MULTIPROCESSORS
from wsched.run.summary import CompiledSummary, compiled_summary

torch = pytest.importorskip("torch")


def wanted(x: torch.Tensor, s: float) -> torch.Tensor:
    return torch.rsqrt((x.double() ** 2).sum(-1) * 0.01 + s).float()


def test_a_call() -> None:
    """A number, or a tensor of one element; tensors in another order of memory."""
    x = torch.randn(70, 40).bfloat16()
    made = compiled_summary(rms(2, (1,)))
    assert made is compiled_summary(rms(2, (1,)))
    for s in (0.5, torch.tensor(0.5), torch.tensor([[0.5]])):
        (found,) = made(s, x)
        torch.testing.assert_close(found, wanted(x, 0.5))
    (found,) = made(0.5, x.T.contiguous().T)
    torch.testing.assert_close(found, wanted(x, 0.5))


def test_sizes_that_threads_read_one_by_one() -> None:
    made = CompiledSummary(rms(3, (2,)))
    for shape in ((2, 33, 7), (2, 33, 8)):
        x = torch.randn(shape).bfloat16()
        (found,) = made(0.5, x)
        torch.testing.assert_close(found, wanted(x, 0.5))
    assert {key[1] for key in made._variants} == {1, 2}


def test_long_rows_that_threads_read_by_16_bytes() -> None:
    """Where rows and addresses allow it: one element further pairs do not lie together either."""
    made, memory = CompiledSummary(rms(2, (1,))), torch.randn(9 * 264 + 8).bfloat16()
    for begin, vector in ((0, 8), (8, 8), (2, 2), (1, 1)):
        x = memory[begin : begin + 9 * 264].view(9, 264)
        (found,) = made(0.5, x)
        torch.testing.assert_close(found, wanted(x, 0.5))
        assert [key[1] for key in made._variants][-1] == vector


@pytest.mark.parametrize("columns", [264, 1264, 40])
def test_beside_another_grid(columns: int) -> None:
    """A CTA for each multiprocessor, which takes blocks of rows in turn; short rows likewise."""
    made, alone = (CompiledSummary(rms(2, (1,)), alongside=at) for at in (True, False))
    x = torch.randn(64 * MULTIPROCESSORS + 65, columns).bfloat16()
    (found,) = made(0.5, x)
    torch.testing.assert_close(found, wanted(x, 0.5))
    (variant,) = made._variants.values()
    assert "sms" in str(variant.kernel.grid)
    assert variant.kernel.registers == ALONGSIDE_REGISTERS
    text, starts = print_kernel(variant.kernel), "griddepcontrol.launch_dependents\n"
    assert text.index(starts) < text.index("for block in")
    assert made.name != alone.name


def test_what_is_not_beside_another_grid_is_as_it_was() -> None:
    """Warpgroups that meet, and other dimensions."""
    odd = torch.randn(70, 601).bfloat16()
    for summary, x in ((rms(2, (1,)), odd), (rms(2, (0,)), torch.randn(70, 40).bfloat16())):
        made, alone = (CompiledSummary(summary, alongside=at) for at in (True, False))
        assert torch.equal(made(0.5, x)[0], alone(0.5, x)[0])
        (variant,), (other,) = made._variants.values(), alone._variants.values()
        assert variant.kernel == replace(other.kernel, name=variant.kernel.name)


@pytest.mark.parametrize("shape", [(2, 1), (4, 1), (2, 2, 1)])
def test_rows_of_one_element_are_read_one_by_one(shape: tuple[int, ...]) -> None:
    """An even number of them is no even number of columns."""
    made, x = CompiledSummary(rms(len(shape), (len(shape) - 2,))), torch.randn(shape).bfloat16()
    (found,) = made(0.5, x)
    torch.testing.assert_close(found, wanted(x.transpose(-1, -2), 0.5))


def test_a_bound_launch() -> None:
    """Into given memory, of any strides; what is copied is copied by each launch."""
    x = torch.randn(40, 70).bfloat16().T
    out = torch.zeros(70, 2)[:, 0]
    bound = compiled_summary(rms(2, (1,))).bind(0.5, x, out=[out])
    bound()
    torch.testing.assert_close(out, wanted(x, 0.5))
    x.add_(1)
    assert bound()[0] is out
    torch.testing.assert_close(out, wanted(x, 0.5))


@pytest.mark.parametrize("shape", [(0, 8), (8, 0)])
def test_of_no_elements(shape: tuple[int, int]) -> None:
    (found,) = compiled_summary(rms(2, (1,)))(0.25, torch.zeros(shape, dtype=torch.bfloat16))
    assert found.tolist() == [2.0] * shape[0]


def test_results_with_dimensions_of_size_1() -> None:
    x = torch.randn(70, 40)
    mean, var = compiled_summary(deviation(2, (1,)))(x)
    assert (mean.shape, var.shape) == ((70,), (70, 1))
    torch.testing.assert_close(mean, x.sum(1) / 2)


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ((torch.zeros(8, 8).bfloat16(),), "1 inputs"),
        ((0.5, torch.zeros(8).bfloat16()), "input 1"),
        ((0.5, torch.zeros(8, 8)), "input 1"),
        ((torch.zeros(2), torch.zeros(8, 8).bfloat16()),
         "input 0 has 2 elements, with others it is 1"),
        (("a", torch.zeros(8, 8).bfloat16()), "input 0"),
    ],
)  # fmt: skip
def test_refused(inputs: tuple[object, ...], text: str) -> None:
    made = compiled_summary(rms(2, (1,)))
    for call in (lambda: made(*inputs), lambda: made.packed(inputs, [torch.empty(8)])):
        with pytest.raises(InputError, match=text):
            call()


@pytest.mark.parametrize("over", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("extent", Extent)
def test_a_mask(over: tuple[int, ...], extent: Extent) -> None:
    """What is masked of a tensor, of what is kept, or as a whole: of dropout, say, for a bias."""
    wide, kept = DataType.Float, tuple(d for d in (0, 1) if d not in over)
    x = Value("x", "input", wide, (), Extent.TENSOR)
    mask = Value("m", "input", DataType.Bool, (), extent)
    if extent is Extent.KEPT:
        values = (
            x, mask, Value("s", "sum", wide, ("x",), Extent.KEPT),
            Value("made", "where", wide, ("m", "s", -1.0), Extent.KEPT),
        )  # fmt: skip
    else:
        values = (
            x, mask, Value("k", "where", wide, ("m", "x", 0.0), Extent.TENSOR),
            Value("made", "sum", wide, ("k",), Extent.KEPT),
        )  # fmt: skip
    made = compiled_summary(Summary(2, over, values, (Result("made", kept),)))
    given = torch.randn(70, 40)
    shapes = {
        Extent.TENSOR: (70, 40), Extent.KEPT: tuple((70, 40)[d] for d in kept), Extent.ONE: (),
    }  # fmt: skip
    held = torch.rand(shapes[extent]) > 0.5
    (found,) = made(given, held)
    if extent is Extent.KEPT:
        right = torch.where(held, given.sum(over), -1.0)
    else:
        right = torch.where(held, given, 0.0).sum(over)
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
