"""The arguments of nvFuser's calls: their names in order, older spellings, numbers of results.

A call whose operation is not here is recorded as it is written.
"""

from __future__ import annotations

from lowering.kernel.pointwise import OPS
from wsched.importer.ops import ADDED, ALIASES, COMPOSITE, MISSING, STRUCTURE, arity_of

__all__ = ["DEFINE", "OLDER", "known_ops", "makes_one", "needed", "parameters", "results_of"]

DEFINE = {
    "define_tensor": ("shape", "contiguity", "dtype", "is_cpu", "stride_order"),
    "define_scalar": ("value", "dtype"),
    "define_vector": ("value", "dtype"),
    "from_pytorch": ("tensor", "static_sizes"),
    "add_output": ("output", "alias_input"),
}
"""Calls of the definition itself."""

OLDER = {
    "symbolic_sizes": "shape",
    "contiguous": "contiguity",
    "size": "value",
    "values": "value",
    "axes": "dims",
    "axis": "dims",
    "keep_dim": "keepdim",
    "output_shape": "shape",
    "arg_1": "arg1",
}
"""Names of arguments in older versions of nvFuser, where the newer is one of the call's."""

_RANDOM = ("shape", "rng_seed", "rng_offset", "dtype")
_REDUCED = ("arg", "dims", "keepdim", "dtype", "dim")
_VARIANCE = ("arg", "dims", "correction", "keepdim")
_SCALED = (
    "mat1", "mat2", "scale1", "scale2", "alpha", "bias", "beta", "dtype",
    "output_block_scale_size", "output_block_scale_dtype", "output_gamma",
)  # fmt: skip
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "argsort": ("arg", "dim", "descending", "stable"),
    "broadcast": ("arg", "is_broadcast_dim"),
    "broadcast_in_dim": ("arg", "shape", "broadcast_dims"),
    "cast": ("arg", "dtype"),
    "cat": ("tensors", "dim", "manual_padding"),
    "cutlass_nvfp4_grouped_mm": (
        "mat1", "mat2", "scale1", "scale2", "alpha", "problem_sizes", "expert_offsets",
        "sf_offsets", "dtype",
    ),
    "embedding_fwd": (
        "input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse",
    ),
    "expand": ("arg", "shape"),
    "full": ("shape", "fill_value", "dtype"),
    "gather": ("arg", "index", "dim"),
    "grouped_mm": (*_SCALED[:2], "offsets", *_SCALED[2:]),
    "index_put_accumulate": ("acc", "index", "value"),
    "index_select": ("arg", "index", "dim"),
    "iota": ("length", "start", "step", "dtype"),
    "linear": ("arg1", "arg2", "bias"),
    "matmul": ("arg1", "arg2"),
    "normal": ("mean", "std", *_RANDOM),
    "nv_block_quantize": ("input", "global_scale", "swizzle_block_scales", "block_size", "dtype"),
    "nv_grouped_block_quantize": (
        "input", "input_offsets", "output_offsets", "global_scale", "block_size", "dtype",
    ),
    "pad": ("arg", "pad_widths", "value"),
    "permute": ("arg", "dims"),
    "preprocess_grouped_matmul_input_sf": ("input", "input_offsets", "output_offsets"),
    "reshape": ("arg", "new_shape", "original_shape"),
    "scaled_mm": _SCALED,
    "scatter": ("arg", "index", "src", "dim"),
    "sdpfa_bwd": (
        "grad_output", "query", "key", "value", "output", "logsumexp", "dropout_p", "is_causal",
        "philox_seed", "philox_offset", "scale",
    ),
    "sdpfa_fwd": ("query", "key", "value", "bias", "mask", "dropout_p", "is_causal", "scale"),
    "select": ("arg", "index", "dim"),
    "size": ("arg", "dim"),
    "slice": ("arg", "start_indices", "end_indices", "strides", "manual_normalization"),
    "squeeze": ("arg", "dims", "squeeze_expanded", "original_shape"),
    "stride_order": ("arg", "stride_order"),
    "take_along_axis": ("arg", "index", "dim"),
    "topk": ("arg", "k", "dim", "largest", "sorted"),
    "triu": ("arg", "diagonal"),
    "uniform": ("minval", "maxval", *_RANDOM),
    "var": _VARIANCE,
    "var_mean": _VARIANCE,
    "welford": ("arg", "dims"),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum"), ("arg", "dim", "init")),
    **dict.fromkeys(("max", "min", "prod", "sum"), _REDUCED),
}  # fmt: skip

_NEEDED: dict[str, int] = {
    "addcmul": 3,  # the factor is 1
    "cat": 1, "full": 3, "iota": 1, "scatter": 4, "triu": 1,
    **dict.fromkeys(("broadcast", "expand", "pad", "permute", "reshape", "size"), 2),
    **dict.fromkeys(("embedding_fwd", "squeeze", "stride_order", "topk", "welford"), 2),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum"), 2),
    **dict.fromkeys(("broadcast_in_dim", "gather", "grouped_mm", "index_put_accumulate"), 3),
    **dict.fromkeys(("index_select", "select", "slice", "take_along_axis"), 3),
}  # fmt: skip
"""How many arguments a call has at least, from the first one on."""

_OLDER_OPS = ("at", "batch_norm", "tensor_sizes", "view")
"""Operations that newer versions of nvFuser do not have."""

_RESULTS = {
    "batch_norm": 3,
    "nv_block_quantize": 2, "nv_grouped_block_quantize": 2, "scaled_mm": 3, "sdpfa_bwd": 3,
    "sdpfa_fwd": 4, "topk": 2, "var_mean": 2, "welford": 3,
}  # fmt: skip


def known_ops() -> frozenset[str]:
    """Names below ``fd.ops`` that wsched has heard of, supported or not."""
    return frozenset((*OPS, *ALIASES, *COMPOSITE, *STRUCTURE, *MISSING, *_OLDER_OPS, ADDED))


def parameters(op: str) -> tuple[str, ...] | None:
    """Names of an operation's arguments, in order; None where they are not known.

    Operands of pointwise operations are ``arg0``, ``arg1``, ...
    """
    found = DEFINE.get(op) or _PARAMETERS.get(op)
    arity = arity_of(op)
    if found is None and arity is not None:
        return tuple(f"arg{n}" for n in range(arity))
    return found


def needed(op: str) -> tuple[str, ...]:
    """Names of the arguments without which there is no operation; none where they are not known."""
    names = parameters(op) or ()
    return names[: _NEEDED.get(op, arity_of(op) or 0)]


def results_of(op: str) -> int:
    """How many results an operation has where the text does not take them apart."""
    return _RESULTS.get(op, 1)


def makes_one(op: str) -> bool:
    """Whether an operation that nvFuser has today always has one result."""
    return op not in _RESULTS and parameters(op) is not None
