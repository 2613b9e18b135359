"""The report's browser, for the labelling page, and a page to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.places import Client, served, write_pictures
from tests.report.conftest import browser

__all__ = ["browser"]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with served(write_pictures(tmp_path / "place", each=30), out=tmp_path / "out") as opened:
        yield opened
