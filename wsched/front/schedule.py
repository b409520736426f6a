"""A schedule of one's own: made call by call, looked at, checked, kept as text and compiled."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import ScheduleError
from lowering.ground.files import save_file
from lowering.target.targets import DEFAULT, named
from wsched.front.check import Check, check
from wsched.front.known import import_for_calls, import_fusion, recorded
from wsched.fusion import PrimitiveCall, nest_text
from wsched.importer import record_text
from wsched.importer.definition import definition_text
from wsched.run.layout import laid_out
from wsched.schedule import schedule
from wsched.schedule.cursor import Cursor
from wsched.schedule.loops import side_by_side
from wsched.schedule.matmul.kernel_options import kernel_options
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import schedule_onto
from wsched.schedule.text import calls_text, has_calls, parse_calls

if TYPE_CHECKING:
    import torch

__all__ = ["Schedule", "is_schedule_text"]

_VERSION = 1
_HEADER = re.compile(r"# wsched schedule (\S+)(?: for (\S+))?\s*$")
_MARK = "\ufeff"
"""What some editors begin a file of UTF-8 with."""


class Schedule(schedule.Schedule):
    """A definition and the calls that schedule it; the calls are those of the built-in scheduler.

    ``wsched.compile(s, inputs)`` and ``wsched.execute(s, inputs)`` take it in place of the
    definition and make the kernel of exactly this schedule.

    It takes more definitions than the built-in scheduler: an operand may be computed from an input,
    element by element, and matmuls of one operand need not meet. Results of these have the same
    extents: sizes that differ are refused in the call.

    Args:
        definition: a ``nvfuser_direct.FusionDefinition``, its text, or its operations as data.
        inputs: tensors; the operands are then taken to lie in memory as these do, not as the
            definition says.
        target: the GPU that it is for, as compilers call it: ``"sm_90a"`` or ``"sm_100a"``;
            ``"sm_100a.cta_group::2"`` where two CTAs multiply together.

    Raises:
        UnsupportedError: a definition that wsched does not schedule, or another target.
    """

    def __init__(
        self,
        definition: Any,
        inputs: Sequence[torch.Tensor] | None = None,
        target: str = DEFAULT.arch,
    ) -> None:
        self.definition = recorded(definition)
        super().__init__(import_for_calls(definition), target=named(target))
        if inputs is not None:
            lies = laid_out(self.fusion, inputs)
            for name in self.inputs:
                order = lies.tensor(name).in_memory
                if order != self.tensor(name).in_memory:
                    dimensions = self.tensor(name).logical
                    self.set_allocation_domain(name, tuple(map(dimensions.index, order)))

    @classmethod
    def of(
        cls,
        definition: Any,
        params: MatmulParams | None = None,
        inputs: Sequence[torch.Tensor] | None = None,
    ) -> Schedule:
        """What the built-in scheduler makes of parameters, to look at or to change.

        Args:
            definition: as for the class.
            params: the parameters; by default ``MatmulParams()``, not the heuristic's.
            inputs: as for the class.

        Raises:
            ScheduleError: illegal parameters.
            UnsupportedError: a definition that wsched does not schedule, or parameters that there
                is no kernel for.
        """
        if not isinstance(params, MatmulParams | None):
            why = "params takes a MatmulParams, or None for MatmulParams()"
            found = "MatmulParams.from_dict(wsched.explain(definition, inputs).params)"
            legal = ("MatmulParams()", found)
            given = repr(params) if isinstance(params, str | int) else type(params).__name__
            raise ScheduleError("argument", f"Schedule.of(..., {given})", why, legal)
        import_fusion(definition)  # refuses what only schedules by calls take
        params = params or MatmulParams()
        made = cls(definition, inputs, params.mma_macro.target.name)
        options = kernel_options(made.fusion, params)
        schedule_onto(made, params)
        if changed := options.changed():
            by_tensor = ("cache_policies", "l2_promotions", "smem_swizzles", "copied_bytes")
            made.configure(**{n: dict(v) if n in by_tensor else v for n, v in changed.items()})
        return made

    def __getitem__(self, tensors: str | Cursor | tuple[str | Cursor, ...]) -> Cursor:
        """The calls for a tensor, or for several alike, which can be written one after the other.

        Args:
            tensors: a name, or what calls have returned; or several of these.

        Raises:
            ScheduleError: rule ``tensor``: there is none of this name, or none is given.
        """
        given = tensors if isinstance(tensors, tuple) else (tensors,)
        names = [x for t in given for x in (t.names if isinstance(t, Cursor) else (t,))]
        if not names:
            raise ScheduleError("tensor", "s[()]", "no tensor is given", self.fusion.in_order)
        first, *others = dict.fromkeys(self.tensor(name).name for name in names)
        return Cursor(self, first, tuple(others))

    def show(self) -> str:
        """The loop nests of both sides beside each other, and the extents of all loops.

        Before anything is loaded by TMA there are no sides: the nests one below the other.
        """
        if self.fusion.loads:
            return side_by_side(self.fusion)
        return "".join(f"{nest_text(t)}\n" for t in self.fusion.tensors)

    def check(self) -> Check:
        """Whether the schedule is legal and has a kernel, or why not, with what is legal."""
        return check(self)

    # --- as text -------------------------------------------------------------------------------

    def __str__(self) -> str:
        made_for = "" if self.target is DEFAULT else f" for {self.target.name}"
        header = f"# wsched schedule {_VERSION}{made_for}\n"
        return header + definition_text(self.definition) + "\n" + calls_text(self.history)

    def save(self, path: str | Path) -> None:
        """Write the text, which :meth:`load` reads: all of it, or the file stays as it was.

        Raises:
            OSError: it cannot be written.
        """
        save_file(Path(path), str(self).encode())

    @classmethod
    def load(cls, path: str | Path) -> Schedule:
        """The schedule in a file.

        Raises:
            OSError: it cannot be read.
            ScheduleError, UnsupportedError: as :meth:`parse`.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as e:
            raise ScheduleError("text", str(path), f"no UTF-8 at byte {e.start}") from None
        return cls.parse(text)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """The schedule in a text: a line with the version, and with the target if it is not the
        first one, the definition and the calls.

        The text is Python in form; it is parsed, never executed.

        Raises:
            ScheduleError: rule ``text``: a text of another form or version; any other: a call that
                is illegal. Both name the line.
            UnsupportedError: a definition that wsched does not schedule; it names the line; or
                another target.
        """
        text = text.removeprefix(_MARK)
        first = text.partition("\n")[0]
        found = _HEADER.match(first)
        if found is None or found[1] != str(_VERSION):
            why = (
                "the first line does not say that this is a schedule; `wsched dump FILE --stage "
                "schedule` prints that of a definition"
            )
            if found is not None:
                why = f"this wsched reads version {_VERSION}, not {found[1]}"
            legal = (f"# wsched schedule {_VERSION}",)
            raise ScheduleError("text", f"line 1: {first}", why, legal)
        calls = list(parse_calls(text))
        made = cls(record_text(text), target=found[2] or DEFAULT.arch)
        for line, call in calls:
            made._replay(line, call)
        return made

    def _replay(self, line: int, call: PrimitiveCall) -> None:
        """One call of a text."""
        method = getattr(self, call.op)
        wrote = f"line {line}: {call}"
        try:
            inspect.signature(method).bind(*call.args, **dict(call.kwargs))
        except TypeError as e:
            names = str(inspect.signature(method)).partition(" ->")[0]
            raise ScheduleError("text", wrote, str(e), (f"{call.op}{names}",)) from None
        try:
            method(*call.args, **dict(call.kwargs))
        except ScheduleError as e:
            raise ScheduleError(e.rule, wrote, e.why, e.legal, e.where) from None


def is_schedule_text(text: str) -> bool:
    """Whether a text is meant as a schedule: its first line says so, of whatever version, or it has
    the function with the calls, so that :meth:`Schedule.parse` says what is wrong with that line.
    """
    first = text.removeprefix(_MARK).partition("\n")[0]
    return _HEADER.match(first) is not None or has_calls(text)
