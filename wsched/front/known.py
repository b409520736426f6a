"""What is known about a definition: its operations, its fusion, its routes; each found out once."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.locks import Lock
from wsched.front.route import Route
from wsched.fusion import Fusion
from wsched.importer import Definition, Version, build_fusion, definition_of, is_live, record_text
from wsched.importer.consistent import check_consistent
from wsched.importer.tf32 import as_tf32, tf32_inputs
from wsched.schedule.text import has_calls

__all__ = ["Known", "import_for_calls", "import_fusion", "known", "recorded"]

_knowing = Lock()
"""Held for every write to ``_live`` and ``_texts``, and for reads of what changes with them."""

_live: WeakKeyDictionary[Any, Known] = WeakKeyDictionary()
_texts: dict[str | Definition, Known] = {}

_TEXTS = 256
"""Definitions that are no live objects are remembered: the most recently used ones."""


class Known:
    """What has been found out about a definition: all of it is found out once.

    Attributes:
        recorded: its operations, or why they cannot be read.
        fusion: the fusion that wsched schedules, or why there is none.
        routes: the route of each class of inputs.
        tf32: of the same with inputs as TF32, for calls where torch's settings allow it; None where
            no input can be.
        version: which state of a live definition all this is about; None for anything else.
    """

    __slots__ = ("fusion", "recorded", "routes", "tf32", "version")

    def __init__(self, definition: Any) -> None:
        self.recorded: Definition | UnsupportedError
        self.fusion: Fusion | UnsupportedError
        self.routes: dict[Any, Route] = {}
        self.version: Version | None = None
        self.tf32: Known | None = None
        try:
            self.recorded = _record(definition)
            if names := tf32_inputs(self.recorded):
                self.tf32 = _known_text(as_tf32(self.recorded, names))
            self.fusion = build_fusion(self.recorded)
        except UnsupportedError as e:
            self.fusion = _again(e)
            if not hasattr(self, "recorded"):
                self.recorded = self.fusion
        if is_live(definition):
            self.version = Version.of(definition)

    def is_about(self, definition: Any) -> bool:
        """Whether a live definition has not changed since."""
        return self.version is None or self.version.is_current(definition)


def _record(definition: Any) -> Definition:
    """The operations of a definition.

    Raises:
        UnsupportedError: it cannot be read. So is a live definition that nvFuser does not print, or
            whose text is read otherwise than its IR: nvFuser can run it all the same.
    """
    if isinstance(definition, str) and has_calls(definition):
        raise UnsupportedError(
            "the text of a schedule in place of a definition", "wsched.Schedule.parse(text)"
        )
    if isinstance(definition, str | Definition):
        found = record_text(definition) if isinstance(definition, str) else definition
        found.check_complete()
        check_consistent(found)
        return found
    try:
        return definition_of(definition)
    except (RuntimeError, InternalError) as e:
        reason = (str(e) or type(e).__name__).splitlines()[0]
        raise UnsupportedError(
            f"a definition that cannot be read from nvFuser ({reason})", "others"
        ) from None


def known(definition: Any) -> Known:
    """What is known about a definition, found out now if need be.

    Raises:
        UnfinishedError: a live definition that cannot be read yet; this is not remembered.
    """
    if isinstance(definition, str | Definition):
        return _known_text(definition)
    try:
        found = _live.get(definition)
    except TypeError:  # no weak reference to it is possible, so it is no definition
        return Known(definition)
    if found is None or not found.is_about(definition):
        found = Known(definition)
        with _knowing:
            _live[definition] = found
    return found


def _known_text(text: str | Definition) -> Known:
    found = _texts.get(text)
    if found is not None and len(_texts) <= _TEXTS // 2:
        return found  # without the lock: as many more come before one goes
    with _knowing:
        found = _texts.pop(text, None)
        if found is not None:
            _texts[text] = found  # the most recently used one stands last
            return found
    found = Known(text)  # without the lock, because it takes milliseconds
    with _knowing:
        found = _texts.setdefault(text, found)
        while len(_texts) > _TEXTS:
            del _texts[next(iter(_texts))]
    return found


def import_fusion(definition: Any) -> Fusion:
    """The fusion of a definition, live, a text or recorded; kept, so that it is read once.

    Raises:
        UnsupportedError: a definition that wsched does not schedule.
    """
    fusion = known(definition).fusion
    if isinstance(fusion, UnsupportedError):
        raise _again(fusion)
    return fusion


def import_for_calls(definition: Any) -> Fusion:
    """The fusion of a definition for a schedule that is written call by call.

    There may be more in it than the built-in scheduler takes: operands that are computed, products
    whose results do not meet.

    Raises:
        UnsupportedError: a definition that no schedule can be written for.
    """
    fusion = known(definition).fusion
    if isinstance(fusion, UnsupportedError):
        return build_fusion(recorded(definition), by_calls=True)
    return fusion


def recorded(definition: Any) -> Definition:
    """The operations of a definition, whether or not wsched schedules it.

    Raises:
        UnsupportedError: it cannot be read.
    """
    found = known(definition).recorded
    if isinstance(found, UnsupportedError):
        raise _again(found)
    return found


def _again(e: UnsupportedError) -> UnsupportedError:
    """The same error without its traceback, whose frames would keep the definition alive."""
    return UnsupportedError(e.what, e.supported, e.hint)
