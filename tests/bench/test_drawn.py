"""``wsched bench random`` from its list to its file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.ground.errors import UnsupportedError
from tests.bench.compiling import Kernels, without_compiling
from tests.bench.fake_drawn import DEVICE, listed
from tests.bench.fakes import FakeGpu
from wsched.bench.cli import app
from wsched.bench.drawn import build as building
from wsched.bench.drawn import command
from wsched.bench.drawn.build import build, build_for, processes
from wsched.bench.drawn.joined import joined
from wsched.bench.drawn.judge import judge, summary, verdict_of
from wsched.bench.drawn.problems import Drawn, draw, read_problems
from wsched.bench.drawn.results import SCHEMA
from wsched.bench.drawn.schedules import _drawn, _first
from wsched.bench.method.appended import append, read
from wsched.bench.problem import Problem, Shape, definition_text
from wsched.bench.schedules.ranking import Ranked, problem_for
from wsched.choose.heuristics import candidates
from wsched.choose.problem import Problem as Planned
from wsched.choose.tuned.entry import problem_to_dict
from wsched.front.known import import_fusion
from wsched.fusion import DataType
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import (
    ClusterDims,
    GemmTile,
    MatmulParams,
    TensorMapL2Promotion,
    TileRasterizationOrder,
)

LIST = "M,N,K,layout\n1000,1000,1000,TN\n264,1048,4112,NT\n16,16,16,NN\n904,1048,4112,tt\n"
BF16 = DataType.BFloat16
FIRST, SECOND = "1000x1000x1000 tn", "264x1048x4112 nt"


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.csv"
    path.write_text(LIST)
    return path


def fake(monkeypatch: pytest.MonkeyPatch, **spec: Any) -> Kernels:
    """Neither a GPU nor a compiler; the kernels that would be compiled."""
    words = (sys.executable, "-m", "tests.bench.fake_drawn", json.dumps(spec))
    monkeypatch.setattr(command, "COMMAND", words)
    monkeypatch.setattr(command, "device", lambda: dict(DEVICE))
    return without_compiling(monkeypatch)


def invoke(path: Path, *words: str) -> tuple[int, str]:
    arguments = ["random", str(path), "--rounds", "2", "--count", "2", "--seed", "2", *words]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    return result.exit_code, result.output


def test_the_draw_is_that_of_the_random_module(problems: Path) -> None:
    found = read_problems(problems)
    assert [str(p) for p in found] == [FIRST, SECOND, "16x16x16 nn", "904x1048x4112 tt"]
    drawn = draw(found, 3, 2)
    assert sorted(drawn) == sorted(p for p in found if p.m > 16)
    assert drawn == draw(found, 3, 2)


def test_odd_sizes_are_drawn_beside_the_others(problems: Path) -> None:
    found = read_problems(problems)
    plain, odd = draw(found, 3, 2), draw(found, 3, 2, odd=True)
    assert odd == draw(found, 3, 2, odd=True) != draw(found, 3, 3, odd=True)
    for p, q in zip(plain, odd, strict=True):
        less = [a - b for a, b in zip((p.m, p.n, p.k), (q.m, q.n, q.k), strict=True)]
        assert all(0 <= d < 8 for d in less) and p.layout == q.layout
        assert any(size % 8 for size in (q.m, q.n, q.k))


def test_alignment_of_rows() -> None:
    assert Drawn(1000, 1000, 1000, "tn").rows == (16, 16, 16)
    assert Drawn(96, 1048, 4112, "nt").rows == (64, 16, 16)
    assert Drawn(904, 64, 4096, "tt").rows == (128, 128, 128)


@pytest.mark.slow
def test_a_run(monkeypatch: pytest.MonkeyPatch, problems: Path, tmp_path: Path) -> None:
    wanted = fake(monkeypatch, factors=[2.0])
    saved = tmp_path / "f.jsonl"
    code, text = invoke(problems, "--first", "3", "--json", str(saved))
    assert code == 0, text
    head, *lines = [json.loads(line) for line in saved.read_text().splitlines()]
    assert (head["schema"], head["environment"]["gpu"]) == ("wsched.bench.random/1", DEVICE)
    drawn = draw(read_problems(problems), 2, 2)
    assert [ln["problem"] for ln in lines] == [str(p) for p in drawn]
    for p, ln in zip(drawn, lines, strict=True):
        found, systems = listed(p.problem, 3), ln["result"]["systems"]
        assert {(definition_text(p.problem), r.params) for r in found} <= set(wanted)
        assert list(systems) == ["cublas", *(r.name for r in found)]
        assert ln["result"]["choice"] == found[0].name
        assert all(r["status"] == "ok" and "first_us" in r for r in systems.values())
        assert len(systems["cublas"]["times_us"]) == len(systems[found[0].name]["times_us"]) == 2
        assert sum("times_us" in r for r in systems.values()) == 7
    assert "choice over cuBLAS at 2 problems: geometric mean 0.500, least 0.500, 2 below" in text


@pytest.mark.slow
def test_the_fastest_are_measured_by_several_processes(
    monkeypatch: pytest.MonkeyPatch, problems: Path, tmp_path: Path
) -> None:
    fake(monkeypatch, factors=[2.0])
    saved = tmp_path / "f.jsonl"
    words = ("--first", "3", "--processes", "3", "--json", str(saved))
    code, text = invoke(problems, *words)
    assert code == 0, text
    head, *lines = [json.loads(line) for line in saved.read_text().splitlines()]
    assert head["command"]["processes"] == 3 and "in 3 fresh processes" in head["method"]
    drawn = [str(p) for p in draw(read_problems(problems), 2, 2)]
    parts = [ln for ln in lines if "problem" in ln]
    assert [(ln["problem"], ln.get("process", 0)) for ln in parts] == [
        (p, i) for i in range(3) for p in drawn
    ]
    for first, *others in (parts[::2], parts[1::2]):
        systems = first["result"]["systems"]
        timed = {n: r["times_us"] for n, r in systems.items() if "times_us" in r}
        assert len(systems) > len(timed) == 7
        for other in others:
            again = other["result"]["systems"]
            assert other["result"]["choice"] == first["result"]["choice"]
            assert {n: r["times_us"] for n, r in again.items()} == timed
            assert not any("first_us" in r for r in again.values())
    assert "choice over the best: geometric mean 0." in text and "0 of 2 at 0.97 or above" in text
    monkeypatch.setattr(command, "COMMAND", ("false",))
    assert invoke(problems, *words)[0] == 0
    kept = saved.read_text().splitlines(keepends=True)
    saved.write_text("".join(kept[:-1]))
    fake(monkeypatch, factors=[2.0])
    code, text = invoke(problems, *words)
    assert code == 0 and json.loads(saved.read_text().splitlines()[-1])["process"] == 2


@pytest.mark.slow
def test_only_what_is_taken(monkeypatch: pytest.MonkeyPatch, problems: Path) -> None:
    wanted = fake(monkeypatch)
    code, text = invoke(problems, "--first", "0")
    assert (code, len(wanted)) == (0, 2), text
    assert text.splitlines()[-1] == (
        "best over cuBLAS at 2 problems: geometric mean 1.000, least 1.000, 0 below 0.95"
    )


@pytest.mark.slow
def test_a_later_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, problems: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "f.jsonl"
    fake(monkeypatch)
    assert invoke(problems, "--first", "0", "--count", "1", "--json", str(saved))[0] == 0
    with saved.open("a") as file:
        file.write('{"problem": "cut o')
    wanted = fake(monkeypatch, factors=[4.0])
    code, text = invoke(problems, "--first", "0", "--json", str(saved))
    assert (code, len(wanted)) == (0, 1)
    assert "geometric mean 0.500, least 0.250" in text
    monkeypatch.setattr(command, "COMMAND", ("false",))
    assert invoke(problems, "--first", "0", "--json", str(saved))[0] == 0
    code, text = invoke(problems, "--first", "1", "--json", str(saved))
    assert code == 2 and "of a run with other options" in text


@pytest.mark.slow
def test_a_wrong_schedule_is_told(monkeypatch: pytest.MonkeyPatch, problems: Path) -> None:
    fake(monkeypatch, bad_places={"1": "wrong"})
    code, text = invoke(problems, "--first", "2")
    drawn = draw(read_problems(problems), 2, 2)
    name = listed(drawn[0].problem, 2)[1].name
    assert code == 1
    assert f"{name} at {drawn[0]}: wrong result: relative error nan (limit 4e-03)" in text


@pytest.mark.slow
def test_what_wsched_refuses_is_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, saved = tmp_path / "problems.csv", tmp_path / "f.jsonl"
    path.write_text("M,N,K,layout\n8,8,2147483656,TN\n1000,1000,1000,TN\n")
    wanted = fake(monkeypatch)
    code, text = invoke(path, "--first", "0", "--json", str(saved))
    assert (code, len(wanted)) == (0, 1), text
    lines = [json.loads(line) for line in saved.read_text().splitlines()[1:]]
    (refused,) = (ln["result"] for ln in lines if "refused" in ln["result"])
    assert (refused["choice"], list(refused["systems"])) == ("", ["cublas"])
    assert len(refused["systems"]["cublas"]["times_us"]) == 2
    row = next(ln for ln in text.splitlines() if "8, 8, 2147483656" in ln)
    assert row.replace("│", " ").split()[-4:] == ["refused", "–", "–", "–"]
    assert f"wsched at 8x8x2147483656 tn: {refused['refused']}" in text
    assert text.splitlines()[-1] == "refused: 1 of 2 problems"
    assert len(judge(saved)) == 0


def test_another_file(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    append(path, {"problem": FIRST, "result": {}})
    with pytest.raises(UnsupportedError, match=r"without the schema wsched\.bench\.random/1"):
        read(path, SCHEMA, {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("M,N,K\n", "without the column layout is not supported; supported: M, N, K, layout"),
        (
            "M,N,K,layout\n1,2,x,TN\n",
            "line 2 (1, 2, x, TN) is not supported; supported: three sizes and one of tn, nt, nn, "
            "tt",
        ),
        (
            "M,N,K,layout\n1024,1024,1024,TN\n",
            "--count 2 is not supported; supported: at most 1, so many lie between 2 GFLOP and 3 "
            "TFLOP",
        ),
    ],
)
def test_another_list(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "problems.csv"
    path.write_text(text)
    code, output = invoke(path)
    assert code == 2 and output.endswith(f"{told}\n")


def test_variants() -> None:
    problem = Problem(Shape(1000, 2000, 3000))
    found = listed(problem, 4)
    assert len({r.name for r in found}) == len(found)
    taken = found[0].params
    clusters = {r.params.cluster_dims for r in found}
    assert clusters >= {ClusterDims(*c) for c in ((1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (1, 4))}
    assert {r.params.output_tile.m for r in found} == {64, 128, 192, 256}
    same = [r.params for r in found if r.params.tile_sizes == taken.tile_sizes]
    assert {p.l2_promotions.a for p in same} == set(TensorMapL2Promotion)
    assert {p.grid_traversal_factor for p in same} == {(4, 1), (8, 1), (16, 1)}
    assert {p.cta_order for p in same} == set(TileRasterizationOrder)
    assert {p.programmatic_dependent_launch for p in same} == {True, False}


def test_some_are_drawn_from_what_the_laws_put_near_their_best() -> None:
    problem = Problem(Shape(1000, 2000, 3000))
    planned = problem_for(definition_text(problem), problem.shape, 4, FakeGpu.l2_bytes, "fake")
    laws = {c.params: c.cost.by_laws for c in candidates(planned)}
    near = {p for p, us in laws.items() if us <= 1.12 * min(laws.values())}
    drawn = _drawn(planned, 12)
    assert drawn == _drawn(planned, 12) and len({*drawn}) == 12 and {*drawn} <= near
    assert {*_drawn(planned, 1000)} == near
    found = {r.params for r in listed(problem, 24)}
    assert {*drawn} <= found and not {*drawn} <= {*_first([*laws], 24)}
    assert _drawn(replace(planned, k=3008), 12) != drawn


@pytest.mark.slow
def test_what_is_compiled_ahead_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path))
    problem = Problem(Shape(64, 64, 64), layout="nt")
    text = definition_text(problem)
    with processes(1) as pool:
        assert build([(text, MatmulParams())] * 2, pool) == {"ok": 1}
    assert len(list(tmp_path.glob("*.cubin"))) == 1
    inputs = [torch.empty(64, 64, dtype=torch.bfloat16).t() for _ in range(2)]
    assert laid_out(import_fusion(text), inputs) == import_fusion(text)


class Pool(ThreadPoolExecutor):
    """Processes that are threads, and what they were given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.ranked = 0
        self.compiled = Kernels()

    def map(self, fn: Any, *rest: Any, **options: Any) -> Any:
        def counted(one: Any) -> Any:
            self.ranked += 1
            return fn(one)

        return super().map(counted, *rest, **options)

    def submit(self, fn: Any, /, *given: Any, **more: Any) -> Any:
        if fn is compiled:
            self.compiled.append(given)
        return super().submit(fn, *given, **more)


def compiled(definition: str, params: MatmulParams) -> str:
    return "ok"


@pytest.mark.parametrize(("seconds", "elsewhere"), [(0.01, 0), (0.7, 3), (9.0, 5)])
def test_one_pool_ranks_what_takes_long_and_compiles(
    seconds: float, elsewhere: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six problems, of which one is refused and two want the same kernel; each is ranked, in order,
    here or, once others could have started, by those.
    """
    clock, pools, order, bars = [0.0], list[Pool](), list[Shape](), list[tuple[object, ...]]()
    sizes = [(8, 8), (16, 16), (0, 0), (8, 8), (24, 24), (32, 32)]
    asked = [("text", Shape(m, n, 64)) for m, n in sizes]

    def made(jobs: int) -> Pool:
        assert jobs == 3
        pools.append(Pool())
        return pools[-1]

    @contextmanager
    def bar(total: int) -> Iterator[Callable[[int, str], None]]:
        yield lambda finished, text: bars.append((finished, total, text))

    def ranking(text: str, problem: Planned) -> list[Ranked]:
        clock[0] += seconds
        order.append(Shape(problem.m, problem.n, problem.k))
        if problem.m == 0:
            raise UnsupportedError("no rows", "some")
        return [Ranked("a", 1.0, MatmulParams(grid_traversal_factor=(problem.m, 1)))]

    def planned(text: str, shape: Shape, sms: int, l2_bytes: int, name: str) -> Planned:
        assert (sms, l2_bytes, name) == (4, FakeGpu.l2_bytes, "fake")
        return Planned(shape.m, shape.n, shape.k, BF16, (BF16,), sms)

    monkeypatch.setattr(building, "problem_for", planned)
    monkeypatch.setattr(building, "processes", made)
    monkeypatch.setattr(building, "progress_bar", bar)
    monkeypatch.setattr(building, "monotonic", lambda: clock[0])
    monkeypatch.setattr(building, "_compiled", compiled)
    build_for(asked, dict(DEVICE), ranking, 3)
    (pool,) = pools
    assert order == [shape for _, shape in asked] and pool.ranked == elsewhere
    factors = [params.grid_traversal_factor[0] for _, params in pool.compiled]
    assert factors == [8, 16, 24, 32] and {text for text, _ in pool.compiled} == {"text"}
    assert bars == [
        *((n, 6, f"chose for {n} of 6") for n in range(1, 7)),
        *((n, 4, f"compiled {n} of 4") for n in range(1, 5)),
    ]


def test_outcomes_of_compilations_are_counted() -> None:
    """By kind, and told one after the other; what does not compile is left to who measures it."""
    text = definition_text(Problem(Shape(64, 64, 64)))
    tiles = GemmTile(4096, 4096, 64)
    wrong = MatmulParams(tile_sizes=replace(MatmulParams().tile_sizes, cta_tile=tiles))
    told = list[tuple[int, int]]()
    with ThreadPoolExecutor(1) as pool:
        found = build([(text, wrong), ("no definition", wrong)], pool, lambda *x: told.append(x))
    assert found == {"ScheduleError": 1, "UnsupportedError": 1}
    assert told == [(1, 2), (2, 2)]


def _us(ranked: Any) -> float:
    return float(ranked.us)


def test_the_model_is_judged_by_what_was_measured(tmp_path: Path) -> None:
    drawn, taken = Drawn(1000, 2000, 3000), listed(Problem(Shape(1000, 2000, 3000)), 4)
    text = definition_text(drawn.problem)
    planned = problem_for(text, drawn.problem.shape, 4, DEVICE["l2_bytes"], "fake")
    ok = {"status": "ok"}
    systems = {r.name: ok | {"first_us": 2 * r.us, "params": r.params.to_dict()} for r in taken[:4]}
    best = min(taken[:4], key=lambda r: r.us).name
    systems["cublas"] = ok | {"first_us": systems[best]["first_us"], "params": {}}
    result = {"problem": problem_to_dict(planned), "systems": systems}
    path = tmp_path / "measured.jsonl"
    append(path, {"schema": "some"})
    append(path, {"problem": str(drawn), "result": result})
    (found,) = judge(path)
    assert (found.ratio, found.over_cublas, found.rank) == (1, 1, 1)
    assert found.choice == best and found.bias == pytest.approx(0.5)
    again = {"process": 1, "problem": str(drawn), "result": result}
    append(path, again)  # of the fastest alone: not asked
    assert judge(path) == [found] and len({j.schedule for j in joined(path)}) == len(
        [*joined(path)]
    )
    renamed = {f"{9 - at}": systems[r.name] for at, r in enumerate(sorted(taken[:4], key=_us))}
    by_time = verdict_of(str(drawn), result | {"systems": renamed})
    assert by_time is not None and by_time.choice == "9"
    systems[best]["first_us"] *= 4
    worse = verdict_of(str(drawn), result)
    assert worse is not None and worse.ratio < 0.6 and worse.over_cublas == 1 / 4
    assert summary([found, worse]).startswith("2 problems: choice over the best 0.")
    assert verdict_of(str(drawn), result | {"systems": {best: systems[best]}}) is None
