"""Ratios of several processes, and their JSON form."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.bench.fakes import process
from wsched.bench.gemm.results import Cell, check_path, from_json, save, summarize, to_json
from wsched.bench.problem import Shape

BIG, SMALL = Shape(8192, 8192, 8192), Shape(4096, 3584, 512)
SYSTEMS = ["cublas", "triton", "nvfuser", "wsched"]
SKIPPED = ("skipped", "not installed")


def runs() -> list[dict[str, Any]]:
    # The processes' medians for wsched at BIG: 1.0, 1.1 and 1.3 of cuBLAS.
    return [
        process(
            {
                BIG: {
                    "cublas": [1600.0, 1700.0, 1800.0],
                    "triton": [1600 / 1.2, 1700 / 1.2, 1800 / 1.2],
                    "nvfuser": SKIPPED,
                    "wsched": [1600 / ratio, 1700 / ratio, 1800 / ratio],
                },
                SMALL: {
                    "cublas": [20.0],
                    "triton": ("wrong", "wrong result"),
                    "nvfuser": SKIPPED,
                    "wsched": [25.0],
                },
            }
        )
        for ratio in (1.0, 1.1, 1.3)
    ]


def test_ratio_is_the_median_of_the_processes() -> None:
    cell = summarize([BIG, SMALL], SYSTEMS, runs()).cells[BIG, "wsched"]
    assert cell.ratio is not None and cell.tflops is not None
    assert cell.ratio.median == pytest.approx(1.1)
    assert (cell.ratio.low, cell.ratio.high) == pytest.approx((1.0, 1.3))
    assert cell.best_peer == pytest.approx(1.1 / 1.2)
    assert cell.tflops.median == pytest.approx(BIG.tflops(1600 / 1.1), rel=0.1)


def test_wrong_and_skipped_peers_do_not_count() -> None:
    summary = summarize([BIG, SMALL], SYSTEMS, runs())
    assert summary.cells[SMALL, "triton"] == Cell("wrong", "wrong result")
    assert summary.cells[SMALL, "nvfuser"] == Cell("skipped", "not installed")
    assert summary.cells[SMALL, "wsched"].best_peer == pytest.approx(0.8)
    assert summary.mean_ratio("triton") == pytest.approx((1.2, 1))
    assert summary.mean_ratio("nvfuser") is None
    assert summary.mean_ratio("wsched") == pytest.approx(((1.1 * 0.8) ** 0.5, 2))


def test_one_failure_in_one_process_shows() -> None:
    parts = [
        process({BIG: {"cublas": [10.0], "wsched": [10.0]}}),
        process({BIG: {"cublas": [10.0], "wsched": ("wrong", "off")}}),
    ]
    summary = summarize([BIG], ["cublas", "wsched"], parts)
    assert summary.cells[BIG, "wsched"] == Cell("wrong", "off")


def test_a_shape_that_a_process_did_not_reach() -> None:
    parts = [
        process({BIG: {"cublas": [10.0], "wsched": [8.0]}}),
        process({}) | {"complete": False},
    ]
    summary = summarize([BIG, SMALL], ["cublas", "wsched"], parts)
    ratio = summary.cells[BIG, "wsched"].ratio
    assert ratio is not None and ratio.median == 1.25
    assert summary.cells[SMALL, "wsched"] == Cell("missing", "the run ended before it")
    assert summary.mean_ratio("wsched") == (pytest.approx(1.25), 1)


@pytest.mark.parametrize(
    ("system", "status", "broken"),
    [
        ("wsched", "failed", True),
        ("wsched", "wrong", True),
        ("wsched:x", "failed", True),
        ("cublas", "failed", True),
        ("wsched", "skipped", False),
        ("triton", "failed", False),
    ],
)
def test_what_breaks_a_run(system: str, status: str, broken: bool) -> None:
    good = {"cublas": [10.0], "triton": [9.0], "wsched": [8.0], "wsched:x": [8.0]}
    parts = [process({BIG: good | {system: (status, "why")}})]
    assert summarize([BIG], list(good), parts).broken is broken


def test_json_round_trip() -> None:
    summary = summarize([BIG, SMALL], SYSTEMS, runs())
    data = json.loads(json.dumps(to_json({"dtype": "bf16"}, "method", runs(), summary)))
    again, processes = from_json(data)
    assert again == summary
    assert processes == json.loads(json.dumps(runs()))
    assert data["summary"]["geometric_mean"]["nvfuser"] is None
    assert data["summary"]["geometric_mean_best_peer"]["wsched"]["shapes"] == 2


def test_another_schema() -> None:
    with pytest.raises(UnsupportedError) as error:
        from_json({"schema": "x"})
    assert str(error.value) == (
        "a file with schema 'x' is not supported; supported: wsched.bench.gemm/2"
    )


def test_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f.json"
    save(file, {"runs": 1})

    def full(handle: int) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(os, "fsync", full)
        save(file, {"runs": 2})
    assert json.loads(file.read_text()) == {"runs": 1}
    with file.open() as reader:
        save(file, {"runs": 3})
        assert json.load(reader) == {"runs": 1}  # who has it open sees all of the former state
    assert json.loads(file.read_text()) == {"runs": 3}
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "f.json")
    save(tmp_path / "link", {})
    assert (tmp_path / "link").is_symlink() and (tmp_path / "f.json").read_text() == "{}\n"


@pytest.mark.parametrize(
    ("name", "supported"), [("", "a file"), ("no/f", "a file in a folder that can be written")]
)
def test_a_path_that_cannot_be_written(tmp_path: Path, name: str, supported: str) -> None:
    check_path(tmp_path / "new.json")
    with pytest.raises(UnsupportedError) as error:
        check_path(tmp_path / name)
    assert str(error.value) == f"--json {tmp_path / name} is not supported; supported: {supported}"
