"""``wsched matmul``: a kernel from options, without a definition."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from wsched.cli.app import app
from wsched.front.builder import MatmulBuilder


def printed(*words: str) -> str:
    shown = CliRunner().invoke(app, list(words))
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def refusal(words: list[str]) -> str:
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 2, shown.output
    return shown.output


def test_the_command_prints_a_stage() -> None:
    text = printed(
        "matmul", "--strategy", "multistage", "--tile", "64x128x64", "--types", "f16-f16"
    )
    assert "llvm.func @multistage_f16_f16_64x128x64_4(" in text
    assert printed("matmul", "--stage", "kernel", "--no-persistent").startswith(
        "kernel warpspecialized_f16_f32_128x128x64_4_tile_per_cta threads 384"
    )


@pytest.mark.filterwarnings("ignore::wsched.run.prints.PrintWarning")
def test_the_kernel_prints() -> None:
    asked = ["--debug-print", "load k cta=0 step=3", "--debug-print", "T8 T8[3,5]"]
    text = printed("matmul", "--stage", "cuda", *asked)
    assert "load warp %d: T5: k = %d" in text and "T8: T8_3_5 = %g" in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--debug-print", "load"], "neither where, value and numbers nor where and value"),
        (["--debug-print", "load k cat=0"], "legal here: T8 T8[3,5] cta=0 step=1; load k"),
        (["--debug-print", "load x"], "has no loop x"),
        (["--tile", "128x128"], "'128x128' is no tile like 128x128x64"),
        (["--tile", "²x²x²"], "'²x²x²' is no tile like 128x128x64"),
        (["--tile", "128x128xx64"], "'128x128xx64' is no tile like 128x128x64"),
        (["--tile", f"{'9' * 5000}x128x64"], "Invalid value for --tile:"),
        (["--debug-print", f"load k cta={'9' * 5000}"], "neither where, value and numbers nor"),
        (["--types", "f16"], "'f16' is no pair like f16-f32"),
        (["--swizzle", "48"], "tma.swizzle=48"),
    ],
)
def test_wrong_options_of_the_command(arguments: list[str], text: str) -> None:
    assert text in refusal(["matmul", *arguments])


def test_what_is_not_given_is_the_builders() -> None:
    """Defaults stand in one place."""
    named = MatmulBuilder().build().kernel.name
    assert printed("matmul", "--stage", "kernel").startswith(f"kernel {named} ")
