"""Which CTAs stand for all of a launch, as a whole grid is too much for the machine.

CTAs that share no counter do not know of each other: the first ones that are on an SM together, or
the first cluster, do what every SM does, and have the most tiles of all. Where CTAs meet, in a tile
queue or in the parts of a tile, a smaller problem has as many CTAs as one tile needs, and as many
tiles as one of them has of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.ground.errors import UnsupportedError
from lowering.target import ptx
from wsched.choose.cost_model import places, terms_of
from wsched.choose.problem import Problem
from wsched.front.sizes import Extents
from wsched.run.compiled import CompiledFusion
from wsched.schedule.entries import with_sums
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["World", "resident", "world_of"]

REGISTER_STEP = 8
"""In which steps a thread has registers (CUDA C++ Programming Guide, Technical Specifications per
Compute Capability, 9.0 and 10.0)."""

MOST_CLUSTERS = 8
"""Clusters of a smaller problem whose CTAs share tiles at any step of K."""


@dataclass(frozen=True, slots=True)
class World:
    """What is run in place of a launch.

    Args:
        extents: a value for each of the kernel's parameters.
        grid: CTAs along x.
        resident: clusters that share the SMs of one; None where each CTA has an SM, and all run.
        about: which CTAs these are, in words.
    """

    extents: dict[str, int]
    grid: int
    resident: int | None
    about: str


def resident(kernel: CompiledFusion) -> int:
    """CTAs of a kernel that an SM holds at a time.

    Raises:
        UnsupportedError: there is no NVRTC to say how many registers it takes.
    """
    threads, used = kernel.kernel.threads, kernel.resources.registers
    registers = -(-used // REGISTER_STEP) * REGISTER_STEP * threads
    of_registers = kernel.kernel.target.registers // registers
    fit = min(of_registers, ptx.ctas_held(threads, kernel.kernel.shared_bytes))
    cells, columns = kernel.kernel.target.tensor_memory, kernel.kernel.tensor_columns
    return fit if cells is None or not columns else min(fit, cells.columns // columns)


def world_of(
    kernel: CompiledFusion, extents: Extents, problem: Problem, most: int | None = None
) -> World:
    """The CTAs that stand for those of a problem.

    Args:
        kernel: of it.
        extents: sizes of the problem.
        problem: the same for the heuristics, with the device's SMs.
        most: steps of the k loops that a CTA may have; with more a smaller problem stands for it,
            of two tiles at least. None for any number.

    Raises:
        UnsupportedError: CTAs meet that no rule picks, or no launch has such sizes.
    """
    if kernel.kernel.counters or (most is not None and _steps(kernel, problem) > most):
        return _smaller(kernel, extents, problem, most)
    sizes = with_sums(kernel.fusion, extents.named(kernel.fusion))
    size = kernel.kernel.cluster
    at_once = places(problem.sms, size) * size
    grid = kernel.grid(sizes, at_once)
    ctas = kernel.kernel.ctas(grid, sizes)
    if ctas == 0:
        raise UnsupportedError(f"a time line of {extents}, which has no element", "M, N, K above 0")
    each = -(-ctas // at_once)
    together = min(each, resident(kernel)) if each > 1 else 1
    last = together * size - 1
    first = f"CTAs 0 to {last} of {ctas}" if last else f"CTA 0 of {ctas}"
    where = "an SM" if size == 1 else f"{size} SMs"
    rounds = -(-each // together)
    then = f", the first of {rounds} rounds" if rounds > 1 else ""
    return World(sizes, grid, together, f"{first}, on {where}{then}")


def _steps(kernel: CompiledFusion, problem: Problem) -> float:
    """Steps of the k loops of the CTA with most; 0 where no parameters tell."""
    if kernel.made_from is None:
        return 0.0
    terms = terms_of(problem, kernel.made_from)
    return terms.rounds * terms.steps


def _smaller(kernel: CompiledFusion, extents: Extents, problem: Problem, most: int | None) -> World:
    """A smaller problem, of as many CTAs as meet."""
    params, size = kernel.made_from, kernel.kernel.cluster
    if params is None:
        raise UnsupportedError(
            "the time line of a schedule that was written call by call, whose CTAs meet",
            "CTAs without counters, or a schedule of parameters",
        )
    clusters, tiles = _shared(problem, params)
    if most is not None:
        tiles = min(tiles, max(2, most // max(problem.steps(params.output_tile.k), 1)) * clusters)
    shrunk = _shrunk(extents, params, tiles)
    sizes = with_sums(kernel.fusion, shrunk.named(kernel.fusion))
    grid = kernel.grid(sizes, clusters * size)
    ctas = kernel.kernel.ctas(grid, sizes)
    about = f"{ctas} CTA{'s' * (ctas > 1)} of {shrunk} stand for those of {extents}"
    return World(sizes, grid, None, about)


def _shared(problem: Problem, params: MatmulParams) -> tuple[int, int]:
    """Clusters that share tiles, and how many tiles these have, of clusters of tiles."""
    terms = terms_of(problem, params)
    if not params.stream_k:
        return params.splitk_factor, max(round(terms.rounds), 1)
    cluster = params.cluster_dims
    size = cluster.m * cluster.n
    share = terms.tiles / size / places(problem.sms, size)  # tiles of a cluster, with a fraction
    best = min(range(1, MOST_CLUSTERS + 1), key=lambda n: abs(max(round(n * share), 1) / n - share))
    return best, max(round(best * share), 1)


def _shrunk(extents: Extents, params: MatmulParams, tiles: int) -> Extents:
    """Sizes with so many clusters of tiles, no larger than the problem's where these suffice."""
    tile, cluster = params.output_tile, params.cluster_dims
    m, n = tile.m * cluster.m, tile.n * cluster.n
    if params.exchange_operands:
        m, n = n, m
    most = max(-(-extents.n // n), 1)
    across = max(d for d in range(1, min(most, tiles) + 1) if tiles % d == 0)
    down = tiles // across
    fits = down <= -(-extents.m // m)
    rows = min(extents.m, m * down) if fits else m * down
    return replace(
        extents, m=rows, n=min(extents.n, n * across), batch=1, heads=1, own=()
    )  # fmt: skip
