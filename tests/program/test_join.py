"""Several steps store into one tensor: how that is written, what is refused, and that it runs."""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError
from tests.program.host_scratch import chains_that_run, installed
from tests.program.programs import plans
from tests.program.test_chained import matrix, text
from wsched.front import known
from wsched.program import prepare as prepare_module
from wsched.program.bind import bind
from wsched.program.parse import parse_program
from wsched.program.prepare import prepare
from wsched.program.text import print_program
from wsched.program.verify import verify

torch = pytest.importorskip("torch", reason="torch is not installed")

TEXT = """\
program (x, v) -> (y) {
  x: bf16[M, N]
  v: bf16[M, P]
  memory: bf16[M, N + P]
  a: bf16[M, N] strides [N + P, 1] at memory from 0
  b: bf16[M, P] strides [N + P, 1] at memory from N
  y: bf16[M, N + P] at memory
  workspace memory
  call negated(x) -> a
  copy v -> b
  join a, b -> y
}
"""


def test_its_text_is_read_back() -> None:
    assert print_program(parse_program(TEXT, {})) == TEXT


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a, b -> y", "a -> y", "[join]: join a -> y: parts of memory are a, b"),
        ("a, b -> y", "a, b, b -> y", "[join]: join a, b, b -> y: parts of memory are a, b"),
        ("from N", "from 0", "b lies at memory from 0, where a lies"),
        (
            "at memory from N",
            "at x from N",
            "[in-place]: copy v -> b: b is a part of x, which is no workspace",
        ),
        (
            "from N",
            "from N + 1",
            "b lies at memory, which has another type or ends before it",
        ),
        (
            "memory: bf16[M, N + P]",
            "memory: f32[M, N + P]",
            "a lies at memory, which has another type or ends before it",
        ),
        ("join a, b -> y\n", "", "y is read, and nothing has written it before"),
        ("-> (y)", "-> (y, a)", "[output]: output a: a is a part of memory"),
        ("call negated(x) -> a", "call negated(memory) -> a", "a workspace that holds nothing"),
        (
            "join a, b -> y",
            "call f(a, b) -> y",
            "y lies at memory, which holds a, b",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(old: str, new: str, said: str) -> None:
    changed = TEXT.replace(old, new, 1)
    assert changed != TEXT
    with pytest.raises(ScheduleError) as e:
        verify(parse_program(changed, {}))
    assert said in str(e.value)


def test_parts_that_leave_a_gap() -> None:
    """Of sizes that are known; of others the extents of the inputs decide."""
    gap = TEXT.replace("N + P", "20").replace("M, N]", "3, 8]").replace("M, P]", "3, 8]")
    gap = gap.replace("M, 20", "3, 20")
    with pytest.raises(ScheduleError, match="its parts have 48 elements, memory has 60"):
        verify(parse_program(gap.replace("from N", "from 8"), {}))


def negated(values: Any) -> tuple[Any]:
    return (-values[0],)


@pytest.mark.parametrize("bound", [False, True])
def test_parts_lie_side_by_side(bound: bool) -> None:
    x, v = torch.arange(12.0).bfloat16().view(3, 4), torch.ones(3, 5).bfloat16()
    program = parse_program(TEXT, plans())
    if bound:
        launch, (y,) = bind(program, {}, {"negated": negated}, [x, v])
        launch()
    else:
        (y,) = prepare(program, {}, {"negated": negated}, [x, v])([x, v])
    assert torch.equal(y, torch.cat([-x, v], 1)) and y.is_contiguous()


SIDE_BY_SIDE = text(
    *map(matrix, ("x", "v", "w")),
    "c = fd.ops.cat([v, w], dim=0)",
    "y = fd.ops.linear(x, c)",
    "fd.add_output(y)",
)
IN_TURN = text(
    *map(matrix, ("x", "z", "w")),
    "a = fd.ops.linear(x, w)",
    "b = fd.ops.linear(z, w)",
    "r = fd.ops.relu(b)",
    "y = fd.ops.cat([a, fd.ops.cast(r, dtype=DataType.BFloat16)], dim=0)",
    "fd.add_output(fd.ops.linear(y, w))",
)


@pytest.mark.slow
@pytest.mark.parametrize("given", [SIDE_BY_SIDE, IN_TURN], ids=["one_kernel", "several"])
def test_launches_are_kept_together(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of other programs of kernels: memory that several store into is a result's, or one
    piece of what lies between.
    """
    monkeypatch.setattr(known, "_texts", {})
    monkeypatch.setattr(prepare_module, "_CHAINED", ("cpu",))
    memory = installed(monkeypatch)
    chains = chains_that_run(monkeypatch)
    made = list[Any]()
    for _ in range(3):
        generator = torch.Generator().manual_seed(0)
        inputs = [torch.randint(-1, 2, (32, 32), generator=generator).bfloat16() for _ in range(3)]
        made.append(wsched.execute(given, inputs)[0])
    assert len(chains) == 2 and chains[0] is chains[1] and not memory.taken
    assert torch.equal(made[0], made[1]) and torch.equal(made[1], made[2])
    assert made[0].data_ptr() != made[1].data_ptr() and made[1].stride() == made[0].stride()
