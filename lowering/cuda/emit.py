"""Kernel IR to CUDA C++."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lowering.cuda import (
    atomics,
    barriers,
    compute,
    control,
    copy_tile,
    cp_async,
    descriptors,
    global_memory,
    movement,
    partials,
    pointwise,
    printing,
    queue,
    random,
    reductions,
    scalar_memory,
    shuffles,
    stamps,
    tensor_memory,
    watch,
)
from lowering.cuda.copies import copy_function
from lowering.cuda.emitter import Emitter
from lowering.cuda.expressions import C_TYPES, SPECIAL_REGISTERS
from lowering.cuda.names import Writer
from lowering.cuda.parameters import Parameter
from lowering.cuda.wgmma import wgmma_function
from lowering.ground.errors import InternalError
from lowering.kernel.descriptor import ADDRESS_BITS
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import CtaNumber, Role, Stmt

__all__ = [
    "Emitted", "Parts", "device_header", "emit_cuda", "emit_kernel", "emit_lines", "parts_of",
]  # fmt: skip

_RULES = {
    **control.RULES, **barriers.RULES, **movement.RULES, **compute.RULES, **global_memory.RULES,
    **pointwise.RULES, **stamps.RULES, **atomics.RULES, **partials.RULES, **queue.RULES,
    **scalar_memory.RULES, **descriptors.RULES, **cp_async.RULES, **reductions.RULES,
    **random.RULES, **shuffles.RULES, **copy_tile.RULES, **tensor_memory.RULES,
    **printing.RULES,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Emitted:
    """The source of a kernel, and where it is from.

    Args:
        text: the complete source.
        origins: of each line the innermost statement or role that became it; None of what is
            none's: the device header, the parameters, names of storage.
    """

    text: str
    origins: tuple[Stmt | Role | None, ...]


def emit_cuda(kernel: Kernel) -> str:
    """The complete source of a final kernel: the device header, then the kernel.

    Needs no include path. Compile it for the kernel's target (``lowering.cuda.nvrtc``).

    Raises:
        InternalError: the kernel is not final (a tile-level node, a missing offset, byte count or
            mbarrier), or a fragment value is used twice.
    """
    return emit_lines(kernel).text


def emit_lines(kernel: Kernel) -> Emitted:
    """:func:`emit_cuda` with what each line is from; statements are told apart by identity."""
    made, header = _emitted(kernel), f"{device_header()}\n"
    return Emitted(header + made.text, (*(None,) * header.count("\n"), *made.origins))


def emit_kernel(kernel: Kernel) -> str:
    """The source of a final kernel without the device header; errors as ``emit_cuda``."""
    return _emitted(kernel).text


@dataclass(frozen=True, slots=True)
class Parts:
    """What the text of a kernel is made of.

    Args:
        helpers: device functions that it calls.
        attributes: of its function, what it asks of a launch and of its compiler.
        parameters: in the order of a launch's.
        frame: lines in front of its statements, which define registers and places.
        body: those of its statements.
        origins: of each line of these, as of :class:`Emitted`.
    """

    helpers: tuple[str, ...]
    attributes: str
    parameters: tuple[Parameter, ...]
    frame: tuple[str, ...]
    body: tuple[str, ...]
    origins: tuple[Stmt | Role | None, ...]


def parts_of(kernel: Kernel) -> Parts:
    """The text of a final kernel in parts; errors as ``emit_cuda``."""
    if not kernel.name.isidentifier():
        raise InternalError("emit_cuda", f"kernel name {kernel.name!r} is no identifier")
    e = Emitter(kernel, _RULES)
    e.body(kernel.body)
    parameters = _parameters(e)
    helpers = [wgmma_function(form) for form in sorted(e.wgmmas, key=lambda f: f.name)]
    helpers += [atomics.atom_function(*form) for form in sorted(e.atoms)]
    helpers += map(copy_function, sorted(e.copies))
    helpers += [e.functions[name] for name in sorted(e.functions)]
    frame = Writer(1)
    _special_registers(e, frame)
    for line in stamps.frame(e):
        frame.line(line)
    _storage(e, frame)
    attributes = f"__launch_bounds__({kernel.threads}, 1)"
    if kernel.registers is not None:
        attributes = f"__maxnreg__({kernel.registers})"
    if kernel.cluster > 1:
        attributes = f"__cluster_dims__({kernel.cluster}, 1, 1) {attributes}"
    return Parts(
        tuple(helpers), attributes, tuple(parameters), tuple(frame.lines), tuple(e.out.lines),
        tuple(_origins(e)),
    )  # fmt: skip


def _emitted(kernel: Kernel) -> Emitted:
    parts = parts_of(kernel)
    head = Writer()
    head.line(f'extern "C" __global__ void {parts.attributes}')
    head.call(kernel.name, *map(str, parts.parameters), end=" {")
    front = "\n\n".join([*parts.helpers, "\n".join([*head.lines, *parts.frame])]) + "\n"
    text = front + "\n".join([*parts.body, "}"]) + "\n"
    return Emitted(text, (*(None,) * front.count("\n"), *parts.origins, None))


def _origins(e: Emitter) -> list[Stmt | Role | None]:
    """Of each line of the body the innermost statement that became it."""
    found: list[Stmt | Role | None] = [None] * len(e.out.lines)
    for begin, end, stmt in reversed(e.spans):  # those inside come later and win
        found[begin:end] = [stmt] * (end - begin)
    return found


@cache
def device_header() -> str:
    """Text of ``device.cuh``."""
    return Path(__file__).with_name("device.cuh").read_text(encoding="utf-8")


def _parameters(e: Emitter) -> list[Parameter]:
    """Tensor maps, addresses of those in device memory, address and strides of each plain tensor,
    trace buffers, watch, counters, workspaces, scalars.
    """
    maps = descriptors.parameters(e)
    scalars = [Parameter(C_TYPES[v.type], e.names.of("scalar", v.name)) for v in e.kernel.params]
    traces = [p for t in e.kernel.traces for p in stamps.parameters(e, t)]
    traces += watch.parameters(e)
    shared = [*atomics.parameters(e), *partials.parameters(e)]
    return [*maps, *global_memory.parameters(e), *traces, *shared, *scalars]


def _special_registers(e: Emitter, out: Writer) -> None:
    """Special registers and cache policies, as constants."""
    numbered = any(isinstance(s, CtaNumber) for s in e.kernel.body)
    for register, (name, read) in SPECIAL_REGISTERS.items():
        if register in e.specials and not (numbered and register.startswith("ctaid.")):
            out.line(f"const int {name} = {read};")
    for policy in sorted(e.policies):
        out.line(f"const u64 {policy} = ptx::createpolicy_{policy}();")


def _storage(e: Emitter, out: Writer) -> None:
    """Addresses of the shared buffers, their descriptors, and the mbarriers."""
    if not (e.kernel.shared or e.kernel.mbarriers):
        return
    out.line("extern __shared__ __align__(1024) unsigned char shared_memory[];")
    out.line("const unsigned smem = ptx::shared_address(shared_memory);")
    # Swizzles and descriptors take the alignment for granted; a wrong result would be silent.
    out.line("if (smem & 1023) __trap();")
    for buffer in e.kernel.shared:
        name = e.names.of("buffer", buffer.name)
        tile = " x ".join(map(str, (buffer.stages, *buffer.shape))) + f" {buffer.dtype.value}"
        note = f"{tile}, swizzle {buffer.swizzle.value}"
        out.line(f"const unsigned {name} = smem + {e.buffer(buffer.name).offset};  // {note}")
        if buffer.name in e.descriptors:
            word, trans = e.descriptors[buffer.name]
            _, low = compute.descriptor_words(buffer, trans)
            # Shared addresses of a cluster's CTAs have the rank above the bits of a descriptor.
            mask = (1 << ADDRESS_BITS) - 1
            out.line(f"const unsigned {word} = (({name} & {mask:#x}) >> 4) | {low:#x};")
    for array in e.kernel.mbarriers:
        if array.offset is None:
            raise InternalError("emit_cuda", f"mbarrier array {array.name} has no offset")
        name = e.names.of("barrier", array.name)
        out.line(f"const unsigned {name} = smem + {array.offset};  // {array.stages} mbarriers")
