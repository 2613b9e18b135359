"""The labelling page: a small server on this machine, in front of ``choose``, ``spread`` and ``audit``."""

from __future__ import annotations

from eigenview.app.session import Session

__all__ = ["Session"]
