"""Text form: what is printed reads back, and what is no kernel is refused with line and reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import Const, Var
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import Kernel
from lowering.kernel.lexer import IRSyntaxError
from lowering.kernel.nodes import Frag, FragFill, FragPointwise, If, Stmt
from lowering.kernel.text import kernel_lines, parse_kernel, print_body, print_kernel, print_stmt
from lowering.kernel.visit import walk
from tests.lowering.kernel.samples import ALL_NODES, NODE_KINDS


def kernel(body: str = "", declarations: str = "") -> Kernel:
    return parse_kernel(
        f"kernel k threads 128 cluster 1 grid 1 {{\nparam M: i32\n{declarations}\n{body}\n}}\n"
    )


def test_every_node_kind_reads_back() -> None:
    parsed = parse_kernel(ALL_NODES)
    assert print_kernel(parsed) == ALL_NODES
    assert parse_kernel(print_kernel(parsed)) == parsed


@pytest.mark.parametrize("kind", NODE_KINDS, ids=lambda kind: kind.__name__)
def test_sample_has(kind: type[Stmt]) -> None:
    """A new node needs a line in the sample, and an ``OP`` of its own."""
    found = [s for s in walk(parse_kernel(ALL_NODES).body) if type(s) is kind]
    assert found, f"tests/lowering/kernel/samples.py has no {kind.__name__}"
    assert [k for k in NODE_KINDS if kind.OP == k.OP] == [kind]


def test_verbatim() -> None:
    """The parser folds nothing: a dump shows what a pass left."""
    (let,) = kernel("let a: i32 = (M + 0) * 1 - (2 - 1)").body
    assert print_stmt(let) == "let a: i32 = (M + 0) * 1 - (2 - 1)"


def test_a_result_may_have_the_name_of_a_keyword() -> None:
    """``once`` ends a binding, unless it begins the next statement."""
    text = "let a: i32 = M * 2\nonce: frag<f32, 64x8> = frag.fill 0.0\n"
    for body in (text, text.replace("2\n", "2 once\n", 1)):
        assert print_body(kernel(body).body) == body


def test_comments_and_layout_are_free() -> None:
    parsed = kernel("# first\nif M==0{ cta.sync }# last\nelse{}\n\n  # end\n")
    assert print_body(parsed.body) == "if M == 0 {\n  cta.sync\n}\n"


def test_empty_body() -> None:
    assert kernel().body == ()


def test_statement_is_quoted_by_its_first_line() -> None:
    branch = If(Var("M") < 1, (If(Const(1), ()),))
    assert print_stmt(branch) == "if M < 1 {"
    assert print_body((branch,)) == "if M < 1 {\n  if 1 {\n  }\n}\n"


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.5, -1.5, 1e-05, -2.5e30, 1e16, float("inf"), float("-inf")]
)
def test_fill_value_reads_back(value: float) -> None:
    fill = FragFill(Frag("f", FragmentType(DType.F32, 64, 8)), value)
    before = replace(kernel(), body=(fill,))
    assert str(parse_kernel(print_kernel(before))) == str(before)  # str tells -0.0 from 0.0


@pytest.mark.parametrize(
    "value",
    [
        0.5,
        -0.5,
        -0.0,
        0.1 + 0.2,
        -1.2345678901234567e-300,
        1e22,
        *map(float, ("inf", "-inf", "nan")),
    ],
)
def test_pointwise_numbers_read_back(value: float) -> None:
    """All 17 digits; a number that looks like a name is a number."""
    x = Frag("x", FragmentType(DType.F32, 64, 8))
    add = FragPointwise(Frag("y", x.type), "add", (x, value))
    before = replace(kernel(), body=(FragFill(x, 1.0), add))
    text = print_kernel(before)
    assert f"frag.pointwise add, x, {value!r}\n" in text
    assert repr(parse_kernel(text)) == repr(before)  # nan differs from itself


def test_globals_read_back() -> None:
    (bias, column) = kernel("", "global b: bf16[1, M] align 8\nglobal c: f32[M, 1]").globals
    assert (bias.align, bias.pairs, bias.strides) == (8, True, ("b_stride",))
    assert (column.align, column.pairs, column.dtype) == (1, False, DType.F32)
    (stack, line) = kernel("", "global s: f32[2, 3, M, 4]\nglobal l: f32[M]").globals
    assert stack.strides == ("s_stride0", "s_stride1", "s_stride")
    assert (str(stack.rows), str(stack.cols), line.strides, str(line.rows)) == ("M", "4", (), "1")


STORED = "bf16, f16, f32, f64, tf32, e4m3, e5m2, s8, u8, s32, u4, s64, bool"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("let a: i32 = b", "line 4: found 'b', expected a defined scalar"),
        ("let a: i32 = ;", "line 4: found ';', expected a token"),
        ("on %lane 0 { }", "line 4: found '%lane', expected '%warp' or '%warpgroup.warp'"),
        ("let a: f32 = 0", "line 4: found 'f32', expected a scalar type: i32, i64, pred"),
        ("let a: i32 = 1:f32", "line 4: found 'f32', expected a scalar type: i32, i64, pred"),
        ("let a: i32 = min(1)", "line 4: found ')', expected ','"),
        ("let a: i32 = min(1, 2, 3)", "line 4: found ',', expected ')'"),
        ("let a: i32 = clamp(true, 1, 2)", "line 4: found 'clamp', expected a defined scalar"),
        ("let a: i32 = select", "line 4: found 'select', expected a defined scalar"),
        ("let a: i32 = min", "line 4: found 'min', expected a defined scalar"),
        ("let a: i32 = M(1, 2)", "line 4: found '(', expected a statement"),
        ("let a: i32 = select(true, 2)", "line 4: found ')', expected ','"),
        ("let a: i32 = (1", "line 5: found '}', expected ')'"),
        ("let a: i32 = %tid.x", "line 4: found '%tid.x', expected a defined scalar"),
        ("let f: frag<f32, 64x8> = 0",
         "line 4: found 'frag', expected a scalar type: i32, i64, pred"),
        ("f: frag<f8, 64x8> = frag.fill 0.0",
         f"line 4: found 'f8', expected an element type: {STORED}, pred"),
        ("f: frag<f32, 64> = frag.fill 0.0", "line 4: found '64', expected ROWSxCOLS"),
        ("f: frag<f32, 64x8, late> = frag.fill 0.0", "line 4: found 'late', expected 'async'"),
        ("f: frag<f32, 64x8> = frag.fill x", "line 4: found 'x', expected a number"),
        ("f: frag<f32, 64x8> = frag.pointwise neg, x",
         "line 4: found 'x', expected a defined fragment or a number"),
        ("f: frag<f32, 64x8> = frag.pointwise neg", "line 5: found '}', expected ','"),
        ("f: frag<f32, 64x8> = frag.grow 0.0", "line 4: found 'frag.grow', expected a statement"),
        ("g: frag<f32, 64x8> = frag.cast f", "line 4: found 'f', expected a defined fragment"),
        ("wgmma.wait", "line 4: found 'wgmma.wait', expected a result before it"),
        ("x: frag<f32, 64x8> = bulk.wait 0",
         "line 4: found 'bulk.wait', expected a statement without a result"),
        ("x: i32 = frag.fill 0.0",
         "line 4: found 'frag.fill', expected a statement that gives a scalar"),
        ("frob x", "line 4: found 'frob', expected a statement"),
        ("bulk.wait", "line 5: found '}', expected an integer"),
        ("bulk.wait 1, now=true", "line 4: found 'now', expected one of read"),
        ("bulk.wait 1, read=yes", "line 4: found 'yes', expected 'true' or 'false'"),
        ("acquire 7, M", "line 4: found '7', expected a name"),
        ("tma.store D[], S[0, 0, 0]", "line 4: found ']', expected a defined scalar"),
        ("tma.store D[0, 0], S[0]", "line 4: found ']', expected ','"),
        ("mbarrier.wait full[0, 0], 0", "line 4: found ',', expected ']'"),
        ("elect", "line 5: found '}', expected '{'"),
        ("for i in 0 .. M carry (s: i32 = 0 -> t) { }", "line 4: found '}', expected 'yield'"),
        ("for i in 0 .. M carry (s: i32 = 0) { yield s }", "line 4: found ')', expected '->'"),
        ("for i in 0 .. M { yield M }", "line 4: found 'yield', expected '}'"),
        ("roles { role a warps 0 4 { } }", "line 4: found '4', expected '..'"),
        ("roles { load warps 0 .. 4 { } }", "line 4: found 'load', expected 'role'"),
        ("} cta.sync", "line 4: found 'cta.sync', expected the end of the text"),
        ("if M == 0 {", "line 5: found '', expected '}'"),
    ],
)  # fmt: skip
def test_body_is_refused(body: str, message: str) -> None:
    with pytest.raises(IRSyntaxError) as error:
        kernel(body)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("param f: frag<f32, 64x8>",
         "line 3: found 'frag', expected a scalar type: i32, i64, pred"),
        ("tensormap A: f8[M, M]",
         f"line 3: found 'f8', expected an element type: {STORED}"),
        ("global g: pred[M, 1]",
         f"line 3: found 'pred', expected an element type: {STORED}"),
        ("global g: f32[M, 1] align M", "line 3: found 'M', expected an integer"),
        ("shared S: f16[1][8x8] swizzle 100",
         "line 3: found '100', expected a swizzle: 0, 16, 32, 64, 128"),
        ("tensormap A: bf16[]", "line 3: found ']', expected a defined scalar"),
        ("tensormap A: bf16[M, M] box M", "line 3: found 'M', expected extents: N, ROWSxCOLS, ..."),
        ("shared S: f16[1][M]", "line 3: found 'M', expected extents: N, ROWSxCOLS, ..."),
        ("mbarrier b[M] arrivals 1", "line 3: found 'M', expected an integer"),
        ("ring r(S) teams 2", "line 3: found 'teams', expected 'stages'"),
    ],
)  # fmt: skip
def test_declaration_is_refused(declaration: str, message: str) -> None:
    with pytest.raises(IRSyntaxError) as error:
        kernel(declarations=declaration)
    assert str(error.value) == message


def test_a_grid_of_two_axes() -> None:
    text = """kernel k threads 128 cluster 1 splits 2 grid min(M, sms), ceildiv(M, 64) {
  param M: i32
  let row: i32 = %ctaid.z * %nctaid.y + %ctaid.y
}
"""
    kernel = parse_kernel(text)
    assert print_kernel(kernel) == text
    assert (kernel.rows({"M": 130}), kernel.ctas(5, {"M": 130})) == (3, 30)
    with pytest.raises(IRSyntaxError) as error:
        parse_kernel(text.replace("ceildiv(M, 64)", "sms"))
    assert str(error.value) == "line 1: found 'sms', expected a defined scalar"


def test_empty_text_is_refused() -> None:
    with pytest.raises(IRSyntaxError, match=r"^line 1: found '', expected 'kernel'$"):
        parse_kernel("# nothing\n")


def test_lines_know_what_begins_there() -> None:
    kernel = parse_kernel(
        """
        kernel k threads 256 cluster 1 grid 1 {
          param K: i32
          roles {
            role a warps 0 .. 4 { if 0 < K { cta.sync } else { cta.sync } }
            role b warps 4 .. 8 { for i in 0 .. K carry (s: i32 = 0 -> t) { yield s + 1 } }
          }
        }
        """
    )
    found = [(line.strip(), type(of).__name__) for line, of in kernel_lines(kernel)]
    assert "".join(f"{line}\n" for line, _ in kernel_lines(kernel)) == print_kernel(kernel)
    assert found == [
        ("kernel k threads 256 cluster 1 grid 1 {", "NoneType"),
        ("param K: i32", "NoneType"),
        ("roles {", "Roles"),
        ("role a warps 0 .. 4 {", "Role"),
        ("if 0 < K {", "If"),
        ("cta.sync", "CtaSync"),
        ("} else {", "NoneType"),
        ("cta.sync", "CtaSync"),
        ("}", "NoneType"),
        ("}", "NoneType"),
        ("role b warps 4 .. 8 {", "Role"),
        ("for i in 0 .. K carry (s: i32 = 0 -> t) {", "For"),
        ("yield s + 1", "NoneType"),
        ("}", "NoneType"),
        ("}", "NoneType"),
        ("}", "NoneType"),
        ("}", "NoneType"),
    ]
