"""nvFuser's kernels with wsched's schedules, by two doors (design/0018-nvfuser-scheduler.md).

``nvfuser-wsched`` has the parameters that ``wsched.nvfuser.schedule`` chooses, ``nvfuser-plugin``
those of a program that runs with wsched's heuristic plugin. nvFuser loads a plugin once for a
process and asks it for all that it schedules, so what it makes of the plugin's answer is found out
in a process of its own (:mod:`wsched.bench.peers.plugin_answer`), and its kernel runs here, in turn
with the others.
"""

from __future__ import annotations

from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.bench.peers.plugin_answer import plugin_answer
from wsched.bench.peers.systems import Prepared, Skip
from wsched.bench.problem import Problem, definition_text
from wsched.nvfuser import schedule

__all__ = ["prepare"]


def prepare(name: str, problem: Problem, a: Any, b: Any) -> Prepared:
    """``linear`` by nvFuser; it allocates its result at each launch.

    Raises:
        ImportError: it is not installed.
        Skip: nvFuser refuses the problem or the schedule, or the plugin cannot be built.
    """
    import nvfuser_direct  # noqa: F401 - where it is missing or broken, this says so

    try:
        params = plugin_answer(problem) if name == "nvfuser-plugin" else None
        done = schedule(definition_text(problem), [a, b], params)
        done.execute([a, b])  # compiles
    except UnsupportedError as error:
        raise Skip(str(error)) from error

    def launch(a: Any, b: Any, d: Any) -> Any:
        return done.execute([a, b])[0]

    return Prepared(launch, {"params": done.fields})
