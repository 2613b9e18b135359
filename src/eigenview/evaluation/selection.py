"""Choosing among encoders without the test set: cross-validation on training labels, as Wang & Isola (2020) do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from eigenview.errors import SettingError
from eigenview.evaluation.linear import INVERSE_PENALTIES, select_logistic, stratified_folds


@dataclass(frozen=True)
class EncoderChoice:
    """The encoder with the highest mean accuracy on held-out training rows."""

    name: str
    accuracy: dict[str, float]  # of each encoder, the mean over folds at its best penalty


def choose_encoder(
    features: Mapping[str, Tensor],
    labels: Tensor,
    *,
    folds: int = 5,
    inverse_penalties: Sequence[float] = INVERSE_PENALTIES,
    seed: int = 0,
) -> EncoderChoice:
    """The best of several encoders by their *training* features (n, d each), all on the same folds.

    The first of equals wins. An encoder's figure is optimistic, being the best of its penalties: it is for choosing;
    what is reported is the test score of the chosen one.
    """
    if not features:
        raise SettingError("there is no encoder to choose from; give features by encoder's name")
    fold = stratified_folds(labels, folds, seed=seed)
    accuracy = {}
    for name, rows in features.items():
        selection = select_logistic(rows, labels, inverse_penalties=inverse_penalties, fold=fold)
        accuracy[name] = float(selection.fold_accuracy.mean(dim=1).max())
    return EncoderChoice(max(accuracy, key=lambda name: accuracy[name]), accuracy)
