"""Large batches on small memory, exact: the batch's features first, then each micro-batch again for its gradient.

Gao et al. (2021, GradCache): the loss sees the features of the whole batch, so its gradient at them is the whole
batch's; each micro-batch is then encoded once more, and that gradient sent back through it. Both are one operation of
autograd, so that scaling, accumulation and DDP, which hears of every parameter once, after the last micro-batch, go as
ever. The cut is at the encoder's output: a head with batch norm sees the whole batch. For encoders without batch
statistics the gradients are those of the whole batch at once; the price is one more forward pass.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from eigenview.devices import generator_states, set_generator_states
from eigenview.errors import SettingError
from eigenview.nn.batch_norm import KeptBatchNorm


def in_micro_batches(encoder: nn.Module, images: Tensor, size: int | None) -> Tensor:
    """``encoder(images)`` in the memory of ``size`` images at a time, however large the batch; None: all at once.

    Micro-batches are as even as can be. What the encoder draws (dropout) is drawn again for the gradients. Its batch
    norms take the statistics of each micro-batch, and their running averages move once, by the mean over all. The
    images get no gradient.
    """
    if size is None:
        rows: Tensor = encoder(images)
        return rows
    trained = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
    features: Tensor = _Encoded.apply(images, encoder, size, *trained)  # type: ignore[no-untyped-call]
    return features


def check_micro_batches(encoder: nn.Module, size: int | None, *, allows_batch_norm: bool) -> None:
    """Refuse an encoder whose batch norms would see micro-batches, unless they are allowed to."""
    if size is not None and not allows_batch_norm and _batch_norms(encoder):
        raise SettingError(
            "this encoder has batch norms, which under micro_batch take the statistics of each micro-batch and not of "
            "the batch: use encoder.normalization=group or an encoder with layer norms, keep the statistics of a "
            "pretrained one (encoder.statistics=kept), or have it so by micro_batch_norm=per-micro-batch"
        )


class _Encoded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor, encoder: nn.Module, size: int, *trained: Tensor) -> Tensor:
        averages, generators, moved, features = _RunningAverages(encoder), [], [], []
        for batch in _split(images, size):
            generators.append(generator_states(images.device))
            with averages:
                features.append(encoder(batch))
                moved.append(averages.copy())
        averages.move(moved)
        ctx.save_for_backward(images)
        ctx.encoder, ctx.size, ctx.trained, ctx.generators = encoder, size, trained, generators
        kind = images.device.type
        ctx.autocast = {"dtype": torch.get_autocast_dtype(kind), "enabled": torch.is_autocast_enabled(kind)}
        return torch.cat(features)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (images,) = ctx.saved_tensors
        batches = zip(_split(images, ctx.size), _split(gradient, ctx.size), ctx.generators, strict=True)
        sums: list[Tensor | None] = [None] * len(ctx.trained)
        now = generator_states(images.device)
        for batch, arriving, generators in batches:
            set_generator_states(images.device, generators)
            averages = _RunningAverages(ctx.encoder)
            with torch.enable_grad(), averages, torch.autocast(images.device.type, **ctx.autocast):
                rows = ctx.encoder(batch)
            gradients = torch.autograd.grad(rows, ctx.trained, arriving, allow_unused=True)
            for place, (before, more) in enumerate(zip(sums, gradients, strict=True)):
                if more is not None:  # not added in place: two parameters may have been given the same tensor
                    sums[place] = more if before is None else before + more
        set_generator_states(images.device, now)
        return (None, None, None, *sums)


def _split(rows: Tensor, size: int) -> Sequence[Tensor]:
    return torch.tensor_split(rows, max(1, math.ceil(len(rows) / size)))


class _RunningAverages:
    """The running averages of an encoder's batch norms. As a context: what moves them within is undone after it."""

    def __init__(self, encoder: nn.Module) -> None:
        self._buffers = [buffer for norm in _batch_norms(encoder) for buffer in norm.buffers(recurse=False)]
        self._before: list[Tensor] = []

    def copy(self) -> list[Tensor]:
        return [buffer.clone() for buffer in self._buffers]

    def __enter__(self) -> None:
        self._before = self.copy()

    def __exit__(self, *raised: object) -> None:
        self._set(self._before)

    def move(self, to: list[list[Tensor]]) -> None:
        """To the mean of the values that each micro-batch moved them to."""
        self._set([torch.stack(values).double().mean(dim=0) for values in zip(*to, strict=True)])

    def _set(self, values: list[Tensor]) -> None:
        for buffer, value in zip(self._buffers, values, strict=True):
            buffer.data.copy_(value)  # not the buffer itself: autograd would refuse a pass that it was saved for


def _batch_norms(encoder: nn.Module) -> list[_BatchNorm]:
    norms = [module for module in encoder.modules() if isinstance(module, _BatchNorm)]
    return [norm for norm in norms if not isinstance(norm, KeptBatchNorm)]
