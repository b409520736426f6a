"""What single statements refuse, on kernels of a few lines."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.ground.errors import InternalError
from lowering.kernel.text import parse_kernel
from lowering.machine import MachineError, run, run_kernel

KERNEL = """
kernel small threads 128 cluster 1 grid 1 {{
  tensormap a: bf16[64, 64] box 64x64 swizzle 128
  shared s: bf16[1][64x64] swizzle 128 at 0
  shared f: f32[1][64x32] swizzle 128 at 8192
  mbarrier bar[1] arrivals 1 at 16384
  named_barrier named[2] id 15 threads 128
  {0}
}}
"""
INIT = """
  on %warp 0 { elect {
    mbarrier.init bar[0], 1
    fence.mbarrier_init
  } }
  cta.sync
"""
FILL = "x: frag<f32, 64x32> = frag.fill 1.0\nv: frag<bf16, 64x32> = frag.cast x\n"
WGMMA = "y: frag<f32, 64x32, async> = wgmma x, s[0, 0, 0], s[0, 0, 0]"


def execute(body: str, adversary: str = "eager") -> None:
    kernel = parse_kernel(KERNEL.format(body))
    run_kernel(kernel, {"a": np.zeros((64, 64), np.uint16)}, {}, 1, adversary=adversary)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("elect { elect { } }", "elect needs all threads of the warp and stands in elect"),
        ("elect { cta.sync }", "cta.sync needs all threads of the warp and stands in elect"),
        (
            "elect { stmatrix s[0, 0, 0], v }",
            "stmatrix needs all threads of the warp and stands in elect",
        ),
        *(
            (f"elect {{ {stmt} }}", f"{op} needs all threads of the warp and stands in elect")
            for op, stmt in (
                ("frag.pointwise", "z: frag<f32, 64x32> = frag.pointwise neg, x"),
                ("frag.update", "z: frag<f32, 64x32> = frag.update mul, x, 2.0"),
                ("frag.random", "z: frag<f32, 64x32> = frag.random 1:i64, 2:i64, 3, 4"),
                ("wgmma.commit", "wgmma.commit"),
                ("setmaxnreg", "setmaxnreg dec, 40"),
            )
        ),
        ("for i in 0 .. 4 step 0 { }", "the step of the loop over i is 0"),
        (
            "let i: i32 = %lane",
            "%lane differs between the threads of a warp; only elect gives it a value",
        ),
        ("for i in 0 .. 2 { let j: i32 = 2147483647 + i }", "j: i32 cannot hold 2147483648"),
        ("mbarrier.init bar[0], 1", "bar[0] is initialized by 32 threads, not by one"),
        (INIT + "mbarrier.inval bar[0]", "bar[0] is invalidated by 32 threads, not by one"),
        (INIT + "mbarrier.wait bar[0], 2", "bar[0] is waited for with parity 2"),
        ("mbarrier.wait bar[1], 0", "bar[1] lies outside bar[1]"),
        ("bar.sync named[2]", "named[2] lies outside named[2]"),
        ("bar.sync named[1]", "named[1] has hardware id 16 of 16"),
        ("setmaxnreg inc, 232", "setmaxnreg.inc to 232 from 248 registers"),
        ("setmaxnreg dec, 36", "setmaxnreg takes multiples of 8 from 24 to 240"),
        ("wgmma.fence\n" + WGMMA, "the warp ends with a wgmma in flight"),
        (WGMMA, "no wgmma.fence after the last access to fragment x"),
        (
            "wgmma.fence\n" + WGMMA.replace("s[0, 0, 0], s", "s[0, 4, 0], s"),
            "the rows of a wgmma operand start 512 bytes after a multiple of 1024",
        ),
        (
            "wgmma.fence\n" + WGMMA + "\nst.shared f[0, 0, 0], y",
            "fragment y may still be written by: " + WGMMA,
        ),
        (
            "wgmma.fence\n" + WGMMA + "\nst.shared f[0, 0, 0], x",
            "the registers of fragment x were taken by: " + WGMMA,
        ),
        (
            "z: frag<f32, 64x16> = frag.columns x, 24",
            "columns 24 .. 40 of 32 are not whole groups of 8",
        ),
        (
            "z: frag<f32, 64x32> = frag.rows x, 64",
            "rows 64 .. 128 of 64 are not whole groups of 64",
        ),
        (
            "st.shared f[0, 1, 0], x",
            "frag<f32, 64x32> at [1, 0] does not fit into 64x32",
        ),
        ("st.shared f[1, 0, 0], x", "f[1, 0, 0] lies outside [1][64x32]"),
        (
            INIT + "on %warp 0 { elect { tma.load s[0, 0, 32], a[0, 0], bar=bar[0] } }",
            "a box at shared address 1088 is not aligned to 128 bytes",
        ),
        (
            INIT + "on %warp 0 { elect { mbarrier.expect_tx bar[0], bytes=8192\n"
            "tma.load s[0, 0, 0], a[0, 0], bar=bar[0] } }",
            "the CTA ends while 1 tma.load are in flight",
        ),
    ],
)  # fmt: skip
def test_fault(body: str, message: str) -> None:
    with pytest.raises(MachineError) as error:
        execute(FILL + body, "lazy")
    assert error.value.what == message


def test_arriving_twice_at_a_named_barrier() -> None:
    with pytest.raises(MachineError) as error:
        execute("on %warp 2 { bar.arrive named[0]\nbar.arrive named[0] }")
    assert error.value.what == "CTA 0, warp 2 arrives twice at named[0] before it completes"


def test_barriers_that_share_a_hardware_id() -> None:
    """``named`` with base 0 is the barrier of ``cta.sync``, but for half of the threads."""
    text = KERNEL.format("on %warp 0 { bar.arrive named[0] }\ncta.sync").replace(
        "id 15 threads 128", "id 0 threads 64"
    )
    with pytest.raises(MachineError) as error:
        run_kernel(parse_kernel(text), {"a": np.zeros((64, 64), np.uint16)}, {}, 1)
    assert error.value.what in (
        "named[0] is used for 128 threads and for 64",
        "cta.sync is used for 64 threads and for 128",
    )


def test_invalidated_while_a_warp_waits() -> None:
    with pytest.raises(MachineError) as error:
        execute(
            INIT + "on %warp 3 { mbarrier.wait bar[0], 0 }\n"
            "on %warp 0 { elect { mbarrier.inval bar[0] } }",
            "eager",
        )
    assert error.value.what == "bar[0] is invalidated while CTA 0, warp 3 waits for it"


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("stmatrix f[0, 0, 0], x", "stmatrix of frag<f32, 64x32> to f32"),
        ("stmatrix s[0, 0, 0], h", "stmatrix of frag<f16, 64x32> to bf16"),
        ("st.shared s[0, 0, 0], v", "st.shared of frag<bf16, 64x32> to bf16"),
        ("st.shared s[0, 0, 0], x", "st.shared of frag<f32, 64x32> to bf16"),
        ("y: frag<f32, 64x32> = ldmatrix f[0, 0, 0]", "ldmatrix of frag<f32, 64x32> from f32"),
        ("y: frag<f16, 64x32> = ldmatrix s[0, 0, 0]", "ldmatrix of frag<f16, 64x32> from bf16"),
        ("y: frag<bf16, 64x32> = ld.shared s[0, 0, 0]",
         "ld.shared of frag<bf16, 64x32> from bf16"),
        ("y: frag<f32, 64x32> = ld.shared s[0, 0, 0]", "ld.shared of frag<f32, 64x32> from bf16"),
    ],
)  # fmt: skip
def test_copies_that_do_not_exist(statement: str, what: str) -> None:
    """An instruction moves rows of its own number of bytes, and elements of one type."""
    with pytest.raises(InternalError) as error:
        execute(f"{FILL}h: frag<f16, 64x32> = frag.cast x\n{statement}")
    assert error.value.why == f"{what} elements"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "y: frag<f32, 64x12, async> = wgmma w, s[0, 0, 0], s[0, 0, 0]",
            "N of a wgmma of bf16 by bf16 is a multiple of 8 from 8 to 256, not 12",
        ),
        (
            "y: frag<f32, 64x24, async> = wgmma x, s[0, 0, 0], s[0, 0, 0]",
            "wgmma changes the fragment's shape",
        ),
        (
            "y: frag<f32, 64x32, async> = wgmma x, f[0, 0, 0], f[0, 0, 0]",
            "no wgmma multiplies f32 by f32 into f32",
        ),
    ],
)
def test_wgmma_that_does_not_exist(statement: str, message: str) -> None:
    with pytest.raises(InternalError) as error:
        execute(FILL + "w: frag<f32, 64x12> = frag.fill 1.0\n" + statement)
    assert str(error.value) == (
        f"machine: {message}\nThis is a defect of wsched, please report it with the dump.\n"
        + statement
    )


def test_endless_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "STEP_LIMIT", 100)
    with pytest.raises(MachineError) as error:
        execute("for i in 0 .. 1000 { cta.sync }", "lazy")
    assert error.value.what == "no end after 100 steps"


def test_an_unroll_of_groups_in_flight() -> None:
    """Of three groups, two may be pending: the first fragment is settled, the others are not."""
    names = "abc"
    fills = "".join(f"{n}0: frag<f32, 64x8> = frag.fill 0.0\n" for n in names)
    groups = "".join(
        f"{n}1: frag<f32, 64x8, async> = wgmma {n}0, s[0, 0, 0], s[0, 0, 0]\nwgmma.commit\n"
        for n in names
    )
    wait = "a2: frag<f32, 64x8> = wgmma.wait a1, 2\n"
    end = "\nc2: frag<f32, 64x8> = wgmma.wait c1, 0\n"
    body = fills + "wgmma.fence\n" + groups + wait
    execute(body + "r: frag<bf16, 64x8> = frag.cast a2" + end, "lazy")
    with pytest.raises(MachineError) as error:
        execute(body + "r: frag<bf16, 64x8> = frag.cast b1" + end, "lazy")
    assert error.value.what == (
        "fragment b1 may still be written by: "
        "b1: frag<f32, 64x8, async> = wgmma b0, s[0, 0, 0], s[0, 0, 0]"
    )


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("where", (0, 5, 7), 7),
        ("where", (1, 5, 7), 5),
        ("where", (2, 5, 7), 5),
        ("logical_and", (1, 2), 1),
        ("logical_and", (1, 0), 0),
        ("logical_not", (1,), 0),
        ("logical_not", (0,), 1),
        ("sub", (5, 7), -2),
    ],
)
def test_numbers_are_conditions_where_one_is_asked_for(
    op: str, args: tuple[float, ...], expected: float
) -> None:
    numbers = ", ".join(f"{a:.1f}" for a in args)
    kind = "pred" if op.startswith("logical") else "f32"
    found = np.zeros((64, 32), np.uint8 if kind == "pred" else np.float32)
    kernel = parse_kernel(
        f"""
        kernel small threads 128 cluster 1 grid 1 {{
          global d: {"bool" if kind == "pred" else "f32"}[64, 32]
          v: frag<{kind}, 64x32> = frag.pointwise {op}, {numbers}
          frag.store_global d[0, 0], v
        }}
        """
    )
    run_kernel(kernel, {"d": found}, {}, 1)
    assert np.array_equal(found, np.full_like(found, expected))
