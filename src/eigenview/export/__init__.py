"""Encoders out of Eigenview: safetensors, ONNX, and the names of torchvision and timm."""

from eigenview.export.encoder_file import Exported, Format, LoadedEncoder, export, load_exported

__all__ = [
    "Exported",
    "Format",
    "LoadedEncoder",
    "export",
    "load_exported",
]
