from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from lowering.cuda import sass
from lowering.cuda.sass import disassemble, find_nvdisasm
from lowering.ground.errors import InternalError, UnsupportedError
from tests.lowering.cuda.opcodes import count_opcodes

SASS = """\
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 BRA `(.L_x_2) ;
        /*0020*/              @UP1 UTMALDG.2D [UR8], [UR6] ;
.L_x_2:
        /*0a40*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16], R24 ;
        /*0a50*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16], R24, gsb0 ;
"""


def test_opcodes_without_predicates_and_modifiers() -> None:
    assert count_opcodes(SASS) == {"LDC": 1, "BRA": 1, "UTMALDG": 1, "HGMMA": 2}


def test_garbage_is_rejected() -> None:
    with pytest.raises(InternalError, match=r"^sass: nvdisasm failed \("):
        disassemble(b"no cubin")


def test_nvdisasm_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    monkeypatch.setattr(shutil, "which", lambda name: str(tmp_path / name))
    assert find_nvdisasm() == tmp_path / "nvdisasm"


def test_missing_nvdisasm_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UnsupportedError) as e:
        find_nvdisasm()
    assert str(e.value) == (
        "disassembling without nvdisasm is not supported; supported: nvdisasm of the package "
        "nvidia-cuda-nvdisasm or on PATH. Install nvidia-cuda-nvdisasm"
    )


def test_what_nvdisasm_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Code alone, what is asked for beside it, and a file that is gone behind the call."""
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\necho "$@"\neval cat \\"\\$$#\\"\n')
    tool.chmod(0o700)
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: tool)
    told, held = disassemble(b"a cubin", ["-gi"]).splitlines()
    code, option, path = told.split()
    assert (code, option, held) == ("-c", "-gi", "a cubin")
    assert Path(path).parent.name.startswith("wsched-") and not Path(path).parent.exists()
