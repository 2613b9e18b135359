"""A device that is not there: tensors with shapes and a device, and no numbers, by PyTorch's FakeTensorMode.

A build without CUDA cannot even pretend a gradient on it; on a device of another name it can. What mixes
it with the CPU fails as on a real one. Meant for processes of their own (``run_processes``): the name stays registered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration

NAME = "pretended"
CAN_PRETEND = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
aten = torch.ops.aten


class _Mode(FakeTensorMode):
    """Where code asks for a number it gets one, where it asks for a choice of rows it gets them all.

    "Is any of them?" is answered no and "are all of them?" yes: checks of the input find nothing to refuse.
    """

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with self:
            answer = self._answer(func, args, kwargs)
        if answer is None:
            answer = super().dispatch(func, types, args, kwargs)
        if func is aten.any.default or (func is aten.bitwise_or.Tensor and hasattr(args[0], "is_any")):
            answer.is_any = True
        return answer

    def _answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is aten._local_scalar_dense.default:
            kind = args[0].dtype
            if kind == torch.bool:
                return not hasattr(args[0], "is_any")
            return 1.0 if kind.is_floating_point else 0
        if func is aten.equal.default:
            _refuse_mixed(args)
            return True
        if func is aten.nonzero.default:
            return torch.empty((args[0].numel(), args[0].ndim), dtype=torch.long, device=args[0].device)
        if func is aten._to_copy.default and kwargs.get("device") is not None:
            return torch.empty(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype, device=kwargs["device"])
        if func is aten._unique2.default:  # all different
            numbers = torch.empty(args[0].numel(), dtype=torch.long, device=args[0].device)
            return args[0].flatten(), numbers.view(args[0].shape), numbers
        if func is aten.repeat_interleave.Tensor:
            return torch.empty_like(args[0])
        if func is aten.bincount.default:
            return torch.empty(args[2], dtype=torch.long, device=args[0].device)
        if func is aten.index.Tensor and any(index is not None and index.dtype == torch.bool for index in args[1]):
            _refuse_mixed([args[0], *(index for index in args[1] if index is not None and index.device.type != "cpu")])
            return args[0].clone()
        return None


def _refuse_mixed(tensors: Iterable[Tensor]) -> None:
    places = {str(tensor.device) for tensor in tensors}
    if len(places) > 1:
        raise RuntimeError(f"expected all tensors on the same device; got {', '.join(sorted(places))}")


def _numpy(tensor: Tensor) -> np.ndarray:
    if tensor.device.type != "cpu":
        raise TypeError(f"can't convert a tensor on {tensor.device} to numpy: copy it to the CPU first")
    return np.zeros(tensor.shape, dtype=str(tensor.dtype).removeprefix("torch."))


@contextmanager
def pretended_device() -> Iterator[torch.device]:
    if not hasattr(torch, NAME):
        module = backend_registration._DummyBackendModule()
        module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
        backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=module)
    made = torch.tensor  # neither asks the mode where it puts its numbers
    with (
        mock.patch.object(torch, "tensor", lambda *args, device=None, **more: made(*args, **more).to(device or "cpu")),
        mock.patch.object(
            Tensor, "new_tensor", lambda own, *args, **more: torch.tensor(*args, device=own.device, **more)
        ),
        mock.patch.object(Tensor, "numpy", _numpy),
        _Mode(),
    ):
        yield torch.device(NAME)


def moved(module: nn.Module, device: torch.device) -> nn.Module:
    """What ``module.to(device)`` does: parameters and buffers, and nothing that a module holds beside them."""
    known: dict[int, Tensor] = {}

    def there(tensor: Tensor) -> Tensor:
        if id(tensor) not in known:
            rows = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
            is_parameter = isinstance(tensor, nn.Parameter)
            known[id(tensor)] = nn.Parameter(rows, requires_grad=tensor.requires_grad) if is_parameter else rows
        return known[id(tensor)]

    for owner in module.modules():
        for held in (owner._parameters, owner._buffers):
            held.update({name: there(tensor) for name, tensor in held.items() if tensor is not None})
    return module
