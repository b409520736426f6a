"""Operands that TMA cannot read where they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests import batches
from tests.schedules import definition, ping_pong
from wsched.choose.copy_cost import Copy, slower_than_direct
from wsched.front.explanation import Explanation
from wsched.front.known import import_fusion
from wsched.front.problems import planned
from wsched.importer.input_error import InputError
from wsched.program.memory import allocator, spanned_bytes
from wsched.program.text import print_program
from wsched.run.copies import copied, copies, in_front, operand_rows, unreadable
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import SupportedVectorization

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = 20, 24, 40


def integers(*shape: int, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).to(torch.bfloat16)


X, W = integers(M, K), integers(N, K, seed=1)

UNREADABLE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "odd columns": (lambda t: t[:, :-1].contiguous(), "78 bytes from row to row"),
    "odd base": (lambda t: torch.cat([t[:1, :1], t.reshape(1, -1)], 1)[:, 1:].view(t.shape), "2"),
    "every second column": (lambda t: t[:, ::2], "stride 2 between neighbours"),
    "expanded rows": (lambda t: t[:1].expand(t.shape), "0 bytes from row to row"),
    "expanded columns": (lambda t: t[:, :1].expand(t.shape), "stride 0 between neighbours"),
    "odd rows, by columns": (lambda t: t[:-1].T.contiguous().T, "bytes from row to row"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("position", [0, 1])
def test_a_copy_is_read(name: str, position: int) -> None:
    """The result is that of the operand as it lies, and the operand stays as it is."""
    make, reason = UNREADABLE[name]
    odd = make((X, W)[position])
    other = (W, X)[position][:, : odd.shape[1]].contiguous()
    other = torch.nn.functional.pad(other, (0, -odd.shape[1] % 8))[:, : odd.shape[1]]
    inputs = [odd, other] if position == 0 else [other, odd]
    before = odd.clone()
    fusion = laid_out(import_fusion(definition()), inputs)
    (needed,) = copies(fusion, inputs)
    assert needed.argument == f"input {position}" and reason in needed.reason
    (out,) = wsched.compile(definition(), inputs)(*inputs)
    assert torch.equal(out, (inputs[0].float() @ inputs[1].float().T).bfloat16())
    assert torch.equal(odd, before)


@pytest.mark.parametrize("length", [3, 1])
@pytest.mark.parametrize("by_rows", [True, False], ids=["rows", "columns"])
def test_rows_of_any_length(by_rows: bool, length: int) -> None:
    """A kernel of rows reads a copy of rows of one element, too, which could be a column as well;
    and one of columns.
    """
    given = [X, W] if by_rows else [X.T.contiguous().T, W]
    kernel = wsched.compile(definition(), given)
    x = X[:, :length].contiguous() if by_rows else X[:length].T.contiguous().T
    w = W[:, :length].contiguous() if by_rows else W
    assert unreadable(kernel.fusion, [x, w]) == ((0, 1) if by_rows else (0,))
    assert torch.equal(kernel(x, w)[0], (x.float() @ w.float().T).bfloat16())


def test_rows_of_a_copy_are_whole_lines_of_the_l2() -> None:
    x, w = integers(M, 37), torch.nn.functional.pad(integers(N, 37), (0, 3))[:, :37]
    kernel = wsched.compile(definition(), [x, w])
    assert unreadable(kernel.fusion, [x, w]) == (0,)
    front = in_front(kernel.plan, "matmul", (0,))
    copy, same = copied(front, [x, w])
    assert copy.stride() == (64, 1) and copy.shape == x.shape and copy.data_ptr() % 16 == 0
    assert same is w
    assert copies(kernel.fusion, [x, w])[0].bytes == 2 * M * 37 * 2
    assert print_program(front) == (
        "program (in0, in1) -> (out0) {\n"
        "  in0: bf16[M, K]\n"
        "  in1: bf16[N, K]\n"
        "  in0_copy: bf16[M, K] strides [ceildiv(K, 64) * 64, 1]\n"
        "  out0: bf16[M, N]\n"
        "  copy in0 -> in0_copy\n"
        "  kernel matmul(in0_copy, in1) -> out0\n"
        "}\n"
    )


def test_inputs_that_are_read_where_they_lie_are_not_touched() -> None:
    assert unreadable(import_fusion(definition()), [X, W]) == ()


def test_a_copy_hides_no_mistake() -> None:
    """Of type, number or size: the error is that of a call without copies."""
    odd = integers(M, 37)
    kernel = wsched.compile(definition(), [odd, odd])
    for inputs, why in (
        ([odd.half(), odd], "input 0 is torch.float16, the definition says torch.bfloat16"),
        ([odd], "1 inputs, the definition has 2"),
        ([odd, W], "K is 37 in dimension 1 of input 0 and 40 in dimension 1 of input 1"),
        ([odd, odd.to("meta")], "inputs are on cpu and meta, not on one device"),
    ):
        for run in (kernel, kernel.bind):
            with pytest.raises(InputError) as e:
                run(*inputs)
            assert str(e.value) == why
    with pytest.raises(InputError, match="out has 2 tensors, the definition has 1 outputs"):
        kernel.bind(odd, odd, out=[odd, odd])


def test_a_call_into_given_memory() -> None:
    x, w = integers(M, 37), integers(N, 37, seed=1)
    kernel, out = wsched.compile(definition(), [x, w]), torch.empty(M, N, dtype=torch.bfloat16)
    (result,) = kernel(x, w, out=out)
    assert result is out and torch.equal(out, (x.float() @ w.float().T).bfloat16())


def test_memory_beside_a_result_is_left_alone() -> None:
    """TMA would end each row of 126 bytes with zeros; threads store them."""
    x, w = integers(M, 40), integers(63, 40, seed=1)
    whole = torch.full((M, 64), 7.0).bfloat16()
    by_tma = wsched.compile(definition(), [x, w], params=ping_pong(64, 64))
    with pytest.raises(UnsupportedError, match="rows of 126 bytes, behind which TMA stores zeros"):
        by_tma(x, w, out=whole[:, :63])
    one = SupportedVectorization(epilogue=1)
    by_threads = replace(ping_pong(64, 64), use_smem_epilogue=False, supported_vec_size=one)
    wsched.compile(definition(), [x, w], params=by_threads)(x, w, out=whole[:, :63])
    assert torch.equal(whole[:, :63], (x.float() @ w.float().T).bfloat16())
    assert torch.equal(whole[:, 63], torch.full((M,), 7.0).bfloat16())


def test_what_a_call_refuses_of_its_results_is_not_admitted() -> None:
    """Rows of 126 bytes, which nobody has allocated yet."""
    x, w = integers(M, 40), integers(63, 40, seed=1)
    by_tma = wsched.compile(definition(), [x, w], params=ping_pong(64, 64))
    said = set[str]()
    for ask in (lambda: by_tma(x, w), lambda: by_tma.admit([x, w])):
        with pytest.raises(UnsupportedError) as error:
            ask()
        said.add(str(error.value))
    assert len(said) == 1 and "output 0 with 126 bytes from row to row" in said.pop()
    by_tma.admit([x, w[:56]])


def test_memory_of_copies_ends_with_whole_stores() -> None:
    for shape, strides in (((3, 63), (64, 1)), ((3, 64), (64, 1)), ((2, 5, 9), (80, 16, 1))):
        like = torch.empty_strided(shape, strides, dtype=torch.bfloat16)
        found = allocator(like)()
        assert (tuple(found.shape), found.stride()) == (shape, strides)
        room = found.untyped_storage().nbytes()
        assert room % 16 == 0 and 0 <= room - spanned_bytes(found) < 16


def test_a_bound_launch_copies_each_time() -> None:
    x, w = integers(M, 37), integers(N, 37, seed=1)
    launch = wsched.compile(definition(), [x, w]).bind(x, w)
    for _ in range(2):
        (out,) = launch()
        assert torch.equal(out, (x.float() @ w.float().T).bfloat16())
        x += 1


def test_an_operand_and_a_schedule_of_ones_own() -> None:
    x, w = integers(M, 37), integers(N, 37, seed=1)
    (out,) = wsched.execute(definition(), [x, w], params=ping_pong(64, 64))
    assert torch.equal(out, (x.float() @ w.float().T).bfloat16())


def test_explained() -> None:
    found: Explanation = wsched.explain(definition(), [integers(M, 37), integers(N, 37)])
    assert found.route == "wsched"
    chosen = {c.name: (c.value, c.reason) for c in found.choices}
    assert chosen["input 0"] == (
        "copied",
        "74 bytes from row to row, no positive multiple of 16; the copy reads and writes 2960 "
        "bytes",
    )


# --- a copy, or operands as they lie? -------------------------------------------------------------


def test_no_copies_are_never_slower() -> None:
    assert slower_than_direct((), 1, 1, 1, 1e9) == ""


def test_a_large_matmul_pays_for_its_copies() -> None:
    needed = [Copy("input 0", "odd", 4 * 8192 * 8192)] * 2
    assert slower_than_direct(needed, 8192, 8192, 8192, 1700.0) == ""


def test_a_large_operand_that_is_read_once_does_not() -> None:
    """A weight of 8192 x 8192 for 16 rows: the copy alone moves twice its bytes."""
    needed = (Copy("input 1", "odd rows", 4 * 8192 * 8191),)
    assert slower_than_direct(needed, 16, 8192, 8191, 50.0) == (
        "a copy of input 1 (odd rows) and the kernel are predicted to take 136.4 us, the matmul of "
        "the operands as they lie 111.0 us"
    )


@pytest.mark.parametrize(("copied", "epilogue", "copies_pay"), [
    (1, False, True), (2, False, False), (2, True, True),
])  # fmt: skip
def test_small_ones_are_a_question_of_the_host(
    copied: int, epilogue: bool, copies_pay: bool
) -> None:
    """Two copies and a call take 22 us of it, nvFuser 19.5 without an epilogue and 25 with one."""
    needed = [Copy("input 0", "odd", 4 * 256 * 512)] * copied
    assert (not slower_than_direct(needed, 256, 256, 511, 4.0, epilogue)) is copies_pay


@pytest.mark.parametrize(
    ("view", "rows"),
    [
        (lambda x: x[:, :64], 64),
        (lambda x: x[:, 8:72], 16),
        (lambda x: x[:, 16:80], 32),
        (lambda x: x[:, :80].contiguous(), 32),
        (lambda x: x[:, :72].contiguous(), 16),
        (lambda x: x[:, :37].contiguous(), 128),
        (lambda x: x[:1, :72].contiguous(), 128),
        (lambda x: x[:, :72].T.contiguous().T, 16),
    ],
)
def test_rows_of_operands_by_how_they_lie(view: Callable[[Any], Any], rows: int) -> None:
    """37 columns are copied, into whole lines; a single row is apart from nothing."""
    x = view(integers(24, 96))
    inputs = [x, integers(24, 128)[:, : x.shape[1]]]
    fusion = laid_out(import_fusion(definition()), inputs)
    assert list(operand_rows(fusion, inputs).values()) == [rows, 128]
    problem = planned(definition(), inputs)[1]
    assert (problem.align_a, problem.align_b) == (rows, 128)


def test_memory_beside_each_matrix_of_a_result_is_left_alone() -> None:
    """Rows of a batch are rows, too: 64 of them, of 126 bytes each."""
    a = batches.integers((2, 64, 40), "columns", torch.bfloat16)
    b = batches.integers((2, 40, 63), "rows", torch.bfloat16)
    whole = torch.full((2, 64, 64), 7.0).bfloat16()
    by_tma = wsched.compile(batches.batched(), [a, b], params=ping_pong(64, 64))
    with pytest.raises(UnsupportedError, match="rows of 126 bytes, behind which TMA stores zeros"):
        by_tma(a, b, out=whole[..., :63])
