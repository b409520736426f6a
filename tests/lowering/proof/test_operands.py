"""Results are of the rows, the columns and all of K of their operands: loads, products and stores
that are moved are refuted.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.agent import agents
from lowering.proof.circles import circles
from lowering.proof.obligation import Obligation, Verdict
from tests.batches import batched
from tests.blackwell import final
from tests.grouped import FORMS, grouped
from tests.lowering.proof.test_places import KERNELS
from tests.mutants.subjects import subject
from tests.schedules import SCHEDULES, cooperative, definition, parallel_split
from tests.tiers import in_tiers
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import SupportedVectorization

ADDED = {name: KERNELS[name] for name in ("added", "added later")}

MOVED = {
    "rows of the other operand": (
        "coop_2_stages", "T1[No2 * 256,", "T1[Mo2 * 256,", "T5[0, 256] gets column 0 of T1"),
    "rows of the next tile": (
        "coop_2_stages", "T0[Mo2 * 128,", "T0[Mo2 * 128 + 128,", "T5[0, 0] gets row 128 of T0"),
    "k of A one step off": (
        "coop_2_stages", "T0[Mo2 * 128, k2 * 64]", "T0[Mo2 * 128, k2 * 64 + 64]",
        "multiplies T0 from 64 on by T1 from 0 on along K"),
    "another slice of the step": (
        "coop_2_stages", "T7[stage_k, 0, 16]", "T7[stage_k, 0, 32]",
        "multiplies T0 from 16 on by T1 from 32 on along K"),
    "the first step is added to what was there": (
        "coop_2_stages", "accumulate=0 < k", "accumulate=1 < k",
        "T5[0, 0] gets 64 .. 65 of 0 .. 65 of K"),
    "the first columns for all chunks": (
        "coop_2_stages", "frag.columns total, chunk * 64", "frag.columns total, 0",
        "T5[0, 64] gets column 0 of T1"),
    "the stage of the other warpgroup": (
        "coop_2_stages", "T5_s[group, 0, 0], t9", "T5_s[1 - group, 0, 0], t9",
        "T5[0, 0] gets what nobody has loaded or computed"),
    "rows behind the stage": (
        "coop_2_stages", "T5_s[group, 0, 0], t9", "T5_s[group, 8, 0], t9",
        "8 .. 72, 0 .. 64 of T5_s[0] lie outside of it"),
    "a stage that there is not": (
        "coop_2_stages", "shared T7: bf16[2]", "shared T7: bf16[1]",
        "0 .. 256, 0 .. 64 of T7[1] lie outside of it"),
    "a word that there is not": (
        "dynamic", "shared queue_tile: s32[2]", "shared queue_tile: s32[1]",
        "0 .. 1, 0 .. 1 of queue_tile[1] lie outside of it"),
    "a named barrier that there is not": (
        "int8", "bar.sync T4_store[group]", "bar.sync T4_store[group ^ 1]",
        "there is no T4_store[1]"),
    "nobody stores the result": (
        "tile_per_cta", "tma.store T5[Mo * 128 + group * 64, No * 128 + chunk * 64], "
        "T5_s[group, 0, 0]", "bulk.commit", "no result is made of any product"),
    "halves of a multicast pair swapped": (
        "cluster_2x1", "T7[stage_k2, %cluster.ctarank % 2 * 128, 0]",
        "T7[stage_k2, (1 - %cluster.ctarank % 2) * 128, 0]", "T5[0, 0] gets column 128 of T1"),
    "one half by both of a pair": (
        "cluster_2x1", "T7[stage_k2, %cluster.ctarank % 2 * 128, 0]", "T7[stage_k2, 0, 0]",
        "gets what nobody has loaded or computed"),
    "all threads load the first rows": (
        "four_warpgroups", "T1[No2 * 32 + group2 * 8,", "T1[No2 * 32,",
        "T5[0, 0] gets column -8 of T1"),
    "all threads load to the first rows": (
        "four_warpgroups", "T7[stage_k2, group2 * 8, 0]", "T7[stage_k2, 0, 0]",
        "T5[0, 0] gets what nobody has loaded or computed"),
    "a part of K twice": (
        "split_2", "(%ctaid.z * n_k2 + k2) * 64]", "(%ctaid.z * n_k2) * 64]",
        "a slice of K of T0 and T1 is added twice"),
    "the slot of another warpgroup": (
        "stream_k_cluster", "parts[slot * 2 + group]", "parts[slot * 2 + 1 - group]",
        " is added, and no counter that was awaited tells of it"),
    "no element of the list": (
        "qkv", "T1[entry2]", "T1[0]", "T5[1][0, 0] gets T1[0]"),
    "a place of another element of the list": (
        "qkv", "No2 * 32 - begin2", "No2 * 32", "T5[1][0, 0] gets column 32 of T1"),
    "one of two products": (
        "two_pairs", "T0[entry][", "T0[0][", "of K of T0 and T1"),
    "one of two matrices for the other": (
        "gated", "T17[stage_k, 0, 0]", "T16[stage_k, 0, 0]",
        "16 .. 64 of 0 .. 64 of K of T0 and T2"),
    "another piece of a computed operand": (
        "computed", "t4_k0_k16, T7[stage_k, 0, 16]", "t4_k0_k0, T7[stage_k, 0, 16]",
        "multiplies T1 from 0 on by T0 from 16 on along K"),
    "a residual of another tile": (
        "coop_128x128-residual", "T2[Mo3 * 128", "T2[Mo3 * 128 + 64", "of T2"),
    "rows of the result for columns": (
        "exchanged", "t9, trans=true", "t9",
        "0 .. 64, 0 .. 16 of T5_s[0] lie outside of it"),
    "a slice of 8 bits": (
        "int8", "T6[stage_k, 0, 32]", "T6[stage_k, 0, 64]",
        "multiplies T0 from 32 on by T1 from 64 on along K"),
    "a bias of another tile": (
        "reductions", "T2[0, No * 32]", "T2[0, No * 32 + 8]", "gets column 8 of T2"),
    "a matrix of another group": (
        "grouped_gated", "T1[B3, No2 * 16", "T1[max(B3 - 1, 0), No2 * 16",
        "gets T1, of which coordinate 0 is 0"),
    "rows of another tile of the group": (
        "grouped_gated", "T0[first2 - M + end2 + Mo2 * 64", "T0[first2 - M + end2",
        "T14[64, 0] gets row 0 of T0"),
    "columns of another group": (
        "columns of groups", "T0[B3,", "T0[max(B3 - 1, 0),", "gets T0, of which coordinate 0 is 0"),
    "sums over rows of another group": (
        "grouped_sums", "T1[begin2,", "T1[0,", "multiplies T0 from 0 on by T1 from -8 on"),
    "sums over a row of the next group": (
        "grouped_sums", "let size: i32 = end - begin3", "let size: i32 = end - begin3 + 1",
        "gets 0 .. 9 of 0 .. 8 of K of T0 and T1"),
    "another matrix of a batch": (
        "batch", "T1[B3,", "T1[min(B3, 0),", "gets T1, of which coordinate 0 is 0"),
    "a step further where three sizes are several": (
        "reductions", "T1[No2 * 32, k2 * 64]",
        "T1[No2 * 32, k2 * 64 + min(Mo2, 1) * min(No2, 1) * min(k2, 1) * 64]",
        "at M = 97, N = 49, K = 97"),
    "the rows of three of four warps": (
        "reductions", "t222_s[group, 0, 0], 4, 32", "t222_s[group, 0, 0], 3, 32",
        "3 rows of t222_s from 0 on are not those of whole warpgroups"),
    "a sum without the last column": (
        "reductions", "below2: frag<pred, 1x32> = frag.below N - No * 32",
        "below2: frag<pred, 1x32> = frag.below N - No * 32 - 1",
        "31 columns of T1 from 0 on are reduced, of 32"),
    "a maximum of rows behind the tensor": (
        "reductions", "below3: frag<pred, 64x1> = frag.below M - (Mo * 64 + group * 64)",
        "below3: frag<pred, 64x1> = frag.below M", "64 rows of T0 from 64 on are reduced, of 1"),
    "one row of a tile that is neither whole nor almost empty": (
        "reductions", "below: frag<pred, 64x1> = frag.below M - (Mo * 64 + group * 64)",
        "below: frag<pred, 64x1> = frag.below select(M - Mo * 64 < 64, 1, 64)",
        "1 rows of T0 from 64 on are reduced, of 33"),
    "no more than so many steps": (
        "coop_2_stages", "let n_k: i32 = ceildiv(K, 64)",
        "let n_k: i32 = min(ceildiv(K, 64), 20)", "gets 0 .. 1280 of 0 .. "),
    "nothing": (
        "stream_k", "select(0 < n_k, stop, start)", "select(0 < n_k, start, stop)",
        "at no size: no result is made of any product"),
    "all parts of K the first": (
        "parts of K", "(part2 * n_k2 + k2)", "k2",
        "parts of T5[0, 0, 0] get 0 .. 16, 0 .. 16 of 0 .. 17 of K of T0 and T1"),
    "the last parts of K left out": (
        "parts of K", "let n_k2: i32 = ceildiv(n_k, 2)", "let n_k2: i32 = n_k // 2",
        "parts of T5[0, 0, 0] get 0 .. "),
    "tensor memory: another slice": (
        "tensor memory", "T7[stage_k, 0, 16]", "T7[stage_k, 0, 32]",
        "multiplies T0 from 16 on by T1 from 32 on along K"),
    "tensor memory: the other half of the columns": (
        "tensor memory", "T4[stage_tile2, 0, chunk * 32]", "T4[stage_tile2, 0, 0]",
        "T5[0, 32] gets column 0 of T1"),
    "numbers of the other warpgroup's rows": (
        "added", "(Mo * 128 + group * 64)", "(Mo * 128 + (1 - group) * 64)",
        "T5[0, 64, 0] gets row 0 of T0"),
    "rows that are added by no number": (
        "added", "index=rows, ", "", "T5[0, 0, 0] gets row 64 of T0"),
    "rows are added without the last step": (
        "added", "let n_k: i32 = ceildiv(K, 32)", "let n_k: i32 = K // 32", "of K of T0 and T1"),
    "another chunk at a chunk's columns": (
        "added later", "t1122_held, limit", "t1123_held, limit",
        "T5[0, 0, 0] gets column 16 of T1"),
}  # fmt: skip


def text_of(name: str) -> str:
    if name == "batch":
        made = compile_fusion(import_fusion(batched()), SCHEDULES["coop_128x128"]).kernel
    elif name == "columns of groups":
        vector = SupportedVectorization(1)
        params = replace(SCHEDULES["dynamic"], use_smem_epilogue=False, supported_vec_size=vector)
        made = compile_fusion(import_fusion(grouped(ranks=FORMS["columns"])), params).kernel
    elif name == "parts of K":
        params = parallel_split(cooperative(64, 16, 16, groups=1, registers=None), 2)
        made = compile_fusion(import_fusion(definition()), params).kernel
    elif name == "tensor memory":
        made = final()
    elif name in ADDED:
        made = ADDED[name]()
    else:
        made = subject(name).kernel
    return print_kernel(made)


def claim(kernel: Kernel) -> Obligation:
    """What is found out about the operands of a kernel's results."""
    (found,) = (o for o in circles(kernel, agents(kernel)) if o.name == "operands")
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", in_tiers(MOVED, [*MOVED][::3]))
def test_moved(fault: str) -> None:
    """Proved as it is; refuted at a size that is named once it is moved."""
    kernel, before, after, said = MOVED[fault]
    text = text_of(kernel)
    assert before in text
    assert claim(parse_kernel(text)).verdict is Verdict.PROVED
    found = claim(parse_kernel(text.replace(before, after)))
    assert found.verdict is Verdict.REFUTED
    assert found.why.startswith("at ") and said in found.why
