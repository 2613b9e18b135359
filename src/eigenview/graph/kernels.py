"""Kernels: how alike two embeddings are, always as a log-similarity log k(a, y), never a distance with a flipped sign.

A kernel is a small immutable object. ``k(a, y)`` gives the (n, m) log-similarities of all pairs, ``k.pairs(a, y)`` the
(n,) ones of rows taken together. ``k1 + k2``, ``0.3 * k``, ``k1 * k2`` and ``concatenated(k1, k2)`` are kernels again.
``repr`` is the text of settings, ``Gaussian(temperature=0.5)``, which ``read_kernel`` reads back. Temperatures and
biases are numbers, or tensors that carry gradient (:func:`learnable`).

On unit vectors ``GaussianKernel(t)``, exp(−‖·‖²/2t), and ``CosineKernel(t)`` give the same random walk:
‖a−y‖² = 2 − 2 a·y.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import reduce

import torch
from torch import Tensor

from eigenview.errors import SettingError
from eigenview.graph.geometry import Geometry
from eigenview.graph.pointwise import log_add, log_tail
from eigenview.graph.scalars import InnerForm, Scalar, require_positive, with_gradient, written


class Kernel(ABC):
    """A log-similarity. A kernel of your own needs one method, :meth:`log_similarity`, differentiable in torch.

    If its k(a, y) differs from k(y, a), set ``is_symmetric = False``: half of the blocks are otherwise left out.
    """

    is_symmetric: bool = True

    @abstractmethod
    def log_similarity(self, geometry: Geometry) -> Tensor:
        """log k, with the shape of ``geometry.inner``."""

    def inner_form(self, *, unit: bool) -> InnerForm | None:
        """The same kernel as scale · a·y + bias, where there is one (``unit``: all embeddings have norm 1)."""
        return None

    def tensors(self) -> tuple[Tensor, ...]:
        """The settings that carry gradient, each once. A kernel of your own with such settings overrides this."""
        return ()

    def check(self) -> None:
        """Refuse settings outside their range: learnable ones may have moved since the kernel was made."""
        return

    def __call__(self, a: Tensor, y: Tensor) -> Tensor:
        return self.log_similarity(Geometry(a, y))

    def pairs(self, a: Tensor, y: Tensor) -> Tensor:
        return self.log_similarity(Geometry(a, y, paired=True))

    def __radd__(self, other: object) -> Kernel:
        return self if other == 0 else NotImplemented  # so that sum([k1, k2]) works

    def __add__(self, other: Kernel) -> Kernel:
        if not isinstance(other, Kernel):
            return NotImplemented
        return SumKernel((*_terms(self, SumKernel), *_terms(other, SumKernel)))

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return ProductKernel((*_terms(self, ProductKernel), *_terms(other, ProductKernel)))
        return self.__rmul__(other)

    def __rmul__(self, weight: float) -> Kernel:
        if not isinstance(weight, (int, float, Tensor)):
            return NotImplemented
        if isinstance(self, ScaledKernel):
            return ScaledKernel(weight * self.weight, self.kernel)
        return ScaledKernel(weight, self)


@dataclass(frozen=True, repr=False)
class _Elementary(Kernel):
    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        for field in fields(self):
            if field.name != "bias":
                require_positive(field.name, getattr(self, field.name))

    def tensors(self) -> tuple[Tensor, ...]:
        return with_gradient(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        settings = ", ".join(f"{field.name}={written(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__.removesuffix('Kernel')}({settings})"


@dataclass(frozen=True, repr=False)
class InnerProductKernel(_Elementary):
    """log k = a·y / temperature + bias."""

    temperature: Scalar = 1.0
    bias: Scalar = 0.0

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return geometry.inner / self.temperature + self.bias

    def inner_form(self, *, unit: bool) -> InnerForm | None:
        return InnerForm(1 / self.temperature, self.bias)


BARE = InnerProductKernel()  # blocks of it are matrix products and nothing else


@dataclass(frozen=True, repr=False)
class CosineKernel(InnerProductKernel):
    """log k = cos(a, y) / temperature + bias."""

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return super().log_similarity(geometry.on_sphere)

    def inner_form(self, *, unit: bool) -> InnerForm | None:
        return super().inner_form(unit=True) if unit else None


@dataclass(frozen=True, repr=False)
class GaussianKernel(_Elementary):
    """log k = −‖a−y‖² / (2 · temperature): on the sphere the random walk of ``CosineKernel(temperature)``.

    Kernel-InfoNCE's code divides by τ alone: its τ is twice this temperature (:meth:`of_authors`).
    """

    temperature: Scalar = 0.5

    @classmethod
    def of_authors(cls, temperature: float) -> GaussianKernel:
        """exp(−‖a−y‖²/τ), as Tan et al. write and code it."""
        return cls(temperature / 2)

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return geometry.squared_distance * (-0.5 / self.temperature)

    def inner_form(self, *, unit: bool) -> InnerForm | None:
        return InnerForm(1 / self.temperature, -1 / self.temperature) if unit else None


@dataclass(frozen=True, repr=False)
class ExponentialKernel(_Elementary):
    """log k = −‖a−y‖^gamma / temperature, gamma in (0, 2].

    The slope of ‖·‖^gamma is infinite at 0 for gamma < 1 (and has a kink at 1). Where rounding rules anyway it falls
    to 0 (:func:`~eigenview.graph.pointwise.distance_power`): gradients are finite everywhere.
    """

    gamma: float = 0.5
    temperature: Scalar = 1.0

    def check(self) -> None:
        if not 0 < self.gamma <= 2:
            raise SettingError(f"an exponential kernel needs gamma in (0, 2]; got {self.gamma}")
        super().check()

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return geometry.distance_power(self.gamma, scale=-1 / self.temperature)

    def inner_form(self, *, unit: bool) -> InnerForm | None:
        return GaussianKernel(self.temperature / 2).inner_form(unit=unit) if self.gamma == 2 else None


@dataclass(frozen=True, repr=False)
class LaplacianKernel(_Elementary):
    """log k = −‖a−y‖₂ / temperature = ``ExponentialKernel(1, temperature)``: the L2 norm, not L1 (Kernel-InfoNCE)."""

    temperature: Scalar = 1.0

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return geometry.distance_power(1.0, scale=-1 / self.temperature)


@dataclass(frozen=True, repr=False)
class StudentTKernel(_Elementary):
    """k = (1 + ‖a−y‖² / (degrees · temperature))^(−(degrees+1)/2). Many degrees: ``GaussianKernel(temperature)``."""

    degrees: float = 1.0
    temperature: Scalar = 1.0

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return log_tail(geometry.squared_distance, self.degrees * self.temperature, (self.degrees + 1) / 2)


@dataclass(frozen=True, repr=False)
class CauchyKernel(_Elementary):
    """k = 1 / (1 + ‖a−y‖² / temperature): Student-t with one degree, t-SNE's kernel."""

    temperature: Scalar = 1.0

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return log_tail(geometry.squared_distance, self.temperature, 1.0)


@dataclass(frozen=True, repr=False)
class ScaledKernel(Kernel):
    """weight · k, weight > 0: for weighted sums."""

    weight: Scalar
    kernel: Kernel

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        require_positive("a kernel's weight", self.weight)
        self.kernel.check()

    @property
    def is_symmetric(self) -> bool:  # type: ignore[override]
        return self.kernel.is_symmetric

    @property
    def _log_weight(self) -> Scalar:
        return self.weight.log() if isinstance(self.weight, Tensor) else math.log(self.weight)

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return self.kernel.log_similarity(geometry) + self._log_weight

    def inner_form(self, *, unit: bool) -> InnerForm | None:
        form = self.kernel.inner_form(unit=unit)
        return form and InnerForm(form.scale, form.bias + self._log_weight)

    def tensors(self) -> tuple[Tensor, ...]:
        return with_gradient((self.weight, *self.kernel.tensors()))

    def __repr__(self) -> str:
        return f"{written(self.weight)} * {self.kernel!r}"


@dataclass(frozen=True, repr=False)
class _Composite(Kernel):
    kernels: tuple[Kernel, ...]

    def check(self) -> None:
        for kernel in self.kernels:
            kernel.check()

    @property
    def is_symmetric(self) -> bool:  # type: ignore[override]
        return all(kernel.is_symmetric for kernel in self.kernels)

    def tensors(self) -> tuple[Tensor, ...]:
        return with_gradient(tensor for kernel in self.kernels for tensor in kernel.tensors())


class SumKernel(_Composite):
    """k₁ + k₂ + …, added inside the logarithm."""

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return reduce(log_add, (kernel.log_similarity(geometry) for kernel in self.kernels))

    def __repr__(self) -> str:
        return f"({' + '.join(map(repr, self.kernels))})"


class ProductKernel(_Composite):
    """k₁ · k₂ · …: log-similarities add."""

    def log_similarity(self, geometry: Geometry) -> Tensor:
        return reduce(torch.add, (kernel.log_similarity(geometry) for kernel in self.kernels))

    def inner_form(self, *, unit: bool) -> InnerForm | None:
        forms = [kernel.inner_form(unit=unit) for kernel in self.kernels]
        known = [form for form in forms if form is not None]
        if len(known) < len(forms):
            return None
        return InnerForm(sum(form.scale for form in known), sum(form.bias for form in known))

    def __repr__(self) -> str:
        return f"({' * '.join(f'({k!r})' if isinstance(k, ScaledKernel) else repr(k) for k in self.kernels)})"


class ConcatenatedKernel(_Composite):
    """k₁ on the first half of the embedding + k₂ on the second half."""

    def log_similarity(self, geometry: Geometry) -> Tensor:
        first, second = geometry.halves
        return log_add(self.kernels[0].log_similarity(first), self.kernels[1].log_similarity(second))

    def __repr__(self) -> str:
        return f"concat({self.kernels[0]!r}, {self.kernels[1]!r})"


def concatenated(first: Kernel, second: Kernel) -> Kernel:
    """The concatenation sum: ``first`` on one half of the embedding plus ``second`` on the other.

    Normalise the whole embedding once, as the authors do; the halves then need not have unit norm.
    """
    return ConcatenatedKernel((first, second))


def _terms(kernel: Kernel, kind: type[_Composite]) -> tuple[Kernel, ...]:
    return kernel.kernels if isinstance(kernel, kind) else (kernel,)
