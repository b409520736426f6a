"""Numbers that CTAs take as they start: where they are taken, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.cuda.emit import emit_kernel
from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import CtaNumber, CtaSync, GridDepWait, LdWord, Let, OnWarp, Roles
from lowering.kernel.text import parse_kernel, print_kernel, print_stmt
from lowering.kernel.verify import verify
from lowering.kernel.visit import walk
from passes.allocate_shared import allocate_shared
from passes.number_ctas import number_ctas
from passes.options import LoweringOptions

NONE = LoweringOptions()


def kernel(
    head: str = "cluster 1",
    sync: str = "cta.sync",
    wait: str = "counter.wait ready[place], 0",
    place: str = "%ctaid.x + %ctaid.z",
) -> Kernel:
    made = parse_kernel(
        f"""kernel k threads 128 {head} {{
          param m: i32
          counter ready[4]
          let place: i32 = {place}
          {sync}
          roles {{
            role all warps 0 .. 4 {{
              {wait}
            }}
          }}
        }}""".replace(" {", " grid 4 {" if "grid" not in head else " {", 1)
    )
    assert verify(made) == []
    return made


def numbered(made: Kernel) -> Kernel:
    found = number_ctas(made, NONE)
    assert verify(found) == []
    assert parse_kernel(print_kernel(found)) == found
    return found


def test_they_are_taken_behind_the_inits_and_in_front_of_who_reads_them() -> None:
    found = numbered(kernel())
    assert [c.name for c in found.counters] == ["ready", "tickets"]
    assert [type(s) for s in found.body] == [OnWarp, CtaSync, LdWord, CtaNumber, Let, Roles]
    assert [print_stmt(s) for s in walk(found.body[:1])][2:] == [
        "taken: i32 = atom inc, tickets[0], %nctaid.x - 1",
        "st.word ticket[0, 0, 0], taken",
    ]


@pytest.mark.parametrize(
    ("head", "limit", "places"),
    [
        ("cluster 1", "%nctaid.x - 1", ["ctaid = number"]),
        ("cluster 2", "%nctaid.x // 2 - 1", ["ctaid = number * 2 + cluster_ctarank"]),
        (
            "cluster 1 splits 3", "%nctaid.x * 3 - 1",
            ["ctaid = (number) % nctaid", "ctaid_z = (number) / nctaid"],
        ),
        (
            "cluster 2 splits 3", "%nctaid.x // 2 * 3 - 1",
            ["ctaid = (number * 2 + cluster_ctarank) % nctaid",
             "ctaid_z = (number * 2 + cluster_ctarank) / nctaid"],
        ),
        (
            "cluster 1 splits 2 grid 4, m", "%nctaid.x * %nctaid.y * 2 - 1",
            ["ctaid = (number) % nctaid", "ctaid_z = (number) / nctaid / nctaid_y",
             "ctaid_y = (number) / nctaid % nctaid_y"],
        ),
    ],
)  # fmt: skip
def test_how_many_there_are_and_where_they_are(head: str, limit: str, places: list[str]) -> None:
    clusters = "cluster 2" in head
    place = "%ctaid.x + %ctaid.z" if "splits" in head else "%ctaid.x"
    found = numbered(kernel(head, "cluster.sync" if clusters else "cta.sync", place=place))
    lines = [print_stmt(s) for s in walk(found.body)]
    assert f"taken: i32 = atom inc, tickets[0], {limit}" in lines
    assert lines.count("cluster.sync") == 2 * clusters
    text = emit_kernel(allocate_shared(found, NONE))
    assert all(f"const int {p};" in text for p in places), text
    assert "blockIdx" not in text


def test_a_cluster_meets_though_its_ctas_share_nothing_else() -> None:
    """A number goes to peers: they have to have started, and to have it, where the kernel itself
    needs no more than a sync of each CTA.
    """
    found = numbered(kernel("cluster 2", "cta.sync"))
    lines = [print_stmt(s) for s in walk(found.body)]
    assert lines.count("cluster.sync") == 2 and "cta.sync" not in lines


@pytest.mark.parametrize("dependent", [True, False])
def test_the_counter_is_touched_when_the_grid_in_front_has_ended(dependent: bool) -> None:
    found = numbered(replace(kernel(), dependent=dependent))
    waits = [s for s in walk(found.body) if isinstance(s, GridDepWait)]
    assert len(waits) == dependent


def test_kernels_whose_ctas_wait_for_nobody() -> None:
    made = kernel(wait="let here: i32 = place")
    assert number_ctas(made, NONE) is made


def test_a_traced_kernel_keeps_its_places() -> None:
    made = parse_kernel(
        "kernel k threads 128 cluster 1 grid 4 { trace spans[8](cta) counter ready[1] "
        "cta.sync roles { role all warps 0 .. 4 { counter.wait ready[0], 0 } } }"
    )
    assert number_ctas(made, NONE) is made


def test_no_sync() -> None:
    with pytest.raises(InternalError, match="number_ctas: k has no sync in front of its roles"):
        number_ctas(kernel(sync=""), NONE)


def test_what_is_read_in_front_of_the_sync() -> None:
    made = kernel(sync="on %warp 0 { let here: i32 = place } cta.sync")
    with pytest.raises(InternalError, match="k reads scalars in front of its first sync"):
        number_ctas(made, NONE)
