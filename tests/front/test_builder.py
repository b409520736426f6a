"""A matmul from options: what they become, what they are called, which are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.ground.errors import ScheduleError
from lowering.ground.types import Swizzle
from wsched import DebugPrint, MatmulBuilder, TmaOptions
from wsched.cli.check import check, sized_inputs
from wsched.front.sizes import Extents
from wsched.schedule.matmul.params import CircularBufferingStrategy, TilingStrategy

EXTENTS = Extents.parse("192x264x96")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "warpspecialized_f16_f32_128x128x64_4"),
        ({"strategy": "multistage", "num_stages": 3}, "multistage_f16_f32_128x128x64_3"),
        ({"b_layout": "kn", "output_type": "f16"}, "warpspecialized_f16_f16_128x128x64_4_kn"),
        (
            {"persistent": False, "input_type": "bf16", "block_m": 64},
            "warpspecialized_bf16_f32_64x128x64_4_tile_per_cta",
        ),
        ({"strategy": "multistage", "num_stages": 1}, "multistage_f16_f32_128x128x64_1"),
        ({"strategy": "multistage", "num_stages": 2}, "multistage_f16_f32_128x128x64_2"),
        ({"num_stages": 1}, "warpspecialized_f16_f32_128x128x64_1"),
        (
            {"block_k": 32, "tma": TmaOptions(swizzle=64, l2_promotion=128)},
            "warpspecialized_f16_f32_128x128x32_4_l2_128",
        ),
        (
            {"tma": TmaOptions(swizzle=0), "b_layout": "kn"},
            "warpspecialized_f16_f32_128x128x64_4_kn_swizzle_0",
        ),
        ({"input_type": "tf32", "block_k": 32}, "warpspecialized_tf32_f32_128x128x32_4"),
        ({"tma": TmaOptions(swizzle=32)}, "warpspecialized_f16_f32_128x128x64_4_swizzle_32"),
    ],
)
def test_a_kernel_is_called_by_its_options_and_right(options: dict[str, Any], name: str) -> None:
    kernel = MatmulBuilder(**options).build()
    assert kernel.kernel.name == kernel.tile_level.name == name
    assert f"llvm.func @{name}(" in kernel.dump("mlir")
    assert check(kernel, sized_inputs(kernel, EXTENTS, 0, "cpu")).passed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ""),
        ({"smem_epilogue": False}, "_registers"),
        ({"tma": TmaOptions(swizzle=128)}, ""),
        ({"tma": TmaOptions(swizzle=64)}, "_swizzle_64"),
        ({"tma": TmaOptions(swizzle=0, l2_promotion=64)}, "_swizzle_0_l2_64"),
        ({"tma": TmaOptions(l2_promotion=128)}, "_l2_128"),
        ({"persistent": False, "b_layout": "kn"}, "_kn_tile_per_cta"),
    ],
)
def test_words_of_options(options: dict[str, Any], words: str) -> None:
    assert MatmulBuilder(**options).kernel_name == f"warpspecialized_f16_f32_128x128x64_4{words}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sizes", ["200x136x40", "72x520x264", "1x8x8"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"block_m": 64, "b_layout": "kn", "output_type": "f16"},
        {"persistent": False, "input_type": "bf16", "smem_epilogue": False},
        {"block_m": 256, "block_n": 64, "input_type": "tf32", "block_k": 32},
    ],
    ids=["two warpgroups", "one warpgroup", "a tile for each CTA", "two of two blocks"],
)
def test_one_stage_is_loaded_where_it_is_read(options: dict[str, Any], sizes: str) -> None:
    """No ring: those that multiply load a slice, wait for it, and load the next one behind it."""
    kernel = MatmulBuilder("multistage", num_stages=1, **options).build()
    (ring,) = kernel.plan.rings
    assert ring.in_place and kernel.proof().proved and kernel.resources.clean
    assert check(kernel, sized_inputs(kernel, Extents.parse(sizes), 0, "cpu")).passed


@pytest.mark.filterwarnings("ignore::wsched.run.prints.PrintWarning")
@pytest.mark.parametrize("strategy", ["warpspecialized", "multistage"])
def test_prints(strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By type, an index, a size, an element; by predicates; by one thread."""
    asked = (
        DebugPrint("compute", "K", cta=0, group=1, tile=0, step=1),
        DebugPrint("T8", "T8[3, 5]", cta=0, group=0, tile=0, step=1),
    )
    kernel = MatmulBuilder(strategy, block_n=64, num_stages=2, prints=asked).build()
    assert kernel.kernel.name == f"{strategy}_f16_f32_128x64x64_2_prints"
    said = "%lld cta %d compute warp %d: T8: T8_3_5 = %g"
    assert f'printf("{said}\\n"' in kernel.dump("cuda")
    assert f'("{said}\\0A\\00")' in kernel.dump("mlir")
    a, b = (np.arange(n * 72).reshape(n, 72) % 5 - 2.0 for n in (128, 64))
    torch = pytest.importorskip("torch")
    given = (torch.from_numpy(x).half() for x in (a, b))
    (out,) = kernel(*(x if n == 0 else x.t() for n, x in enumerate(given)))
    assert out[3, 5] == a[3] @ b[5]
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    first = {"warpspecialized": 0, "multistage": 0}[strategy]
    assert sorted(lines) == [
        f"cta 0 compute warp {first}: T8: T8_3_5 = {a[3] @ b[5]:g}",
        f"cta 0 compute warp {first + 4}: T8: K = 72",
    ]


def test_a_print_of_what_is_not_there() -> None:
    with pytest.raises(ScheduleError, match=r"debug_print\('T99', 'Ko'\): T99 is neither a tensor"):
        MatmulBuilder(prints=(DebugPrint("T99", "Ko"),)).build()


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [
        ("num_stages", "3", "an int"), ("block_m", 128.0, "an int"), ("block_n", True, "an int"),
        ("block_k", None, "an int"), ("tma", 64, "a TmaOptions"), ("persistent", "x", "a bool"),
        ("persistent", None, "a bool"), ("smem_epilogue", 1, "a bool"),
        ("prints", 5, "a tuple of DebugPrint"), ("prints", ("x",), "a tuple of DebugPrint"),
    ],
)  # fmt: skip
def test_an_option_of_another_type(option: str, value: Any, kind: str) -> None:
    with pytest.raises(ScheduleError) as error:
        MatmulBuilder(**{option: value})
    assert str(error.value) == f"ScheduleError[builder]: {option}={value!r}: {option} takes {kind}"


def test_options_are_fields_of_the_parameters() -> None:
    made = MatmulBuilder("multistage", block_n=256, num_stages=3, persistent=False).build().params
    assert made.circular_buffering_strategy is CircularBufferingStrategy.Pipelined
    assert made.tiling_strategy is TilingStrategy.OneTilePerCTA
    assert str(made.output_tile) == "128x256x64"
    assert made.circular_buffer_options.smem_circular_buffer_stage == 3
    assert made.mma_macro.n == 256


def test_tensor_maps_are_made_as_told() -> None:
    for span, k in ((64, 32), (64, 64), (32, 64), (16, 64)):
        tma = TmaOptions(swizzle=span if span > 16 else 0, l2_promotion=64)
        kernel = MatmulBuilder(block_k=k, tma=tma).build().kernel
        maps = [m for m in kernel.tensor_maps if m.dtype.value == "f16"]
        assert [(m.box[-1], m.swizzle, m.promotion) for m in maps] == [
            (span // 2, Swizzle(span), 64)
        ] * 2


def test_both_ways_of_b_have_the_same_product() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((128, 64), (128, 64)))
    torch = pytest.importorskip("torch")
    found = []
    for layout in ("nk", "kn"):
        right = torch.from_numpy(b).t()
        right = right if layout == "nk" else right.contiguous()
        (out,) = MatmulBuilder(b_layout=layout).build()(torch.from_numpy(a), right)
        found.append(out)
    assert torch.equal(*found)
    assert np.allclose(found[0].numpy(), a.astype(np.float32) @ b.T.astype(np.float32), atol=0.05)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"strategy": "x"}, "strategy='x': no such strategy\n  legal here: 'warpspecialized'; 'mu"),
        (
            {"input_type": "f32"},
            "input_type='f32': no such input type\n  legal here: 'f16'; 'bf16'; 'tf32'",
        ),
        ({"b_layout": "k"}, "b_layout='k': no such b layout\n  legal here: 'nk'; 'kn'"),
        ({"strategy": []}, "strategy=[]: no such strategy"),
        ({"input_type": {}}, "input_type={}: no such input type"),
        (
            {"tma": TmaOptions(swizzle="128")},  # type: ignore[arg-type]
            "tma.swizzle='128': no span that a swizzle has\n  legal here: 128; 64; 32; 0",
        ),
        ({"tma": TmaOptions(swizzle=[1])}, "tma.swizzle=[1]: no span"),  # type: ignore[arg-type]
        ({"tma": TmaOptions(swizzle=False)}, "tma.swizzle=False: no span that a swizzle has"),
        ({"tma": TmaOptions(swizzle=True)}, "tma.swizzle=True: no span that a swizzle has"),
        *(
            (
                {"block_n": 24, "b_layout": "kn", "tma": TmaOptions(swizzle=span)},
                "block_n=24: rows of a stage have 48 bytes, no multiple of 32, the shortest span\n"
                "  legal here: multiples of 16",
            )
            for span in (128, 32, 0)
        ),
        (
            {"block_k": 24, "tma": TmaOptions(swizzle=0)},
            "block_k=24: rows of a stage have 48 bytes, no multiple of 32, the shortest span\n"
            "  legal here: multiples of 16",
        ),
        (
            {"tma": TmaOptions(swizzle=128), "block_k": 32},
            "tma.swizzle=128: rows of a stage have 64 bytes\n  legal here: 64; 32; 0",
        ),
        (
            {"tma": TmaOptions(swizzle=128), "block_k": 32, "b_layout": "kn"},
            "tma.swizzle=128: rows of a stage have 64 and 256 bytes\n  legal here: 64; 32; 0",
        ),
        ({"tma": TmaOptions(l2_promotion=32)}, "tma.l2_promotion=32: no size that the L2 fetches"),
        ({"tma": TmaOptions(oob="nan")}, "tma.oob='nan': what lies outside of a tensor counts as"),
        ({"tma": TmaOptions(interleave="16b")}, "tma.interleave='16b': the tensors are matrices"),
    ],
)
def test_what_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ScheduleError) as e:
        MatmulBuilder(**options)
    assert str(e.value).startswith(f"ScheduleError[builder]: {text}")


def test_an_illegal_schedule_says_what_is_legal() -> None:
    with pytest.raises(ScheduleError, match="m 96 is no multiple of wgmma's 64"):
        MatmulBuilder(block_m=96).build()
