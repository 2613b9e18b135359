"""The sum kernels of Tan et al. (2023), with the temperatures as the paper and the authors' code write them.

In both, every distance power is divided by τ alone: exp(−‖·‖²/τ₂), exp(−‖·‖/τ₁). Use with
:func:`eigenview.losses.kernel_info_nce_loss`, the ``of_paper`` kernels with ``form="kernel-sum"``, the ``of_authors``
ones with ``form="loss-sum"``.
"""

from __future__ import annotations

from eigenview.errors import SettingError
from eigenview.graph.kernels import ExponentialKernel, GaussianKernel, Kernel, LaplacianKernel, concatenated


def simple_sum_of_paper(*, laplacian_temperature: float = 0.1, gaussian_temperature: float = 0.1) -> Kernel:
    """exp(−‖·‖²/τ₂) + exp(−‖·‖/τ₁). (The slide's ‖·‖^{1/τ₁} is a misprint for ‖·‖^{1}/τ₁.)"""
    return GaussianKernel.of_authors(gaussian_temperature) + LaplacianKernel(laplacian_temperature)


def concatenation_sum_of_paper(*, laplacian_temperature: float = 0.1, gaussian_temperature: float = 0.1) -> Kernel:
    """exp(−‖·‖²/τ₂) on the first half of the embedding + exp(−‖·‖/τ₁) on the second."""
    return concatenated(GaussianKernel.of_authors(gaussian_temperature), LaplacianKernel(laplacian_temperature))


def simple_sum_of_authors(
    *, gamma: float = 1.0, weight: float = 0.5, temperature: float = 0.1, gaussian_temperature: float | None = None
) -> Kernel:
    """λ·L(exp(−‖·‖^γ/τ)) + (1−λ)·L(exp(−‖·‖²/τ₂)), λ = ``weight``: a sum of losses.

    The authors' SimCLR script uses one τ for both (``gaussian_temperature=None``); their MoCo script τ=0.1, τ₂=0.3,
    λ=0.2. Their best values were searched for and never published.
    """
    first, second = _weighted_pair(gamma, weight, temperature, gaussian_temperature)
    return first + second


def concatenation_sum_of_authors(
    *, gamma: float = 1.0, weight: float = 0.5, temperature: float = 0.1, gaussian_temperature: float | None = None
) -> Kernel:
    """λ·L(exp(−‖·‖^γ/τ)) on the first half + (1−λ)·L(exp(−‖·‖²/τ₂)) on the second (``product`` in the authors' code).

    The embedding is twice as wide as for one kernel, and is normalised once over its whole width.
    """
    return concatenated(*_weighted_pair(gamma, weight, temperature, gaussian_temperature))


def _weighted_pair(
    gamma: float, weight: float, temperature: float, gaussian_temperature: float | None
) -> tuple[Kernel, Kernel]:
    if not 0 < weight < 1:
        raise SettingError(f"a sum of two losses needs a weight between 0 and 1; got {weight}")
    second = GaussianKernel.of_authors(temperature if gaussian_temperature is None else gaussian_temperature)
    return weight * ExponentialKernel(gamma, temperature), (1 - weight) * second
