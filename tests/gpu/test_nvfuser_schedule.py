"""nvFuser's kernels with wsched's parameters, and with its plugin, on a real GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lowering.ground.errors import UnsupportedError
from tests.nvfuser.cases import ASKED, COOPERATIVE, ROUND_TRIPS, linear

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def nvf() -> Any:
    return pytest.importorskip("nvfuser_direct")


def matrices(m: int, n: int, k: int, layout: str = "tn") -> list[Any]:
    import torch

    generator = torch.Generator(device="cuda").manual_seed(m + n + k)

    def matrix(rows: int, k_major: bool) -> Any:
        sizes = (rows, k) if k_major else (k, rows)
        made = torch.randint(-2, 3, sizes, generator=generator, device="cuda").bfloat16()
        return made if k_major else made.T

    return [matrix(m, layout[0] == "t"), matrix(n, layout[1] == "n")]


def right(result: Any, a: Any, b: Any) -> bool:
    """Small integers: the sums are exact, only the result is rounded."""
    wanted = (a.double() @ b.double().T).to(result.dtype)
    return bool((result == wanted).all())


@pytest.mark.parametrize("case", ASKED, ids=str)
def test_wscheds_choice(nvf: Any, case: tuple[Any, ...]) -> None:
    import wsched.nvfuser

    shape, layout = case[0], case[1] if len(case) > 1 else "tn"
    a, b = matrices(*shape, layout)
    fd = linear(nvf, layout, case[2] if len(case) > 2 else "")
    done = wsched.nvfuser.schedule(fd, [a, b])
    (result,) = done.execute([a, b])
    assert right(result, a, b)
    (own,) = fd.execute([a, b])  # the caller's definition is as it was
    assert (own.shape, own.stride(), own.dtype) == (result.shape, result.stride(), result.dtype)


# nvFuser's own ping-pong kernel has a race (design/performance.md).
RIGHT = sorted(set(ROUND_TRIPS) - {"ping-pong"})


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("shape", [(4096, 4096, 256), (768, 1280, 1024)], ids=str)
def test_parameters(nvf: Any, name: str, shape: tuple[int, int, int]) -> None:
    import wsched.nvfuser
    from wsched.nvfuser.params import read_fields

    a, b = matrices(*shape)
    done = wsched.nvfuser.schedule(linear(nvf), [a, b], ROUND_TRIPS[name])
    assert read_fields(done.live) == done.fields
    assert right(done.execute([a, b])[0], a, b)


def test_an_epilogue(nvf: Any) -> None:
    import torch

    import wsched.nvfuser

    a, b = matrices(1024, 768, 512)
    residual = torch.randint(-2, 3, (1024, 768), device="cuda").bfloat16()
    bf16, f32 = nvf.DataType.BFloat16, nvf.DataType.Float
    with nvf.FusionDefinition() as fd:
        x, w, r = (
            fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=bf16) for _ in range(3)
        )
        y = fd.ops.add(fd.ops.cast(fd.ops.linear(x, w), dtype=f32), fd.ops.cast(r, dtype=f32))
        fd.add_output(fd.ops.cast(fd.ops.relu(y), dtype=bf16))
    (result,) = wsched.nvfuser.schedule(fd, [a, b, residual]).execute([a, b, residual])
    wanted = torch.relu(a.double() @ b.double().T + residual.double()).bfloat16()
    assert bool((result == wanted).all())


def test_odd_sizes_store_from_registers(nvf: Any) -> None:
    import wsched.nvfuser

    a, b = matrices(200, 324, 256)
    done = wsched.nvfuser.schedule(linear(nvf), [a, b])
    assert not done.params.use_smem_epilogue
    assert right(done.execute([a, b])[0], a, b)


def test_a_program_with_the_plugin(nvf: Any, tmp_path: Path) -> None:
    """nvFuser's executor in a process of its own: the kernel has the plugin's tile and is right."""
    from wsched.nvfuser.plugin import VARIABLE, build_plugin

    try:
        built = build_plugin(tmp_path, "test")
    except UnsupportedError as e:
        pytest.skip(str(e))
    program = (
        "import torch, json, nvfuser_direct as nvf\n"
        "from tests.nvfuser.cases import linear\n"
        "from tests.gpu.test_nvfuser_schedule import matrices, right\n"
        "from wsched.nvfuser.params import read_fields\n"
        "a, b = matrices(4096, 3584, 512)\n"
        "kind = nvf.SchedulerType.matmul\n"
        "params = nvf.schedule.compute_heuristics(linear(nvf).fusion, kind, [a, b])\n"
        "(d,) = linear(nvf).execute([a, b], _enable_options=['fuse_matmul'],\n"
        "                           _disable_options=['matmul_expr_eval'])\n"
        "print(json.dumps([read_fields(params)['cta_tile'], right(d, a, b)]))\n"
    )
    environment = {**os.environ, VARIABLE: str(built.path), "NVFUSER_ENABLE": "fuse_matmul"}
    here, before = str(Path(__file__).resolve().parents[2]), environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([here, *([before] if before else [])])
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[128, 128, 128], True]


def test_a_cluster_of_two(nvf: Any) -> None:
    """Both directions, with the traversal that the choice uses."""
    import wsched.nvfuser
    from wsched.schedule.matmul.params import ClusterDims

    a, b = matrices(4096, 4096, 512)
    for cluster in (ClusterDims(1, 2), ClusterDims(2, 1)):
        params = replace(COOPERATIVE, cluster_dims=cluster, grid_traversal_factor=(8, 1))
        done = wsched.nvfuser.schedule(linear(nvf), [a, b], params)
        assert right(done.execute([a, b])[0], a, b)
