"""Eigenview: representations from unlabelled images, learned by coupling similarity graphs."""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
