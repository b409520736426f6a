"""Weights that a definition takes out of words, or scales by groups, as in wsched's own words."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.int4 import CAT, IOTA, K, M, N, definition, scaled, scales
from wsched.fusion import DataType, Fusion
from wsched.importer import build_fusion, record_text
from wsched.importer.definition import definition_text
from wsched.importer.weights import with_weights


def built(text: str) -> Fusion:
    return build_fusion(record_text(text))


def words(*lines: str, shape: tuple[int, int] = (N, K), group: int = 0) -> str:
    """A linear of integers of 4 bits, and of scales of groups, in words of wsched's own."""
    text = definition(*lines, more=scales(group) if group else ())
    packed = f"shape=[{N}, {K // 8}], contiguity=[True, True], dtype=DataType.Int32"
    assert packed in text
    return text.replace(packed, packed.replace(str(K // 8), str(K)).replace("Int32", "UInt4"))


CASTS = ("f = fd.ops.cast(q, dtype=DataType.Float)", "w = fd.ops.cast(q, dtype=DataType.BFloat16)")
EIGHT = (CASTS[0], "m = fd.ops.sub(f, 8.0)", "w = fd.ops.cast(m, dtype=DataType.BFloat16)")
LINEAR = "d = fd.ops.linear(x, w)"
TO = f"r = fd.ops.reshape(e, new_shape=[{N}, {K}])"
CAST = "w = fd.ops.cast(r, dtype=DataType.BFloat16)"


MASKED = (
    "masks = fd.ops.mul(fd.ops.iota(length=8, start=0, step=1, dtype=DataType.Int32), 4)",
    "a = fd.ops.broadcast(q, is_broadcast_dim=[False, False, True])",
    "c = fd.ops.logical_right_shift(a, masks)",
    "e = fd.ops.bitwise_and(15, c)",
)
"""Shifts that are computed and have no dimensions in front, another shift, the mask first."""

FIRST = tuple(
    line
    for n in range(8)
    for line in (
        f"k{n} = fd.ops.bitwise_and(q, {15 << 4 * n})",
        f"t{n} = fd.ops.bitwise_right_shift(k{n}, {4 * n})",
        f"n{n} = fd.ops.bitwise_and(t{n}, 15)",
        f"b{n} = fd.ops.broadcast(n{n}, is_broadcast_dim=[False, False, True])",
    )
) + (f"e = fd.ops.cat([{', '.join(f'b{n}' for n in range(8))}], dim=-1)",)
"""Masked before they are shifted, the highest one by a mask with a sign."""


@pytest.mark.parametrize("way", [IOTA, CAT, MASKED, FIRST], ids=["iota", "cat", "masked", "first"])
def test_every_way_to_take_words_apart(way: tuple[str, ...]) -> None:
    """A definition's text is nvFuser's: the same fusion as that of ``UInt4``."""
    made = built(definition(*way, TO, CAST, LINEAR))
    assert made == built(words(CASTS[1], LINEAR))
    assert made.inputs[1].dtype is DataType.UInt4 and made.inputs[1].sizes == (N, K)


PADDED = (
    "one = fd.define_scalar(0, dtype=DataType.Int32)",
    *(
        line
        for n in range(8)
        for line in (
            f"t{n} = fd.ops.bitwise_right_shift(q, {4 * n})",
            f"n{n} = fd.ops.bitwise_and(t{n}, 15)",
            f"b{n} = fd.ops.broadcast(n{n}, is_broadcast_dim=[False, False, True])",
            f"c{n} = fd.ops.add({n - 1}, 1)",
            f"p{n} = fd.ops.pad(b{n}, pad_widths=[c{n}, {7 - n}, 0, 0, 0, 0], value=one)",
        )
    ),
    f"e = fd.ops.cat([{', '.join(f'p{n}' for n in range(8))}], dim=2, manual_padding=True)",
)


def test_cat_as_nvfuser_prints_it() -> None:
    assert built(definition(*PADDED, TO, CAST, LINEAR)) == built(words(CASTS[1], LINEAR))


@pytest.mark.parametrize(
    "lines",
    [
        (TO, "z = fd.ops.sub(r, 8)", "w = fd.ops.cast(z, dtype=DataType.BFloat16)", LINEAR),
        (TO, "f = fd.ops.cast(r, dtype=DataType.Float)", "z = fd.ops.sub(f, 8.0)",
         "w = fd.ops.cast(z, dtype=DataType.BFloat16)", LINEAR),
        ("f = fd.ops.cast(e, dtype=DataType.Float)", "z = fd.ops.sub(f, 8.0)",
         TO.replace("(e,", "(z,"), CAST, LINEAR),
        (TO, "z = fd.ops.sub(r, 8)", "w = fd.ops.cast(z, dtype=DataType.BFloat16)",
         "v = fd.ops.permute(w, dims=[1, 0])", "d = fd.ops.matmul(x, v)"),
    ],
    ids=["integers", "floats", "before they are a matrix", "matmul"],
)  # fmt: skip
def test_arithmetic_on_integers(lines: tuple[str, ...]) -> None:
    """What is computed of integers is computed in fp32, which has all of them."""
    assert built(definition(*IOTA, *lines)) == built(words(*EIGHT, LINEAR))


SCALED = "d = fd.ops.linear(x, w, scale_b=s, group=32)"


@pytest.mark.parametrize("way", scaled(32))
def test_scales_of_groups(way: str) -> None:
    """Multiplied by groups, or repeated for all of a group: they count the sums of the product."""
    made = built(definition(*IOTA, *scaled(32)[way], LINEAR, more=scales(32)))
    assert made == built(words(CASTS[1], SCALED, group=32))


def test_scales_behind_zero_points() -> None:
    text = definition(*IOTA, "z = fd.ops.sub(e, 8)", *scaled(64, of="z")["by groups"], LINEAR,
                      more=scales(64))  # fmt: skip
    assert built(text) == built(words(*EIGHT, SCALED.replace("32", "64"), group=64))


def test_scales_of_16_bits() -> None:
    """Cast behind the broadcast, where nvFuser casts what is multiplied in fp32."""
    lines = [x.replace("(f, g)", "(f, g1)")
             for x in scaled(32)["by groups"]]  # fmt: skip
    at = next(n for n, x in enumerate(lines) if x.startswith("h ="))
    lines.insert(at, "g1 = fd.ops.cast(g, dtype=DataType.Float)")
    more = tuple(x.replace("Float", "Half") for x in scales(32))
    made = built(definition(*IOTA, *lines, LINEAR, more=more))
    assert made.inputs[2].dtype is DataType.Half and made.mmas[0].scales is not None


ZEROS = SCALED.replace("scale_b=s,", "scale_b=s, zero_b=z,")


def with_zeros(group: int = 32) -> tuple[str, ...]:
    """Inputs with numbers of groups."""
    (s,) = scales(group)
    return s, s.replace("s =", "z =")


def shifted(group: int = 32, of: str = "e") -> tuple[str, ...]:
    """Weights without their groups' zero points, times scales."""
    lines = [x.replace("(f, g)", "(y, g)") for x in scaled(group, of)["by groups"]]
    at = lines.index("h = fd.ops.mul(y, g)")
    lines[at:at] = ["u = fd.ops.broadcast(z, is_broadcast_dim=[False, False, True])",
                    "y = fd.ops.sub(f, u)"]  # fmt: skip
    return tuple(lines)


def test_zero_points_of_groups() -> None:
    made = built(definition(*IOTA, *shifted(), LINEAR, more=with_zeros()))
    text = definition(CASTS[1], ZEROS, more=with_zeros())
    assert made == built(text.replace(f"[{N}, {K // 8}]", f"[{N}, {K}]").replace("Int32", "UInt4"))
    assert str(made.mmas[0]).endswith(
        "promotion = 32, scales = {none, T2 of 1 behind zero points T3})"
    )
    assert made.scales == {"T2", "T3"}
    assert [b.axes for b in made.inputs[2:]] == [("N", "K_32")] * 2


@pytest.mark.parametrize(
    ("old", "new", "what", "supported"),
    [
        ("zero_b=z", "zero_b=s", "scales of groups of 32 and zero points in s",
         "a tensor for each"),
        ("zero_b=z", "zero_b=w", "zero points of groups of 32 in w",
         "inputs of fp32 or 16 bits with two dimensions"),
        ("(x, w,", "(x, v,", "zero points of groups of v, which is multiplied as it is",
         "of what is computed, a cast say"),
        ("(x, w,", "(x, u,", "zero points of groups of u, which is multiplied as it is",
         "of what is computed, a cast say"),
        ("scale_b=s, ", "", "scales of groups of 32 in None",
         "inputs of fp32 or 16 bits with two dimensions"),
    ],
)  # fmt: skip
def test_words_that_say_no_zero_points(old: str, new: str, what: str, supported: str) -> None:
    plain = "v = fd.define_tensor(shape=[72, 64], contiguity=[True, True], dtype=DataType.BFloat16)"
    same = "u = fd.ops.cast(v, dtype=DataType.BFloat16)"
    text = definition(same, CASTS[1], ZEROS, more=(plain, *with_zeros()))
    text = text.replace(f"[{N}, {K // 8}]", f"[{N}, {K}]").replace("Int32", "UInt4")
    with pytest.raises(UnsupportedError) as error:
        built(text.replace(old, new))
    assert (error.value.what, error.value.supported) == (what, supported)


def test_scales_that_lie_by_groups_and_have_16_bits() -> None:
    more = (f"s0 = fd.define_tensor(shape=[{K // 32}, {N}], contiguity=[True, True], "
            "dtype=DataType.BFloat16)",)  # fmt: skip
    lines = ("s1 = fd.ops.permute(s0, dims=[1, 0])", "s = fd.ops.cast(s1, dtype=DataType.Float)")
    made = built(definition(*lines, *IOTA, *scaled(32)["by groups"], LINEAR, more=more))
    scale = made.inputs[2]
    assert (scale.axes, scale.dtype) == (("K_32", "N"), DataType.BFloat16)
    (mma,) = made.mmas
    assert str(mma).endswith("promotion = 32, scales = {none, T2 of 1})")


def test_matmuls_with_scales_are_linears() -> None:
    turned = ("v = fd.ops.permute(w, dims=[1, 0])", "d = fd.ops.matmul(x, v)")
    made = built(definition(*IOTA, *scaled(32)["by groups"], *turned, more=scales(32)))
    assert made == built(words(CASTS[1], SCALED, group=32))


WIDE = "e = fd.ops.cast(q, dtype=DataType.Float)"


def of_type(dtype: str, text: str) -> str:
    """A definition whose weights are a matrix of this type in place of words."""
    packed = f"shape=[{N}, {K // 8}], contiguity=[True, True], dtype=DataType.Int32"
    assert packed in text
    return text.replace(packed, packed.replace(str(K // 8), str(K)).replace("Int32", dtype))


def test_weights_of_8_bits() -> None:
    """Groups are those of any operand; e4m3 is cast to what is multiplied once."""
    lines = (WIDE, *scaled(32)["by groups"])
    eight = of_type("Float8_e4m3fn", definition(*lines, LINEAR, more=scales(32)))
    words_of_8 = words(CASTS[1], SCALED, group=32).replace("UInt4", "Float8_e4m3fn")
    assert built(eight) == built(words_of_8)


def test_sizes_that_a_call_says() -> None:
    """Rows are those of the weights."""
    text = definition(*IOTA, "rows = fd.ops.size(q, dim=0)",
                      TO.replace(f"[{N}, ", "[rows, "), CAST, LINEAR)  # fmt: skip
    open_ = text.replace(f"[{N}, {K // 8}]", "[-1, -1]").replace(f"[{M}, {K}]", "[-1, -1]")
    made = built(open_)
    assert made.inputs[1].sizes == (None, None) and made.inputs[1].dtype is DataType.UInt4


@pytest.mark.parametrize(
    "lines",
    [
        ("w = fd.ops.cast(q, dtype=DataType.BFloat16)", LINEAR),
        (f"y = fd.ops.reshape(x, new_shape=[{M}, 4, {K // 4}])",
         "z = fd.ops.mul(y, 2.0)", f"v = fd.ops.reshape(z, new_shape=[{M}, {K}])",
         "w = fd.ops.cast(q, dtype=DataType.BFloat16)", "d = fd.ops.linear(v, w)"),
    ],
    ids=["nothing is looked at otherwise", "rows"],
)  # fmt: skip
def test_what_stays(lines: tuple[str, ...]) -> None:
    found = record_text(definition(*lines))
    assert with_weights(found) is found


ORDER = (
    "8 integers of 4 bits side by side along K, the first one in the lowest bits: shifts of 0, 4, "
    "..., 28, masks of 15"
)
ARITHMETIC = "sums, differences and products with small integers, and casts to floats"
SHIFTS = "numbers of the definition from 0 to 31, and fd.ops.iota of 8"
NUMBERS = "in floats zero points, which are taken from small integers, then scales"
VECTOR = "i0 = fd.define_tensor(shape=[8], contiguity=[True], dtype=DataType.Int32)"


@pytest.mark.parametrize(
    ("lines", "what", "supported"),
    [
        ((*(x.replace("start=0, step=4", "start=28, step=-4") for x in IOTA), TO, CAST, LINEAR),
         "an operand of the words of q by rows, the words of a row, parts of a word, shifted by "
         "[28, 24, 20, 16, 12, 8, 4, 0], masks 15,", ORDER),
        ((*(x.replace(", 15)", ", 7)") for x in IOTA), TO, CAST, LINEAR),
         "an operand of the words of q by rows, the words of a row, parts of a word, shifted by "
         "[0, 4, 8, 12, 16, 20, 24, 28], masks 7,", ORDER),
        ((*(x.replace("step=4", "step=8") for x in IOTA), TO, CAST, LINEAR),
         "an operand that is made by fd.ops.bitwise_right_shift of a, b", SHIFTS),
        ((VECTOR, *(x.replace("(i,", "(i0,") for x in IOTA), TO, CAST, LINEAR),
         "an operand that is made by fd.ops.bitwise_right_shift of a, b", SHIFTS),
        ((*IOTA, "r = fd.ops.reshape(e, new_shape=[24, 32])", CAST, LINEAR),
         "fd.ops.reshape of q [N, K] to [24, 32]", "[N, K] and [N, K / group, group]"),
        ((*IOTA, TO, "z = fd.ops.div(r, 2)", "w = fd.ops.cast(z, dtype=DataType.BFloat16)", LINEAR),
         "fd.ops.div of integers of 4 bits, r, 2", ARITHMETIC),
        ((*IOTA, TO, "z = fd.ops.mul(r, 16777216)",
          "w = fd.ops.cast(z, dtype=DataType.BFloat16)", LINEAR),
         "fd.ops.mul of integers of 4 bits, r, 16777216", ARITHMETIC),
        ((*IOTA, TO, CAST, LINEAR.replace("d =", "y ="), "p = fd.ops.cast(q, dtype=DataType.Float)",
          "l = fd.ops.sum(p, dims=[1])", "d = fd.ops.add(y, l)"),
         "q as words and as integers of 4 bits", "one way to read it"),
        ((*IOTA, TO, "z = fd.ops.cast(r, dtype=DataType.Double)",
          "w = fd.ops.cast(z, dtype=DataType.BFloat16)", LINEAR),
         "fd.ops.cast of q, taken apart, to DataType.Double",
         "Float, BFloat16, and Half of what it surely holds"),
        (("s = fd.define_tensor(shape=[72, 8], contiguity=[True, True], dtype=DataType.Float)",
          *IOTA, "z = fd.ops.sub(e, s)", TO.replace("(e,", "(z,"), CAST, LINEAR),
         "fd.ops.sub of q, taken apart, and a tensor", "numbers of all of it, of a row or of a "
         "group"),
    ],
    ids=["order", "mask", "far", "unknown", "shape", "op", "large", "twice", "cast", "tensor"],
)  # fmt: skip
def test_words_that_are_no_integers(lines: tuple[str, ...], what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        built(definition(*lines))
    assert (error.value.what, error.value.supported) == (what, supported)


@pytest.mark.parametrize(
    ("change", "what", "supported"),
    [
        (("h = fd.ops.mul(f, g)", "h = fd.ops.div(f, g)"),
         "fd.ops.div of q and s, numbers of groups,", NUMBERS),
        (("h = fd.ops.mul(f, g)", "h = fd.ops.sub(g, f)"),
         "fd.ops.sub of q and s, numbers of groups,", NUMBERS),
        (("h = fd.ops.mul(f, g)", "k = fd.ops.mul(f, g)\n    h = fd.ops.sub(k, g)"),
         "fd.ops.sub of q and s, numbers of groups,", NUMBERS),
        (("h = fd.ops.mul(f, g)", "k = fd.ops.mul(f, 0.3)\n    h = fd.ops.sub(k, g)"),
         "fd.ops.sub of q and s, numbers of groups,", NUMBERS),
        (("w = fd.ops.cast(j,", "t = fd.ops.mul(j, 2.0)\n    w = fd.ops.cast(t,"),
         "fd.ops.mul of q behind its scales or zero points of groups",
         "a cast in front of the product"),
    ],
    ids=["quotient", "taken from", "behind scales", "of others", "behind"],
)  # fmt: skip
def test_scales_that_are_none_of_groups(change: tuple[str, str], what: str, supported: str) -> None:
    text = definition(*IOTA, *scaled(32)["by groups"], LINEAR, more=scales(32))
    assert change[0] in text
    with pytest.raises(UnsupportedError) as error:
        built(text.replace(*change))
    assert (error.value.what, error.value.supported) == (what, supported)


BY_GROUPS = "e0 = fd.ops.reshape(e, new_shape=[64, 2, 32])"
MATRIX = "e0 = fd.ops.reshape(e, new_shape=[64, 64])"
COLUMN = "g = fd.ops.broadcast(s, is_broadcast_dim=[False, False, True])"
FLAT = ("p = fd.ops.expand(g, shape=[64, 2, 32])", "o = fd.ops.reshape(p, new_shape=[64, 64])")


@pytest.mark.parametrize(
    ("lines", "product"),
    [
        ((BY_GROUPS, "p = fd.ops.expand(g, shape=[64, 2, 16])"), "mul(f, p)"),
        ((BY_GROUPS, *FLAT), "mul(f, o)"),
        ((MATRIX,), "mul(f, g)"),
        ((MATRIX.replace("e0", "r0"), "e0 = fd.ops.permute(r0, dims=[1, 0])", *FLAT), "mul(f, o)"),
        ((MATRIX.replace("e0", "r0"), "e0 = fd.ops.permute(r0, dims=[1, 0])", *FLAT), "sub(f, o)"),
    ],
    ids=["other groups", "a matrix", "groups of a matrix", "turned", "zeros of what is turned"],
)  # fmt: skip
def test_numbers_that_are_of_no_group_of_the_weights(lines: tuple[str, ...], product: str) -> None:
    """The definition stays as it is; [N, K] may be square, so that shapes do not tell it."""
    text = definition(
        *IOTA, COLUMN, *lines, "f = fd.ops.cast(e0, dtype=DataType.Float)",
        f"h = fd.ops.{product}", "j = fd.ops.reshape(h, new_shape=[64, 64])",
        CAST.replace("(r", "(j"), LINEAR, more=scales(32, n=64), n=64,
    )  # fmt: skip
    found = record_text(text)
    assert with_weights(found) is found


def test_the_text_of_it() -> None:
    """In its new words a definition is read again."""
    text = definition(*IOTA, *scaled(32)["by groups"], LINEAR, more=scales(32))
    made = with_weights(record_text(text))
    assert built(definition_text(made)) == built(text)
