"""The kernels of a run and their launches, each of a seed of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowering.ground.errors import UnsupportedError
from lowering.target.targets import DEFAULT, target_of_device
from wsched.choose.heuristics import choose_params
from wsched.front.chosen import own_choice
from wsched.front.problems import planned
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.stress.draws import drawn_form
from wsched.stress.epilogue import tolerance
from wsched.stress.form import Form, Sizes, Wanted
from wsched.stress.schedules import drawn_params
from wsched.stress.several import Several
from wsched.stress.tensors import poison_in, poisoned

if TYPE_CHECKING:
    import torch

__all__ = ["WRONG", "Executed", "Where", "Worked", "drawn_kernel", "launched", "sizes_of"]

WRONG = (
    "elements are not written, or NaN",
    "elements are beyond the bound",
    "wrote around a result",
    "changed an input",
    "a second launch gave other bits",
)
"""What may be wrong with a launch; the first two are counted."""

_TWICE = 8
"""Every so many launches of a kernel are made twice."""

_SIZES = 4
"""Different sizes of a definition that ``wsched.execute`` runs: for each it chooses and compiles,
which takes as long as a hundred launches.
"""


@dataclass(frozen=True, slots=True)
class Where:
    """What a run is on.

    Args:
        device: torch's name of it; ``cpu`` is the machine.
        largest: most elements of a dimension.
        seed: of all that is drawn.
    """

    device: str
    largest: int
    seed: int

    def random(self, *numbers: int) -> random.Random:
        """What draws a kernel, or a launch of one."""
        return random.Random(f"stress {self.seed} {numbers}")


@dataclass(frozen=True, slots=True)
class Executed:
    """A definition that ``wsched.execute`` runs as it likes, called as a kernel is.

    Args:
        text: of the definition.
    """

    text: str

    def __call__(self, *inputs: torch.Tensor, out: Sequence[torch.Tensor]) -> None:
        """Run it; its results are copied to where a kernel would have stored them."""
        from wsched.front.api import execute  # loads torch, which the command line does without

        for here, found in zip(out, execute(self.text, inputs), strict=True):
            if here.shape != found.shape or here.dtype != found.dtype:
                text = f"{found.dtype} {list(found.shape)}, not {here.dtype} {list(here.shape)}"
                raise ValueError(f"a result is {text}")
            here.copy_(found)


@dataclass(frozen=True, slots=True)
class Worked:
    """A kernel of a run, or a definition of several.

    Args:
        number: which.
        form: what it computes.
        kernel: lowered, with the first register pair that parameters leave open; of a definition of
            several products all that runs it.
    """

    number: int
    form: Form
    kernel: CompiledFusion | Executed

    @property
    def name(self) -> str:
        """The kernel's; how a definition of several is called."""
        return "execute" if isinstance(self.kernel, Executed) else self.kernel.kernel.name

    @property
    def told(self) -> str:
        """How it is scheduled."""
        if isinstance(self.kernel, Executed):
            return "cut and scheduled as wsched.execute does"
        return str(self.kernel.params)


def drawn_kernel(where: Where, number: int) -> Worked:
    """The kernel of a number, lowered; its cubin is made when it is asked for.

    One in four is the heuristic's choice for sizes that are drawn, and so is each whose rows are
    not aligned; the others have a schedule that is drawn, too. A definition of several products
    is ``wsched.execute``'s, but for half of those that are one kernel.

    Raises:
        UnsupportedError: there is no lowering for what was drawn.
        ScheduleError: it is not legal.
        InternalError: nor is what the heuristic chose.
    """
    rng = where.random(number)
    form = drawn_form(rng)
    if not isinstance(form, Several):
        return Worked(number, form, _kernel(where, rng, form))
    if rng.random() < 0.5:
        with suppress(UnsupportedError):  # most are no single kernel
            return Worked(number, form, _kernel(where, rng, form))
    return Worked(number, form, Executed(form.text))


def _kernel(where: Where, rng: random.Random, form: Form) -> CompiledFusion:
    """A kernel of a form."""
    import torch

    sizes = form.sizes(rng, where.largest)
    if not form.aligned:  # one row, or column, would lie in either order of memory
        sizes = replace(sizes, m=max(sizes.m, 2), n=max(sizes.n, 2), k=max(sizes.k, 2))
    sample = form.asked(sizes, 0, where.device).inputs
    fusion, problem = planned(form.text, sample)
    chosen = rng.random() < 0.25 or not form.aligned
    params = choose_params(problem) if chosen else drawn_params(rng, problem)
    if not form.aligned:  # results and inputs of rows that lie anywhere
        one = replace(params.supported_vec_size, epilogue=1)
        params = replace(
            params, use_smem_epilogue=False, epilogue_input_stages=0, supported_vec_size=one,
            deferred_stores=False,
        )  # fmt: skip
    target = DEFAULT if where.device == "cpu" else target_of_device(torch) or DEFAULT
    as_chosen = chosen and form.aligned
    with own_choice(fusion, params) if as_chosen else nullcontext():
        return compile_fusion(fusion, params, target)


def sizes_of(where: Where, worked: Worked, launch: int) -> Sizes:
    """The sizes of a launch."""
    at = launch % _SIZES if isinstance(worked.kernel, Executed) else launch
    return worked.form.sizes(where.random(worked.number, at), where.largest)


def launched(where: Where, worked: Worked, launch: int) -> torch.Tensor | str:
    """Run and judge; how often each of :data:`WRONG` is the case, on the device, which is not
    waited for. Where the kernel does not take such tensors, why.
    """
    import torch

    form, sizes = worked.form, sizes_of(where, worked, launch)
    seed = where.random(worked.number, launch, 1).getrandbits(48)
    asked = form.asked(sizes, seed, where.device)
    twice = launch % _TWICE == 0
    before = [x.clone() for x in asked.inputs] if twice else []

    def run() -> list[torch.Tensor]:
        worked.kernel(*asked.inputs, out=[p.tensor for p in results])
        return [p.tensor for p in results]

    results = [poisoned(tuple(w.value.shape), w.padding, w.dtype, where.device)
               for w in asked.wanted]  # fmt: skip
    try:
        first = [t.clone() for t in run()] if twice else run()
    except UnsupportedError as e:
        return str(e)
    counts = [
        [poison_in(got).sum() for got in first],
        [_beyond(got, w).sum() for got, w in zip(first, asked.wanted, strict=True)],
    ]
    if twice:
        again = run()
        changed = [_differ(x, y) for x, y in zip(asked.inputs, before, strict=True)]
        others = [_differ(x, y) for x, y in zip(again, first, strict=True)]
    zero = [torch.zeros((), dtype=torch.int64, device=where.device)]
    counts.append([~p.intact() for p in results])
    counts += [changed, others] if twice else [zero, zero]
    return torch.stack([sum(each[1:], each[0].long()) for each in counts])


def _beyond(got: torch.Tensor, wanted: Wanted) -> torch.Tensor:
    """Which elements are not within the bound of their value; NaN is not."""
    value = wanted.value
    return ~((got.float() - value).abs() <= tolerance(value, wanted.dtype))


def _differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Whether two tensors of the same type differ, NaN being like NaN."""
    return ((a != b) & ~(a.isnan() & b.isnan())).any()
