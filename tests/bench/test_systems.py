"""Names of the systems, and what a peer that is not there says."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lowering.ground.errors import ScheduleError, UnsupportedError
from wsched.bench.method.operands import Operands, distance
from wsched.bench.peers.cutlass import EXAMPLE, _example
from wsched.bench.peers.systems import Skip, is_own, parse_peers, plain, prepare
from wsched.bench.problem import DTYPES, LAYOUTS, Problem, Shape, definition_text
from wsched.importer import build_fusion, record_text
from wsched.schedule.matmul.params import ClusterDims, MatmulParams, TilingStrategy

PROBLEM = Problem(Shape(8, 8, 8))


def test_parse_peers() -> None:
    assert parse_peers("triton, nvfuser-pingpong") == ("cublas", "triton", "nvfuser-pingpong")
    assert parse_peers("") == ("cublas",)


def test_unknown_peer() -> None:
    with pytest.raises(UnsupportedError) as error:
        parse_peers("cublass")
    assert str(error.value) == (
        "the peer 'cublass' is not supported; supported: "
        "cublas, nvfuser, nvfuser-cooperative, nvfuser-pingpong, nvfuser-wsched, nvfuser-plugin, "
        "triton, cutlass"
    )


def test_own() -> None:
    assert [is_own(n) for n in ("wsched", "wsched:x", "wschedx", "cublas")] == [1, 1, 0, 0]


PACKAGES = {"nvfuser": "nvfuser_direct", "triton": "triton", "cutlass": "cutlass"}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the peers' packages imported again; what they left in ``sys.modules`` comes back."""
    for name in list(sys.modules):
        if name.partition(".")[0] in PACKAGES.values() or name.startswith("wsched.bench.peer_"):
            monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("peer", PACKAGES)
def test_peer_that_is_not_installed(
    peer: str, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[peer], None)  # type: ignore[arg-type]
    with pytest.raises(Skip) as skip:
        prepare(peer, None, PROBLEM, None, None)
    assert str(skip.value) == f"not installed: there is no module {PACKAGES[peer]}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import not_there.at_all", "there is no module not_there"),
        ("import PACKAGE.inner", "there is no module PACKAGE.inner"),
        ("raise ImportError('lib.so: cannot open')", "lib.so: cannot open"),
        ("raise ImportError('it has no x', name='there')", "it has no x"),
        ("raise ModuleNotFoundError('gone')", "gone"),
    ],
)
@pytest.mark.parametrize("peer", PACKAGES)
def test_peer_that_is_broken(
    peer: str, text: str, why: str, fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = PACKAGES[peer]
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(text.replace("PACKAGE", package))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError) as error:
        prepare(peer, None, PROBLEM, None, None)
    why = why.replace("PACKAGE", package)
    assert str(error.value) == f"{package} is installed, but cannot be imported: {why}"


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


def test_cutlass_example_that_imports_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not what has the name of one elsewhere."""
    other, own = tmp_path / "other", tmp_path / "own"
    for folder in (other, own):
        folder.mkdir()
        (folder / "its_neighbour.py").write_text(
            f"class HopperWgmmaGemmPersistentKernel: of = {folder.name!r}\n"
        )
    monkeypatch.setattr(sys, "path", [str(other), *sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    (own / "example.py").write_text("from its_neighbour import HopperWgmmaGemmPersistentKernel\n")
    assert _example(str(own / "example.py")).HopperWgmmaGemmPersistentKernel.of == "own"


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


def operands(problem: Problem) -> tuple[Any, Any, Any]:
    pytest.importorskip("torch")
    return Operands(problem, 1, 0, "cpu").sets[0]


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["wsched", "cublas"])
def test_every_layout_and_type(name: str, layout: str, dtype: str) -> None:
    problem = Problem(Shape(136, 264, 72), dtype, layout)
    a, b, d = operands(problem)
    assert (a.stride(1) == 1, b.stride(1) == 1) == (problem.a_k_major, problem.b_k_major)
    prepared = prepare(name, None, problem, a, b)
    assert prepared.launch(a, b, d) is d
    limit = problem.tolerance
    assert distance(d, a.float() @ b.float().t(), limit).complaint(limit) == ""


def test_what_wsched_chose_is_kept() -> None:
    a, b, _ = operands(PROBLEM)
    details = prepare("wsched", None, PROBLEM, a, b).details
    assert MatmulParams.from_dict(details["params"]).to_dict() == details["params"]
    assert details["resources"]


@pytest.mark.parametrize(
    ("params", "kind", "message"),
    [
        ({"mma_macro": {"n": 20}}, ScheduleError, r"^ScheduleError\["),
        ({"use_ldst_matrix": False}, UnsupportedError, "is not supported; supported: "),
    ],
)
def test_wsched_that_refuses(params: dict[str, Any], kind: type[Exception], message: str) -> None:
    a, b, _ = operands(PROBLEM)
    with pytest.raises(kind, match=message):
        prepare("wsched:x", params, PROBLEM, a, b)


class NvFuser:
    """As much of ``nvfuser_direct`` as the peer uses; it refuses everything, like the real one
    when it compiles.
    """

    class DataType:
        BFloat16 = "bf16"

    class FusionDefinition:
        def __init__(self) -> None:
            self.ops = SimpleNamespace(linear=lambda a, b: None)
            self.orders: list[object] = []

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def define_tensor(self, **words: Any) -> None:
            self.orders.append(words.get("stride_order"))

        def add_output(self, tensor: Any) -> None:
            pass

        def execute(self, inputs: Any, **words: Any) -> Any:
            raise RuntimeError(f"no scheduler for stride orders {self.orders}\nC++ stack")


def test_layout_that_nvfuser_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvfuser_direct", NvFuser)  # type: ignore[arg-type]
    with pytest.raises(Skip) as skip:
        prepare("nvfuser", None, Problem(Shape(8, 8, 8), layout="nn"), None, None)
    assert str(skip.value) == "no scheduler for stride orders [[0, 1], None]"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nvfuser_is_asked_for_every_layout_and_type(layout: str, dtype: str) -> None:
    nvfuser = pytest.importorskip("nvfuser_direct")
    from wsched.bench.peers.nvfuser import linear

    problem = Problem(Shape(8, 8, 8), dtype, layout)
    fusion = build_fusion(record_text(repr(linear(nvfuser, problem))))
    assert fusion == build_fusion(record_text(definition_text(problem)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_triton_compiles_in_every_layout(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = pytest.importorskip("triton.compiler")
    target = pytest.importorskip("triton.backends.compiler").GPUTarget("cuda", 90, 32)
    from wsched.bench.peers import triton as peer

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    problem = Problem(Shape(8, 8, 8), "fp16", layout)
    m, n, k = peer._TILE_M, peer._TILE_N, peer._TILE_K
    a = [m, k] if problem.a_k_major else [k, m]
    b = [n, k] if problem.b_k_major else [k, n]
    boxes = {"a_map": a, "b_map": b, "d_map": [m, n // 2]}
    constants = {"A_K_MAJOR": problem.a_k_major, "B_K_MAJOR": problem.b_k_major}
    constants |= {"TILE_M": m, "TILE_N": n, "TILE_K": k, "GROUP_M": peer._GROUP_M}
    signature = {name: f"tensordesc<fp16{box}>" for name, box in boxes.items()}
    signature |= dict.fromkeys("MNK", "i32") | dict.fromkeys(constants, "constexpr")
    places = {name: (list(signature).index(name),) for name in constants}
    source = compiler.ASTSource(
        peer._KERNEL, signature, {places[name]: value for name, value in constants.items()}
    )
    options = {"num_warps": peer._WARPS, "num_stages": peer._STAGES}
    made = compiler.compile(source, target=target, options=options)
    assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16" in made.asm["ptx"]
    assert made.metadata.shared <= 227 * 1024


def test_a_schedule_under_its_own_name() -> None:
    """``bench schedules`` gives each schedule the name of its kernel."""
    torch = pytest.importorskip("torch")
    a, b = (torch.ones(rows, 32, dtype=torch.bfloat16) for rows in (64, 96))
    params = MatmulParams().to_dict()
    made = prepare("128x256x64_cooperative", params, Problem(Shape(64, 96, 32)), a, b)
    assert made.details["params"]["tile_sizes"] == params["tile_sizes"]
