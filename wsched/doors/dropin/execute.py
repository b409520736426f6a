"""``FusionDefinition.execute`` with wsched in front of nvFuser: the way of every call.

What wsched does not take costs one look at the definition, or at the shapes of its matmuls'
operands; what it takes, the class of the inputs. All else has been decided before.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lowering.ground.errors import InternalError, UnsupportedError, WschedError
from lowering.ground.locks import Lock
from lowering.ground.recent import bounded
from wsched.doors.dropin.decide import Decision, Known, decide, known_of
from wsched.doors.dropin.ledger import LEDGER, Tally
from wsched.doors.fallback import NvfuserError
from wsched.doors.fallback import execute as call_nvfuser
from wsched.front.cut.program import Run, make
from wsched.front.cut.route import by_torch
from wsched.front.cut.segments import Segment
from wsched.front.cut.tables import by_nvfuser
from wsched.importer import UnfinishedError
from wsched.importer.input_error import InputError
from wsched.program.classes import class_key
from wsched.program.prepare import Function
from wsched.run.ranges import ranged

if TYPE_CHECKING:
    import torch

__all__ = ["Options", "in_front_of"]

_SEEN = "_wsched"
"""Attribute of a definition: what has been found out about it."""

_CLASSES = 256
"""Classes of inputs, and sets of shapes, that are remembered for a definition."""


class _DefectError(WschedError):
    """A defect of wsched's, found before it ran anything of a call, of which it has warned."""


_REFUSALS = (UnsupportedError, InputError, _DefectError)
"""With these nvFuser runs a call after all, and says in its own words what is wrong with it."""

_BOTH = (list, tuple)
"""Kinds of inputs. nvFuser takes any iterable, but some can be gone through only once."""

Execute = Callable[..., "list[torch.Tensor]"]
"""``FusionDefinition.execute`` of nvFuser, as it was before anybody replaced it."""

_UNCOUNTED = Tally("", "")
"""Of a definition whose calls are counted by their shapes or classes."""


class Options:
    """What ``wsched.install`` was asked for, for the process.

    Attributes:
        constant_parameters: whether inputs that are parameters stay as they are.
        profilers: of nvFuser that are on. They count nvFuser's own kernels, so all calls are its.
    """

    constant_parameters = False
    profilers = 0


_lock = Lock()
_reading = Lock()
_by_fec: WeakKeyDictionary[Any, Known] = WeakKeyDictionary()


class _Seen:
    """What a definition remembers.

    Attributes:
        fec: its ``FusionExecutorCache``; with another one it is another definition.
        known: None if wsched never takes it, whatever torch's settings are.
        tally: counts its calls then.
    """

    __slots__ = ("fec", "known", "tally")

    def __init__(self, fec: Any, known: Known, tally: Tally) -> None:
        self.fec, self.known, self.tally = fec, _ever(known), tally


def _ever(known: Known) -> Known | None:
    """It, if wsched may take calls under any of torch's settings."""
    may = any(not k.reason for k in (known, known.tf32) if k is not None)
    return known if may else None


def in_front_of(original: Execute) -> Execute:
    """``execute`` of a definition that takes wsched's kernels where they are faster.

    Args:
        original: nvFuser's, which runs everything else, untouched.
    """

    @wraps(original)
    def execute(self: Any, inputs: Any, **options: Any) -> list[torch.Tensor]:
        if Options.profilers:
            _profiled().calls += 1
            return original(self, inputs, **options)
        state = self.__dict__
        seen = state.get(_SEEN)
        if seen is None or seen.fec is not state.get("fec"):
            return _first(original, self, inputs, options)
        known = seen.known
        if known is None:
            seen.tally.calls += 1
            return original(self, inputs, **options)
        if known.tf32 is not None:
            known = known.now
            if known.reason:
                _never_tally(known, inputs)
                return original(self, inputs, **options)
        if known.left:
            try:
                left = known.left.get(_shapes(known, inputs))
            except (AttributeError, IndexError, TypeError):
                return original(self, inputs, **options)
            if left is not None:
                left.calls += 1
                return original(self, inputs, **options)
        return _taken(original, self, known, inputs, options)

    return execute


def _taken(
    original: Execute, fd: Any, known: Known, inputs: Any, options: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Run a call by wsched unless something is in the way."""
    ours = type(inputs) in _BOTH and not (options and _wanted(options, inputs))
    if ours and not _recorded(inputs):
        key = class_key(inputs)
        if Options.constant_parameters and key is not None:
            key = (_constants(inputs), key)
        try:
            if key is not None:
                plan = known.plans.get(key)
                if plan is not None:
                    plan[1].calls += 1
                    return plan[0](inputs, key)
                return _decided(original, fd, known, key, inputs, options)
        except _REFUSALS:
            pass
    return original(fd, inputs, **options)


@cache
def _profiled() -> Tally:
    """Where calls under a profiler are counted."""
    reason = "nvFuser's profiler is on, which counts nvFuser's own kernels"
    return LEDGER.line(Tally("all definitions", reason), calls=0)


def _constants(inputs: Sequence[Any]) -> tuple[int, ...]:
    """Positions of the inputs that stay as they are; those without versions do not."""
    if not Options.constant_parameters:
        return ()
    import torch

    kind = torch.nn.Parameter
    return tuple(at for at, t in enumerate(inputs) if type(t) is kind and not t.is_inference())


def _shapes(known: Known, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """All that decides whether nvFuser runs a call."""
    shapes = known.shapes(inputs)
    return (_constants(inputs), shapes) if Options.constant_parameters else shapes


def _recorded(inputs: Sequence[Any]) -> bool:
    """Whether autograd records what ATen does in nvFuser's route; nobody would record ours."""
    import torch

    return torch.is_grad_enabled() and any(getattr(t, "requires_grad", False) for t in inputs)


def _decided(
    original: Execute,
    fd: Any,
    known: Known,
    key: Any,
    inputs: Sequence[Any],
    options: Mapping[str, Any],
) -> list[torch.Tensor]:
    """Decide about a class of inputs and run it.

    Raises:
        UnsupportedError, _DefectError: wsched does not take it; that is remembered.
        InputError: the inputs do not fit; that is not.
        InternalError: a defect that a kernel meets when it runs, a hang say.
    """
    decision = decide(known, inputs, _constants(inputs))
    try:
        if not decision.taken:
            raise UnsupportedError(decision.reason, "what is predicted to be faster")
        run = _made(original, known, decision, inputs)
        try:
            results = run(inputs, key)
        except NvfuserError:
            if _takes_all(original, fd, inputs, options):
                raise
            run = _made(original, known, decision, inputs, without_nvfuser=True)
            results = run(inputs, key)
    except (UnsupportedError, _DefectError) as e:
        tally = _tally(known, _refused(decision, e))
        with _lock:
            if len(known.left) >= _CLASSES:
                known.left.clear()
            known.left[_shapes(known, inputs)] = tally
        raise
    with _lock:
        bounded(known.plans, key, (run, _tally(known, decision)), _CLASSES)
    return results


def _refused(decision: Decision, error: Exception) -> Decision:
    """A decision as it was carried out: a kernel may still have refused."""
    if not decision.taken:
        return decision
    told = tuple(replace(s, reason=s.reason or str(error)) for s in decision.shares)
    return replace(decision, reason=str(error), segments=(), shares=told)


def _tally(known: Known, decision: Decision) -> Tally:
    """A line of the report, with its first call."""
    told = decision.reason, decision.shares, decision.cost, decision.nvfuser
    return LEDGER.line(Tally(known.title, *told, segments=decision.segments), calls=1)


def _takes_all(
    original: Execute, fd: Any, inputs: Sequence[Any], options: Mapping[str, Any]
) -> bool:
    """Whether nvFuser runs a definition of which it has refused a part. Where it does not, its
    error is no answer to a program whose matmuls have kernels.
    """
    try:
        call_nvfuser(fd, inputs, partial(original, **options))
    except NvfuserError:
        return False
    return True


def _made(
    original: Execute,
    known: Known,
    decision: Decision,
    inputs: Sequence[Any],
    without_nvfuser: bool = False,
) -> Run:
    """How a decision runs, within a range of the definition's title, for profilers.

    Raises:
        _DefectError: a defect of wsched's. The program has nvFuser, which runs the call; of the
            defect it hears by a warning, which Python's filters make an error.
    """
    try:
        run = _run_of(original, decision, inputs, without_nvfuser)
    except InternalError as e:
        found = f"a defect of wsched's, {str(e).splitlines()[0]}"
        text = f"wsched: {known.title}: nvFuser runs it, because of {found}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        raise _DefectError(found) from None
    return ranged(run, lambda: f"wsched: {known.title}")


def _run_of(
    original: Execute, decision: Decision, inputs: Sequence[Any], without_nvfuser: bool
) -> Run:
    """How a decision runs; nvFuser's own function runs what is not wsched's, or torch does."""

    def rest(segment: Segment, device: torch.device) -> Function:
        if without_nvfuser:
            return by_torch(segment.definition, device)
        return by_nvfuser(segment.definition, device, original)

    cutter = decision.cutter
    assert cutter is not None
    return make(cutter.definition, cutter.graph.types, decision.segments, inputs, rest).run


def _first(
    original: Execute, fd: Any, inputs: Any, options: Mapping[str, Any]
) -> list[torch.Tensor]:
    """Read a definition and run it; nvFuser's own checks come first, where it is not ready."""
    state = fd.__dict__
    known = None if "ke" in state else _read(fd)
    try:
        if known is None or known.now.reason:
            return original(fd, inputs, **options)
        return _taken(original, fd, known.now, inputs, options)
    finally:
        # As nvFuser does: from its first call on a definition is what the fec has a copy of.
        if known is not None and "fec" in state:
            state[_SEEN] = _Seen(state["fec"], known, _never_tally(known, inputs))
            with _lock:
                _by_fec[state["fec"]] = known


def _never_tally(known: Known, inputs: Any) -> Tally:
    """Where calls are counted that wsched never takes, with the first one."""
    known = known.now
    if not known.reason:
        return _UNCOUNTED
    if known.never is None:
        listed = type(inputs) in _BOTH
        known.never = _tally(known, decide(known, inputs) if listed else Decision(known.reason))
    else:
        known.never.calls += 1
    return known.never


def _read(fd: Any) -> Known | None:
    """What is known of a definition, or of another one that shares its cache; None of one that
    cannot be read yet.

    The fusion of one that wsched may take goes over to nvFuser's cache, as in nvFuser's first
    ``execute``. Nobody may read it meanwhile: its Python object is empty from then on.
    """
    state = fd.__dict__
    with _reading:
        try:
            found = _by_fec.get(state["fec"]) if "fec" in state else None
            known = known_of(fd) if found is None else found
        except UnfinishedError:
            return None
        except ValueError:  # another thread's first call of nvFuser's own hands it over just now
            return None
        if not known.now.reason and "fec" not in state:
            _freeze(fd)
    return known


def _freeze(fd: Any) -> None:
    """Hand the fusion over to nvFuser's cache."""
    from nvfuser_direct import FusionExecutorCache

    fd.fec = FusionExecutorCache(fd._fusion)
    del fd._fusion


def _wanted(options: Mapping[str, Any], inputs: Sequence[Any]) -> bool:
    """Whether options ask for something that only nvFuser does.

    A device that is the inputs' own, and options at their defaults, ask for nothing.
    """
    import torch

    for name, value in options.items():
        if name == "device" and value is not None:
            try:
                index = value if isinstance(value, int) else torch.device(value).index
            except (RuntimeError, TypeError):
                return True
            if any(t.device.index != index for t in inputs if isinstance(t, torch.Tensor)):
                return True
        elif value:
            return True
    return False
