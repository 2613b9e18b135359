"""The projection head of a run, so that features before and after it can be compared."""

from __future__ import annotations

from torch import nn

from eigenview.errors import DataError
from eigenview.evaluation.runs import EvaluatedRun
from eigenview.nn import build_head, load_weights

PREFIX = "head."  # of the head's tensors in a checkpoint


def run_head(run: EvaluatedRun, *, checkpoint: str = "last") -> nn.Module:
    """The head that the run's ``config.json`` names, with the checkpoint's weights, in eval mode.

    A run without one (supervised training, for example) is refused: it has no layer ``projection``.
    """
    settings = run.config.get("method_settings")
    name = settings.get("head") if isinstance(settings, dict) else None
    if not isinstance(settings, dict) or not isinstance(name, str):
        raise DataError(f"{run.folder} has no projection head in its config.json; leave the layer 'projection' out")
    widths = {width: settings.get(f"head_{width}") for width in ("hidden", "output")}
    given = {width: value for width, value in widths.items() if isinstance(value, int)}
    head = build_head(name, run.encoder.feature_width, **given)
    if next(head.parameters(), None) is not None:
        load_weights(head, run.folder / "checkpoints" / checkpoint / "weights.safetensors", prefix=PREFIX)
    return head.eval()
