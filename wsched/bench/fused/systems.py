"""Systems that compute a matmul with an epilogue, and the tensors they get.

Where :mod:`wsched.bench.peers.systems` has B [N, K], a launch here gets the tuple of B and the
further inputs of the epilogue.
"""

from __future__ import annotations

import importlib
from typing import Any

from wsched.bench.fused.epilogue import BARE, EPILOGUES
from wsched.bench.method.gpu import CudaGpu
from wsched.bench.method.measure import Accuracy
from wsched.bench.method.operands import Operands, distance
from wsched.bench.peers.systems import REFERENCE, Prepared, Skip, import_failure, prepare
from wsched.bench.problem import Problem
from wsched.bench.schedules.ranking import ranking
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["CHOICE", "COMPILE", "COOPERATIVE", "OWN", "PEERS", "PING_PONG", "FusedGpu",
           "FusedOperands", "prepare_fused"]  # fmt: skip

COOPERATIVE, PING_PONG, CHOICE = "cooperative", "ping-pong", "wsched"
OWN = (COOPERATIVE, PING_PONG, CHOICE)
"""wsched's: the best-ranked schedule of each kind, and the one that the heuristic chooses."""

COMPILE = "compile"
PEERS = (REFERENCE, "nvfuser", "nvfuser-pingpong", COMPILE)
"""``cublas`` with an epilogue is ``linear`` and the other operations in eager mode, ``compile``
torch.compile of the same function; nvFuser's own kernels are compared without an epilogue."""

_ROUNDED = 3
"""Elements may be so many times as far off where an epilogue follows: eager mode rounds before it
as well, and where a residual cancels the product, half a unit of the product is more than one of
the sum. At |product| = 4 deviations, beyond which 1 in 10^9 lies with a sum near 0, that is
2^-8 · 4 = 1.6e-2; three times 4e-3 · sqrt(2) is 1.7e-2."""


class FusedOperands(Operands):
    """Sets of x, (w, further inputs) and D; y = x · wᵀ has deviation 1, as in a trained model.

    So an epilogue works where it bends, and a bias or a residual counts as much as the product.

    Args:
        epilogue: a key of ``EPILOGUES``.
        problem: the matmul.
        sets: how many.
        seed: of the draw.
        device: ``cuda`` or ``cpu``.
    """

    def __init__(self, epilogue: str, problem: Problem, sets: int, seed: int, device: str) -> None:
        self._epilogue = EPILOGUES[epilogue]
        self._factor = 1 if epilogue == BARE else _ROUNDED
        super().__init__(problem, sets, seed, device)

    def _set(self) -> tuple[Any, Any, Any]:
        x, w, d = super()._set()
        w *= self._problem.shape.k**-0.5
        sizes = {"M": self._problem.shape.m, "N": self._problem.shape.n}
        further = (
            self._torch.randn(
                [sizes[axis] for axis in axes],
                device=self._device,
                dtype=self._dtype,
                generator=self._draw,
            )
            for axes in self._epilogue.inputs
        )
        return x, (w, *further), d

    def _reference(self, index: int) -> Any:
        """fp32 throughout, tf32 off."""
        x, others, _ = self.sets[index]
        return self._epilogue.compute(x.float(), *(t.float() for t in others))

    def _compare(self, result: Any, index: int) -> Accuracy:
        found = super()._compare(result, index)
        if found.outliers == 0 or self._factor == 1:
            return found
        bound = self._factor * self._problem.tolerance
        return Accuracy(found.error, distance(result, self._references[index], bound).outliers)


class FusedGpu(CudaGpu):
    """CUDA device 0 with the operands of an epilogue, a key of ``EPILOGUES``."""

    def __init__(self, seed: int, epilogue: str) -> None:
        super().__init__(seed)
        self._epilogue = epilogue

    def draw(self, problem: Problem, sets: int) -> Operands:
        """Draw the tensors of the epilogue as well."""
        return FusedOperands(self._epilogue, problem, sets, self._seed, "cuda")

    def prepare(self, name: str, params: dict[str, Any] | None, problem: Problem) -> Prepared:
        """Compile a system, or a schedule of any name, for the operands of the last set."""
        x, others, _ = self.operands.sets[-1]
        if params is not None:
            given = MatmulParams.from_dict(params)
            return _launching(self._epilogue, problem, x, others, given)
        sms = int(self.describe()["sms"])
        return prepare_fused(name, self._epilogue, problem, x, others, sms, self.l2_bytes)


def prepare_fused(
    name: str,
    epilogue: str,
    problem: Problem,
    x: Any,
    others: tuple[Any, ...],
    sms: int,
    l2_bytes: int | None = None,
) -> Prepared:
    """Compile a system.

    Args:
        name: one of :data:`OWN` or :data:`PEERS`.
        epilogue: a key of ``EPILOGUES``.
        problem: the matmul.
        x: tensor [M, K].
        others: w [N, K] and the further inputs of the epilogue.
        sms: multiprocessors to plan for.
        l2_bytes: the L2 cache to plan for; None for the heuristic's default.

    Raises:
        Skip: a peer that is not installed or refuses, a kind of schedule that there is none of.
        UnsupportedError: wsched has no kernel.
    """
    if name in OWN:
        return _own(name, epilogue, problem, x, others, sms, l2_bytes)
    if name == COMPILE:
        return _compiled(epilogue)
    if epilogue == BARE:
        inner = prepare(name, None, problem, x, others[0])
        return Prepared(lambda x, others, d: inner.launch(x, others[0], d), inner.details)
    if name != REFERENCE:
        raise Skip("nvFuser's kernels are compared without an epilogue")
    _accumulate_in_fp32()
    compute = EPILOGUES[epilogue].compute
    return Prepared(lambda x, others, d: compute(x, *others))


def _own(
    name: str,
    epilogue: str,
    problem: Problem,
    x: Any,
    others: tuple[Any, ...],
    sms: int,
    l2_bytes: int | None,
) -> Prepared:
    params = None
    if name != CHOICE:
        text = EPILOGUES[epilogue].definition(problem.dtype, problem.layout)
        found = ranking(text, problem.shape, sms, l2_bytes)
        kind = (r.params for r in found if r.params.ping_pong is (name == PING_PONG))
        params = next(kind, None)
        if params is None:
            raise Skip(f"no {name} schedule fits")
    return _launching(epilogue, problem, x, others, params)


def _launching(
    epilogue: str, problem: Problem, x: Any, others: tuple[Any, ...], params: MatmulParams | None
) -> Prepared:
    """Wsched's kernel with a schedule, by default that of the heuristic."""
    import wsched

    text = EPILOGUES[epilogue].definition(problem.dtype, problem.layout)
    kernel = wsched.compile(text, [x, *others], params=params)

    def launch(x: Any, others: Any, d: Any) -> Any:
        kernel(x, *others, out=[d])
        return d

    return Prepared(launch, {"kernel": kernel.kernel.name, "params": kernel.params.to_dict()})


def _compiled(epilogue: str) -> Prepared:
    """torch.compile of the eager function, which allocates its result.

    What was compiled for other shapes is dropped: dynamo falls back to eager mode, silently, after
    eight shapes of one function.
    """
    try:
        importlib.import_module("triton")
    except ImportError as error:
        raise Skip(import_failure("triton", error)) from error
    _accumulate_in_fp32()
    torch = importlib.import_module("torch")
    importlib.import_module("torch._dynamo").reset()
    functional, function = importlib.import_module("torch.nn.functional"), EPILOGUES[epilogue].torch

    def compute(x: Any, *others: Any) -> Any:
        return function(functional, x, *others)

    compiled = torch.compile(compute, mode="max-autotune-no-cudagraphs", dynamic=False)
    return Prepared(lambda x, others, d: compiled(x, *others))


def _accumulate_in_fp32() -> None:
    settings = importlib.import_module("torch").backends.cuda.matmul
    settings.allow_bf16_reduced_precision_reduction = False
    settings.allow_fp16_reduced_precision_reduction = False
