"""Both towers of a run that learnt from captions: images and words → vectors of length 1 that can be compared."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from eigenview.batches import evaluating
from eigenview.errors import DataError
from eigenview.export.onnx_file import TOLERANCE, any_batch, in_onnxruntime, require_onnx, write_onnx
from eigenview.files import atomic_path, to_json, write_text
from eigenview.nn import TextTower, read_weights
from eigenview.runs import OpenedRun
from eigenview.runs.card import KEY, card_of
from eigenview.tensors import save_tensors, save_torch, sealed

TowerFormat = Literal["safetensors", "onnx"]
IMAGE, TEXT, TOKENIZER = "image", "text", "tokenizer.json"
CHECKED = ((1, 3), (2, 5), (5, 2))  # (rows, tokens of each): none alone shows that both are free


@dataclass(frozen=True)
class ExportedTowers:
    """The files, and how far what loads back differs, as a share of the largest number."""

    image: Path
    text: Path
    tokenizer: Path
    difference: float


class ImageTower(nn.Module):
    """Images (n, c, size, size) → vectors (n, d) of length 1."""

    def __init__(self, encoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, images: Tensor) -> Tensor:
        return normalize(self.head(self.encoder(images)), dim=1)


def export_towers(run: OpenedRun, to: TowerFormat, folder: str | Path | None = None) -> ExportedTowers:
    """Write ``image``, ``text`` and ``tokenizer.json`` into ``folder``, ``RUN/export/towers`` unless given.

    ``onnx``: ``images`` (batch, c, size, size) or ``tokens`` (batch, length) → ``embeddings`` (batch, d), any batch and
    length. A token is 1 + the number that the tokenizer gives it, and 0 fills rows up. ``safetensors``: the tensors of
    each tower as ``encoder.…`` and ``head.…``. Both say in their metadata how images must look.
    """
    text, image = run.needed_text(), ImageTower(run.encoder, run.needed_head())
    place = run.directory.exports / "towers" if folder is None else Path(folder)
    card = to_json(card_of(run.encoder, run.view, run.name, run.settings, format=to))
    size, suffix = run.view.size, f".{to}"
    images = [torch.rand(rows, run.channels, size, size, device=run.device) for rows, _ in CHECKED]
    longest = text.tokenizer.length or max(length for _, length in CHECKED)
    shapes = [(rows, min(length, longest)) for rows, length in CHECKED]
    tokens = [torch.randint(1, text.tokenizer.vocabulary, shape, device=run.device) for shape in shapes]
    worst = 0.0
    for name, tower, examples in ((IMAGE, image, images), (TEXT, text, tokens)):
        with atomic_path(place / f"{name}{suffix}") as file, evaluating(tower):
            worst = max(worst, _written(tower, examples, card, file, to))
    tokenizer = write_text(place / TOKENIZER, text.tokenizer.text)
    return ExportedTowers(place / f"{IMAGE}{suffix}", place / f"{TEXT}{suffix}", tokenizer, worst)


def _written(tower: ImageTower | TextTower, examples: list[Tensor], card: str, file: Path, to: TowerFormat) -> float:
    if to == "safetensors":
        return write_weights(tower, file, card)
    require_onnx()
    names, free = ("images", "embeddings"), {0: any_batch()}
    if isinstance(tower, TextTower):
        longest = torch.export.Dim("length", min=1, max=tower.tokenizer.length or 2)
        names, free = ("tokens", "embeddings"), {0: any_batch(), 1: longest}
    write_onnx(tower, examples[1], file, card=card, names=names, free=free)
    theirs = in_onnxruntime(file, names)
    worst = max(float((tower(rows).cpu() - theirs(rows)).abs().max()) for rows in examples)
    if not worst <= TOLERANCE:
        raise DataError(f"onnxruntime computes something else: embeddings differ by {worst:.1e}; not kept")
    return worst


def write_weights(module: nn.Module, file: Path, card: str) -> float:
    """The tensors of a module, as safetensors with its card or, by another suffix, as a torch state dict.

    0.0, how far what the file holds differs: it must be the very weights.
    """
    weights = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in module.state_dict().items()}
    if file.suffix == ".safetensors":
        save_tensors(file, weights, metadata=sealed(weights, {KEY: card, "format": "pt"}))
    else:
        save_torch(file, weights)
    stored = read_weights(file)
    if stored.keys() != weights.keys() or any(not torch.equal(stored[name], weights[name]) for name in weights):
        raise DataError(f"{file.name} does not hold the weights that were written to it; is the disk sound?")
    return 0.0
