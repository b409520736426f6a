"""Eight modules with the sizes of published models, as torch has them.

Torch is imported where a module is made: the command line asks only for their names. Weights are
drawn such that every product has about the deviation of its input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["MODULES", "Made", "Module", "make"]


BLOCKS = "wsched.bench.models.blocks"


@dataclass(frozen=True, slots=True)
class Module:
    """A module of a published model.

    Args:
        what: one line, with the model that has these sizes.
        width: columns of its input.
        block: its class in :mod:`wsched.bench.models.blocks`.
        sizes: arguments of that behind the width.
        context: tokens of a row of the batch at most.
        trains: whether a step has a backward pass.
    """

    what: str
    width: int
    block: str
    sizes: tuple[int, ...]
    context: int = 1 << 20
    trains: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """A module on a device.

    Args:
        module: in bf16.
        x: its input.
        grad: the gradient of its result where it trains, otherwise None.
    """

    module: torch.nn.Module
    x: torch.Tensor
    grad: torch.Tensor | None

    def step(self, call: Callable[[Any], Any]) -> Callable[[], list[torch.Tensor]]:
        """One step of ``call``, the module or what was made of it: its result and gradients."""
        import torch

        x, grad = self.x, self.grad
        if grad is None:

            def forward() -> list[torch.Tensor]:
                with torch.no_grad():
                    return [call(x)]

            return forward
        parameters = list(self.module.parameters())

        def train() -> list[torch.Tensor]:
            y = call(x)
            return [y.detach(), *torch.autograd.grad(y, parameters, grad)]

        return train

    def widened(self) -> Made:
        """The same in fp32."""
        from copy import deepcopy

        grad = None if self.grad is None else self.grad.float()
        return Made(deepcopy(self.module).float(), self.x.float(), grad)


def make(name: str, tokens: int, device: str, seed: int = 0) -> Made:
    """A module with drawn weights and an input.

    Args:
        name: a key of :data:`MODULES`.
        tokens: rows of the input, in batches of the model's context.
        device: ``cuda`` or ``cpu``.
        seed: of the draw.
    """
    import torch

    found = MODULES[name]
    block: type[torch.nn.Module] = getattr(import_module(BLOCKS), found.block)
    with torch.device("meta"):
        module = block(found.width, *found.sizes)
    module = module.to_empty(device=device).bfloat16()
    draw = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.normal_(1.0, 0.1, generator=draw)
            else:
                parameter.normal_(0.0, parameter.shape[-1] ** -0.5, generator=draw)
            parameter.requires_grad_(found.trains)
    length = min(tokens, found.context)
    shape = max(tokens // length, 1), length, found.width
    x, grad = (torch.randn(shape, generator=draw, device=device).bfloat16() for _ in range(2))
    return Made(module, x, grad if found.trains else None)


MODULES: dict[str, Module] = {
    "gpt2": Module("a block of GPT-2 large", 1280, "GptBlock", (20,), 1024),
    "llama": Module(
        "a block of Llama 3 8B: RoPE, 8 heads of keys", 4096, "LlamaBlock", (32, 8, 14336), 8192
    ),
    "gelu-mlp": Module("the MLP of GPT-J 6B", 4096, "GeluMlp", (16384,)),
    "gated-mlp": Module("the gated MLP of Llama 3 8B", 4096, "GatedMlp", (14336,)),
    "attention": Module(
        "GPT-2 large's attention, softmax by hand", 1280, "AttentionByHand", (20,), 1024
    ),
    "mlp-training": Module(
        "the MLP of GPT-J 6B, forward and backward", 4096, "GeluMlp", (16384,), trains=True
    ),
    "lora": Module("a layer of Llama 3 8B with LoRA of rank 16", 4096, "LoraLinear", (4096, 16)),
    "moe": Module(
        "the gate and the experts of Mixtral 8x7B, in a loop", 4096, "Experts", (14336, 8, 2)
    ),
}
"""By name."""
