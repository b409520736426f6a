"""Epilogues for the cooperative kernel of ``kernels``, as statements for one chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lowering.kernel.kernel import Kernel
from lowering.kernel.pointwise import OPS
from tests.lowering.cuda.kernels import cooperative_kernel

Compute = Callable[[int, int], str]

TENSORS = """
  tensormap R: bf16[M, N] box 64x64 swizzle 128
  global bias: bf16[1, N] align 4
  global odd: bf16[1, N]
  global scale: f32[M, 1]
  global res: bf16[M, N] align 4
  shared R_smem: bf16[2][64x64] swizzle 128 at $residual
  mbarrier res_full[2] arrivals 1 at $res_full
"""

GELU = (
    "square = mul a, a", "cube = mul square, a", "inner = mul cube, 0.044715",
    "sum = add a, inner", "arg = mul sum, 0.7978845608028654", "t = tanh arg", "u = add t, 1.0",
    "v = mul a, u", "g = mul v, 0.5",
)  # fmt: skip


def steps(i: int, lines: Sequence[str], cols: int = 64) -> str:
    """Pointwise statements on 64-column chunks; names get the chunk's number, numbers stay."""
    out = []
    for line in lines:
        name, op, *args = line.replace("=", " ").replace(",", " ").split()
        args = [f"{a}{i}" if a[0].isalpha() else a for a in args]
        kind = "pred" if OPS[op].predicate else "f32"
        out.append(f"{name}{i}: frag<{kind}, 64x{cols}> = frag.pointwise {op}, {', '.join(args)}")
    return "\n".join(out)


def bias(i: int, at: int, name: str = "bias") -> str:
    """The chunk's columns of a bias as ``b<i>``."""
    return f"b{i}: frag<bf16, 1x64> = frag.load_global {name}[0, dcol + {at}]\n"


def column(i: int, at: int) -> str:
    """The group's rows of a column as ``l<i>``."""
    return f"l{i}: frag<f32, 64x1> = frag.load_global scale[drow, 0]\n"


def loaded_residual(i: int, at: int) -> str:
    """The chunk of a residual as ``r<i>``, by ordinary loads."""
    return f"r{i}: frag<bf16, 64x64> = frag.load_global res[drow, dcol + {at}]\n"


def staged_residual(i: int, at: int) -> str:
    """The chunk of a residual as ``r<i>``, through shared memory and with the bytes awaited."""
    return f"""
        on %warpgroup.warp 0 {{
          elect {{
            mbarrier.expect_tx res_full[group], bytes=8192
            tma.load R_smem[group, 0, 0], R[drow, dcol + {at}], bar=res_full[group]
          }}
        }}
        mbarrier.wait res_full[group], {i % 2}
        r{i}: frag<bf16, 64x64> = ldmatrix R_smem[group, 0, 0]
    """


def bias_gelu(i: int, at: int) -> str:
    """gelu(D + bias), the tanh form."""
    return bias(i, at) + steps(i, ("a = add c, b", *GELU, "e = mul g, 1.0"))


def add_residual(i: int, at: int) -> str:
    """D + residual."""
    return staged_residual(i, at) + steps(i, ("e = add c, r",))


def everything(i: int, at: int) -> str:
    """where(g < 0, 0.1 g, g) + residual, with g = gelu(D · scale + bias)."""
    lines = ("m = mul c, l", "a = add m, b", *GELU, "low = lt g, 0.0", "tenth = mul g, 0.1",
             "w = where low, tenth, g", "e = add w, r")  # fmt: skip
    return bias(i, at, "odd") + column(i, at) + loaded_residual(i, at) + steps(i, lines)


def epilogue_kernel(compute: Compute, stages: int = 3) -> Kernel:
    """The cooperative 128x256 kernel with bf16 operands and result, and an epilogue."""
    end = stages * 49152 + 4 * 8192 + 16 * stages
    residual = -(-end // 1024) * 1024
    places = TENSORS.replace("$residual", str(residual))
    tensors = places.replace("$res_full", str(residual + 2 * 8192))
    init = "mbarrier.init res_full[0], 1\nmbarrier.init res_full[1], 1"
    return cooperative_kernel("bf16", "bf16", stages, tensors, init, compute)
