"""Is a representation any good, without labels: figures with intervals, and a verdict in plain words."""

from __future__ import annotations

from eigenview.diagnostics.spectrum import effective_rank

__all__ = ["effective_rank"]
