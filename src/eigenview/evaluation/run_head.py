"""The projection head of a run, so that features before and after it can be compared."""

from __future__ import annotations

from torch import nn

from eigenview.errors import DataError
from eigenview.evaluation.runs import EvaluatedRun
from eigenview.nn import build_head, load_weights
from eigenview.nn.weights import read_weights

PREFIX = "head."  # of the head's tensors in a checkpoint


def run_head(run: EvaluatedRun, *, checkpoint: str = "last") -> nn.Module:
    """The head of the run. One without (supervised training, say) is refused: it has no layer ``projection``."""
    head = find_head(run, checkpoint=checkpoint)
    if head is None:
        raise DataError(f"{run.folder} has no projection head; leave the layer 'projection' out")
    return head


def find_head(run: EvaluatedRun, *, checkpoint: str = "last") -> nn.Module | None:
    """The head that ``config.json`` names, with the checkpoint's weights, in eval mode; None where there is none."""
    settings = run.config.get("method_settings")
    if not isinstance(settings, dict) or not isinstance(settings.get("head"), str):
        return None
    widths = {name: settings.get(f"head_{name}") for name in ("hidden", "output")}
    given = {name: width for name, width in widths.items() if isinstance(width, int)}
    head = build_head(settings["head"], run.encoder.feature_width, **given)
    weights = run.folder / "checkpoints" / checkpoint / "weights.safetensors"
    if next(head.parameters(), None) is None:
        return head.eval()
    if not any(name.startswith(PREFIX) for name in read_weights(weights)):
        return None
    load_weights(head, weights, prefix=PREFIX)
    return head.eval()
