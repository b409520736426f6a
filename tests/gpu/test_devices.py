"""A device that is not the current one: kernels run where their tensors are, and nothing moves."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import wsched
from tests.front.test_moe import layer
from tests.gpu.test_threads import SHARED, operands
from tests.grouped import check_rows, given
from tests.schedules import SCHEDULES, definition

pytestmark = pytest.mark.gpu

LAYERS = """
def f(fd: FusionDefinition):
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    h = fd.ops.relu(fd.ops.linear(x, w))
    d = fd.ops.linear(h, v)
    fd.add_output(d)
    fd.add_output(fd.ops.sum(fd.ops.cast(d, dtype=DataType.Float), dims=[1]))
"""
"""Two kernels of wsched's, and a rest."""


@pytest.fixture(autouse=True)
def other() -> Iterator[Any]:
    """The second device, while the first one is current before and after."""
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    torch.cuda.set_device(0)
    yield torch.device("cuda", 1)
    assert torch.cuda.current_device() == 0


def there(device: Any, *tensors: Any) -> list[Any]:
    """Copies on a device, which are there when the call returns."""
    import torch

    made = [t.to(device, copy=True) for t in tensors]
    torch.cuda.synchronize(device)
    return made


@pytest.mark.parametrize("k", [264, 261], ids=["in place", "copied"])
@pytest.mark.parametrize("schedule", SHARED)
def test_execute(schedule: str, k: int, other: Any) -> None:
    """With counters, workspaces and clusters too; on a new device first, then on the current."""
    import torch

    x, w, wanted = operands(520, 776, k)
    for device in (other, x.device, other):
        mine = there(device, x, w)
        (d,) = wsched.execute(definition(), mine, params=SCHEDULES[schedule])
        assert d.device == device
        torch.cuda.synchronize(device)
        assert torch.equal(d.to(wanted.device), wanted)


@pytest.mark.parametrize("schedule", SHARED)
def test_bind(schedule: str, other: Any) -> None:
    """Launches of both devices in turn, whose workspaces are apart, on streams of each."""
    import torch

    x, w, wanted = operands(520, 776, 2056)
    kernel = wsched.compile(definition(), [x, w], params=SCHEDULES[schedule])
    launches = []
    for device in (x.device, other):
        mine = there(device, x, w)
        d = torch.full_like(wanted, float("nan"), device=device)
        launches.append((kernel.bind(*mine, out=d), d))
    for _ in range(20):
        for launch, d in launches:
            d.fill_(float("nan"))
            launch()
    with torch.cuda.stream(torch.cuda.Stream(other)):
        torch.cuda.synchronize(other)
        launches[1][1].fill_(float("nan"))
        launches[1][0]()
    for _, d in launches:
        torch.cuda.synchronize(d.device)
        assert torch.equal(d.to(wanted.device), wanted)


def test_a_definition_that_is_cut(other: Any) -> None:
    """The same bits as on the device that is current."""
    import torch

    draw = torch.Generator().manual_seed(0)
    shapes = (300, 512), (768, 512), (256, 768)
    inputs = [torch.randn(*s, generator=draw).bfloat16() for s in shapes]
    found = []
    for device in (other, torch.device("cuda", 0), other):
        mine = there(device, *inputs)
        made = wsched.execute(LAYERS, mine)
        assert [t.device for t in made] == [device, device]
        torch.cuda.synchronize(device)
        found.append([t.cpu() for t in made])
    for made in found[1:]:
        assert all(map(torch.equal, made, found[0]))
    x, w, v = (t.double() for t in inputs)
    expected = (x @ w.T).relu() @ v.T
    assert (found[0][0].double() - expected).norm() < 1e-2 * expected.norm()


def test_what_is_made_of_no_tensor(other: Any) -> None:
    """A mask of indices, which somebody else makes once."""
    import torch

    from tests.masks import ONE_MASK

    text, inputs, wanted = ONE_MASK
    for device in (other, torch.device("cuda", 0), other):
        found = wsched.execute(text, there(device, *inputs))
        assert [t.device for t in found] == [device, device]
        torch.cuda.synchronize(device)
        assert all(torch.equal(t.cpu(), right) for t, right in zip(found, wanted, strict=True))


def test_what_lies_between_kernels(other: Any) -> None:
    """It is memory of the device that the tensors are on, and given back there."""
    import torch

    x, ids, weights, up, down = layer(300, 8, 2)
    rows, routed, scales, gate, third, last = there(other, x, ids, weights, *up, down)
    right = wsched.moe(rows, routed, scales, (gate, third), last)
    for device in (torch.device("cuda", 0), other):
        given = there(device, x, ids, weights, *up, down)
        wsched.moe(*given[:3], (given[3], given[4]), given[5])  # a device keeps its counters
        gc.collect()  # what other tests have left, which might go in between
        for _ in range(3):
            torch.cuda.synchronize(device)
            before = [torch.cuda.memory_allocated(d) for d in range(2)]
            found = wsched.moe(*given[:3], (given[3], given[4]), given[5])
            torch.cuda.synchronize(device)
            assert found.device == device and torch.equal(found.cpu(), right.cpu())
            del found
            assert before == [torch.cuda.memory_allocated(d) for d in range(2)]


def test_ends_that_are_none(other: Any) -> None:
    """The device that met them has a word of its own."""
    import torch

    x, w, ends = given((0, 250, 1, 800, 65), 256, 128)
    for device in (torch.device("cuda", 0), other):
        wsched.wrong_ends(device)
        rows, matrices, right = there(device, x, w, ends)
        check_rows(wsched.grouped_mm(rows, matrices, right), x, w, ends)
        assert not wsched.wrong_ends(device)
    wrong = torch.tensor([9, 3, 700, 990, 1116], dtype=torch.int32, device=other)
    torch.cuda.synchronize(other)
    wsched.grouped_mm(rows, matrices, wrong)
    assert not wsched.wrong_ends() and not wsched.wrong_ends("cuda:0")
    assert wsched.wrong_ends("cuda:1") and not wsched.wrong_ends(other)
