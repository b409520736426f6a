"""Linear layers of models, and matmuls drawn from them.

Sizes follow from the configurations that are published with the models: an attention layer's
projections to query, key and value as one matmul, and its output; of an MLP the ways there and
back, of a gated one a half (LLaMA-3 8B: both halves as one matmul). DeepSeek-V3: the ways to the
latents, those back from the smaller one split over 2 and 8 GPUs, and both ways of an expert.
"""

from __future__ import annotations

import random

from lowering.ground.errors import UnsupportedError
from wsched.bench.problem import Shape

__all__ = ["LAYERS", "ROWS", "drawn_shapes"]

LAYERS = {
    "LLaMA-3 8B": ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)),
    "LLaMA-3 70B": ((10240, 8192), (8192, 8192), (28672, 8192), (8192, 28672)),
    "Qwen2.5-7B": ((4608, 3584), (3584, 3584), (18944, 3584), (3584, 18944)),
    "BERT-large": ((3072, 1024), (1024, 1024), (4096, 1024), (1024, 4096)),
    "Mistral-Nemo-12B": ((6144, 5120), (5120, 4096), (14336, 5120), (5120, 14336)),
    "DeepSeek-V3": ((1536, 7168), (576, 7168), (7168, 2048), (2048, 7168), (16384, 512),
                    (4096, 512)),
    "GPT-2": ((2304, 768), (768, 768), (3072, 768), (768, 3072)),
}  # fmt: skip
"""Model -> (N, K) of its linear layers."""

ROWS = (16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
"""M: from the tokens of a decoding step to those of a training step."""


def drawn_shapes(count: int, seed: int) -> tuple[Shape, ...]:
    """Draw different shapes: M goes through :data:`ROWS`, (N, K) is drawn from all layers.

    The first ones do not depend on how many are drawn.

    Raises:
        UnsupportedError: more than there are.
    """
    sizes = sorted({size for layers in LAYERS.values() for size in layers})
    every = len(ROWS) * len(sizes)
    if count > every:
        raise UnsupportedError(f"--count {count}", f"at most {every}, the shapes of all layers")
    draw = random.Random(seed)
    # Each M has an order of its own, so that the next shape of it is the next layer in it.
    order = [draw.sample(sizes, len(sizes)) for _ in ROWS]
    places = (divmod(i, len(ROWS)) for i in range(count))
    return tuple(Shape(ROWS[row], *order[row][layer]) for layer, row in places)
