"""Load what is the same in every step of a main loop once, in front of it.

Requires: loops whose ``frag.load_global``s are of tensors that the kernel does not write.
Guarantees: in a loop that is not unrolled no such load stands directly that names nothing that the
loop binds. The rows' scales and zero points of an operand that is computed are such loads: they are
inlined where the operand is, in the loop over slices of K.

Before ``synchronize_wgmma``, in whose steps a load would be waited for.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, For, FragLoadGlobal, Stmt
from lowering.kernel.visit import defined_in, rewrite, used
from passes.options import LoweringOptions

__all__ = ["load_invariants_first"]


def load_invariants_first(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Loads leave the loops that they do not depend on.

    before::

        for k in 0 .. n carry (...) {
          scale: frag<f32, 64x1> = frag.load_global x[row, 0]
          ...
        }

    after::

        scale: frag<f32, 64x1> = frag.load_global x[row, 0]
        for k in 0 .. n carry (...) { ... }
    """
    return replace(kernel, body=rewrite(kernel.body, _hoisted))


def _hoisted(stmt: Stmt) -> Body | None:
    """What a loop becomes; None if it stays."""
    if not isinstance(stmt, For) or stmt.unroll:
        return None
    inside = defined_in((stmt,))
    found = [s for s in stmt.body if isinstance(s, FragLoadGlobal) and not used(s) & inside]
    if not found:
        return None
    left = tuple(s for s in stmt.body if s not in found)
    return (*found, replace(stmt, body=left))
