"""Half precision: whether this processor can do what it advertises, tried in another process before it is used here.

A virtual machine may advertise AMX and not have it: oneDNN's kernels then end the process by SIGILL, which nothing
catches. An environment variable asks for a lower set of instructions; oneDNN reads it once, at its first kernel.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NoReturn

from eigenview.errors import SettingError

LOWER = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}  # half precision without AMX
LONGEST = 300  # seconds that the try may take: importing torch on a busy machine, mostly
TYPES = {"bf16": "bfloat16", "16": "float16"}
FACTS = Path("/proc/cpuinfo")
FAST = {"avx512_bf16", "amx_bf16", "bf16"}  # instructions of Intel, AMD and ARM, as Linux names them
TRY = """
import sys, torch
layers = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3), torch.nn.Flatten(), torch.nn.Linear(32 * 6 * 6, 64))
with torch.autocast("cpu", dtype=getattr(torch, sys.argv[1])):
    rows = layers(torch.randn(8, 16, 8, 8).contiguous(memory_format=torch.channels_last))
rows.float().square().mean().backward()
"""


class LowerInstructionsNeeded(SettingError):
    """Half precision works on this processor only if Python starts with ``LOWER`` in its environment."""


def has_half_instructions() -> bool:
    """Whether this processor says that it has any for bfloat16, or says nothing; without, half precision is slower."""
    try:
        lines = FACTS.read_text(errors="replace").splitlines()
    except OSError:
        return True
    told = [line.partition(":")[2] for line in lines if line.lower().startswith(("flags", "features"))]
    return not told or bool(FAST & set(told[0].split()))


def works_in_half(precision: str) -> bool:
    """Whether this processor's kernels for such a precision do not end a process, as tried in another one."""
    return bool(sys.executable) and _ends(TYPES[precision], ()) == 0


def check_half_precision(precision: str, device: str) -> None:
    """Refuse a precision whose kernels would end this process, before one of them is called."""
    if precision == "32" or device != "cpu" or not sys.executable:
        return
    dtype = TYPES[precision]
    ended = _ends(dtype, ())
    if ended == 0:
        return
    variables = " ".join(f"{name}={value}" for name, value in LOWER.items())
    is_lower = all(os.environ.get(name) == value for name, value in LOWER.items())
    if not is_lower and _ends(dtype, tuple(LOWER.items())) == 0:
        raise LowerInstructionsNeeded(
            f"precision {precision} crashes on this processor ({_how(ended)}) unless Python is started with "
            f"{variables}: set it, or take precision 32"
        )
    raise SettingError(f"precision {precision} does not work on this processor ({_how(ended)}): take precision 32")


def can_start_again() -> bool:
    """Whether this process is the command itself, and not a Python that only calls it."""
    return Path(sys.argv[0]).name in ("eigenview", "__main__.py")


def start_again() -> NoReturn:
    """This very command once more, in this process's place, with the lower set of instructions."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **LOWER})


@cache
def _ends(dtype: str, variables: tuple[tuple[str, str], ...]) -> int | None:
    """How a process ends that tries a tiny layer: its exit code, minus a signal; None if it does not end."""
    environment: Mapping[str, str] = {**os.environ, **dict(variables)}
    try:
        tried = subprocess.run(
            [sys.executable, "-c", TRY, dtype], env=environment, capture_output=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return tried.returncode


def _how(ended: int | None) -> str:
    """In words: "a tiny layer ended with SIGILL"."""
    if ended is None:
        return f"a tiny layer was not through after {LONGEST} s"
    known = {int(number): number.name for number in signal.Signals}
    return f"a tiny layer ended with {known.get(-ended, f'code {ended}')}"
