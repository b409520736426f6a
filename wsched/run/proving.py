"""When kernels are proved without being asked: ``WSCHED_PROOF``, and what follows from a proof.

Unset, a kernel is proved before its first launch if somebody wrote its schedule; ``1``: every
kernel, when it is made; ``0``: none. A proof takes 0.2 to 2 s of Python, and what came of it is
kept by the kernel's text, in memory and on disk beside the cubins.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from functools import cache
from importlib.resources import files
from pathlib import Path

from lowering.cuda.cache import default_directory
from lowering.cuda.shelf import Shelf
from lowering.ground.errors import InternalError, UnsupportedError, WschedError
from lowering.ground.log import log
from lowering.ground.recent import Recent
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import print_kernel
from lowering.proof.admitted import Admitted
from lowering.proof.obligation import Proof, Verdict
from wsched.version import __version__

__all__ = [
    "VARIABLE",
    "proof_of",
    "prove_before_launch",
    "prove_if_asked",
    "require_proved",
]

VARIABLE = "WSCHED_PROOF"
"""The environment variable."""

_MAGIC = b"wsched proof 1\n\0"
_LIMIT_BYTES = 16 << 20
"""A proof takes 3 to 20 KB as a file."""

_SOURCES = ("ground", "kernel", "proof")
"""The packages that decide what is proved of a kernel's text."""

_found: Recent[str, Proof] = Recent(lambda: 1024)
_shelves: dict[Path, Shelf] = {}


def prove_if_asked(kernel: Kernel, admitted: Admitted | None = None) -> None:
    """Prove a kernel that was just made, where ``WSCHED_PROOF`` is 1.

    Raises:
        InternalError: as :func:`require_proved`.
        WschedError: the variable has another value than 0 and 1.
    """
    if _setting() == "1":
        require_proved(kernel, admitted)


def prove_before_launch(kernel: Kernel, written: bool, admitted: Admitted | None = None) -> None:
    """Prove a kernel that is about to be loaded, if it is due: ``written`` says that somebody wrote
    its schedule.

    Raises:
        InternalError: as :func:`require_proved`.
        WschedError: the variable has another value than 0 and 1.
    """
    setting = _setting()
    if setting == "1" or (written and not setting):
        require_proved(kernel, admitted)


def _setting() -> str:
    setting = os.environ.get(VARIABLE, "").strip()
    if setting not in ("", "0", "1"):
        raise WschedError(f"{VARIABLE}={setting}: use 1 for every kernel, 0 for none")
    return setting


def require_proved(kernel: Kernel, admitted: Admitted | None = None) -> None:
    """Prove a final kernel; a claim that is not decided gives a warning that names it.

    Args:
        kernel: the kernel.
        admitted: which launches it has, as far as it is known.

    Raises:
        InternalError: a claim is refuted; the text has the steps that lead there.
    """
    proof = proof_of(kernel, admitted)
    refuted = [o for o in proof.open if o.verdict is Verdict.REFUTED]
    if refuted:
        raise InternalError("proof", f"{kernel.name} is not right", "\n".join(map(str, refuted)))
    if not proof.proved:
        claims = ", ".join(sorted({f"{o.name} ({o.subject})" for o in proof.open}))
        warnings.warn(
            f"wsched: {kernel.name} runs although these claims about it are not proved: {claims}. "
            f"kernel.proof() says why; {VARIABLE}=0 proves nothing.",
            RuntimeWarning,
            stacklevel=2,
        )


def proof_of(kernel: Kernel, admitted: Admitted | None = None) -> Proof:
    """What is proved of a final kernel: from memory, from disk, or found now and kept.

    Args:
        kernel: the kernel.
        admitted: which launches it has, as far as it is known.
    """
    key = _key(kernel, admitted)
    if (kept := _found.get(key)) is not None:
        return kept
    shelf = _shelf()
    payload = None if shelf is None else shelf.get(key)
    if payload is not None:
        found = Proof.of_dict(json.loads(payload))
        log("proof from disk", lambda: kernel.name)
    else:
        from lowering.proof.prove import prove

        found = prove(kernel, admitted)
        if shelf is not None:
            shelf.put(key, json.dumps(found.to_dict()).encode())
    return _found.add(key, found)


def _key(kernel: Kernel, admitted: Admitted | None) -> str:
    """Hash of a kernel's text, what it is for, and what proves it."""
    facts = [
        print_kernel(kernel), repr(kernel.target), repr(admitted), _prover(), __version__,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


@cache
def _prover() -> str:
    """Hash of the modules that decide what is proved: another claim, another proof."""
    total = hashlib.sha256()
    for package in _SOURCES:
        for file in sorted(files(f"lowering.{package}").iterdir(), key=lambda f: f.name):
            if file.name.endswith(".py"):
                total.update(file.read_bytes())
    return total.hexdigest()


def _shelf() -> Shelf | None:
    """Where proofs are kept on disk; None where no folder is known for it."""
    try:
        at = default_directory()
    except UnsupportedError:
        return None
    lost = "proofs are found again in each process."
    new = Shelf(at, _MAGIC, ".proof", _LIMIT_BYTES, lost)
    return _shelves.get(at) or _shelves.setdefault(at, new)
