"""An explanation for a GPU that is not here."""

from __future__ import annotations

import re
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from lowering.target.targets import DEFAULT
from tests.epilogues import RESIDUAL
from tests.lists import side_by_side
from tests.schedules import definition
from wsched.choose.gpus import GPUS
from wsched.choose.heuristics import choose_params
from wsched.front import api
from wsched.front.explain import explain_definition, under_install
from wsched.front.problems import planned
from wsched.front.sizes import Extents, extents_for
from wsched.importer.input_error import InputError
from wsched.run.compiled import compile_fusion

torch: Any = pytest.importorskip("torch")


def matrices(dtype: Any = None) -> list[Any]:
    dtype = dtype or torch.bfloat16
    return [torch.empty(4096, 512, dtype=dtype), torch.empty(2048, 512, dtype=dtype)]


@pytest.mark.sampled
@pytest.mark.parametrize("name", GPUS)
def test_what_is_explained_is_what_is_planned(name: str) -> None:
    gpu, inputs = GPUS[name], matrices()
    found = wsched.explain(definition(), inputs, gpu=name)
    fusion, problem = planned(definition(), inputs)
    problem = problem.on(gpu)
    assert found.route == "wsched" and found.device == str(gpu)
    assert found.kernel is not None and found.kernel.sms == gpu.sms
    assert found.kernel.params == compile_fusion(fusion, choose_params(problem)).params.to_dict()
    assert (found.nvfuser is not None) is (gpu.target is DEFAULT)  # measured on no other
    assert f" on {gpu.sms} multiprocessors: " in str(found).splitlines()[0]


BATCH = (
    definition()
    .replace("shape=[-1, -1]", "shape=[-1, -1, -1]", 1)
    .replace("contiguity=[True, True]", "contiguity=[True, True, True]", 1)
)
X, W, R, BATCHES = (4096, 512), (2048, 512), (4096, 2048), (8, 512, 512)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("text", "extents", "shapes"),
    [
        pytest.param(definition(), Extents(4096, 2048, 512), [X, W], id="linear"),
        pytest.param(RESIDUAL, Extents(4096, 2048, 512), [X, W, R], id="residual"),
        pytest.param(BATCH, Extents(512, 2048, 512, 8), [BATCHES, W], id="batch"),
        pytest.param(side_by_side(3), Extents(4096, 6144, 512), [X, W, W, W], id="side by side"),
    ],
)
def test_sizes_alone_tell_the_same_as_tensors(
    text: str, extents: Extents, shapes: list[tuple[int, ...]]
) -> None:
    """What install would do too: it was told of other sizes."""
    alone = explain_definition(
        text, str(GPUS["H200"]), lambda fusion: extents_for(fusion, extents).problem(fusion, 132)
    )
    inputs = [torch.empty(shape, dtype=torch.bfloat16) for shape in shapes]
    assert alone.installed == wsched.explain(text, inputs, gpu="H200").installed != ""


def test_the_machine_is_not_taken_for_a_gpu() -> None:
    here = wsched.explain(definition(), matrices())
    assert here.device == "cpu" and here.kernel is not None and here.kernel.sms == 4
    cut_down = "\ntimes are of an H200 cut down to what the machine model pretends to have; gpu="
    there = wsched.explain(definition(), matrices(), gpu="H200")
    assert cut_down in str(here) and cut_down not in str(there)
    assert here.installed == "" and there.installed != ""  # install takes no call without a GPU


def test_another_way_on_that_gpu() -> None:
    text = definition().replace("BFloat16", "Float")
    found = wsched.explain(text, matrices(torch.float32), gpu="H200")
    assert found.route in ("nvfuser", "torch")
    assert "fd.ops.linear of Float and Float" in found.refusals[0].reason
    with pytest.raises(UnsupportedError, match=r"^fd\.ops\.linear of Float and Float"):
        wsched.explain(text, matrices(torch.float32), gpu="H200", batch_invariant=True)


def test_layouts_count() -> None:
    """Operands that lie otherwise in memory have another kernel."""
    columns = [matrices()[0], torch.empty(512, 2048, dtype=torch.bfloat16).T]
    names = [
        wsched.explain(definition(), inputs, gpu="H200").to_dict()["kernel"]
        for inputs in (matrices(), columns)
    ]
    assert names[0] != names[1] and None not in names


def test_an_h200_nvl_is_an_h200_of_less_power() -> None:
    """So it has the schedules that were measured on that one."""
    found = [wsched.explain(definition(), matrices(), gpu=gpu) for gpu in ("H200 NVL", "H200")]
    assert found[0].device == "NVIDIA H200 NVL with 132 multiprocessors"
    nvl, other = (x.to_dict()["kernel"] for x in found)
    assert nvl == other


def test_a_gpu_that_nobody_knows() -> None:
    with pytest.raises(InputError) as error:
        wsched.explain(definition(), matrices(), gpu="B300")
    assert str(error.value) == "gpu is 'B300'; known are H200, H200 NVL, H100, H100 PCIe, B200"
    with pytest.raises(InputError):
        wsched.explain(definition(), matrices()[:1], gpu="H200")


BESIDE = (
    "rows of A begin at multiples of 16 bytes, of B 16: more than a line would be part of others"
)


@pytest.mark.parametrize(
    ("rows", "columns", "value", "reason"),
    [
        (4096, 512, None, None),
        (4096, 520, "a B128, b B128", BESIDE),
        (64, 16384, "a B256, b B128",
         "memory decides: lines of B, more than the L2 holds, come one by one"),
        (64, 16392, "a B128, b B128",
         f"{BESIDE}; memory decides: lines of B, more than the L2 holds, come one by one"),
    ],
)  # fmt: skip
def test_why_the_l2_fetches_a_line_at_once(
    rows: int, columns: int, value: str | None, reason: str | None
) -> None:
    inputs = [torch.empty(n, columns, dtype=torch.bfloat16, device="meta") for n in (rows, 2048)]
    found = wsched.explain(definition(), inputs, gpu="H200")
    said = {c.name: (c.value, c.reason) for c in found.choices}
    assert said.get("l2_promotions", (None, None)) == (value, reason)


@pytest.mark.parametrize("parts", [False, True], ids=["a kernel", "several parts"])
def test_what_install_does_stands_in_each_explanation(
    monkeypatch: pytest.MonkeyPatch, parts: bool
) -> None:
    """On a GPU; here there is none to ask."""
    monkeypatch.setattr(api, "_installed", lambda *_: "it takes this call")
    text = definition()
    if parts:
        text = text.replace("add_output(d)", "add_output(fd.ops.linear(d, d))")
    inputs = [torch.empty(64, 64, dtype=torch.bfloat16)] * 2
    found = wsched.explain(text, inputs)
    assert (found.route, found.installed) == ("cut" if parts else "wsched", "it takes this call")


def test_what_install_leaves_to_nvfuser_says_why() -> None:
    text = definition().replace("linear", "lineer")
    said = under_install(text, lambda cutter: pytest.fail("there is no way to cut it"))
    assert said.startswith("nvFuser runs it all: a result that is computed after fd.ops.lineer is ")


@pytest.mark.parametrize(
    ("rows", "reason"),
    [(4096, "when they have read it"), (128, "while they store the one before")],
)
def test_who_computes_where_sums_are_in_tensor_memory(rows: int, reason: str) -> None:
    """Two stages of a small tile's sums, of a large one's one."""
    inputs = [torch.empty(n, 4096, dtype=torch.bfloat16, device="meta") for n in (rows, 4096)]
    found = wsched.explain(definition(), inputs, gpu="B200")
    (said,) = (c.reason for c in found.choices if c.name == "buffering_loop_level")
    assert said == f"one thread computes each tile, which warpgroups store; the next one {reason}"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("e = fd.ops.reshape(d, new_shape=[7, 4])", r"\[7, 4\]"),
        ("e = fd.ops.cat([d, x], dim=0)", "cat"),
    ],
)
def test_a_cut_that_inputs_do_not_fit(more: str, message: str) -> None:
    """As where the inputs are: what follows a matmul is asked, too, whether it fits."""
    made = definition().replace("fd.add_output", f"{more}\n    fd.add_output")
    (name,) = (x.split()[0] for x in made.splitlines() if "fd.ops.linear" in x)
    text = re.sub(r"\bd\b", name, made).replace(f"fd.add_output({name}", "fd.add_output(e")
    inputs = [torch.ones(32, 64).bfloat16(), torch.ones(48, 64).bfloat16()]
    for gpu in (None, "H200"):
        with pytest.raises(InputError) as e:
            wsched.explain(text, inputs, gpu=gpu)
        assert gpu is None or re.search(message, str(e.value))


X_BY_W = Extents(32, 48, 64)


def test_a_cut_that_sizes_of_its_own_do_not_fit() -> None:
    text = definition().replace("[-1, -1]", "[32, 64]", 1).replace("[-1, -1]", "[48, 64]", 1)
    (name,) = (x.split()[0] for x in text.splitlines() if "fd.ops.linear" in x)
    text = text.replace("fd.add_output", f"e = fd.ops.reshape({name}, [7, 4])\n    fd.add_output")
    text = text.replace(f"fd.add_output({name}", "fd.add_output(e")
    with pytest.raises(InputError, match=r"\[7, 4\]"):
        explain_definition(text, "H200", lambda f: extents_for(f, X_BY_W).problem(f, 132))
