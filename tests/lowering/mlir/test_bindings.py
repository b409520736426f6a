"""MLIR itself reads what is written, verifies it, and prints it so that it reads the same again."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lowering.mlir.emit import emit_mlir
from tests.lowering.cuda.kernels import cooperative_kernel
from tests.lowering.mlir.test_toolchain import FAMILIES
from tests.ways import made


@pytest.fixture(scope="module")
def jaxlib() -> Any:
    """A function that parses, verifies and prints a module, by MLIR's own Python bindings."""
    if find_spec("jaxlib") is None:
        pytest.skip("jaxlib is not installed")
    ir = importlib.import_module("jaxlib.mlir.ir")
    extension = importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")

    def printed(text: str) -> str:
        with ir.Context() as context:
            registry = ir.DialectRegistry()
            extension.register_dialects(registry)
            context.append_dialect_registry(registry)
            context.load_all_available_dialects()
            module = ir.Module.parse(text)
            assert module.operation.verify()
            return str(module)

    return printed


def triton_prints(text: str, folder: Path) -> str:
    """The same by the MLIR of Triton, which has another version."""
    from triton._C import libtriton

    context = libtriton.ir.context()
    libtriton.ir.load_dialects(context)
    libtriton.nvidia.load_dialects(context)
    path = folder / "k.mlir"
    path.write_text(text)
    return str(libtriton.ir.parse_mlir_module(str(path), context))


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
def test_jaxlib_reads_it_the_same_again(name: str, jaxlib: Any) -> None:
    once = jaxlib(made(name).dump("mlir"))
    assert jaxlib(once) == once
    assert "nvvm.kernel" in once


@pytest.mark.parametrize("name", FAMILIES[:4])
def test_triton_reads_it_the_same_again(name: str, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    once = triton_prints(made(name).dump("mlir"), tmp_path)
    assert triton_prints(once, tmp_path) == once


def test_a_wrong_module_is_refused(jaxlib: Any) -> None:
    text = emit_mlir(cooperative_kernel())
    with pytest.raises(Exception, match="Unable to parse module"):
        jaxlib(text.replace(" : i32\n", " : i64\n", 1))
