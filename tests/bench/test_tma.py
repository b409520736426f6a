"""``wsched bench tma``: its kernel on the machine, its cases, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from typer.testing import CliRunner

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import print_kernel
from lowering.machine.run import run_kernel
from tests.bench.fakes import FakeSampler
from wsched.bench.cli import app
from wsched.bench.tma import command
from wsched.bench.tma.gathers import GatherCase
from wsched.bench.tma.kernel import LINES, Copies, ring_kernel
from wsched.bench.tma.measure import BANDS, Case, Figure, GpuRing, cases, measure, tables


@pytest.mark.parametrize(
    "copies", [Copies(128, 128, 256, 1), Copies(32, 32, 0, 2), Copies(256, 0, 128, 4)]
)
def test_the_kernel(copies: Copies, golden: object) -> None:
    """Rings that one CTA fills, with lines swizzled, two, and four with lines as they are."""
    assert print_kernel(ring_kernel(copies)) == golden


@pytest.mark.parametrize(
    "copies", [Copies(128, 128, 256, 1), Copies(32, 32, 0, 2), Copies(256, 0, 128, 4)]
)
def test_every_cta_receives_its_bands(copies: Copies) -> None:
    columns, ctas, rounds = 3 * copies.columns + 8, 2 * copies.cluster, 7
    tensor = np.zeros((5 * LINES + 3, columns), np.uint16)
    params = {"M": len(tensor), "K": columns, "rounds": rounds, "share": copies.cluster}
    found = run_kernel(ring_kernel(copies), {"T": tensor}, params, ctas)
    assert found.counts["tma.load"] == ctas * rounds * 3
    # Each copy is a share of a stage, which reaches every CTA of the cluster.
    assert 3 * rounds > copies.stages


def test_the_code_is_the_same_for_every_promotion() -> None:
    texts = {emit_cuda(ring_kernel(Copies(64, 64, p, 2))) for p in (0, 256)}
    assert len(texts) == 1
    assert "0 bytes spill stores" in compile_cubin(texts.pop()).log


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ((128, 48, 0, 1), "a swizzle of 48 is not supported; supported: 0, 16, 32, 64, 128"),
        (
            (256, 128, 0, 1),
            "lines of 256 bytes with a swizzle of 128 is not supported; supported: multiples of "
            "16 up to 128",
        ),
        ((64, 64, 32, 1), "a promotion of 32 is not supported; supported: 0, 64, 128, 256"),
        ((64, 64, 64, 3), "a cluster of 3 is not supported; supported: 1, 2, 4, 8"),
    ],
)
def test_copies_that_do_not_exist(wrong: tuple[int, int, int, int], told: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        Copies(*wrong)
    assert str(error.value) == told


def test_cases() -> None:
    every = list(cases())
    assert {c.columns * 2 % 128 for c in every} == {16, 32, 64, 0}
    assert all(c.share % c.copies.cluster == 0 for c in every)
    assert all(15 << 20 < c.cta_bytes <= 16 << 20 for c in every)
    l2, memory = (BANDS[s] * LINES * 1168 for s in ("l2", "memory"))
    assert l2 < 50 << 20 and memory > 15 * (60 << 20)


def test_figures() -> None:
    case = Case("l2", 16, 8, Copies(128, 128, 256, 2))
    (figure,) = measure(lambda c: ([30.0, 10.0, 20.0], 128), [case])
    assert figure.us == 20.0
    assert figure.tb_per_s == pytest.approx(128 * case.cta_bytes / 20e-6 / 1e12)
    assert figure.to_dict() | {"tb_per_s": 0} == {
        "source": "l2", "align": 16, "share": 8, "width": 128, "swizzle": 128, "promotion": 256,
        "cluster": 2, "us": 20.0, "ctas": 128, "tb_per_s": 0,
    }  # fmt: skip
    (made,) = tables([figure])
    assert made.row_count == 1 and "for 8 CTAs" in str(made.title)
    cells = [next(iter(c.cells)) for c in made.columns]
    assert cells[:3] == ["128", "128", "2"]
    assert [c for c in cells[3:] if c != "–"] == [f"{figure.tb_per_s:.2f}"]
    assert made.columns[6].header == "16 (256)" and cells[6] != "–"


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["tma", *words], env={"COLUMNS": "250"})
    return result.exit_code, result.output


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU on which every copy takes as long."""

    class Gpu:
        uuid = ""

        def __init__(self, seed: int) -> None:
            pass

        def describe(self) -> dict[str, str]:
            return {"name": "fake"}

    monkeypatch.setattr(command, "require_gpu", lambda _: None)
    monkeypatch.setattr(command, "CudaGpu", Gpu)
    monkeypatch.setattr(command, "ClockSampler", lambda uuid: FakeSampler())
    monkeypatch.setattr(command, "GpuRing", lambda: lambda case: ([100.0], 132))


def test_the_command(fake: None) -> None:
    words = ("--source", "l2", "--width", "64", "--align", "16", "--align", "128")
    code, text = invoke(*words, "--json")
    assert code == 0, text
    data = json.loads(text)
    assert data["schema"] == "wsched.bench.tma/1" and data["clocks"]["sm_mhz"] == 1500
    assert len(data["figures"]) == 2 * 3 * 2 * 4
    assert {f["align"] for f in data["figures"]} == {16, 128}
    code, text = invoke(*words)
    assert code == 0 and text.count("TB/s received from l2") == 2, text


def test_the_line_of_the_clocks_is_one_in_a_narrow_terminal(fake: None) -> None:
    words = ["tma", "--source", "l2", "--width", "64", "--align", "16"]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "60"})
    assert result.output.splitlines()[-1] == f"fake; clocks: {FakeSampler().stop()}"


def test_rows_by_index(fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They alone, or where lines of the L2 are asked for."""
    asked: list[int] = []

    def launches(wanted: Sequence[GatherCase]) -> object:
        asked.append(len(wanted))
        return lambda case: ([100.0], [case.stages * 320.0], 132)

    monkeypatch.setattr(command, "GpuGather", launches)
    code, text = invoke("--only", "gather", "--json")
    assert code == 0, text
    data = json.loads(text)
    assert data["figures"] == [] and asked == [len(data["gathers"])]
    assert {g["cycles"] for g in data["gathers"]} == {320.0}
    code, text = invoke("--source", "l2", "--width", "128", "--align", "128")
    assert code == 0 and text.count("TB/s received") == 2, text
    assert text.count("cycles of a stage") == 3 and asked[0] == asked[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--width", "48"), "--width 48 is not supported; supported: 32, 64, 128, 256"),
        (("--only", "rows"), "--only rows is not supported; supported: boxes, gather"),
    ],
)
def test_words_that_are_not_known(words: tuple[str, str], told: str) -> None:
    code, text = invoke(*words)
    assert (code, text.strip()) == (2, told)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    ring = GpuRing()
    wanted = [c for c in cases() if c.source == "l2" and c.align == 128 and c.copies.width == 128]
    figures: list[Figure] = list(measure(ring, wanted[:4]))
    assert all(1 < f.tb_per_s < 40 for f in figures)
