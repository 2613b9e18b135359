"""Batch statistics over all processes on any device, and over parts of a batch on one."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import batch_norm
from torch.nn.modules.batchnorm import _BatchNorm

from eigenview.distributed import Group, gather_rows, sum_over_processes, world_size
from eigenview.errors import SettingError, ShapeError
from eigenview.graph.eager import eager


class _RowsOrMaps(_BatchNorm):
    """Batch normalisation of (n, c) and of (n, c, …)."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2 or input.shape[1] != self.num_features:
            raise ShapeError(f"batch norm takes (n, {self.num_features}, …); got {tuple(input.shape)}")

    def _share(self) -> float:
        """How far the running statistics move, after counting this batch; a cumulative average without momentum."""
        if self.num_batches_tracked is None:
            return 0.0
        self.num_batches_tracked.add_(1)
        return self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)


class SynchronisedBatchNorm(_RowsOrMaps):
    """Batch normalisation with the mean and variance of all processes' rows: what one process with all rows computes.

    For (n, c) and (n, c, …); uneven numbers of rows are allowed, even none on some processes. The gradient of the
    statistics is the sum over processes, so that after DDP's averaging the parameters receive one process's gradient.
    torch's SyncBatchNorm runs on accelerators only; this one runs anywhere, with the ``settings`` of torch's.
    """

    def __init__(self, num_features: int, *settings: Any, group: Group = None, **named: Any) -> None:
        super().__init__(num_features, *settings, **named)
        self.processes = _Processes(group)

    def forward(self, input: Tensor) -> Tensor:
        group = self.processes.group
        batch_statistics = self.training or self.running_mean is None
        if not batch_statistics or world_size(group) == 1:
            return super().forward(input)
        return self._synchronised(input, group)

    @eager
    def _synchronised(self, rows: Tensor, group: Group) -> Tensor:
        self._check_input_dim(rows)
        mean, variance, count = _global_statistics(rows.detach(), group)
        if count < 2:
            raise ShapeError(f"batch norm needs at least 2 values per channel over all processes; got {count}")
        if self.training and self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():  # as torch keeps them: the variance unbiased
                share, unbiased = self._share(), variance * (count / (count - 1))
                self.running_mean.mul_(1 - share).add_(mean.to(self.running_mean), alpha=share)
                self.running_var.mul_(1 - share).add_(unbiased.to(self.running_var), alpha=share)
        weight, bias = self.weight, self.bias
        out: Tensor = _Normalise.apply(rows, weight, bias, mean, variance, count, self.eps, group)  # type: ignore[no-untyped-call]
        return out


class _Processes:
    """A process group that a copied module shares: groups themselves cannot be copied."""

    def __init__(self, group: Group) -> None:
        self.group = group

    def __deepcopy__(self, memo: dict[int, object]) -> _Processes:
        return self


def _global_statistics(rows: Tensor, group: Group) -> tuple[Tensor, Tensor, int]:
    """Mean (c,), biased variance (c,) and number of values per channel over all processes.

    Each process sends its own count, mean and sum of squares about its mean, which combine without cancellation.
    """
    rows = rows.float() if rows.dtype.itemsize < 4 else rows
    channels = rows.shape[1]
    count = rows.numel() // channels
    if not count:
        variance = mean = rows.new_zeros(channels)
    elif rows.ndim == 2:
        variance, mean = torch.var_mean(rows, dim=0, correction=0)
    else:  # the statistics of torch's own batch norm, five times faster over maps than var_mean
        mean, variance = torch.batch_norm_update_stats(rows, None, None, 0.0)
    mine = torch.cat([mean, variance, mean.new_tensor([float(count)])])[None]
    everyone = gather_rows(mine, group, counts=[1] * world_size(group)).double()
    means, variances, counts = everyone[:, :channels], everyone[:, channels:-1], everyone[:, -1:]
    total = counts.sum()
    mean = (counts * means).sum(dim=0) / total
    variance = (counts * (variances + (means - mean).square())).sum(dim=0) / total
    return mean.to(rows.dtype), variance.to(rows.dtype), int(total)


class _Normalise(torch.autograd.Function):
    """y = γ·(x − mean)/√(variance + ε) + β where mean and variance are those of all processes' x.

    The backward is dx = (γ/σ)·(dy − Σdy/N − x̂·Σ(dy·x̂)/N) with both sums over all processes; the scale's and shift's
    gradients are this process's own sums, for DDP to average.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        variance: Tensor,
        count: int,
        eps: float,
        group: Group,
    ) -> Tensor:
        ctx.save_for_backward(rows, weight, mean, variance)
        ctx.count, ctx.eps, ctx.group = count, eps, group
        return batch_norm(rows, mean, variance, weight, bias, training=False, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, mean, variance = ctx.saved_tensors
        scale = torch.ones_like(mean) if weight is None else weight
        if rows.numel() == 0:  # torch's kernel divides by the number of rows, and the process dies of it
            fixed, scale_gradient, shift_gradient = (torch.zeros_like(like) for like in (rows, scale, scale))
        else:  # dy·γ/σ, Σ dy·x̂ and Σ dy of this process's rows, in torch's one pass over them
            is_channels_last = rows.ndim == 4 and rows.is_contiguous(memory_format=torch.channels_last)
            layout = torch.channels_last if is_channels_last else torch.contiguous_format
            incoming, wanted = gradient.contiguous(memory_format=layout), [True, True, True]
            fixed, scale_gradient, shift_gradient = torch.ops.aten.native_batch_norm_backward(
                incoming, rows, scale, mean, variance, None, None, False, ctx.eps, wanted
            )
        channels = len(mean)
        sums = sum_over_processes(torch.cat([scale_gradient, shift_gradient]).to(mean.dtype), ctx.group) / ctx.count
        along_rows, along_ones = sums[:channels], sums[channels:]
        inverse = (variance + ctx.eps).rsqrt()
        slope = scale * inverse.square() * along_rows
        level = scale * inverse * along_ones - slope * mean
        shape = [1, channels] + [1] * (rows.ndim - 2)
        slope, level = slope.view(shape).to(rows.dtype), level.view(shape).to(rows.dtype)
        entering = fixed.sub_(level).addcmul_(rows, slope, value=-1)
        return (
            entering,
            scale_gradient if ctx.needs_input_grad[1] else None,
            shift_gradient if ctx.needs_input_grad[2] else None,
            *[None] * 5,
        )


class SplitBatchNorm(_RowsOrMaps):
    """Batch normalisation apart in each of ``splits`` equal, consecutive parts of the batch: W processes on one.

    It keeps a momentum encoder's keys from telling which queries share their batch. Running statistics move by the
    average over the parts. ``settings`` are those of torch's batch norms.
    """

    def __init__(self, num_features: int, *settings: Any, splits: int, **named: Any) -> None:
        super().__init__(num_features, *settings, **named)
        if isinstance(splits, bool) or not isinstance(splits, int) or splits < 1:
            raise SettingError(f"splits must be a whole number of at least 1; got {splits}")
        self.splits = splits

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.splits == 1:
            return super().forward(input)
        self._check_input_dim(input)
        if len(input) % self.splits:
            raise ShapeError(f"split batch norm needs a batch divisible by {self.splits}; got {len(input)} rows")
        share, blocks = self._share(), input.chunk(self.splits)
        settings: dict[str, Any] = {"weight": self.weight, "bias": self.bias, "training": True, "eps": self.eps}
        if self.running_mean is None or self.running_var is None:
            return torch.cat([batch_norm(rows, None, None, **settings) for rows in blocks])
        means, spreads = (running.repeat(self.splits, 1) for running in (self.running_mean, self.running_var))
        everyone = zip(blocks, means, spreads, strict=True)
        normalised = [batch_norm(rows, mean, spread, momentum=share, **settings) for rows, mean, spread in everyone]
        self.running_mean.copy_(means.mean(dim=0))
        self.running_var.copy_(spreads.mean(dim=0))
        return torch.cat(normalised)


def synchronise(
    module: nn.Module, group: Group, *, device: torch.device | None = None, but_not_in: tuple[type[nn.Module], ...] = ()
) -> nn.Module:
    """The module with its batch norms synchronised over ``group``: torch's SyncBatchNorm on CUDA, ours elsewhere.

    Parameters and buffers stay the same tensors, and names the same, so optimizers and state dicts are unaffected.
    ``device``: where the module will run; where its first parameter is, unless told. ``but_not_in``: modules whose
    norms keep to themselves. Changes the module in place and returns it (a lone batch norm is returned converted).
    On one process nothing changes.
    """
    if world_size(group) == 1:
        return module
    first = next(module.parameters(), torch.empty(0))
    where = device if device is not None else first.device
    if where.type == "cuda":
        return _replace(module, partial(nn.SyncBatchNorm, process_group=group), but_not_in)
    return _replace(module, partial(SynchronisedBatchNorm, group=group), but_not_in)


def split_batch_norm(module: nn.Module, splits: int) -> nn.Module:
    """The module with every batch norm over ``splits`` parts of the batch; as :func:`synchronise` otherwise."""
    return _replace(module, lambda *sizes: SplitBatchNorm(*sizes, splits=splits))


class KeptBatchNorm(_RowsOrMaps):
    """Batch normalisation by the running statistics that it began with, in training too."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        assert self.running_mean is not None
        weight, bias = self.weight, self.bias
        return batch_norm(input, self.running_mean, self.running_var, weight, bias, training=False, eps=self.eps)


def keep_statistics(module: nn.Module) -> nn.Module:
    """The module with batch norms that keep their running statistics; as :func:`synchronise` otherwise."""
    return _replace(module, KeptBatchNorm)


def quicken_statistics(module: nn.Module, least: float) -> None:
    """Let running statistics move by at least ``least`` of the way with each batch; slower ones need many batches."""
    for norm in module.modules():
        if isinstance(norm, _BatchNorm) and norm.momentum is not None:
            norm.momentum = max(norm.momentum, least)


def _replace(module: nn.Module, build: Any, but_not_in: tuple[type[nn.Module], ...] = ()) -> nn.Module:
    if isinstance(module, (KeptBatchNorm, *but_not_in)):
        return module
    if isinstance(module, _BatchNorm):
        new: _BatchNorm = build(
            module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
        )
        new.train(module.training)
        new._parameters, new._buffers = module._parameters, module._buffers
        return new
    for name, child in module.named_children():
        setattr(module, name, _replace(child, build, but_not_in))
    return module
