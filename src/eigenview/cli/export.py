"""The encoder of a run for others to load, checked by loading it back before it is called done.

Examples:
  eigenview export runs/photos --to safetensors
  eigenview export runs/photos --to onnx -o photos.onnx
  eigenview export runs/photos --to torchvision -o resnet18.pth
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from eigenview.cli.output import Output
from eigenview.cli.parse import POSITIONAL, parse


@dataclass(frozen=True)
class Options:
    run: Annotated[Path, POSITIONAL, tyro.conf.arg(metavar="RUN")]
    """a run directory"""
    to: Literal["safetensors", "onnx", "torchvision", "timm"]
    """the format; onnx needs the extra of that name"""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="FILE")] = None
    """RUN/export/FORMAT with its suffix unless given"""
    json: bool = False
    """print what was written as JSON"""


def run(arguments: list[str]) -> None:
    options = parse(Options, arguments, verb="export", about=__doc__)
    from eigenview.export import export

    output = Output(as_json=options.json)
    found = export(options.run, options.to, options.out)
    output.result({"path": str(found.path), "format": options.to, "difference": found.difference})
    if not options.json:
        size = f"{found.path.stat().st_size / 1e6:.1f} MB"
        output.say(f"{found.path} ({size}); loaded back, it differs by {found.difference:.2g}")
        output.say(found.how_to_load)
