"""Loss and output of a step, whole or of parts of the batch; a step in plain PyTorch that has them too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphsched.errors import ExperimentError


def reading(results: Mapping[str, Tensor]) -> tuple[float, Tensor]:
    """Loss and output on the CPU from ``loss`` and ``output``, or from ``0/loss``, ``0/output``, ``1/loss``, ….

    Losses of parts are means over their rows; the mean over all rows is made of them.

    Raises:
        ExperimentError: There is no output.

    Example:
        >>> parts = {"0/output": torch.zeros(3, 2), "1/output": torch.ones(1, 2)}
        >>> loss, output = reading(parts | {"0/loss": torch.tensor(1.0), "1/loss": torch.tensor(5.0)})
        >>> loss, output[:, 0].tolist()
        (2.0, [0.0, 0.0, 0.0, 1.0])
    """
    outputs = _parts(results, "output")
    if not outputs:
        raise ExperimentError(f"the step returns {', '.join(results) or 'nothing'}: output and loss are needed")
    whole = torch.cat([output.cpu() for output in outputs])
    if "loss" in results:
        return float(results["loss"]), whole
    losses = _parts(results, "loss")
    weighted = [float(loss) * len(output) for loss, output in zip(losses, outputs, strict=True)]
    return sum(weighted) / len(whole), whole


def _parts(results: Mapping[str, Tensor], what: str) -> list[Tensor]:
    if what in results:
        return [results[what]]
    names = [name for name in results if name.endswith(f"/{what}") and name.removesuffix(f"/{what}").isdecimal()]
    return [results[name] for name in sorted(names, key=lambda name: int(name.partition("/")[0]))]


@dataclass(frozen=True)
class Done:
    """Results that are there."""

    results: Mapping[str, Tensor]

    def result(self) -> Mapping[str, Tensor]:
        return self.results


@dataclass(eq=False)
class PlainStep:
    """A training step as users write it, to be held against a plan.

    Attributes:
        net, loss, optimizer: The network on `device`, a function of output and target, and what changes parameters.
        device: Where inputs go.
        within: Makes a context for each step: numbers of threads.

    Raises:
        ExperimentError: The optimiser keeps more than momenta, or is to begin with dampened ones.
    """

    net: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: torch.optim.Optimizer
    device: str = "cpu"
    within: Callable[[], AbstractContextManager[Any]] = nullcontext

    def __post_init__(self) -> None:
        if type(self.optimizer) is not torch.optim.SGD:
            raise ExperimentError(f"the optimizer is {type(self.optimizer).__name__}: torch.optim.SGD is needed")
        for group in self.optimizer.param_groups:
            for parameter in group["params"] if group["momentum"] else ():
                kept = self.optimizer.state[parameter]
                if group["dampening"] and "momentum_buffer" not in kept:  # the first step takes gradients undamped
                    raise ExperimentError(
                        f"the optimizer has dampening {group['dampening']} and no momenta yet, without which its first "
                        "step is another: make one step, or leave out dampening"
                    )
                kept.setdefault("momentum_buffer", torch.zeros_like(parameter))

    def submit(self, **inputs: Tensor) -> Done:
        """One step on the network's inputs and, last, the target; work on a GPU goes on after this returns."""
        *given, target = (tensor.to(self.device) for tensor in inputs.values())
        with self.within():
            self.optimizer.zero_grad()
            output = self.net(*given)
            value = self.loss(output, target)
            value.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        return Done({"loss": value.detach(), "output": output.detach()})

    def state(self) -> dict[str, Tensor]:
        """Clones of parameters, buffers and what the optimiser keeps, named as a trace names them."""
        return {name: tensor.detach().clone() for name, tensor in self._tensors().items()}

    def reset(self, states: Mapping[str, Tensor]) -> None:
        """Set these states; the others stay."""
        tensors = self._tensors()
        with torch.no_grad():
            for name, state in states.items():
                tensors[name].copy_(state)

    def _tensors(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {**dict(self.net.named_parameters()), **dict(self.net.named_buffers())}
        kept = {name: self.optimizer.state.get(parameter, {}) for name, parameter in self.net.named_parameters()}
        return found | {f"{name}/{key}": value for name, moments in kept.items() for key, value in moments.items()}
