from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.ground.progress import What, told
from lowering.target.targets import named
from tests.explore.pages import book, cut_book, page
from tests.front.cut.features import FEATURES
from tests.grouped import BIAS, grouped
from tests.run.test_grouped import SMALL
from tests.schedules import SCHEDULES, definition, dynamic
from wsched.explore import model
from wsched.explore.data import Page
from wsched.explore.model import FILMS, Asked, book_of, pages_of
from wsched.explore.page import LARGEST, packed, page_html, unpacked
from wsched.front.schedule import Schedule
from wsched.front.sizes import Extents, kernel_for
from wsched.importer.input_error import InputError
from wsched.schedule.matmul.siblings import shared
from wsched.trace.spans import Span
from wsched.trace.timeline import Trace


def asked(**changes: object) -> Asked:
    text = definition()
    plain = Asked(text, text, Extents(128, 128, 128), 132, "an H200")
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_is_on_it() -> None:
    shown = page()
    facts = dict(shown.facts)
    assert shown.title == "128x128x128 on an H200"
    assert facts["problem"] == "128x128x128"
    assert facts["kernel"].startswith("matmul_bfloat16_bfloat16_")
    assert facts["predicted"].startswith(f"{shown.us:.1f} us: start")
    assert facts["registers"].endswith(" 0 spilled")
    assert shown.definition == definition()
    assert [f.adversary for f in shown.films] == list(FILMS) and shown.unfilmed == ""
    assert [c.language for c in shown.codes] == ["CUDA", "PTX", "SASS"]
    assert [t.title for t in shown.times] == ["predicted"]
    assert any(line.startswith("tiles") for line in shown.extents)
    assert len(shown.ways) > 100
    by_name = {c.name: c for c in shown.choices}
    assert by_name["tile_sizes"].reason and by_name["tile_sizes"].others
    assert by_name["exchange_operands"].value == "False"


@pytest.mark.slow
def test_the_data_is_json_and_the_same_each_time() -> None:
    text = packed(book())
    assert text == packed(book())
    assert unpacked(text) == json.loads(json.dumps(asdict(book())))


@pytest.mark.slow
def test_a_kernel_at_512_fits() -> None:
    html = page_html(book("512x512x512"))
    assert len(html.encode()) <= LARGEST
    assert not any(film.cut for film in page("512x512x512").films)


@pytest.mark.slow
def test_a_problem_that_is_too_large_for_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSCHED_MACHINE_SECONDS", "0.001")
    (shown,) = pages_of(asked())
    assert shown.films == ()
    assert shown.unfilmed.endswith("Take a smaller problem, or raise the limit: limit_seconds or "
                                   "WSCHED_MACHINE_SECONDS")  # fmt: skip


@pytest.mark.parametrize(
    ("extents", "why"),
    [
        (Extents(0, 64, 64), "a film of an empty result"),
        (Extents(1 << 14, 1 << 14, 1 << 14), "a film of 16384x16384x16384, whose tensors have "),
    ],
)
def test_no_film_is_refused_before_there_are_inputs(
    extents: Extents, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "drawn_inputs", None)
    films, unfilmed = model._films(kernel_for(definition(), Extents(64, 64, 64)), extents)
    assert films == () and why in unfilmed


def test_films_say_how_far_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    class Told:
        def begins(self, what: What) -> None:
            begun.append(what if isinstance(what, str) else what())

        def ends(self) -> None:
            pass

    monkeypatch.setattr(model, "FILMS", ("fair", "lazy"))
    monkeypatch.setattr(model, "film_of", lambda *_: None)
    made = kernel_for(definition(), Extents(64, 64, 64))
    with told(Told()):
        model._films(made, Extents(64, 64, 64))
    films = [what for what in begun if what.startswith("film")]
    assert films == ["film 1 of 2 (fair)", "film 2 of 2 (lazy)"]


def test_sizes_without_a_kernel() -> None:
    large = Extents(10**8, 10**7, 64)
    with pytest.raises(UnsupportedError) as error:
        pages_of(asked(extents=large))
    assert error.value.what == f"a page of {large}" and " CTAs, where " in error.value.hint


@pytest.mark.slow
def test_rows_in_groups_have_films() -> None:
    (shown,) = pages_of(asked(definition=BIAS, text=BIAS))
    assert [f.adversary for f in shown.films] == list(FILMS)
    assert shown.codes[0].lines and shown.nests


@pytest.mark.slow
def test_a_schedule_call_by_call_has_no_parameters() -> None:
    schedule = Schedule.of(definition(), SCHEDULES["coop_128x128"])
    (shown,) = pages_of(asked(definition=schedule, text=str(schedule)))
    assert [c.name for c in shown.choices] == ["schedule"]
    assert shown.us is None and shown.times == ()
    assert shown.definition == str(schedule)


@pytest.mark.slow
def test_parameters_that_were_given_are_priced() -> None:
    (shown,) = pages_of(asked(params=SCHEDULES["pingpong_128x128"]))
    by_name = {c.name: c for c in shown.choices}
    assert by_name["params"].reason == "given, not chosen by the heuristic"
    assert by_name["buffering_loop_level"].value == "WarpTiles"
    assert by_name["splitk_factor"].others


@pytest.mark.slow
def test_a_trace_stands_beside_what_is_predicted() -> None:
    kernel = dict(page().facts)["kernel"]
    spans = (Span("main_loop", 0, 0, "compute", 0, 0, 0, 0.0, 5.0),)
    (shown,) = pages_of(asked(), Trace(f"{kernel}_traced", "ns", spans))
    assert [t.title for t in shown.times] == ["predicted", "measured"]


@pytest.mark.parametrize("kind", ["definition", "schedule", "sm_100a"])
def test_the_trace_of_another_kernel(kind: str) -> None:
    """Of the kernel that the page is of: that of the target, or of a schedule as it is."""
    of, target = asked(), None
    if kind == "sm_100a":
        target = named(kind)
        of = asked(target=target)
    elif kind == "schedule":
        of = asked(definition=Schedule.of(definition(), SCHEDULES["coop_128x128"]))
    with pytest.raises(InputError) as e:
        pages_of(of, Trace("other_traced", "ns", ()))
    kernel = kernel_for(of.definition, Extents(128, 128, 128), 132, None, target).kernel.name
    text = f"the trace is of other, the page of {kernel}: was it made with other options?"
    assert str(e.value) == text


def test_without_a_compiler_the_rest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*args: object) -> Page:
        raise UnsupportedError("compiling without the NVRTC library", "NVRTC 12.8 or later")

    monkeypatch.setattr("lowering.cuda.cache.nvrtc_version", nothing)
    monkeypatch.setattr("lowering.cuda.nvrtc.nvrtc_version", nothing)
    (shown,) = model.pages_of(asked())
    assert "NVRTC" in dict(shown.facts)["registers"]
    assert shown.codes[0].lines and "NVRTC" in shown.codes[1].missing
    assert "NVRTC" in shown.codes[2].missing and shown.films
    route = dict(shown.facts)["nvFuser's route"]
    assert route.startswith("predicted ") and " us: matmul by cuBLAS" in route


EXPERTS = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[8192, 4096], dtype=DataType.BFloat16)
    ends = fd.define_tensor(shape=[8], dtype=DataType.Int32)
    gate = fd.define_tensor(shape=[8, 4096, 14336], dtype=DataType.BFloat16, stride_order=[2, 0, 1])
    up = fd.define_tensor(shape=[8, 4096, 14336], dtype=DataType.BFloat16, stride_order=[2, 0, 1])
    down = fd.define_tensor(shape=[8, 14336, 4096], dtype=DataType.BFloat16, stride_order=[2, 0, 1])
    g = fd.ops.grouped_mm(x, gate, ends, dtype=DataType.Float)
    u = fd.ops.grouped_mm(x, up, ends, dtype=DataType.Float)
    h = fd.ops.cast(fd.ops.mul(fd.ops.silu(g), u), dtype=DataType.BFloat16)
    fd.add_output(fd.ops.grouped_mm(h, down, ends))
"""
"""Experts of Mixtral 8x7B, of whose gate and up four kernels share the groups out."""


# --- several kernels ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_kernel_by_itself_has_no_program() -> None:
    assert book().program is None and len(book().kernels) == 1


@pytest.mark.slow
def test_a_cut_has_all_its_kernels() -> None:
    program, pages = cut_book().program, cut_book().kernels
    assert program is not None
    assert [(s.runs, s.kernel, s.row) for s in program.steps] == [
        ("wsched", 0, 0),
        ("wsched", 1, 1),
    ]
    assert [(f.source, f.target, f.tensor) for f in program.flows] == [(0, 1, "c")]
    facts = dict(program.facts)
    assert facts["parts"] == "2, of them 2 with a kernel of wsched's"
    assert "which fd.ops.cast makes, is not supported" in facts["not one kernel"]
    for step, shown in zip(program.steps, pages, strict=True):
        assert dict(shown.facts)["kernel"] in step.lines[0]
        assert [f.adversary for f in shown.films] == list(FILMS)
        assert shown.definition.endswith(f"fd.add_output({step.writes[0]})\n")
        assert [c.language for c in shown.codes] == ["CUDA", "PTX", "SASS"] and shown.choices


@pytest.mark.slow
def test_a_part_that_is_no_matmul_has_no_kernel_to_look_at() -> None:
    program = cut_book("norm").program
    assert program is not None
    assert [(s.kernel, s.row) for s in program.steps] == [(-1, 0), (0, 1)]
    assert program.steps[0].lines[0].startswith("sweep_")
    assert [f.tensor for f in program.flows] == ["x"]


@pytest.mark.slow
def test_what_lies_beside_each_other_has_columns() -> None:
    """And what a part reads through a view flows, too."""
    program = cut_book("heads").program
    assert program is not None
    places = [(s.row, s.column) for s in program.steps]
    assert len(set(places)) == len(places)
    for flow in program.flows:
        assert program.steps[flow.source].row < program.steps[flow.target].row
    read = {flow.target for flow in program.flows}
    assert read == set(range(1, len(program.steps)))


def test_a_cut_says_its_sizes_itself() -> None:
    text = FEATURES["gated"].text
    with pytest.raises(InputError, match="a shape of 64x64x64 for a definition of several kernels"):
        book_of(asked(definition=text, text=text, extents=Extents(64, 64, 64)))


def test_parameters_are_of_one_kernel() -> None:
    text = FEATURES["gated"].text
    params = SCHEDULES["coop_128x128"]
    with pytest.raises(UnsupportedError, match=r"which fd\.ops\.\w+ makes"):
        book_of(asked(definition=text, text=text, extents=None, params=params))


@pytest.mark.slow
def test_a_trace_is_shown_with_the_kernel_of_a_cut_that_it_is_of() -> None:
    text = FEATURES["gated"].text
    names = [dict(page.facts)["kernel"] for page in cut_book().kernels]
    spans = (Span("main_loop", 0, 0, "compute", 0, 0, 0, 0.0, 5.0),)
    trace = Trace(f"{names[1]}_traced", "ns", spans)
    shown = book_of(asked(definition=text, text=text, extents=None), trace)
    assert [[t.title for t in kernel.times] for kernel in shown.kernels] == [
        ["predicted"], ["predicted", "measured"]
    ]  # fmt: skip
    with pytest.raises(InputError, match="the trace is of other"):
        book_of(asked(definition=text, text=text, extents=None), replace(trace, kernel="other"))


@pytest.mark.slow
def test_kernels_that_share_groups_out() -> None:
    """A page for each, with its own loops, texts, code and films, and what is said of all."""
    params = shared(tuple(dynamic(SMALL[name]) for name in ("ping-pong", "exchanged")))
    text = grouped()
    found = book_of(asked(definition=text, text=text, params=params))
    assert found.program is None and found.title == found.kernels[0].title
    for number, shown in enumerate(found.kernels, 1):
        assert shown.title.endswith(f", kernel {number} of 2")
        facts = dict(shown.facts)
        name, rest = facts["shown here"].split(", ")
        assert rest == f"kernel {number} of 2 that share groups out"
        assert name == facts["kernel"].split(", ")[number - 1]
        assert [n for n, _ in shown.facts].count("registers") == 2
        assert name in "\n".join(shown.codes[0].lines) and name in shown.table[shown.texts[-1][0]]
        assert [f.adversary for f in shown.films] == list(FILMS)
    first, second = found.kernels
    assert first.us == second.us and first.nests != second.nests
    tiles = {c.name: c.value for c in second.choices}["tile_sizes"]
    assert tiles == "64x16x32, 1 warpgroup of 64x16x32"


@pytest.mark.slow
def test_a_part_whose_kernels_share_groups_out() -> None:
    """The part leads to the first of them, and those of the next part come behind them all."""
    found = book_of(asked(definition=EXPERTS, text=EXPERTS, extents=None))
    assert found.program is not None
    assert [s.kernel for s in found.program.steps] == [0, 4]
    ends = [shown.title.partition(" on ")[2] for shown in found.kernels]
    assert ends == [f"an H200, kernel {n} of 4" for n in (1, 2, 3, 4)] + ["an H200"]
    assert all("201326592" in shown.unfilmed for shown in found.kernels)
