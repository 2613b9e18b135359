"""An encoder in an ONNX file, frozen: run by onnxruntime on the CPU, never trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eigenview.errors import DataError, SettingError
from eigenview.extras import extra_module
from eigenview.files import file_digest, from_json
from eigenview.names import printable, reason_of
from eigenview.nn.encoder import POOLED, Encoder, Step, check_layers, global_average
from eigenview.nn.inputs import EncoderFacts, InputSpec, LoadedEncoder

CARD = "eigenview"  # the key of the description that our own export writes


class OnnxEncoder(Encoder):
    """``pooled`` is the first output with rows (n, d), otherwise the first with maps (n, d, h, w), averaged.

    Layers: ``pooled`` and the names of the model's outputs. The model sees its own number of images at a time.
    """

    def __init__(self, session: Any, file: Path, channels: int) -> None:
        super().__init__()
        self.session, self.file, self.channels, self.digest = session, file, channels, file_digest(file)
        taken, outputs = session.get_inputs()[0], session.get_outputs()
        self.input_name, self.outputs = taken.name, tuple(output.name for output in outputs)
        self.batch = taken.shape[0] if isinstance(taken.shape[0], int) else None
        ranked = [output.name for rank in (2, 4) for output in outputs if len(output.shape) == rank]
        if not ranked:
            shapes = ", ".join(f"{output.name} {tuple(output.shape)}" for output in outputs)
            raise DataError(f"{printable(file)} gives {shapes}; an encoder gives (n, d) or (n, d, h, w)")
        self.output = ranked[0]

    def steps(self) -> list[Step]:
        return [(POOLED, lambda images: self._pooled(self._run(images, [self.output])[0]))]

    @property
    def layer_names(self) -> tuple[str, ...]:
        return (*self.outputs, POOLED)

    def features(self, images: Tensor, layers: Sequence[str] = (POOLED,)) -> dict[str, Tensor]:
        check_layers(layers, self.layer_names)
        self._check(images)
        asked = [self.output if name == POOLED else name for name in layers]
        rows = self._run(images, asked)
        return {name: self._pooled(row) if name == POOLED else row for name, row in zip(layers, rows, strict=True)}

    def _run(self, images: Tensor, outputs: list[str]) -> list[Tensor]:
        pixels = images.detach().float().cpu().contiguous()
        if self.batch is None:
            return [torch.from_numpy(rows) for rows in self.session.run(outputs, {self.input_name: pixels.numpy()})]
        pieces = []
        for start in range(0, len(pixels), self.batch):
            piece = pixels[start : start + self.batch]
            filled = torch.cat([piece, piece[:1].expand(self.batch - len(piece), -1, -1, -1)])
            rows = self.session.run(outputs, {self.input_name: filled.numpy()})
            pieces.append([torch.from_numpy(row)[: len(piece)] for row in rows])
        return [torch.cat(rows) for rows in zip(*pieces, strict=True)]

    @staticmethod
    def _pooled(rows: Tensor) -> Tensor:
        return rows if rows.ndim == 2 else global_average(rows)

    def extra_repr(self) -> str:
        return f"{self.file.name}, {self.digest}"

    def __deepcopy__(self, memo: object) -> OnnxEncoder:
        return self  # nothing in it ever changes


def onnx_model(name: str, *, channels: int, image_size: int | None, pretrained: bool) -> LoadedEncoder:
    """``onnx:FILE``. How its images must look is read from the file where our export wrote it."""
    file = Path(name)
    if not pretrained:
        raise SettingError(f"onnx:{name} is frozen: it has no random weights, and it cannot be trained")
    onnxruntime = onnxruntime_for(name)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own kinds
        raise DataError(f"{printable(file)} is no ONNX model that runs here: {reason_of(error)}") from None
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        taken = ", ".join(f"{given.name} {tuple(given.shape)}" for given in inputs)
        raise DataError(f"{printable(file)} must take one batch of images (n, c, h, w); it takes {taken}")
    _, own_channels, height, _ = inputs[0].shape
    encoder = OnnxEncoder(session, file, own_channels if isinstance(own_channels, int) else channels)
    if isinstance(height, int) and image_size not in (None, height):
        raise SettingError(f"{printable(file)} takes images of {height} pixels; got image_size={image_size}")
    given = _described(session.get_modelmeta().custom_metadata_map.get(CARD), file)
    given = None if given is None else given.at(image_size)
    side = image_size or (given.size if given is not None else height if isinstance(height, int) else 224)
    try:
        encoder.feature_width = encoder(torch.zeros(1, encoder.channels, side, side)).shape[1]
    except Exception as error:  # onnxruntime's own kinds
        raise DataError(f"{printable(file)} fails on an image of {side} pixels: {reason_of(error)}") from None
    version = f"onnxruntime {onnxruntime.__version__}"
    return LoadedEncoder(encoder, given, EncoderFacts(f"onnx:{name}", version, file.name, encoder.digest))


def onnxruntime_for(name: str, **_others: bool) -> Any:
    """The library that runs the file, which must be there."""
    if not Path(name).is_file():
        raise DataError(f"no such file: {printable(name)}; is the path right?")
    return extra_module("onnxruntime", extra="onnx", purpose="an ONNX encoder")


@dataclass(frozen=True)
class Described:
    """What we read of the description in a file of our own."""

    input: InputSpec


def _described(card: str | None, file: Path) -> InputSpec | None:
    try:
        return None if card is None else from_json(Described, card, file).input
    except DataError:
        return None  # another's note under the same key
