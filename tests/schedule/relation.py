"""The relation of a schedule whose operands fill one ring."""

from __future__ import annotations

from wsched.fusion import Fusion
from wsched.schedule import LoadRelation, load_relations

__all__ = ["load_relation"]


def load_relation(fusion: Fusion) -> LoadRelation:
    """The relation between the operands' loads and the mma; errors as for all relations."""
    return load_relations(fusion)[0]
