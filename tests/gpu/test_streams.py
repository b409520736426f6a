"""How kernels are launched: streams, CUDA graphs, kernels that are kept, times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wsched
from lowering.cuda.emit import emit_cuda
from lowering.cuda.launch import LoadedKernel, driver_api
from lowering.cuda.nvrtc import compilations, compile_cubin
from lowering.kernel.text import parse_kernel
from tests.schedules import SCHEDULES, definition, parallel_split
from wsched.importer.input_error import InputError

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
FIRST_RESULT_SECONDS = 0.8


def operands(m: int, n: int, k: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """x, w and the exact product, of integers."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(seed)
    x, w = (
        torch.randint(-2, 3, (rows, k), generator=generator, device="cuda").bfloat16()
        for rows in (m, n)
    )
    return x, w, (x.double() @ w.double().T).bfloat16()


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", ["coop_128x256", "pingpong_128x128", "tile_per_cta"])
def test_graph(name: str, parts: int) -> None:
    """Also of a kernel that stores parts of K, in memory that the graph has for itself."""
    import torch

    x, w, _ = operands(520, 776, 264)
    d = torch.empty(520, 776, dtype=torch.bfloat16, device="cuda")
    params = SCHEDULES[name] if parts == 1 else parallel_split(SCHEDULES[name], parts)
    kernel = wsched.compile(definition(), [x, w], params=params)
    for _ in range(2):  # compiled and loaded before the capture
        kernel(x, w, out=[d])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, w, out=[d])
    for seed in range(1, 4):
        new_x, new_w, wanted = operands(520, 776, 264, seed)
        x.copy_(new_x)
        w.copy_(new_w)
        d.fill_(float("nan"))
        graph.replay()
        assert torch.equal(d, wanted)


def test_a_graph_that_allocates_its_result() -> None:
    import torch

    x, w, wanted = operands(136, 264, 72)
    wsched.execute(definition(), [x, w])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (d,) = wsched.execute(definition(), [x, w])
    d.fill_(float("nan"))
    graph.replay()
    assert torch.equal(d, wanted)


CHAIN = ("coop_128x128", "pingpong_64x128", "tile_per_cta", "cluster_2x1")
"""Kernels of all sorts behind each other: grids of different sizes, with and without clusters."""


@pytest.mark.parametrize("rows", [8, 264, 2056])
def test_each_kernel_reads_what_the_one_in_front_wrote(rows: int) -> None:
    """Two buffers in turn, so that each also overwrites what the one in front of it still reads.

    Every step shifts the columns by one. The launches overlap, alone and in a graph, also where a
    kernel that knows nothing of it stands between them.
    """
    import torch

    n = 1024
    shift = torch.eye(n, device="cuda").roll(1, 0).bfloat16().contiguous()
    start = torch.randint(-100, 100, (rows, n), device="cuda").bfloat16()
    even, odd = start.clone(), torch.empty_like(start)
    kernels = [wsched.compile(definition(), [start, shift], params=SCHEDULES[x]) for x in CHAIN]

    def steps(count: int, foreign: bool = False) -> None:
        for i in range(count):
            source, target = (even, odd) if i % 2 == 0 else (odd, even)
            kernels[i // 2 % len(kernels)](source, shift, out=[target])
            if foreign and i % 3 == 0:
                target.neg_()
                target.neg_()

    for foreign in (False, True):
        even.copy_(start)
        steps(200, foreign)
        assert torch.equal(even, start.roll(200, 1))
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        steps(100)
        steps(100, foreign=True)
    for _ in range(5):
        even.copy_(start)
        odd.fill_(float("nan"))
        graph.replay()
        assert torch.equal(even, start.roll(200, 1))


def test_a_graph_whose_branches_join_in_front_of_a_kernel() -> None:
    """A kernel that is launched dependently waits for both streams."""
    import torch

    x, w, wanted = operands(520, 776, 264)
    late = torch.zeros_like(x)
    d, other = torch.empty_like(wanted), torch.empty_like(wanted)
    kernel = wsched.compile(definition(), [x, w], params=SCHEDULES["coop_128x128"])
    kernel(x, w, out=[d])
    torch.cuda.synchronize()
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(5_000_000)
            late.copy_(x)
        kernel(x, w, out=[other])
        torch.cuda.current_stream().wait_stream(side)
        kernel(late, w, out=[d])
    for _ in range(3):
        late.zero_()
        d.fill_(float("nan"))
        graph.replay()
        assert torch.equal(d, wanted)


def test_side_stream() -> None:
    """The kernel waits for what its own stream did before it, though that takes long."""
    import torch

    x, w, wanted = operands(520, 776, 264)
    wsched.execute(definition(), [x, w])
    late = torch.zeros_like(x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(x)
        (d,) = wsched.execute(definition(), [late, w])
    stream.synchronize()
    assert torch.equal(d, wanted)


def test_two_streams_at_once() -> None:
    """The same kernel and another one side by side; the smaller grids share the GPU."""
    import torch

    cases = [operands(520, 776, 264, 1), operands(264, 1032, 520, 2), operands(2056, 2056, 520, 3)]
    names = ["coop_128x128", "pingpong_64x128", "coop_128x128"]
    kernels = [
        wsched.compile(definition(), case[:2], params=SCHEDULES[name])
        for case, name in zip(cases, names, strict=True)
    ]
    results = [torch.empty_like(wanted) for _, _, wanted in cases]
    wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in cases]
    streams = [torch.cuda.Stream() for _ in cases]
    torch.cuda.synchronize()
    for _ in range(50):
        for stream, kernel, case, d, count in zip(
            streams, kernels, cases, results, wrong, strict=True
        ):
            with torch.cuda.stream(stream):
                d.fill_(float("nan"))
                kernel(*case[:2], out=[d])
                count += (d != case[2]).sum()
    torch.cuda.synchronize()
    assert [int(count) for count in wrong] == [0, 0, 0]


SHARES = "stream_k_1_group"
"""Its CTAs wait for each other through counters, and leave parts in a workspace."""


def test_a_stream_with_the_handle_of_one_that_was_destroyed() -> None:
    """What was launched on that one still runs, so its counters are in use."""
    import torch

    driver = driver_api()
    x, w, wanted = operands(136, 264, 65536)
    kernel = wsched.compile(definition(), [x, w], params=SCHEDULES[SHARES])
    results = [torch.full_like(wanted, float("nan")) for _ in range(40)]
    launch = [kernel.bind(x, w, out=d) for d in results]
    launch[0]()
    torch.cuda.synchronize()
    handles = []
    for go in launch:
        _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        handles.append(int(stream))
        with torch.cuda.stream(torch.cuda.ExternalStream(int(stream))):
            go()
        driver.cuStreamDestroy(stream)
    torch.cuda.synchronize()
    print(f"{len(handles)} streams had {len(set(handles))} handles")
    assert all(torch.equal(d, wanted) for d in results)


def test_a_graph_on_two_streams_at_once() -> None:
    """The driver runs the launches of one executable graph one after the other."""
    import torch

    x, w, wanted = operands(136, 264, 16384)
    d = torch.empty_like(wanted)
    kernel = wsched.compile(definition(), [x, w], params=SCHEDULES[SHARES])
    kernel(x, w, out=d)
    torch.cuda.synchronize()
    graph, streams = torch.cuda.CUDAGraph(), [torch.cuda.Stream() for _ in range(2)]
    with torch.cuda.graph(graph):
        for _ in range(10):
            kernel(x, w, out=d)
    d.fill_(float("nan"))
    torch.cuda.synchronize()
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(d, wanted)


def test_memory_of_graphs_that_are_gone_is_given_back() -> None:
    import torch

    x, w, wanted = operands(520, 776, 264)
    d = torch.empty_like(wanted)
    kernel = wsched.compile(definition(), [x, w], params=SCHEDULES[SHARES])
    kernel(x, w, out=d)

    def captured() -> int:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernel(x, w, out=d)
        graph.replay()
        torch.cuda.synchronize()
        del graph
        torch.cuda.empty_cache()
        return int(torch.cuda.memory_allocated())

    used = [captured() for _ in range(160)]
    assert torch.equal(d, wanted)
    assert used[-1] == used[100]  # by then as many buffers are kept as ever


def wrong_behind_a_foreign_kernel(waits: bool) -> int:
    """Ours, a foreign kernel that is launched dependently, ours: how often of 50 times the last one
    does not read what the first has written.

    A foreign kernel that ends without waiting for the grid in front of it breaks the order of its
    stream (design/0011): what then comes of it is measured, not promised.
    """
    import torch

    wait = "griddepcontrol.wait griddepcontrol.launch_dependents" if waits else ""
    foreign = parse_kernel(
        f"""kernel foreign threads 128 cluster 1 dependent grid 1 {{
          global d: f32[64, 8] align 8
          {wait}
          one: frag<f32, 64x8> = frag.fill 1.0
          frag.store_global d[0, 0], one
        }}"""
    )
    between = LoadedKernel(foreign, compile_cubin(emit_cuda(foreign)).cubin)
    other = torch.zeros(64, 8, device="cuda")
    n = 512
    shift = torch.eye(n, device="cuda").roll(1, 0).bfloat16().contiguous()
    x, w, _ = operands(4096, n, 8192)
    first = wsched.compile(definition(), [x, w], params=SCHEDULES["coop_128x128"])
    second = wsched.compile(definition(), [x, shift], params=SCHEDULES["coop_128x64"])
    middle, last = (torch.empty(4096, n, device="cuda").bfloat16() for _ in range(2))
    first(x, w, out=middle)
    (exact,) = second(middle, shift)
    wrong = 0
    for _ in range(50):
        middle.fill_(float("nan"))
        first(x, w, out=middle)
        between.launch({"d": other}, {}, 1)
        second(middle, shift, out=last)
        wrong += not torch.equal(last, exact)
    return wrong


def test_a_foreign_kernel_that_is_launched_dependently() -> None:
    assert not wrong_behind_a_foreign_kernel(waits=True)


def test_a_new_shape_compiles_nothing() -> None:
    import torch

    params = SCHEDULES["coop_128x128"]
    x, w, _ = operands(136, 264, 72)
    wsched.execute(definition(), [x, w], params=params)
    before = compilations()
    for m, n, k in ((8, 8, 8), (1000, 72, 4096), (4096, 4096, 64), (137, 264, 72)):
        x, w, wanted = operands(m, n, k)
        (d,) = wsched.execute(definition(), [x, w], params=params)
        assert torch.equal(d, wanted)
    assert compilations() == before


def test_inputs_on_two_devices() -> None:
    x, w, _ = operands(8, 8, 8)
    with pytest.raises(InputError) as caught:
        wsched.execute(definition(), [x, w.cpu()])
    assert str(caught.value) == "inputs are on cpu and cuda:0, not on one device"


FIRST = """
import json, time, torch
import cuda.bindings.driver, cuda.bindings.nvrtc
import lowering.cuda.emit, lowering.cuda.launch, lowering.cuda.sass
import wsched.front.api
from tests.schedules import definition
try:
    import nvfuser_direct as nvf
except ImportError:
    nvf = None
x, w = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
torch.cuda.synchronize()
begin = time.perf_counter()
if nvf is None:
    fd = definition()
else:
    with nvf.FusionDefinition() as fd:
        tensors = [fd.from_pytorch(t) for t in (x, w)]
        fd.add_output(fd.ops.linear(*tensors))
kernel = wsched.front.api.compile(fd, [x, w])
source = kernel.source
python = time.perf_counter() - begin
kernel(x, w)
torch.cuda.synchronize()
total = time.perf_counter() - begin
print(json.dumps({"python": python, "total": total, "nvfuser": nvf is not None}))
"""


TRIES = 3
"""Processes that may miss the limit: others on the machine compile, and take its cores."""


def test_definition_to_first_result(tmp_path: Path, record_property: Any) -> None:
    """In a process of its own with an empty cache, the first that keeps the limit; imports are not
    counted.
    """
    for number in range(TRIES):
        found = _first_result(tmp_path / f"cubins{number}")
        if found["total"] <= FIRST_RESULT_SECONDS:
            break
    for name, value in found.items():
        record_property(name, value)
    print(
        f"definition to first result {found['total']:.2f} s, of it {1e3 * found['python']:.0f} ms "
        f"of Python before NVRTC; defined {'with nvFuser' if found['nvfuser'] else 'as text'}"
    )
    assert found["total"] <= FIRST_RESULT_SECONDS


def _first_result(cache: Path) -> dict[str, Any]:
    """What the script measures in a process that finds no cubin."""
    environment = os.environ | {"WSCHED_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", FIRST], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=55, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
