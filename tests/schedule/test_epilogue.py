"""Schedules of fusions with an epilogue: loop nests, the caches of inputs and results, legality."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.epilogues import GELU, RESIDUAL, TWO_OUTPUTS, epilogue
from tests.schedule.fusions import CLASSES, COOPERATIVE, linear
from tests.schedule.relation import load_relation
from wsched.fusion import Fusion, MemoryType, PointwiseOp, inputs_of, rewire
from wsched.importer import build_fusion, record_text
from wsched.schedule import (
    CircularBufferOptions,
    MatmulParams,
    loops_text,
    replay,
    schedule_matmul,
)
from wsched.schedule.graph import TransformGraph

THREE_STAGES = replace(
    COOPERATIVE, circular_buffer_options=CircularBufferOptions(smem_circular_buffer_stage=3)
)
TEXTS = {"gelu": GELU, "residual": RESIDUAL, "two_outputs": TWO_OUTPUTS}


def fusion(name: str) -> Fusion:
    return build_fusion(record_text(TEXTS[name]))


@pytest.mark.parametrize("name", TEXTS)
def test_loops(name: str, golden: object) -> None:
    assert loops_text(schedule_matmul(fusion(name), THREE_STAGES)) == golden


@pytest.mark.parametrize("params", CLASSES)
def test_the_load_relation_does_not_depend_on_the_epilogue(params: str) -> None:
    plain = load_relation(schedule_matmul(linear(), CLASSES[params]))
    found = load_relation(schedule_matmul(fusion("gelu"), CLASSES[params]))
    assert (found.warpgroups, found.cooperative) == (plain.warpgroups, plain.cooperative)
    assert [s.domain.label for s in found.steps] == [s.domain.label for s in plain.steps]


def test_every_tensor_of_the_epilogue_shares_the_chunk_loop() -> None:
    f = schedule_matmul(fusion("gelu"), COOPERATIVE)
    graph = TransformGraph(f)
    after = f.exprs[f.exprs.index(f.mmas[0]) + 1 :]
    chunks = {graph.group(d) for e in after for d in f.tensor(e.output).loop if d.label == "chunk"}
    assert len(chunks) == 1
    for e in after:
        t = f.tensor(e.output)
        labels = [d.label for d in t.loop]
        position = labels.index("chunk") + 1
        assert t.compute_at >= position or not f.uses(t.name)


@pytest.mark.parametrize(
    "params", [replace(COOPERATIVE, epilogue_input_stages=0), CLASSES["pipelined"]]
)
def test_matrices_are_read_into_registers(params: MatmulParams) -> None:
    """If they are not to be loaded by TMA, or if there is no load warpgroup to do it."""
    f = schedule_matmul(fusion("residual"), params)
    (reader,) = f.uses("T2")
    assert str(reader) == "Set(T2)"
    assert f.tensor(reader.output).memory is MemoryType.Local


@pytest.mark.parametrize(("dtype", "read"), [("BFloat16", "LdMatrix"), ("Float", "Set")])
def test_matrices_are_loaded_through_shared_memory(dtype: str, read: str) -> None:
    text = epilogue(f"r: [-1, -1] {dtype}", "s = fd.ops.add(y, r)", "d = fd.ops.cast(s, "
                    "dtype=DataType.BFloat16)")  # fmt: skip
    f = schedule_matmul(build_fusion(record_text(text)), THREE_STAGES)
    (load,) = f.uses("T2")
    assert str(load) == "CpAsyncBulkTensorTile(T2)"
    assert f.tensor(load.output).memory is MemoryType.Shared
    (reader,) = f.uses(load.output)
    assert str(reader) == f"{read}({load.output})"
    assert f.tensor(reader.output).memory is MemoryType.Local


def test_rows_columns_and_scalars_are_not_loaded_by_tma() -> None:
    f = schedule_matmul(fusion("gelu"), COOPERATIVE)
    assert len(f.loads) == 2


def test_a_history_can_be_replayed() -> None:
    f = schedule_matmul(fusion("two_outputs"), THREE_STAGES)
    assert replay(fusion("two_outputs"), f.history) == f


def test_broadcasts_are_mapped_to_what_they_are_added_to() -> None:
    f = fusion("gelu")
    graph = TransformGraph(f)
    row, total = f.tensor("T5"), f.tensor(f.mmas[0].output)
    assert [graph.group(d) for d in row.logical] == [graph.group(d) for d in total.stored]


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (PointwiseOp("T5", "add", ("T4", "T3")), "T4 + T3"),
        (PointwiseOp("T5", "mul", ("T4", 0.044715)), "T4 * double(0.044714999999999998)"),
        (PointwiseOp("T5", "neg", ("T4",)), "-T4"),
        (PointwiseOp("T5", "logical_not", ("T4",)), "!T4"),
        (PointwiseOp("T5", "where", ("T4", "T3", 0.0)), "where(T4, T3, double(0))"),
    ],
)
def test_text(e: PointwiseOp, text: str) -> None:
    assert str(e) == text


def test_an_expression_names_each_input_once() -> None:
    e = PointwiseOp("T5", "mul", ("T4", "T4"))
    assert inputs_of(e) == ("T4",)
    assert rewire(e, "T4", "T9") == replace(e, inputs=("T9", "T9"))


def test_results_of_different_types_have_chunks_of_the_widest() -> None:
    text = epilogue("d = fd.ops.tanh(y)", outputs="y d")
    f = schedule_matmul(build_fusion(record_text(text)), replace(COOPERATIVE, epilogue_stages=1))
    boxes = [
        [str(d.extent) for d in f.tensor(b.tensor).loop if d.parallel.name == "Bulk"]
        for b in f.outputs
    ]
    assert boxes == [["64", "32"], ["64", "32"]]
