"""Encoders out of Eigenview: safetensors, ONNX, and the names of torchvision and timm."""

from __future__ import annotations

from eigenview.export.card import Build, Card, Input
from eigenview.export.encoder_file import Exported, Format, LoadedEncoder, export, load_exported, read_card

__all__ = ["Build", "Card", "Exported", "Format", "Input", "LoadedEncoder", "export", "load_exported", "read_card"]
