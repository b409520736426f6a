from __future__ import annotations

import re
from dataclasses import replace

import pytest

from lowering.cuda.emit import device_header, emit_cuda, emit_kernel, emit_lines
from lowering.ground.errors import InternalError
from lowering.ground.expr import ZERO
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import GmemRef, Produce, Roles, SmemRef, Stmt, TmaStore
from lowering.kernel.text import parse_kernel
from tests.lowering.cuda.kernels import cooperative_kernel, copy_kernel

S = SmemRef("S", ZERO, (ZERO, ZERO))


def kernel(body: str, threads: int = 128, cluster: int = 1) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads {threads} cluster {cluster} grid 1 {{
          param K: i32
          tensormap T: bf16[K, K] box 64x64 swizzle 128
          shared S: bf16[2][64x128] swizzle 128 at 0
          mbarrier full[2] arrivals 1 at 32768
          named_barrier turn[2] id 3 threads 128
          {body}
        }}
        """
    )


def body_of(k: Kernel) -> list[str]:
    """Lines of the kernel's own statements, without the frame and the indentation."""
    lines = [line.strip() for line in emit_kernel(k).splitlines()]
    return lines[lines.index(next(x for x in lines if "const unsigned full" in x)) + 1 : -1]


def refusal(k: Kernel) -> str:
    with pytest.raises(InternalError) as e:
        emit_kernel(k)
    return e.value.why


def test_copy(golden: object) -> None:
    assert emit_kernel(copy_kernel()) == golden


def test_source_is_header_and_kernel() -> None:
    k = copy_kernel()
    assert emit_cuda(k) == device_header() + "\n" + emit_kernel(k)
    assert "#include" not in device_header()


@pytest.mark.parametrize(
    ("e", "text"),
    [
        ("select(K < 1, 2, 3)", "K < 1 ? 2 : 3"),
        ("select(K < 1, 2, 3) * 2", "(K < 1 ? 2 : 3) * 2"),
        ("2 * select(K < 1, 2, 3)", "2 * (K < 1 ? 2 : 3)"),
        ("select(K < 1, 2, 3) + select(K < 2, 2, 3)", "(K < 1 ? 2 : 3) + (K < 2 ? 2 : 3)"),
    ],
)
def test_what_is_alone_has_no_parentheses_around_it(e: str, text: str) -> None:
    assert body_of(kernel(f"let a: i32 = {e}")) == [f"const int a = {text};"]


def test_carried_scalars_that_read_each_other_are_assigned_at_once() -> None:
    k = kernel(
        """
        for i in 0 .. K step 2 carry (a: i32 = 0 -> a9, b: i32 = 1 -> b9) {
          yield b, a + b
        }
        mbarrier.wait full[0], b9
        """
    )
    assert body_of(k) == [
        "int a = 0;",
        "int b = 1;",
        "// i carries a, b",
        "#pragma unroll 1",
        "for (int i = 0; i < K; i += 2) {",
        "const int next_a = b;",
        "const int next_b = a + b;",
        "a = next_a;",
        "b = next_b;",
        "}",
        "const int b9 = b;",
        "ptx::mbarrier_wait(full, b9);",
    ]


def test_a_branch_on_a_warp_and_on_what_else_stands_alone_in_it() -> None:
    k = kernel(
        """
        on %warpgroup.warp 2 { if K < 1 { warp.sync } }
        on %warp 5 { if K < 1 { warp.sync } else { cta.sync } }
        """
    )
    assert body_of(k) == [
        "if (warpgroup_warp == 2 && K < 1) {",
        "__syncwarp();",
        "}",
        "if (warp == 5) {",
        "if (K < 1) {",
        "__syncwarp();",
        "}",
        "else {",
        "__syncthreads();",
        "}",
        "}",
    ]


def test_independent_carried_scalars_need_no_temporaries() -> None:
    k = kernel("for i in 0 .. K carry (a: i32 = 0 -> a9, b: i32 = 1 -> b9) { yield a, b ^ 1 }")
    assert "b = b ^ 1;" in body_of(k)
    assert not any(line.startswith(("a = ", "const int next")) for line in body_of(k))


def test_roles_are_one_chain_on_the_warp_index() -> None:
    k = kernel(
        """
        roles {
          role load warps 0 .. 4 {
            setmaxnreg dec, 24
          }
          role math warps 4 .. 12 as group {
            setmaxnreg inc, 240
            bar.sync turn[group]
            bar.arrive turn[group ^ 1]
          }
        }
        """,
        threads=384,
    )
    assert body_of(k) == [
        "// role load: warps 0 to 3",
        "if (warp < 4) {",
        "ptx::setmaxnreg_dec<24>();",
        "}",
        "// role math: warps 4 to 11",
        "else {",
        "const int group = (warp - 4) >> 2;",
        "ptx::setmaxnreg_inc<240>();",
        "ptx::bar_sync(group + 3, 128);",
        "ptx::bar_arrive((group ^ 1) + 3, 128);",
        "}",
    ]


def test_tma_with_boxes_multicast_and_cluster() -> None:
    k = kernel(
        """
        elect {
          tma.load S[1, 0, 64], T[K, K * 2], bar=full[1], multicast=3, ctas=2
          mbarrier.arrive full[1], cta=%cluster.ctarank ^ 1, order=release.cluster
        }
        mbarrier.wait full[1], 0, order=acquire.cluster
        cluster.sync
        """,
        cluster=2,
    )
    assert body_of(k) == [
        "if (ptx::elect()) {",
        # stage 1 is 16384 bytes on, the second box of 64 columns 8192 bytes after the first
        "ptx::tma_load_2d_multicast(S + 24576, &T, K * 2, K, full + 8, 3);",
        "ptx::mbarrier_arrive_remote(full + 8, cluster_ctarank ^ 1);",
        "}",
        "__syncwarp();",
        "ptx::mbarrier_wait_cluster(full + 8, 0);",
        "ptx::cluster_sync();",
    ]
    assert "__cluster_dims__(2, 1, 1)" in emit_kernel(k)


def test_cache_policies_are_made_once_at_the_start() -> None:
    k = kernel(
        """
        elect {
          tma.load S[0, 0, 0], T[0, 0], bar=full[0], cache=evict_last
          tma.load S[0, 0, 0], T[0, 0], bar=full[0], multicast=1, cache=evict_last
          tma.store T[0, 0], S[0, 0, 0], cache=evict_first
        }
        """
    )
    frame, _, body = emit_kernel(k).partition("if (ptx::elect())")
    assert re.findall(r"const u64 .*", frame) == [
        "const u64 evict_first = ptx::createpolicy_evict_first();",
        "const u64 evict_last = ptx::createpolicy_evict_last();",
    ]
    assert re.findall(r"ptx::tma.*", body) == [
        "ptx::tma_load_2d_hint(S, &T, 0, 0, full, evict_last);",
        "ptx::tma_load_2d_multicast_hint(S, &T, 0, 0, full, 1, evict_last);",
        "ptx::tma_store_2d_hint(&T, 0, 0, S, evict_first);",
    ]
    assert refusal(replace(k, body=(TmaStore(GmemRef("T", (ZERO, ZERO)), S, "evict_soon"),))) == (
        "no cache policy named evict_soon"
    )


def test_grid_dependency_control() -> None:
    k = kernel("griddepcontrol.wait\ngriddepcontrol.launch_dependents")
    assert body_of(k) == ["ptx::griddepcontrol_wait();", "ptx::griddepcontrol_launch_dependents();"]


def test_names_that_cpp_does_not_allow() -> None:
    k = kernel(
        """
        let this: i32 = K
        let r: i32 = this + 1
        let S: i32 = r
        if S == 0 {
          cta.sync
        }
        """
    )
    assert body_of(k)[:4] == [
        "const int this_2 = K;",
        "const int r_2 = this_2 + 1;",
        "const int S_2 = r_2;",
        "if (S_2 == 0) {",
    ]


def test_what_is_computed_once() -> None:
    k = kernel(
        """
        let rows: i32 = min(K, 64) * 128 + 8192 once
        if rows == 0 {
          cta.sync
        }
        """
    )
    assert body_of(k)[0] == "const int rows = ptx::once(min(K, 64) * 128 + 8192);"


def test_only_the_special_registers_that_are_read() -> None:
    text = emit_kernel(copy_kernel())
    assert "const int ctaid = blockIdx.x;" in text
    assert "const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);" in text
    assert "nctaid" not in text and "lane" not in text


def test_accumulator_is_one_array() -> None:
    text = emit_kernel(cooperative_kernel())
    assert text.count("float ") == 1
    assert "float acc[128];  // frag<f32, 64x256>" in text
    lines = [line.strip() for line in text.splitlines()]
    pins = [at for at, line in enumerate(lines) if line == "ptx::pin(acc);"]
    assert [lines[at - 1] for at in pins] == [  # after the fill, after the wait for all
        "for (int r = 0; r < 128; ++r) acc[r] = 0.0f;",
        "ptx::wgmma_wait_group<0>();",
    ]


# --- rejected ------------------------------------------------------------------------------------


def test_tile_level_node_is_rejected() -> None:
    k = replace(copy_kernel(), body=(Produce("ring", ZERO),))
    assert refusal(k) == "no rule for produce"


def test_error_text() -> None:
    k = replace(copy_kernel(), body=(Produce("ring", ZERO),))
    with pytest.raises(InternalError) as e:
        emit_cuda(k)
    assert str(e.value) == (
        "emit_cuda: no rule for produce\n"
        "This is a defect of wsched, please report it with the dump."
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("mbarrier.expect_tx full[0]", "mbarrier.expect_tx on full has no byte count"),
        ("tma.load S[0, 0, 0], T[0, 0]", "a TMA load has no mbarrier"),
        ("tma.store T[0, 0], S[0, 0, 8]", "TMA box in S starts at column 8"),
        ("for i in 0 .. K unroll { cta.sync }", "unrolled loop i has no constant bounds"),
        (
            "mbarrier.wait full[0], 0, order=acquire.gpu",
            "mbarrier.wait with order acquire.gpu, "
            "not acquire.cta, acquire.cluster, relaxed.cluster",
        ),
        ("tma.store T[0, 0], X[0, 0, 0]", "no shared buffer X"),
        ("roles { role a warps 0 .. 4 { cta.sync } }", "roles cover 4 of 8 warps"),
        (
            "roles { role a warps 0 .. 2 { cta.sync } role b warps 3 .. 8 { cta.sync } }",
            "role b: warps do not tile the CTA",
        ),
    ],
)
def test_malformed_kernel_is_rejected(body: str, why: str) -> None:
    assert refusal(kernel(body, threads=256)) == why


def test_buffer_without_offset_is_rejected() -> None:
    k = copy_kernel()
    bare = k.redeclare(replace(k.shared[0], offset=None))
    assert refusal(bare) == "shared buffer tile has no offset"
    odd = k.redeclare(replace(k.shared[0], offset=512))
    assert refusal(odd) == "shared buffer tile is not aligned to its swizzle"
    barrier = k.redeclare(replace(k.mbarriers[0], offset=None))
    assert refusal(barrier) == "mbarrier array full has no offset"


def test_kernel_name_is_checked() -> None:
    assert refusal(replace(copy_kernel(), name="a.b")) == "kernel name 'a.b' is no identifier"


def test_each_line_knows_the_innermost_statement() -> None:
    k = kernel(
        "let x: i32 = K + 1  for i in 0 .. x { if 0 < i { elect { mbarrier.arrive full[0] } } }"
    )
    made = emit_lines(k)
    assert made.text == emit_cuda(k)
    lines = made.text.splitlines()
    assert len(lines) == len(made.origins)
    found = [
        (line.strip(), type(of).__name__)
        for line, of in zip(lines, made.origins, strict=True)
        if isinstance(of, Stmt)
    ]
    assert found == [
        ("const int x = K + 1;", "Let"),
        ("#pragma unroll 1", "For"),
        ("for (int i = 0; i < x; ++i) {", "For"),
        ("if (0 < i) {", "If"),
        ("if (ptx::elect()) {", "Elect"),
        ("ptx::mbarrier_arrive(full);", "MBarrierArrive"),
        ("}", "Elect"),
        ("__syncwarp();", "Elect"),
        ("}", "If"),
        ("}", "For"),
    ]


def test_a_role_is_where_its_branch_is_from() -> None:
    k = kernel("roles { role a warps 0 .. 4 { cta.sync } role b warps 4 .. 8 { cta.sync } }", 256)
    made = emit_lines(k)
    (roles,) = k.body
    assert isinstance(roles, Roles)
    found = [
        line.strip()
        for line, of in zip(made.text.splitlines(), made.origins, strict=True)
        if of is roles.roles[1]
    ]
    assert found == ["// role b: warps 4 to 7", "else {", "}"]


def test_functions_stand_in_the_order_of_their_names() -> None:
    """Whichever statement is first: forms of wgmma, atoms, and the others."""
    one = """
      a{n}: frag<f32, 64x{n}> = frag.fill 0.0
      wgmma.fence
      b{n}: frag<f32, 64x{n}, async> = wgmma a{n}, S[0, 0, 0], S[0, 0, 0], cols={n}
      wgmma.commit
      c{n}: frag<f32, 64x{n}> = wgmma.wait b{n}, 0
    """
    texts = []
    for widths in ((64, 8, 32), (32, 64, 8)):
        text = emit_kernel(kernel("".join(one.format(n=n) for n in widths)))
        texts.append(re.findall(r"^__device__ \S+ void (wgmma_\w+)\(", text, re.MULTILINE))
    names = [f"wgmma_m64n{n}k16_f32_bf16" for n in (8, 32, 64)]
    assert texts == [sorted(names)] * 2
