"""Names of the systems, and what a peer that is not there says."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import pytest

from lowering.errors import UnsupportedError
from wsched.bench.gpu import distance
from wsched.bench.peer_cutlass import EXAMPLE, _example
from wsched.bench.problem import Problem, Shape
from wsched.bench.systems import Skip, is_own, parse_peers, plain, prepare
from wsched.schedule.params import ClusterDims, MatmulParams, TilingStrategy

PROBLEM = Problem(Shape(8, 8, 8))


def test_parse_peers() -> None:
    assert parse_peers("triton, nvfuser-pingpong") == ("cublas", "triton", "nvfuser-pingpong")
    assert parse_peers("") == ("cublas",)


def test_unknown_peer() -> None:
    with pytest.raises(UnsupportedError) as error:
        parse_peers("cublass")
    assert str(error.value) == (
        "the peer 'cublass' is not supported; supported: "
        "cublas, nvfuser, nvfuser-cooperative, nvfuser-pingpong, triton, cutlass"
    )


def test_own() -> None:
    assert [is_own(n) for n in ("wsched", "wsched:x", "wschedx", "cublas")] == [1, 1, 0, 0]


@pytest.mark.parametrize("peer", ["nvfuser", "triton", "cutlass"])
def test_peer_that_is_not_installed(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name in ("nvfuser_direct", "wsched.bench.peer_triton", "cutlass"):
            raise ImportError(f"No module named {name!r}")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(Skip, match=r"^not installed: No module named '"):
        prepare(peer, None, PROBLEM, None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "set WSCHED_BENCH_CUTLASS to dense_gemm_persistent.py of a CUTLASS checkout"),
        ("/no/x.py", "WSCHED_BENCH_CUTLASS=/no/x.py: there is no such file"),
    ],
)
def test_cutlass_example(text: str, message: str) -> None:
    with pytest.raises(Skip) as skip:
        _example(text)
    assert str(skip.value) == message
    assert EXAMPLE == "WSCHED_BENCH_CUTLASS"


def test_cutlass_example_without_the_kernel(tmp_path: Any) -> None:
    file = tmp_path / "other.py"
    file.write_text("x = 1\n")
    with pytest.raises(Skip) as skip:
        _example(str(file))
    assert str(skip.value) == (
        f"WSCHED_BENCH_CUTLASS={file}: it has no HopperWgmmaGemmPersistentKernel"
    )


@dataclass(frozen=True)
class Resources:
    registers: int
    cluster: ClusterDims


def test_plain() -> None:
    value = {"r": Resources(168, ClusterDims(2, 1)), 1: (TilingStrategy.OneTilePerCTA, None, 0.5)}
    assert plain(value) == {
        "r": {"registers": 168, "cluster": {"m": 2, "n": 1}},
        "1": ["OneTilePerCTA", None, 0.5],
    }


def test_wsched_itself() -> None:
    torch = pytest.importorskip("torch")
    draw = torch.Generator().manual_seed(0)
    problem = Problem(Shape(136, 264, 72))
    a, b = (torch.randn(n, 72, generator=draw).bfloat16() for n in (136, 264))
    d = torch.full((136, 264), float("nan")).bfloat16()
    prepared = prepare("wsched", None, problem, a, b)
    result = prepared.launch(a, b, d)
    assert result is d
    assert distance(d, a.float() @ b.float().t(), 4e-3).complaint(4e-3) == ""
    params = prepared.details["params"]
    assert MatmulParams.from_dict(params).to_dict() == params
    assert prepared.details["resources"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mma_macro": {"n": 20}}, r"^ScheduleError\["),
        ({"splitk_factor": 2}, "is not supported; supported: "),
    ],
)
def test_wsched_that_refuses(params: dict[str, Any], message: str) -> None:
    torch = pytest.importorskip("torch")
    a = b = torch.zeros(8, 8).bfloat16()
    with pytest.raises(Skip, match=message):
        prepare("wsched:x", params, PROBLEM, a, b)
