"""Encoders out of Eigenview: safetensors, ONNX, and the names of torchvision and timm."""

from __future__ import annotations

from eigenview.export.encoder_file import Exported, Format, LoadedEncoder, export, load_exported
from eigenview.export.towers import ExportedTowers, export_towers
from eigenview.runs.card import Build, Card, Input, read_card

__all__ = [
    "Build",
    "Card",
    "Exported",
    "ExportedTowers",
    "Format",
    "Input",
    "LoadedEncoder",
    "export",
    "export_towers",
    "load_exported",
    "read_card",
]
