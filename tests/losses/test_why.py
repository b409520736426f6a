"""``wsched.why``: the whole of it, as data, text and picture."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.pictures import shown
from tests.schedules import SCHEDULES, definition
from wsched import InputError, Schedule, Why
from wsched.front.sizes import Extents, kernel_for
from wsched.predict.activity import ACTIVITIES
from wsched.predict.line import predicted

SIZES = "2304x4352x1024"
PARAMS = SCHEDULES["coop_128x256"]


@lru_cache
def told() -> Why:
    return wsched.why(definition(), SIZES, params=PARAMS)


def test_as_data() -> None:
    found = json.loads(json.dumps(told().to_dict()))
    assert (found["problem"], found["gpu"], found["sms"]) == (SIZES, "NVIDIA H200", 132)
    lost = sum(x["us"] for x in found["losses"])
    assert found["roofline"]["us"] + lost == pytest.approx(found["predicted_us"])
    assert [t["name"] for t in found["roofline"]["traffic"]] == ["tensor cores", "L2", "memory"]
    assert [x["effect"] for x in found["largest"]][:2] == ["power", "idle SMs"]
    assert 0.4 < found["tensor_share"] < 0.8
    assert found["energy"] == {
        "joules": pytest.approx(700e-6 * told().us), "watts": 700, "at_most": False,
    }  # fmt: skip
    assert found["waits"]["compute[0]"]["multiply"] > 0.5 > found["waits"]["compute[0]"]["data"]
    assert found["waits"]["load[0]"]["room"] > 0.5 and found["waits_unknown"] is None
    assert found["measured"] is None and found["tuned_us"] is None


def test_as_text() -> None:
    """No line is wider than a terminal; the losses stand between roofline and prediction."""
    lines = str(told()).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == f"{SIZES} on NVIDIA H200, 132 multiprocessors"
    begin = next(i for i, x in enumerate(lines) if x.startswith("roofline "))
    end = next(i for i, x in enumerate(lines) if x.startswith("predicted ") and i > begin)
    us = [float(x.split("+")[1].split()[0]) for x in lines[begin + 1 : end]]
    first, last = (float(lines[i].split()[1]) for i in (begin, end))
    assert first + sum(us) == pytest.approx(last, abs=0.005 * (len(us) + 2))
    assert any(x.startswith("    - stream-K: ") for x in lines)
    assert "  idle SMs, " in str(told())


def test_all_of_the_text(golden: object) -> None:
    assert str(told()) == golden


def test_who_waits_as_text() -> None:
    """Each warpgroup by its whole name, and what the columns mean."""
    lines = str(told()).splitlines()
    for name in (*told().waits, "warpgroup", *(f"  {a}: {m}" for a, m in ACTIVITIES.items())):
        assert sum(x.startswith((name, f" {name}", f"   {name}")) for x in lines) == 1, name
    assert "…" not in str(told())


def test_as_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: object) -> None:
    assert shown(told().draw, tmp_path, monkeypatch) == golden


@pytest.mark.slow
def test_a_gpu_that_is_not_here() -> None:
    """Fewer multiprocessors and slower memory; its board has a limit of its own."""
    other = wsched.why(definition(), SIZES, gpu="H100 PCIe", params=PARAMS)
    assert (other.sms, other.watts) == (114, 350) and other.us > told().us
    assert other.roofline.memory.rate == pytest.approx(1.77e6)
    nvl = wsched.why(definition(), SIZES, gpu="H200 NVL", params=PARAMS)
    assert (nvl.sms, nvl.watts, nvl.us) == (132, 600, told().us)
    with pytest.raises(InputError, match="gpu is 'A100'; known are H200, H200 NVL, H100, H100 P"):
        wsched.why(definition(), SIZES, gpu="A100")
    with pytest.raises(UnsupportedError, match="why on sm_100a is not supported; supp"):
        wsched.why(definition(), SIZES, gpu="B200")
    with pytest.raises(InputError, match="target='sm_100a' with params whose mma_macro is"):
        wsched.why(definition(), SIZES, gpu="B200", params=PARAMS)


def test_tensors_on_the_cpu_are_planned_for_an_h200() -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.empty(n, 1024, dtype=torch.bfloat16) for n in (2304, 4352))
    assert wsched.why(definition(), [a, b], params=PARAMS) == told()


@pytest.mark.slow
def test_beside_what_was_measured() -> None:
    kernel = kernel_for(definition(), Extents.parse(SIZES), params=PARAMS)
    extents = Extents.parse(SIZES)
    problem = extents.problem(kernel.fusion, 132)
    line = predicted(kernel, extents, problem, stamped=True).trace  # as a GPU's has them
    found = wsched.why(definition(), SIZES, params=PARAMS, measured=line)
    assert found.measured is not None
    assert max(abs(p.difference or 0) for p in found.measured.phases) < 1e-9
    assert "A launch, predicted beside measured" in str(found)
    assert found.to_dict()["measured"][0]["phase"] == "cta"


@pytest.mark.slow
def test_what_a_table_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WSCHED_TUNED")
    found = wsched.why(definition(), "4096x4096x4096")
    assert found.tuned_us is not None
    assert f"a table has it, measured at {found.tuned_us:.1f} us" in " ".join(str(found).split())


def test_what_has_no_why() -> None:
    with pytest.raises(UnsupportedError, match="why of a schedule that was written call by call"):
        wsched.why(Schedule.of(definition(), PARAMS), SIZES)
    with pytest.raises(UnsupportedError, match="not warp-specialized and persistent"):
        wsched.why(definition(), SIZES, params=SCHEDULES["pipelined"])
    with pytest.raises(UnsupportedError, match="why of 0x64x64, which has no element"):
        wsched.why(definition(), "0x64x64")
    with pytest.raises(ValueError, match="is no problem size"):
        wsched.why(definition(), "12")


CUT = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[512, 256], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[384, 256], contiguity=[True, True], dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[128, 384], contiguity=[True, True], dtype=DataType.BFloat16)
    h = fd.ops.linear(x, w)
    d = fd.ops.linear(h, v)
    fd.add_output(d)
"""


@pytest.mark.slow
def test_each_kernel_of_a_definition_that_is_cut() -> None:
    with pytest.raises(UnsupportedError, match=r"which fd.ops.linear makes, is not"):
        wsched.why(CUT)
    found = wsched.why_of_parts(CUT, gpu="H100")
    assert [x.problem for x in found] == ["512x384x256", "512x128x384"]
    assert {x.gpu for x in found} == {"NVIDIA H100 80GB HBM3"}
    for x in found:
        assert x.roofline.us + sum(y.us for y in x.losses) == pytest.approx(x.us)
