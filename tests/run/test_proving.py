"""When kernels are proved, what is raised, and what is kept of a proof."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace

import pytest

from lowering.ground.errors import InternalError, WschedError
from lowering.kernel.kernel import Kernel
from lowering.proof.admitted import Admitted
from lowering.proof.obligation import Obligation, Proof, Verdict
from lowering.proof.prove import prove
from tests.mutants.edits import mutants
from tests.schedules import SCHEDULES, definition
from wsched.front.known import import_fusion
from wsched.run import proving
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.counts import admitted_by

FUSION = import_fusion(definition())


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No proofs in memory or on disk, and no wish in the environment."""
    monkeypatch.setattr(proving, "_found", type(proving._found)(lambda: 8))
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(proving.VARIABLE, raising=False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that are proved anew."""
    names: list[str] = []

    def counted(kernel: Kernel, admitted: Admitted | None) -> Proof:
        names.append(kernel.name)
        return prove(kernel, admitted)

    monkeypatch.setattr("lowering.proof.prove.prove", counted)
    return names


def made(name: str = "coop_2_stages") -> CompiledFusion:
    return compile_fusion(FUSION, SCHEDULES[name])


def broken() -> Kernel:
    """A kernel that reads a stage which it has not waited for."""
    kernel = made().kernel
    return next(m.kernel for m in mutants(kernel) if m.kind == "stage" and "= wgmma" in m.what)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("setting", "written", "proofs"),
    [("", False, 0), ("", True, 1), ("0", True, 0), ("1", False, 1), ("1", True, 1)],
)
def test_who_is_proved_before_a_launch(
    setting: str, written: bool, proofs: int, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = made().kernel
    monkeypatch.setenv(proving.VARIABLE, setting)
    proving.prove_before_launch(kernel, written)
    assert asked == [kernel.name] * proofs


@pytest.mark.slow
def test_every_kernel_when_it_is_made(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made()
    assert asked == []
    monkeypatch.setenv(proving.VARIABLE, "1")
    name = made().kernel.name
    assert asked == [name]


@pytest.mark.parametrize(("setting", "proofs"), [("", 0), ("0", 0), ("1", 1)])
def test_who_is_proved_when_it_is_made(
    setting: str, proofs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    required: list[Kernel] = []
    monkeypatch.setattr(proving, "require_proved", lambda kernel, _: required.append(kernel))
    monkeypatch.setenv(proving.VARIABLE, setting)
    kernel = made().kernel
    required.clear()
    proving.prove_if_asked(kernel)
    assert required == [kernel] * proofs


def test_another_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(proving.VARIABLE, "yes")
    with pytest.raises(WschedError) as caught:
        made()
    assert str(caught.value) == "WSCHED_PROOF=yes: use 1 for every kernel, 0 for none"


def test_a_refuted_kernel_is_not_run() -> None:
    with pytest.raises(InternalError) as caught:
        proving.require_proved(broken())
    text = str(caught.value)
    assert text.startswith(f"proof: {broken().name} is not right\nThis is a defect of wsched")
    assert "refuted    read (ring, role compute, group 0, warp 0): wgmma reads a stage" in text


def test_an_open_claim_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = made().kernel
    known = (Obligation("bytes", "ring"), Obligation("arrivals", "x", Verdict.UNPROVED, "why"))
    monkeypatch.setattr("lowering.proof.prove.prove", lambda k, _: Proof(k.name, known))
    with pytest.warns(RuntimeWarning) as caught:
        proving.require_proved(kernel)
    assert [str(w.message) for w in caught] == [
        f"wsched: {kernel.name} runs although these claims about it are not proved: arrivals (x). "
        "kernel.proof() says why; WSCHED_PROOF=0 proves nothing."
    ]


def test_what_is_proved_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each claim, proved or not; another process reads it there."""
    kernel, asked = made().kernel, list[str]()
    known = (Obligation("bytes", "ring"), Obligation("arrivals", "x", Verdict.UNPROVED, "why"))

    def found(kernel: Kernel, admitted: Admitted | None) -> Proof:
        asked.append(kernel.name)
        return Proof(kernel.name, known)

    monkeypatch.setattr("lowering.proof.prove.prove", found)
    for _ in range(3):
        monkeypatch.setattr(proving, "_found", type(proving._found)(lambda: 8))
        assert proving.proof_of(kernel) == Proof(kernel.name, known)
    assert asked == [kernel.name]


@pytest.mark.slow
def test_a_proof_is_kept(asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In memory, then on disk: other processes prove nothing again; a damaged file is no proof."""
    kernel = made().kernel
    first = proving.proof_of(kernel)
    assert first.proved and proving.proof_of(kernel) is first
    monkeypatch.setattr(proving, "_found", type(proving._found)(lambda: 8))
    assert proving.proof_of(kernel) == first
    assert len(asked) == 1
    (file,) = (tmp_path / "cache").glob("*.proof")
    file.write_bytes(file.read_bytes()[:-1])
    monkeypatch.setattr(proving, "_found", type(proving._found)(lambda: 8))
    assert proving.proof_of(kernel) == first
    assert len(asked) == 2


def test_another_kernel_or_prover_is_another_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = made().kernel
    keys = {proving._key(kernel, None), proving._key(broken(), None)}
    keys.add(proving._key(kernel, admitted_by(made().plan)))
    keys.add(proving._key(replace(kernel, target=replace(kernel.target, shared_bytes=1)), None))
    monkeypatch.setattr(proving, "_prover", lambda: "another")
    keys.add(proving._key(kernel, None))
    assert len(keys) == 5


def test_another_text_of_what_proves_is_another_proof(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of any module of the three packages, in whatever order a folder tells them; nothing else that
    lies there counts.
    """
    packages, asked = ("ground", "kernel", "proof"), list[str]()
    for package in packages:
        (tmp_path / package).mkdir()
        (tmp_path / package / "some.py").write_text("claims = 1\n")
        (tmp_path / package / "more.py").write_text("claims = 3\n")
    turns = cycle((False, True))

    def files(name: str) -> SimpleNamespace:
        found = sorted((tmp_path / name.removeprefix("lowering.")).iterdir(), reverse=next(turns))
        return SimpleNamespace(iterdir=lambda: iter(found))

    monkeypatch.setattr(proving, "files", files)
    monkeypatch.setattr(proving, "_prover", cache(proving._prover.__wrapped__))
    kernel = made().kernel

    def found(kernel: Kernel, admitted: Admitted | None) -> Proof:
        asked.append(kernel.name)
        return Proof(kernel.name, (Obligation("bytes", "ring"),))

    def proofs() -> int:
        """How many there were once another process has asked, too."""
        proving._prover.cache_clear()
        monkeypatch.setattr(proving, "_found", type(proving._found)(lambda: 8))
        proving.proof_of(kernel)
        return len(asked)

    monkeypatch.setattr("lowering.proof.prove.prove", found)
    assert [proofs(), proofs()] == [1, 1]
    (tmp_path / "proof" / "notes.txt").write_text("claims = 2\n")
    assert proofs() == 1
    for number, package in enumerate(packages, 2):
        (tmp_path / package / "some.py").write_text("claims = 2\n")
        assert [proofs(), proofs()] == [number, number]


def test_a_refutation_is_kept_with_its_trace(asked: list[str]) -> None:
    found = proving.proof_of(broken())
    again = Proof.of_dict(found.to_dict())
    assert again == found and any(o.trace for o in again.open)


def test_nothing_warns_of_a_proved_kernel() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proving.require_proved(made().kernel)
