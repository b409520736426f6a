from __future__ import annotations

import pytest

from lowering.cuda.sass import disassemble
from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import print_kernel
from tests.explore.pages import compiled
from tests.schedules import QUICK, SCHEDULES
from tests.tiers import in_tiers
from wsched.explore import code
from wsched.explore.code import codes_of, cuda_of, ptx_lines, sass_lines

SOME = ("coop_128x128", "pingpong_128x128", "cluster_2x2", "stream_k", "split_2", "pipelined")


@pytest.mark.parametrize("name", in_tiers(SCHEDULES, QUICK))
def test_each_line_of_the_body_is_some_statements(name: str) -> None:
    made = compiled(name)
    cuda, kernel = cuda_of(made.kernel), print_kernel(made.kernel).splitlines()
    assert "\n".join(cuda.lines) + "\n" == made.source
    begin = next(i for i, at in enumerate(cuda.origins) if at >= 0)
    assert begin > cuda.lines.index(f"{made.kernel.name}(")
    assert all(at >= 0 for at in cuda.origins[begin:-1])
    for line, at in zip(cuda.lines, cuda.origins, strict=True):
        for call, op in (("ptx::tma_load", "tma.load"), ("wgmma_m64", " wgmma "),
                         ("ptx::bar_sync", "bar.sync")):  # fmt: skip
            if line.lstrip().startswith(call):
                assert op in kernel[at]


def test_a_role_is_the_line_of_its_branch() -> None:
    made = compiled("coop_128x128")
    cuda, kernel = cuda_of(made.kernel), print_kernel(made.kernel).splitlines()
    (at,) = [i for i, line in enumerate(cuda.lines) if line == "  // role compute: warps 0 to 7"]
    assert [kernel[cuda.origins[i]].strip()[:12] for i in (at, at + 1)] == ["role compute"] * 2


@pytest.mark.slow
def test_code_is_the_same_with_lines() -> None:
    for name in SOME[:3]:
        made = compiled(name)
        assert disassemble(made.compiled.cubin) == disassemble(made.with_lines.cubin)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", SOME)
def test_instructions_lead_to_lines_of_the_kernel(name: str) -> None:
    """Of some that ptxas moves it tells no line, so that they have that of the one in front."""
    made = compiled(name)
    cuda, ptx, sass = codes_of(made)
    kernel = print_kernel(made.kernel).splitlines()
    frame = next(i for i, line in enumerate(cuda.lines) if "__global__" in line)
    for text, word, least in ((ptx, "wgmma.mma_async", 1), (sass, "HGMMA", 0.5)):
        assert not text.missing
        assert min(at for at in text.origins if at >= 0) >= frame
        found = [at for x, at in zip(text.lines, text.origins, strict=True) if word in x]
        right = sum(" = wgmma " in kernel[cuda.origins[at]] for at in found)
        assert found and right >= least * len(found)
    assert not any(".loc" in line for line in ptx.lines)
    assert not any("//##" in line for line in sass.lines)


def test_ptx_of_a_function_in_a_function() -> None:
    """The inner one's place is known by the line that it was inlined at."""
    text = (
        "entry()\n\t.loc\t1 9 3\n\tone;\n"
        "\t.loc\t1 4 2, function_name $a, inlined_at 1 9 3\n\ttwo;\n"
        "\t.loc\t1 2 1, function_name $b, inlined_at 1 4 2\n\tthree;\n"
        '$L:\n\t.loc\t1 10 3\n\tfour;\n}\n\t.file\t1 "x.cu"\n'
    )
    lines, origins = ptx_lines(text)
    assert lines == ("entry()", "\tone;", "\ttwo;", "\tthree;", "$L:", "\tfour;", "}")
    assert origins == (-1, 8, 8, 8, -1, 9, -1)


def test_ptx_of_a_place_that_was_inlined_before() -> None:
    """The same line later, outside of what it was inlined into: it stands for itself."""
    text = (
        "entry()\n\t.loc\t1 4 2, function_name $a, inlined_at 1 9 3\n\tone;\n"
        "\t.loc\t1 4 2\n\ttwo;\n}\n"
    )
    assert ptx_lines(text)[1] == (-1, 8, 3, -1)


def test_sass_of_inlined_functions() -> None:
    text = (
        "\t.section\t.text.k\n"
        "        /*0000*/                   NOP ;\n"
        '\t//## File "k.cu", line 3 inlined at "k.cu", line 8\n'
        '\t//## File "k.cu", line 8\n'
        "        /*0010*/              @!P0 BRA `(.L_x_0) ;\n"
        ".L_x_0:\n"
    )
    lines, origins = sass_lines(text)
    assert lines == ("\t.section\t.text.k", "  /*0000*/  NOP ;", "  /*0010*/  @!P0 BRA `(.L_x_0) ;",
                     ".L_x_0:")  # fmt: skip
    assert origins == (-1, -1, 7, -1)


def test_what_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*args: object) -> str:
        raise UnsupportedError("disassembling without nvdisasm", "nvdisasm", "Install it")

    monkeypatch.setattr(code, "disassemble", nothing)
    cuda, ptx, sass = codes_of(compiled("coop_128x128"))
    assert cuda.lines and ptx.lines and not sass.lines
    assert sass.missing.startswith("disassembling without nvdisasm is not supported")
