"""``eigenview label`` as a process of its own, to be killed and started again."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.commands import COMMAND, ENVIRONMENT

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?token=\S+")


@dataclass
class Labelling:
    """A server under way."""

    process: subprocess.Popen[str]
    address: str
    said: str

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def labelling(*arguments: str, folder: Path, patience: float = 300.0) -> Iterator[Labelling]:
    """``eigenview label ARGUMENTS --no-browser`` in ``folder``, once it has said its address; killed at the end."""
    log = folder / "label.log"
    with log.open("w") as out:
        words = [*COMMAND, "label", *arguments, "--no-browser"]
        process = subprocess.Popen(words, cwd=folder, env=ENVIRONMENT, stdout=out, stderr=out, text=True)
        try:
            end = time.monotonic() + patience
            while (told := ADDRESS.search(log.read_text(encoding="utf-8"))) is None:
                assert process.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < end, log.read_text(encoding="utf-8")
                time.sleep(0.1)
            yield Labelling(process, told[0], log.read_text(encoding="utf-8"))
        finally:
            process.kill()
            process.wait()
