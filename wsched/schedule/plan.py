"""A schedule that has been proved: its parts, the edges between them, and what ties each pair.

The fusion is cut into parts, each with loops and warps of its own (see ``parts``). Each cut is an
*edge*: the tensors that cross it fill one ring together, and a relation says which of the
producer's steps an iteration of the consumer needs.

A plan is made once for a schedule, by :func:`make_plan`; everything below the scheduler takes it
and asks nothing again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lowering.ground.errors import InternalError
from lowering.ground.expr import Expr
from lowering.target import ptx
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.fusion import Fusion, MmaOp, Product, Role, TensorView, Unknown, product_of
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.parts import Part, find_parts
from wsched.schedule.proof.box import check_boxes
from wsched.schedule.proof.cta_groups import check_cta_groups
from wsched.schedule.proof.edges import Edge, edges_of, main_of
from wsched.schedule.proof.filled import check_filled
from wsched.schedule.proof.grid import (
    check_factors,
    check_grid,
    find_cluster,
    grid_of,
    largest_numbers,
)
from wsched.schedule.proof.legality import load_relations
from wsched.schedule.proof.part_registers import (
    check_registers,
    check_threads,
    load_warpgroups,
    registers_of,
    warpgroups_of,
)
from wsched.schedule.proof.placement import (
    check_inlining,
    check_main_loops,
    check_memory,
    check_order,
    check_places,
    check_reductions,
    check_storage,
)
from wsched.schedule.proof.relation import LoadRelation
from wsched.schedule.proof.tile_steps import check_tile_steps
from wsched.schedule.proof.unknowns import used_unknowns
from wsched.schedule.proof.waiting import check_waiting
from wsched.schedule.proof.work import Work
from wsched.schedule.warpgroups import Warpgroups

__all__ = ["Edge", "Part", "Plan", "make_plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the lowering is given.

    Args:
        fusion: the complete schedule.
        target: the GPU that it was proved for.
        graph: its transform graph.
        parts: producers in front of consumers.
        edges: the operands' first.
        products: the matrix products that edges lead into, with the roles of their dimensions.
        cluster: dimensions of the cluster, slowest first; empty without one.
        grid: CTAs along x, None for as many as there is place and work for.
        assumptions: unknowns that loops depend on; the proof holds for all values within them.
    """

    fusion: Fusion
    target: Target
    graph: TransformGraph
    parts: tuple[Part, ...]
    edges: tuple[Edge, ...]
    products: tuple[Product, ...]
    cluster: tuple[Group, ...]
    grid: Expr | None
    assumptions: tuple[Unknown, ...] = ()

    @property
    def operands(self) -> LoadRelation:
        """The relation between the operands' loads and the mma."""
        return self.edges[0].relation

    @property
    def work(self) -> Work:
        """Where tiles come from: of the operands' edge, whose tiles all others have to run."""
        return self.operands.work

    @property
    def warpgroups(self) -> Warpgroups:
        """Those that compute the products of the operands."""
        return self.operands.warpgroups

    @property
    def computing(self) -> tuple[int, ...]:
        """Places of the parts that compute."""
        return tuple(at for at, part in enumerate(self.parts) if not part.loads)

    @property
    def rings(self) -> tuple[Edge, ...]:
        """An edge for each ring, also where several parts read it."""
        found: dict[str, Edge] = {}
        for e in self.edges:
            found.setdefault(e.name, e)
        return tuple(found.values())

    def into(self, part: int) -> tuple[Edge, ...]:
        """The edges of the rings that a part reads."""
        return tuple(e for e in self.edges if e.consumer == part)

    def main(self, part: int) -> LoadRelation | None:
        """The relation that says which loops a part runs; None of one that reads no ring."""
        return main_of(self.edges, part)

    def registers(self, part: int) -> int | None:
        """Registers of a thread of a part, None where they stay as the kernel starts with them."""
        return registers_of(self.edges, part)

    @property
    def threads(self) -> int:
        """Threads of a CTA: those of all parts that compute, and of the warpgroups that load."""
        computing = warpgroups_of(self.parts, self.edges)
        return ptx.WARPGROUP * (
            sum(computing.values()) + load_warpgroups(self.fusion, self.parts, self.edges)
        )

    @property
    def relations(self) -> tuple[LoadRelation, ...]:
        """The relations of all edges."""
        return tuple(e.relation for e in self.edges)

    @property
    def counts(self) -> tuple[Expr, ...]:
        """What counters of load steps may come to, in the CTA with the most of them."""
        return tuple(r.most_steps for r in self.relations)

    @property
    def numbers(self) -> tuple[Expr, ...]:
        """What else a kernel counts to or computes, of its extents and factors."""
        return largest_numbers(self.fusion)

    def product(self, name: str) -> Product:
        """The product that makes a tensor; InternalError if no edge leads into one."""
        for p in self.products:
            if p.mma.output == name:
                return p
        raise InternalError("plan", f"no edge leads into a product that makes {name}")

    def roles(self, product: Product) -> dict[Group, Role]:
        """What the groups of a product's dimensions are to it."""
        return {self.graph.group(d): r for d, r in zip(product.dims, product.roles, strict=True)}

    def tensors(self, part: Part) -> tuple[TensorView, ...]:
        """The tensors of a part."""
        return tuple(self.fusion.tensor(name) for name in part.tensors)


def make_plan(
    fusion: Fusion, graph: TransformGraph | None = None, target: Target = DEFAULT
) -> Plan:
    """Cut a complete schedule into parts and prove every edge.

    Args:
        fusion: the schedule.
        graph: its transform graph, if it is known.
        target: the GPU that it is for.

    Raises:
        ScheduleError: the schedule is illegal; ``rule`` is one of those of
            :func:`~wsched.schedule.proof.legality.load_relations`, or ``memory``, ``inline``,
            ``parts``, ``place``, ``reduction``, ``storage``, ``box``, ``grid``, ``threads``.
        UnsupportedError: an mma with a dimension that is no part of a matrix product.
    """
    graph = graph or TransformGraph(fusion)
    check_memory(fusion, target)
    relations = load_relations(fusion, graph, target)
    parts = find_parts(fusion)
    edges = edges_of(parts, relations)
    loads = tuple(fusion.tensor(name) for name in relations[0].loads)
    cluster = find_cluster(graph, (*loads, *_beside(fusion, edges)), target)
    check_grid(fusion, cluster)
    check_factors(fusion, cluster, grid_of(fusion, loads))
    check_waiting(fusion, graph, parts, edges)
    check_filled(fusion, graph, edges)
    check_tile_steps(fusion, graph, parts, edges)
    check_threads(fusion, parts, edges, target)
    check_registers(fusion, parts, edges, target)
    check_inlining(fusion, graph)
    check_order(fusion, graph, parts)
    check_places(fusion, graph)
    check_reductions(fusion)
    check_storage(fusion, graph)
    check_main_loops(fusion, graph, relations)
    check_boxes(fusion, graph, relations)
    made = tuple(_products(fusion, relations))
    check_cta_groups(fusion, graph, cluster, made, target)
    grid, used = grid_of(fusion, loads), used_unknowns(fusion)
    return Plan(fusion, target, graph, parts, edges, made, cluster, grid, used)


def _beside(fusion: Fusion, edges: tuple[Edge, ...]) -> Iterator[TensorView]:
    """What is loaded for the operands' product beside its ring, by way of registers."""
    operands, *others = edges
    read = fusion.made_from(operands.relation.readers)
    for e in others:
        if e.consumer == operands.consumer and e.relation.compute in read:
            yield from map(fusion.tensor, e.relation.loads)


def _products(fusion: Fusion, relations: tuple[LoadRelation, ...]) -> Iterator[Product]:
    """Those that read rings."""
    for name in dict.fromkeys(n for r in relations for n in r.readers):
        e = fusion.definition(name)
        if isinstance(e, MmaOp):
            yield product_of(fusion, e)
