"""The program of each warp: what the others execute is taken out."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel, print_body
from lowering.proof.agent import Agent, agents

KERNEL = """
kernel k threads {threads} cluster {cluster} grid 1 {{
  param n: i32
  {body}
}}
"""


def found(body: str, threads: int = 128, cluster: int = 1) -> list[tuple[str, str]]:
    """Each agent, and the statements of its program."""
    kernel = parse_kernel(KERNEL.format(body=body, threads=threads, cluster=cluster))
    return [(str(a), " ".join(print_body(a.body).split())) for a in agents(kernel)]


ROLES = """
roles {
  role few warps 0 .. 1 { let a: i32 = n }
  role rest warps 1 .. 4 { let b: i32 = n }
}
"""
GROUPS = """
roles {
  role load warps 0 .. 4 { let a: i32 = n }
  role compute warps 4 .. 12 as g { let b: i32 = g * 2 }
}
"""
WITHIN = """
roles {
  role outer warps 0 .. 8 as g {
    roles {
      role first warps 0 .. 4 { let a: i32 = g }
      role second warps 4 .. 8 { let b: i32 = g }
    }
  }
}
"""
OWN = """
roles {
  role outer warps 0 .. 8 as g {
    roles {
      role first warps 0 .. 4 { let a: i32 = g }
      role second warps 4 .. 8 as h { let b: i32 = g * 10 + h }
    }
  }
}
"""


@pytest.mark.parametrize(
    ("body", "threads", "programs"),
    [
        ("cta.sync", 32, [("role all, warp 0", "cta.sync")]),
        ("cta.sync", 128, [("role all, warps 0..3", "cta.sync")]),
        (
            "cta.sync on %warp 2 { warp.sync } cta.sync", 128,
            [("role all, warps 0..3", "cta.sync cta.sync"),
             ("role all, warp 2", "cta.sync warp.sync cta.sync")],
        ),
        (
            "on %warpgroup.warp 1 { warp.sync }", 256,
            [("role all, warps 0..7", ""), ("role all, warps 1..5", "warp.sync")],
        ),
        (
            "elect { on %warp 1 { warp.sync } }", 64,
            [("role all, warp 0", "elect { }"), ("role all, warp 1", "elect { warp.sync }")],
        ),
        (ROLES, 128, [("role few, warp 0", "let a: i32 = n"),
                      ("role rest, warps 1..3", "let b: i32 = n")]),
        (ROLES, 256, [("role few, warp 0", "let a: i32 = n"),
                      ("role rest, warps 1..3", "let b: i32 = n"),
                      ("role all, warps 4..7", "")]),
        (GROUPS, 384, [("role load, warps 0..3", "let a: i32 = n"),
                       ("role compute, group 0, warps 4..7", "let b: i32 = 0"),
                       ("role compute, group 1, warps 8..11", "let b: i32 = 2")]),
        (WITHIN, 256, [("role first, group 0, warps 0..3", "let a: i32 = 0"),
                       ("role second, group 1, warps 4..7", "let b: i32 = 1")]),
        (OWN, 256, [("role first, group 0, warps 0..3", "let a: i32 = 0"),
                    ("role second, group 0, warps 4..7", "let b: i32 = 10")]),
    ],
)  # fmt: skip
def test_programs(body: str, threads: int, programs: list[tuple[str, str]]) -> None:
    """Of warps that execute the same there is one; of a warpgroup its index is a number."""
    assert found(body, threads) == programs


def test_programs_of_a_cluster() -> None:
    """The rank of a CTA is a number, also of those whose programs do not differ by it."""
    text = "let a: i32 = %cluster.ctarank if %cluster.ctarank < 1 { cluster.sync }"
    assert found(text, 32, 2) == [
        ("role all, warp 0", "let a: i32 = 0 if true { cluster.sync }"),
        ("CTA 1 role all, warp 0", "let a: i32 = 1 if false { cluster.sync }"),
    ]
    assert found(text, 32) == [
        ("role all, warp 0",
         "let a: i32 = %cluster.ctarank if %cluster.ctarank < 1 { cluster.sync }"),
    ]  # fmt: skip
    assert [who for who, _ in found("cta.sync", 64, 2)] == [
        "role all, warps 0..1", "CTA 1 role all, warps 0..1",
    ]  # fmt: skip


def test_names() -> None:
    assert str(Agent("load", None, (3,), 0, ())) == "role load, warp 3"
    assert str(Agent("", 1, (4, 5, 6), 2, ())) == "CTA 2 role all, group 1, warps 4..6"
