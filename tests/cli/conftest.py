"""One small run that all the walks share: starting a process with torch takes seconds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import PHOTOS, RUN, eigenview, write_photos


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to work in, with pictures."""
    folder = tmp_path_factory.mktemp("shop")
    write_photos(folder / PHOTOS)
    return folder


@pytest.fixture(scope="session")
def trained(shop: Path) -> subprocess.CompletedProcess[str]:
    """What ``train`` printed; the run is in RUN."""
    settings = ["--steps", "6", "--encoder.width", "0.25", "--log-every", "2", "--workers", "0"]
    return eigenview("train", PHOTOS, "--out", RUN, *settings, folder=shop)
