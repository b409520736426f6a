"""What the machine does, as a film: the state of warps and barriers, and what changes in each step.

Only the first cluster is shown. A frame is a step of a warp or an asynchronous operation that takes
effect; what changes nothing that is shown is no frame. The camera looks on
(``lowering.machine.scheduler.Watch``) and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import CpAsyncArrive, For, MBarrierExpectTx, Stmt
from lowering.kernel.text import kernel_lines, parse_kernel, print_kernel, print_stmt
from lowering.kernel.visit import walk
from lowering.machine.adversary import Order
from lowering.machine.barriers import MBarrier
from lowering.machine.run import refuse_long_run, run_kernel
from lowering.machine.scalars import compile_scalar
from lowering.machine.scheduler import Effect, Runnable
from lowering.machine.state import Cluster
from lowering.machine.state import Warp as RunningWarp
from wsched.explore.data import Barrier, Film, Warp
from wsched.run.cpu import grid_on_cpu
from wsched.trace.stamps import warp_places

__all__ = ["BARRIER_FIELDS", "MOST_FRAMES", "WARP_FIELDS", "Camera", "film_grid", "film_of"]

WARP_FIELDS = ("line", "wait", "at", "over", "issued", "done", "seen", "stores")
BARRIER_FIELDS = ("phase", "pending", "missing", "announced", "what")

MOST_FRAMES = 24_000
"""Frames of a film: about 1 MB of a page, which is compressed to a tenth."""

TILES, MANY = 3, 1 << 20
"""Tiles of a CTA that are enough to see all that repeats; more multiprocessors than tiles."""

_ANNOUNCES = (MBarrierExpectTx, CpAsyncArrive)


def film_of(
    kernel: Kernel,
    arrays: Mapping[str, Any],
    extents: Mapping[str, int],
    rings: Sequence[str],
    adversary: Order,
    seed: int = 0,
) -> Film:
    """Run the first cluster of a final kernel on the machine and film it.

    Args:
        kernel: what to run.
        arrays: NumPy arrays as ``run_kernel`` takes them; those of results are written in part.
        extents: a value for each parameter.
        rings: names of the circular buffers.
        adversary: when copies land and who runs next.
        seed: of its choices.

    Raises:
        UnsupportedError: the problem is too large for the machine.
        DeadlockError, MachineError: the kernel is wrong.
    """
    grid = film_grid(kernel, extents)
    fresh = parse_kernel(print_kernel(kernel))  # in which no statement stands twice
    camera = Camera(fresh, rings)
    run_kernel(
        fresh, arrays, extents, grid,
        seed=seed, adversary=adversary, watch=camera.begin, first_only=True,
    )  # fmt: skip
    return camera.film(adversary, seed, grid)


def film_grid(kernel: Kernel, extents: Mapping[str, int]) -> int:
    """CTAs of the run: as few as give a CTA some tiles, of which only the first cluster runs.

    Where CTAs share counters all have to run, so that there are few.

    Raises:
        UnsupportedError: there is none, since the result is empty, or the problem is too large for
            the machine.
    """
    grid = _grid(kernel, extents)
    if not grid:
        raise UnsupportedError("a film of an empty result", "results with elements")
    refuse_long_run(kernel, extents, grid, share=1.0 if kernel.counters else kernel.cluster / grid)
    return grid


def _grid(kernel: Kernel, extents: Mapping[str, int]) -> int:
    if kernel.counters:
        return grid_on_cpu(kernel, extents)
    most = evaluate(kernel.grid, {**extents, "sms": MANY})
    return evaluate(kernel.grid, {**extents, "sms": max(most // TILES, kernel.cluster)})


class Camera:
    """Looks on at a run of a kernel whose statements are all different objects."""

    def __init__(self, kernel: Kernel, rings: Sequence[str]) -> None:
        self._kernel = kernel
        self._lines = {id(of): at for at, (_, of) in enumerate(kernel_lines(kernel)) if of}
        self._loops = {s.var.name for s in walk(kernel.body) if isinstance(s, For)}
        self._ends = {f"{r}_{end}": (r, end) for r in rings for end in ("full", "empty")}
        self._named = {
            array.base + i: (array.name, i)
            for array in kernel.named_barriers
            if array.base is not None
            for i in range(array.count)
        }
        self._texts: dict[str, int] = {"": 0}
        self._frames: list[tuple[int, ...]] = []
        self._state: list[int] = []
        self._warps: list[RunningWarp] = []
        self._barriers: list[Barrier] = []
        self._mbarriers: list[MBarrier] = []
        self._announced: dict[int, tuple[int, int]] = {}
        self._what: dict[int, int] = {}
        self._started: set[int] = set()
        self._cut = False

    def begin(self, clusters: Sequence[Cluster]) -> Camera | None:
        """Film the first cluster of the run; nothing of those that run later."""
        if self._warps:
            return None
        ctas = clusters[0].ctas
        self._warps = list(clusters[0].warps)
        for cta in ctas:
            for name, array in cta.mbarriers.items():
                for i, bar in enumerate(array):
                    ring, end = self._ends.get(name, ("", ""))
                    self._barriers.append(Barrier(cta.ctaid, name, i, False, ring, end))
                    self._mbarriers.append(bar)
        for cta in ctas:
            for name, i in self._named.values():
                self._barriers.append(Barrier(cta.ctaid, name, i, True, "", ""))
        width = len(WARP_FIELDS) * len(self._warps) + len(BARRIER_FIELDS) * len(self._barriers)
        self._state = [0] * width
        return self

    # --- what happens -------------------------------------------------------------------------

    def stepped(self, warp: Runnable) -> None:
        """A warp has made a step."""
        if not isinstance(warp, RunningWarp) or warp not in self._warps:
            return
        self._started.add(id(warp))
        if isinstance(warp.stmt, _ANNOUNCES):
            self._announce(warp, warp.stmt)
        self._frame("" if warp.stmt is None else _word(warp.stmt), warp)

    def happened(self, effect: Effect) -> None:
        """An asynchronous operation has taken effect."""
        if effect.warp in self._warps and isinstance(effect.warp, RunningWarp):
            self._frame(f"{_word(effect.stmt)} takes effect", effect.warp)

    def _announce(self, warp: RunningWarp, stmt: MBarrierExpectTx | CpAsyncArrive) -> None:
        """Note in which loops a phase of a barrier was announced."""
        bar = warp.cta.mbarriers[stmt.bar.array][compile_scalar(stmt.bar.index)(warp.env)]
        self._what[id(bar)] = self._text(self._at(warp))

    # --- frames -------------------------------------------------------------------------------

    def _frame(self, event: str, warp: RunningWarp) -> None:
        """Note what is new."""
        if len(self._frames) >= MOST_FRAMES:
            self._cut = True
            return
        changes = []
        for place, value in enumerate(self._now()):
            if value != self._state[place]:
                self._state[place] = value
                changes += [place, value]
        if changes:
            self._frames.append((self._text(event), self._warps.index(warp), *changes))

    def _now(self) -> Iterator[int]:
        for warp in self._warps:
            yield from self._of_warp(warp)
        for bar in self._mbarriers:
            yield from self._of_mbarrier(bar)
        for cta in self._warps[0].cta.cluster.ctas:
            for number in self._named:
                named = cta.named.get(number)
                arrived = 0 if named is None else 32 * len(named.arrived)
                yield from (0 if named is None else named.generation, arrived, 0, 0, 0)

    def _of_warp(self, warp: RunningWarp) -> tuple[int, ...]:
        over = warp.stmt is None and id(warp) in self._started
        blocked = warp.blocked
        wait = "" if blocked is None or warp not in blocked.resource.waiters else blocked.text()
        open_ = sum(not all(s.has_read for s in g) for g in warp.bulk.groups[warp.bulk.covered :])
        return (
            self._lines.get(id(warp.stmt), 0),
            self._text(wait),
            self._text(self._at(warp)),
            int(over),
            warp.wgmma.issued,
            warp.wgmma.done,
            warp.wgmma.covered,
            open_ + bool(warp.bulk.open),
        )

    def _of_mbarrier(self, bar: MBarrier) -> tuple[int, ...]:
        phase, announced = self._announced.get(id(bar), (bar.phase, 0))
        if phase != bar.phase:
            announced = 0
        announced = max(announced, bar.missing)
        self._announced[id(bar)] = bar.phase, announced
        what = self._what.get(id(bar), 0)
        return bar.phase, bar.pending if bar.live else 0, bar.missing, announced, what

    def _at(self, warp: RunningWarp) -> str:
        """Values of the loops around, outermost first: ``tile 0, k 3``."""
        return ", ".join(f"{n} {warp.env[n]}" for n in warp.loops if n in self._loops)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def film(self, adversary: str, seed: int, grid: int) -> Film:
        """What was filmed."""
        places = dict(warp_places(self._kernel))
        warps = tuple(
            Warp(w.cta.ctaid, w.index, *places.get(w.index, ("", 0))) for w in self._warps
        )
        return Film(
            adversary, seed, grid, warps, tuple(self._barriers), WARP_FIELDS, BARRIER_FIELDS,
            tuple(self._texts), tuple(self._frames), self._cut,
        )  # fmt: skip


def _word(stmt: Stmt) -> str:
    """A statement in short: its operation, and the barrier or tensor that it is about."""
    return print_stmt(stmt).partition(" {")[0]
