"""The module around a kernel: parameters, attributes, storage, and which statements have a rule."""

from __future__ import annotations

import re

import pytest

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.kernel import nodes
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Stmt
from lowering.kernel.text import parse_kernel
from lowering.mlir.emit import RULES, emit_mlir
from tests.lowering.cuda.kernels import cooperative_kernel, copy_kernel


def final_nodes() -> set[type[Stmt]]:
    """Statements that a final kernel may have."""
    found = (getattr(nodes, name) for name in nodes.__all__)
    return {
        n for n in found
        if isinstance(n, type) and issubclass(n, Stmt) and n.OP and n.TRAITS.until is None
    }  # fmt: skip


def test_every_statement_has_a_rule() -> None:
    assert RULES.keys() == final_nodes()


def test_a_copy(golden: object) -> None:
    assert emit_mlir(copy_kernel()) == golden


def test_a_cooperative_kernel(golden: object) -> None:
    assert emit_mlir(cooperative_kernel()) == golden


def test_what_warps_and_ctas_wait_for(golden: object) -> None:
    """Named barriers, counters, partial results, stamps, and other grids."""
    assert emit_mlir(parse_kernel(TOGETHER)) == golden


TOGETHER = """
kernel k threads 256 cluster 1 splits 2 dependent grid 1 {
  param K: i32
  named_barrier turn[2] id 1 threads 256
  trace spans[8](main_loop, cta)
  counter arrived[K]
  workspace parts: f32[ctas * 2][128x16]
  griddepcontrol.wait
  cta.number K
  roles {
    role first warps 0 .. 4 {
      bar.arrive turn[1]
      bar.sync turn[0]
      stamp spans, main_loop, begin, K * 2
      one: frag<f32, 128x16> = frag.fill 1.0
      frag.store_partial parts[%ctaid.z], one
      stamp spans, cta, end, %smid, clock=globaltimer
    }
    role second warps 4 .. 8 {
      bar.sync turn[1]
      bar.arrive turn[0]
      on %warpgroup.warp 0 {
        elect {
          ticket: i32 = atom inc, arrived[0], K - 1
          before: i32 = atom add, arrived[ticket], 1, order=release.gpu
          counter.wait arrived[before], 2
        }
      }
      two: frag<f32, 128x16> = frag.fill 2.0
      sum: frag<f32, 128x16> = frag.add_partial two, parts[K]
      frag.store_partial parts[K + 1], sum
    }
  }
  griddepcontrol.launch_dependents
  cta.sync
}
"""


def kernel(body: str = "", storage: str = "", head: str = "threads 128 cluster 1") -> Kernel:
    return parse_kernel(f"kernel k {head} grid 1 {{ param K: i32\n{storage}\n{body} }}")


def test_parameters_are_those_of_the_cuda_text() -> None:
    storage = """
    tensormap T: bf16[K, K] box 64x64 swizzle 128
    global G: f32[K, K]
    counter c[K]
    workspace w: f32[K][64x64]
    """
    text = emit_mlir(kernel("on %warp 0 { elect { old: i32 = atom add, c[0], 1 } }", storage))
    names = re.findall(r"^    (%\w+): (\S+)", text, re.MULTILINE)
    assert [(n, t.rstrip(",")) for n, t in names] == [
        ("%T", "!llvm.ptr"), ("%G", "!llvm.ptr<1>"), ("%G_stride", "i64"), ("%c", "!llvm.ptr<1>"),
        ("%w", "!llvm.ptr<1>"), ("%K", "i32"),
    ]  # fmt: skip
    assert "%T: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>" in text


def test_the_symbol_of_shared_memory_is_used_by_what_no_pass_may_fold() -> None:
    """A ``summary`` had no use of it but the check of its alignment, which LLVM 22 knows: PTX then
    named a symbol that was not declared.
    """
    text = emit_mlir(cooperative_kernel())
    (base,) = re.findall(r"(%\w+) = llvm.ptrtoint %\w+ : !llvm.ptr<3> to i32", text)
    uses = [line for line in text.splitlines() if re.search(rf"{base}\b", line)]
    assert any("llvm.inline_asm" in line and f'"=r,r" {base} :' in line for line in uses)


def test_an_array_of_tensor_maps_is_one_parameter() -> None:
    storage = "tensormap T[3]: bf16[K, K] box 64x64 swizzle 128"
    text = emit_mlir(kernel("on %warp 0 { elect { prefetch.tensormap T[K] } }", storage))
    assert "llvm.byval = !llvm.array<384 x i8>" in text
    assert (
        "llvm.getelementptr %T[%K] : (!llvm.ptr, i32) -> !llvm.ptr, !llvm.array<128 x i8>" in text
    )


def test_the_block_size_is_known() -> None:
    text = emit_mlir(kernel(head="threads 384 cluster 2"))
    assert "nvvm.maxntid = array<i32: 384, 1, 1>, nvvm.minctasm = 1 : i32" in text
    assert "nvvm.cluster_dim = array<i32: 2, 1, 1>" in text
    assert "shared_memory" not in text


def test_a_statement_without_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, nodes.FragRandom)  # type: ignore[arg-type]
    body = "v: frag<f32, 64x8> = frag.random 1:i64, 2:i64, 3, 4"
    with pytest.raises(UnsupportedError, match=r"frag\.random in MLIR is not supported"):
        emit_mlir(kernel(body))


def test_a_kernel_that_is_not_final_is_refused() -> None:
    k = kernel("cta.sync", "shared S: bf16[2][64x64] swizzle 128")
    with pytest.raises(InternalError, match="S has no offset"):
        emit_mlir(k)
