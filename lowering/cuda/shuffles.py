"""Rule for lane exchange: two shuffles for each two pieces that a lane holds of a row.

Pieces of 16 bits are those of two rows in one word, as the narrower layout has them; the wider
layout's words are put together from two of them, or taken apart, by ``prmt``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowering.cuda.elements import register_type
from lowering.cuda.emitter import Emitter, Rule
from lowering.ground.exchange import rounds
from lowering.ground.expr import ZERO
from lowering.kernel.nodes import Frag, FragShuffle, Stmt

__all__ = ["RULES"]

_EXCHANGE = """\
// Each lane sends one of two words and receives one, and then the others.
__device__ __forceinline__ void exchange(
    unsigned first, unsigned second, bool other, int from0, int from1, bool swap,
    unsigned& low, unsigned& high) {
  const unsigned a = __shfl_sync(0xffffffffu, other ? second : first, from0);
  const unsigned b = __shfl_sync(0xffffffffu, other ? first : second, from1);
  low = swap ? b : a;
  high = swap ? a : b;
}"""


def _shuffle(e: Emitter, s: FragShuffle) -> None:
    """A loop over the groups of the wider layout; ``r`` counts them."""
    e.functions["exchange"] = _EXCHANGE
    e.declare(s.out)
    widen = s.out.type.layout.span > s.value.type.layout.span
    wide = s.out if widen else s.value
    with e.out.block(""):
        how = _lanes(e, widen)
        for block in range(wide.type.blocks):
            with e.groups(wide.type.groups):
                _group(e, s, block, widen, how)


def _lanes(e: Emitter, widen: bool) -> tuple[str, str, str, str]:
    """What each lane does in both rounds: whether it sends its second piece first, whom it receives
    from, whether what it receives first is its second piece.
    """
    first, second = rounds(widen)
    lane = e.special("lane")
    names = [e.names.fresh(wish) for wish in ("other", "from0", "from1", "swap")]
    for name, table in ((names[0], first.sends), (names[3], first.place)):
        mask = sum(bit << q for q, bit in enumerate(table))
        e.out.line(f"const bool {name} = {mask:#x} >> ({lane} & 3) & 1;")
    for name, table in ((names[1], first.source), (names[2], second.source)):
        mask = sum(q << 2 * i for i, q in enumerate(table))
        e.out.line(f"const int {name} = ({lane} & ~3) + ({mask:#x} >> 2 * ({lane} & 3) & 3);")
    return names[0], names[1], names[2], names[3]


def _group(
    e: Emitter, s: FragShuffle, block: int, widen: bool, how: tuple[str, str, str, str]
) -> None:
    """One group of the wider layout, two of the narrower one."""
    narrow, wide = (s.value, s.out) if widen else (s.out, s.value)
    bits, piece = narrow.type.dtype.register_bits, narrow.type.layout.span
    groups = ("2 * r", "2 * r + 1")
    if piece * bits == 16:
        low = [_word(e, narrow, (block, 0, 0), group) for group in groups]
        high = [_word(e, wide, (block, half, 0), "r") for half in (0, 1)]
        _of_two_rows(e, low, high, widen, how)
        return
    for half in (0, 1):
        for col in range(0, piece, 32 // bits):
            low = [_word(e, narrow, (block, half, col), group) for group in groups]
            high = [_word(e, wide, (block, half, t * piece + col), "r") for t in (0, 1)]
            given, taken = (low, high) if widen else (high, low)
            _words(e, register_type(narrow.type.dtype), given, taken, how)


def _of_two_rows(
    e: Emitter, narrow: list[str], wide: list[str], widen: bool, how: tuple[str, str, str, str]
) -> None:
    """Exchange pieces of 16 bits, as words of two rows each."""
    words = _fresh(e)
    if widen:
        _exchange(e, how, narrow, words)
    given, taken = (words, wide) if widen else (wide, words)
    for to, selector in zip(taken, ("0x5410", "0x7632"), strict=True):
        e.out.line(f"{to} = __byte_perm({given[0]}, {given[1]}, {selector});")
    if not widen:
        _exchange(e, how, words, narrow)


_BITS = {"float": ("__float_as_uint", "__uint_as_float"), "int": ("unsigned", "int")}
"""C++ type of a register -> what makes a word of it, and back."""


def _words(
    e: Emitter, kind: str, given: list[str], taken: list[str], how: tuple[str, str, str, str]
) -> None:
    """Exchange whole registers."""
    if kind not in _BITS:
        _exchange(e, how, given, taken)
        return
    to_word, back = _BITS[kind]
    words = _fresh(e)
    _exchange(e, how, [f"{to_word}({x})" for x in given], words)
    for to, word in zip(taken, words, strict=True):
        e.out.line(f"{to} = {back}({word});")


def _fresh(e: Emitter) -> list[str]:
    """Declare two words."""
    words = [e.names.fresh("word") for _ in range(2)]
    e.out.line(f"unsigned {', '.join(words)};")
    return words


def _exchange(
    e: Emitter, how: tuple[str, str, str, str], given: Sequence[str], taken: Sequence[str]
) -> None:
    e.out.call("exchange", *given, *how, *taken)


def _word(e: Emitter, value: Frag, at: tuple[int, int, int], group: str) -> str:
    """The register that has an element of a group, as an array element."""
    view = e.view(value)
    step, first, _ = view.element(*at)
    group = group if step == 1 or group == "r" else f"({group})"
    index = group if step == 1 else f"{step} * {group}"
    start = view.start + first
    index += "" if start == ZERO else f" + {e.addend(start)}"
    return f"{e.array(value)}[{index}]"


RULES: Mapping[type[Stmt], Rule] = {FragShuffle: _shuffle}
