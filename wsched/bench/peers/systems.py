"""The systems that are compared, by name, and how each is made ready for a problem."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from lowering.ground.errors import UnsupportedError, WschedError
from wsched.bench.problem import Problem, definition_text

__all__ = [
    "PEERS", "REFERENCE", "Launch", "Prepared", "Skip", "import_failure", "is_own", "parse_peers",
    "prepare",
]  # fmt: skip

REFERENCE = "cublas"
"""The peer that ratios refer to."""

Launch = Callable[[Any, Any, Any], Any]
"""Launches on torch's current stream: (A [M, K], B [N, K], D [M, N]) -> the tensor with the result.

The result is D, except for a system that allocates its own.
"""


class Skip(Exception):  # noqa: N818  (an answer, not a failure of the benchmark)
    """A system cannot take part here; the text says why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A system that is ready for one problem; ``details`` goes into the JSON."""

    launch: Launch
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    """Where a peer is.

    Args:
        module: has ``prepare(name, problem, a, b) -> Prepared``. It is imported when its peer is
            wanted, so that one that is not installed costs the others nothing.
        package: of the peer itself; what is imported of it has this name in front.
    """

    module: str
    package: str


PEERS = {
    "cublas": Peer("wsched.bench.peers.cublas", "torch"),
    "nvfuser": Peer("wsched.bench.peers.nvfuser", "nvfuser_direct"),
    "nvfuser-cooperative": Peer("wsched.bench.peers.nvfuser", "nvfuser_direct"),
    "nvfuser-pingpong": Peer("wsched.bench.peers.nvfuser", "nvfuser_direct"),
    "nvfuser-wsched": Peer("wsched.bench.peers.doors", "nvfuser_direct"),
    "nvfuser-plugin": Peer("wsched.bench.peers.doors", "nvfuser_direct"),
    "triton": Peer("wsched.bench.peers.triton", "triton"),
    "cutlass": Peer("wsched.bench.peers.cutlass", "cutlass"),
}
"""Name on the command line -> where it is."""


def import_failure(package: str, error: ImportError) -> str:
    """Say why a package could not be used: it is not there, or something that it needs is not."""
    if _not_installed(package, error):
        return f"not installed: there is no module {package}"
    what = str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        what = f"there is no module {error.name}"
    return f"{package} is installed, but cannot be imported: {what}"


def _not_installed(package: str, error: ImportError) -> bool:
    return isinstance(error, ModuleNotFoundError) and error.name == package


def parse_peers(text: str, known: Collection[str] = PEERS.keys()) -> tuple[str, ...]:
    """Parse a comma-separated list of peers; cuBLAS is always one, the ratios refer to it.

    Raises:
        UnsupportedError: a name that is not in ``known``.
    """
    words = [w.strip() for w in text.split(",") if w.strip()]
    for word in words:
        if word not in known:
            raise UnsupportedError(f"the peer {word!r}", ", ".join(known))
    return tuple(dict.fromkeys([REFERENCE, *words]))


def is_own(name: str) -> bool:
    """Whether a system is wsched's: ``wsched``, or ``wsched:<name>`` with parameters of a file."""
    return name.partition(":")[0] == "wsched"


def prepare(name: str, params: dict[str, Any] | None, problem: Problem, a: Any, b: Any) -> Prepared:
    """Compile a system for a problem.

    Args:
        name: a peer; any other name is wsched's, with parameters or, if :func:`is_own`, without.
        params: for wsched, ``MatmulParams`` as a dict; None leaves the choice to the heuristics.
        problem: what to compute.
        a: CUDA tensor [M, K], in the problem's layout.
        b: CUDA tensor [N, K].

    Raises:
        Skip: a peer that is not installed, or refuses the problem.
        UnsupportedError: wsched refuses the problem or the parameters.
        ImportError: a peer that is installed, and broken.
        Exception: whatever else goes wrong; that is a failure, no refusal.
    """
    if is_own(name) or params is not None:
        return _prepare_wsched(params, problem, a, b)
    peer = PEERS[name]
    try:
        prepared: Prepared = importlib.import_module(peer.module).prepare(name, problem, a, b)
    except ImportError as error:
        text = import_failure(peer.package, error)
        if _not_installed(peer.package, error):
            raise Skip(text) from error
        raise ImportError(text) from error
    return prepared


def _prepare_wsched(params: dict[str, Any] | None, problem: Problem, a: Any, b: Any) -> Prepared:
    import wsched
    from wsched.schedule.matmul.params import MatmulParams

    chosen = None if params is None else MatmulParams.from_dict(params)
    kernel = wsched.compile(definition_text(problem), [a, b], params=chosen)

    def launch(a: Any, b: Any, d: Any) -> Any:
        kernel(a, b, out=[d])
        return d

    details = {"params": kernel.params.to_dict(), "resources": _resources(kernel)}
    return Prepared(launch, details)


def _resources(kernel: Any) -> Any:
    """Registers and shared memory; a host without the tools that read them can still measure."""
    try:
        return plain(kernel.resources)
    except (WschedError, OSError) as error:
        return {"unknown": str(error)}


def plain(value: Any) -> Any:
    """Return details as JSON data: dataclasses and mappings as dicts, unknown things as text."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    names = getattr(type(value), "__dataclass_fields__", None)
    if names is not None:
        return {n: plain(getattr(value, n)) for n in names}
    return str(value)
