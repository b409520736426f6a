"""A kernel for another GPU than the one that is here: looked at, compiled, run by the machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.target.blackwell import BLACKWELL
from lowering.target.hopper import HOPPER
from tests.epilogues import GELU, RESIDUAL, SILU, TWO_OUTPUTS, WHERE
from tests.schedules import definition
from wsched.front import kernels
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents, kernel_for, schedule_for
from wsched.importer.input_error import InputError
from wsched.run.prints import PrintWarning
from wsched.schedule.matmul.params import MatmulParams

ARCHS = ("sm_90a", "sm_100a")
torch = pytest.importorskip("torch", reason="torch is not installed")


def inputs(m: int, n: int, k: int) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((m, k), (n, k))
    return [torch.randint(-2, 3, s, generator=generator).to(torch.bfloat16) for s in shapes]


def test_the_heuristics_kernel_is_right() -> None:
    a, b = inputs(200, 136, 72)
    kernel = wsched.compile(definition(), [a, b], target="sm_100a")
    assert kernel.kernel.target is BLACKWELL
    (d,) = kernel(a, b)
    assert torch.equal(d, (a.float() @ b.float().T).to(torch.bfloat16))
    assert wsched.compile(definition(), [a, b]).kernel.target is HOPPER


def test_a_kernel_of_its_own() -> None:
    """The parameters say the target, and so does a schedule."""
    params = kernel_for(definition(), Extents(256, 256, 256), target=BLACKWELL).made_from
    a, b = inputs(136, 72, 40)
    assert wsched.compile(definition(), [a, b], params=params).kernel.target is BLACKWELL
    schedule = schedule_for(definition(), Extents(256, 256, 256), target=BLACKWELL)
    text = str(schedule)
    assert text.startswith("# wsched schedule 1 for sm_100a\n")
    again = wsched.Schedule.parse(text)
    assert again.target is BLACKWELL and str(again) == text
    (d,) = wsched.execute(again, [a, b])
    assert torch.equal(d, (a.float() @ b.float().T).to(torch.bfloat16))


def test_two_targets_are_refused() -> None:
    a, b = inputs(8, 8, 8)
    with pytest.raises(InputError) as error:
        wsched.compile(definition(), [a, b], params=MatmulParams(), target="sm_100a")
    assert str(error.value) == (
        "target='sm_100a' with params whose mma_macro is Hopper_64_256_16, of sm_90a"
    )
    schedule = schedule_for(definition(), Extents(256, 256, 256))
    with pytest.raises(InputError, match="target='sm_90a' beside a schedule"):
        wsched.compile(schedule, [a, b], target="sm_90a")
    for planned in (kernel_for, schedule_for):
        with pytest.raises(InputError, match="target='sm_90a' beside a schedule"):
            planned(schedule, Extents(256, 256, 256), target=HOPPER)


def test_no_such_target() -> None:
    with pytest.raises(UnsupportedError, match="the target sm_120a is not supported; supported: "):
        wsched.compile(definition(), inputs(8, 8, 8), target="sm_120a")


@pytest.mark.parametrize("m", [8, 128, 4096])
def test_there_is_a_tile_for_every_size(m: int) -> None:
    for n in (8, 64, 4096):
        kernel = kernel_for(definition(), Extents(m, n, 4096), 148, target=BLACKWELL)
        (sums,) = kernel.kernel.tensors
        assert sums.columns <= 512


def test_a_sum_of_nothing_is_zero() -> None:
    """Whatever tensor memory held: there is no product that would overwrite it."""
    a, b = inputs(200, 72, 0)
    (d,) = wsched.compile(definition(), [a, b], target="sm_100a")(a, b)
    assert d.shape == (200, 72) and not d.any()


EPILOGUES = {"gelu": GELU, "residual": RESIDUAL, "silu": SILU, "two": TWO_OUTPUTS, "where": WHERE}


@pytest.mark.sampled
@pytest.mark.parametrize("name", EPILOGUES)
def test_an_epilogue_gives_the_same_bits_on_both(name: str) -> None:
    """What stands behind the fragment knows of no target."""
    m, n, k = 136, 72, 40
    generator = torch.Generator().manual_seed(1)
    fusion = import_fusion(EPILOGUES[name])
    sizes = {"M": m, "N": n, "K": k, "1": 1}
    given = [
        torch.randint(-2, 3, [sizes[a] for a in b.axes], generator=generator).to(torch.bfloat16)
        for b in fusion.inputs
    ]
    found = [wsched.compile(EPILOGUES[name], given, target=t)(*given) for t in ARCHS]
    for hopper, blackwell in zip(*found, strict=True):
        assert torch.equal(hopper, blackwell)


@pytest.mark.parametrize(("where", "value"), [("T6", "k"), ("T4", "k"), ("T10", "tile")])
def test_each_part_prints(where: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = schedule_for(definition(), Extents(128, 128, 128), target=BLACKWELL)
    schedule.debug_print(where, value, cta=0)
    a, b = inputs(128, 128, 128)
    with pytest.warns(PrintWarning):
        (d,) = wsched.execute(schedule, [a, b])
    assert torch.equal(d, (a.float() @ b.float().T).to(torch.bfloat16))
    found = capsys.readouterr()
    assert f"{where}: {value} = 0" in found.out + found.err


def test_no_element_of_lanes_is_printed() -> None:
    schedule = schedule_for(definition(), Extents(128, 128, 128), target=BLACKWELL)
    schedule.debug_print("T9", "T9[3, 1]")
    with pytest.raises(ScheduleError, match="T9 has registers as tensor memory has lanes"):
        wsched.execute(schedule, inputs(128, 128, 128))


@pytest.mark.parametrize(
    ("capability", "target"), [((9, 0), HOPPER), ((10, 0), BLACKWELL), ((8, 0), None)]
)
def test_the_gpu_of_the_inputs(
    capability: tuple[int, int], target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the first one that is anywhere; numbers and tensors of the CPU are on none."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    on_gpu = SimpleNamespace(device=torch.device("cuda:1"))
    assert kernels._target([0.5, on_gpu]) is target
    for inputs_ in ([], [0.5], [torch.zeros(1)], [torch.zeros(1), on_gpu]):
        assert kernels._target(inputs_) is None
