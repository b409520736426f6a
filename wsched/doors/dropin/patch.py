"""nvFuser's ``FusionDefinition.execute`` replaced, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from lowering.ground.locks import Lock
from wsched.doors.dropin.execute import Options, in_front_of

__all__ = ["enabled", "install", "installed", "nvfusers_own", "uninstall"]

_lock = Lock()


class _State:
    """What has been replaced, and who wants it so.

    Attributes:
        wanted: whether ``install`` was called last, not ``uninstall``.
        blocks: of ``enabled`` that have not ended.
        original: nvFuser's function while it is replaced.
        replaced: ours.
        profiler: nvFuser's ``__enter__`` and ``__exit__`` of its profiler while it is replaced.
    """

    wanted = False
    blocks = 0
    original: Any = None
    replaced: Any = None
    profiler: tuple[Any, Any] | None = None


def install(*, constant_parameters: bool = False) -> None:
    """Let every ``FusionDefinition`` of this process take wsched's kernels where they are faster.

    In all threads, for definitions that exist and those to come. A second call changes nothing
    but the option. Of a defect of wsched's that is found before anything of a call has run a
    ``RuntimeWarning`` tells, and nvFuser runs such calls; where warnings are errors it is one.

    Args:
        constant_parameters: whether inputs that are a ``torch.nn.Parameter`` stay as they are from
            call to call, as ``constants`` of :func:`wsched.execute` do: for inference.

    Raises:
        ImportError: nvFuser is not installed.
    """
    with _lock:
        _replace()
        _State.wanted = True
        Options.constant_parameters = constant_parameters


def uninstall() -> None:
    """Put nvFuser's own function back, the same object.

    Where a block of :func:`enabled` has not ended, its end does so. If somebody else has replaced
    the function after wsched, theirs stays, with wsched's below it.
    """
    with _lock:
        _State.wanted = Options.constant_parameters = False
        _restore()


def nvfusers_own(kind: Any) -> Any:
    """The function of nvFuser's class ``kind`` as it is without wsched."""
    return _State.original or kind.execute


def installed() -> bool:
    """Whether nvFuser's function is replaced at the moment."""
    return _State.original is not None


@contextmanager
def enabled() -> Iterator[None]:
    """Be installed while the block runs; blocks may be nested, and overlap in threads.

    It is the process that has it, as with :func:`install`: torch runs backward passes in threads
    of its own, which no setting of the caller's thread would reach.
    """
    with _lock:
        _replace()
        _State.blocks += 1
    try:
        yield
    finally:
        with _lock:
            _State.blocks -= 1
            _restore()


def _replace() -> None:
    from nvfuser_direct import FusionDefinition

    if _State.original is None:
        _State.original = FusionDefinition.__dict__["execute"]
        _State.replaced = in_front_of(_State.original)
        FusionDefinition.execute = _State.replaced
        _count_profilers()


def _restore() -> None:
    from nvfuser_direct import FusionDefinition

    unwanted = not _State.wanted and not _State.blocks and _State.original is not None
    if unwanted and FusionDefinition.__dict__["execute"] is _State.replaced:
        FusionDefinition.execute = _State.original
        _State.original = _State.replaced = None
        _count_no_profilers()


def _count_profilers() -> None:
    """Hear of nvFuser's profilers: ``with PythonProfiler() as p`` says how many kernels of its own
    a definition has, so nothing may be taken within.
    """
    from nvfuser_direct import PythonProfiler

    enter, leave = _State.profiler = PythonProfiler.__enter__, PythonProfiler.__exit__

    @wraps(enter)
    def entered(self: Any) -> Any:
        found = enter(self)
        with _lock:
            Options.profilers += 1
        return found

    @wraps(leave)
    def left(self: Any, *error: Any) -> Any:
        with _lock:
            Options.profilers = max(Options.profilers - 1, 0)  # uninstalled within: none is on
        return leave(self, *error)

    PythonProfiler.__enter__, PythonProfiler.__exit__ = entered, left


def _count_no_profilers() -> None:
    from nvfuser_direct import PythonProfiler

    if _State.profiler is not None:
        PythonProfiler.__enter__, PythonProfiler.__exit__ = _State.profiler
        _State.profiler, Options.profilers = None, 0
