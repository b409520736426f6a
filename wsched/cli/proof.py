"""``wsched check --proof``: what is proved of a definition's kernels."""

from __future__ import annotations

import json
from collections.abc import Iterator

import typer

from lowering.proof.obligation import Proof
from wsched.cli.parts import Looked

__all__ = ["print_proofs"]


def print_proofs(found: tuple[Looked, ...], as_json: bool) -> bool:
    """Prove kernels and say what came of it; whether all is proved.

    Args:
        found: what is looked at.
        as_json: whether to print JSON: of a definition that is one kernel its proof, of one that is
            cut ``proved`` and ``parts``, a proof with the part's number each.
    """
    proofs = [(one, proof) for one in found for proof in _proofs(one)]
    proved = all(proof.proved for _, proof in proofs)
    if as_json:
        plain = [proof.to_dict() | {"part": one.part} for one, proof in proofs]
        data = {"proved": proved, "parts": plain} if found[0].part else proofs[0][1].to_dict()
        typer.echo(json.dumps(data, indent=2))
    else:
        for one, proof in proofs:
            title = f"part {one.part}, {one.title}\n" if one.part else ""
            typer.echo(f"{title}{proof}")
        typer.echo(found[0].planned_for, nl=False)
    return proved


def _proofs(one: Looked) -> Iterator[Proof]:
    """Of what is launched for a part; of a definition that is one kernel that one's."""
    for kernel in one.kernel.launched if one.part else (one.kernel,):
        yield kernel.proof()
