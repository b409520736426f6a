"""How kernels are called, in dumps, profilers and the cubin cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

from lowering.target.targets import DEFAULT
from wsched.fusion import DataType, Fusion, History, PointwiseOp, Product, products
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.reductions import over_both, over_columns
from wsched.schedule.options import KernelOptions

__all__ = ["digits", "kernel_name", "schedule_name"]


_OUTSIDE = frozenset({
    "batch_invariant", "exchange_operands", "thread_loads", "l2_promotions", "smem_swizzles",
    "accumulators", "epilogue_columns", "prefetched_steps", "splitk_mode", "siblings", "sharing",
    "delayed_groups", "deferred_stores",
})  # fmt: skip
"""Parameters that the kernel's code does not show, or that have a word of their own."""

_LAUNCH = frozenset({"l2_promotions"})
"""Options of a schedule that the kernel's code does not show."""


def kernel_name(fusion: Fusion, params: MatmulParams) -> str:
    """A C identifier that says what the kernel does and how.

    The words are what one looks for first; schedules that differ elsewhere differ in the last one,
    six hexadecimal digits of a hash of all but ``batch_invariant`` and ``l2_promotions``, which the
    kernel is the same without (the one is a promise about it, the other a property of the tensor
    maps that a launch makes), and the target, ``exchange_operands``, ``thread_loads``,
    ``smem_swizzles``, ``accumulators``, ``epilogue_columns``, ``prefetched_steps``,
    ``splitk_mode``, ``siblings``, ``sharing``, ``delayed_groups`` and ``deferred_stores``, words.
    """
    tile, cluster = params.output_tile, params.cluster_dims
    buffer = params.circular_buffer_options
    words = [
        *_fusion_words(fusion),
        f"{tile.m}x{tile.n}x{tile.k}",
        "pingpong" if params.ping_pong else "cooperative",
        _dealt_word(params),
        f"s{buffer.smem_circular_buffer_stage}",
        f"f{params.wgmma_in_flight}",
    ]
    if (macro := params.mma_macro).target is not DEFAULT:
        words.append(macro.target.arch.replace("_", ""))
    if (ctas := macro.target.mma.ctas) > 1:
        words.append(f"group{ctas}")
    if params.exchange_operands:
        words.append("exchanged")
    if not params.warp_specialized:
        words.append("pipelined")
    if not params.use_smem_epilogue:
        words.append("registers")
    if cluster.m * cluster.n > 1:
        words.append(f"c{cluster.m}x{cluster.n}")
    if loads := params.thread_loads:
        words.append(f"threads{loads.a}x{loads.b}x{loads.warpgroups}")
    if spans := params.smem_swizzles:
        words.append(f"spans{spans.a.value}x{spans.b.value}")
    if params.halves:
        words.append("sums_f16")
    if params.epilogue_columns:
        words.append(f"chunks{params.epilogue_columns}")
    if params.prefetched_steps:
        words.append(f"early{params.prefetched_steps}")
    if params.deferred_stores:
        words.append("deferred")
    if params.along_k > 1:
        words.append(f"shared{params.along_k}")
    if params.splitk_factor > 1:
        words.append(f"{'parts' if params.stores_parts else 'split'}{params.splitk_factor}")
    words += _group_words(params)
    if params.grid_traversal_factor[0] > 1:
        words.append(f"g{params.grid_traversal_factor[0]}")
    told = params.to_dict()
    if params.siblings:
        words.append(f"with{digits(json.dumps(told['siblings'], sort_keys=True), 6)}")
    facts = {n: v for n, v in told.items() if n not in _OUTSIDE}
    facts["mma_macro"] = {"m": macro.m, "n": macro.n, "k": macro.k}
    words.append(digits(json.dumps(facts, sort_keys=True), 6))
    return "_".join(words)


def _group_words(params: MatmulParams) -> Iterator[str]:
    """Which groups a kernel takes, and in which order."""
    if sharing := params.sharing:
        yield f"takes{sharing.own}of{'_'.join(map(str, sharing.lengths))}"
    if params.delayed_groups:
        yield f"delays{params.delayed_groups}"


def schedule_name(fusion: Fusion, options: KernelOptions) -> str:
    """The same for a schedule that was written call by call: what it does, and a hash of it.

    Calls that lead to the same schedule give the same name.
    """
    told = {n: v for n, v in options.changed().items() if n not in _LAUNCH}
    facts = repr(_said((replace(fusion, history=History()), told)))
    return "_".join([*_fusion_words(fusion), "schedule", digits(facts, 10)])


def _said(value: object) -> object:
    """A value without what is at its default: a field that is added later, for something else,
    changes no names.
    """
    if is_dataclass(value) and not isinstance(value, type):
        said = [(f.name, v) for f in fields(value) if (v := getattr(value, f.name)) != f.default]
        return type(value).__name__, [(name, _said(v)) for name, v in said]
    if isinstance(value, Mapping):
        return [(_said(k), _said(v)) for k, v in value.items()]
    return [_said(v) for v in value] if isinstance(value, tuple | list) else value


def digits(facts: str, number: int) -> str:
    """So many digits of a hash of a text, for names that say what is in them."""
    return hashlib.sha256(facts.encode()).hexdigest()[:number]


def _fusion_words(fusion: Fusion) -> list[str]:
    """What is computed: layout, types, and whether more than a matmul."""
    made = products(fusion)
    operands = dict.fromkeys((p.a.dtype, _layout_word(p)) for p in made)
    dtypes = [*(dtype for dtype, _ in operands), *_result_types(fusion)]
    epilogue = any(isinstance(e, PointwiseOp) for e in fusion.exprs)
    layouts = dict.fromkeys(layout for _, layout in operands)
    words = [f"matmul{''.join(layouts)}", *(d.name.lower() for d in dtypes)]
    words += ["epilogue"] * epilogue + ["grouped"] * (fusion.groups is not None)
    words += [f"list_{axis.lower()}{len(names)}" for axis, names in fusion.lists.items()]
    return words + [f"{_over(fusion, b.tensor)}_{e.op}" for b in fusion.outputs
                    if (e := fusion.reduction(b.tensor)) is not None]  # fmt: skip


def _result_types(fusion: Fusion) -> list[DataType]:
    """Of each result, of a list once."""
    return [b.dtype for b in {b.tensor: b for b in fusion.outputs}.values()]


def _over(fusion: Fusion, tv: str) -> str:
    """What is reduced to what: ``row`` of a result that has a value for each row, ``tile`` of one
    whose parts have one for each tile.
    """
    if over_both(fusion, tv):
        return "tile"
    return "row" if over_columns(fusion, tv) else "column"


def _dealt_word(params: MatmulParams) -> str:
    """How tiles go to CTAs."""
    if params.stream_k:
        return "stream_k"
    if params.dynamic:
        return "dynamic"
    return "persistent" if params.persistent else "tile_per_cta"


def _layout_word(product: Product) -> str:
    """BLAS letters of the operands: A is M-major for ``n``, B N-major for ``t``; none for tn."""
    letters = ("n" if product.m_major else "t") + ("t" if product.n_major else "n")
    return "" if letters == "tn" else f"_{letters}"
