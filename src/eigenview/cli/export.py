"""The encoder of a run for others to load, checked by loading it back before it is called done.

Of a run that learnt from captions, safetensors and onnx come with a folder of both towers and the tokenizer.

Examples:
  eigenview export runs/photos --to safetensors
  eigenview export runs/photos --to onnx -o photos.onnx
  eigenview export efficientnet-lite0 --to onnx -o lite0.onnx
  eigenview export runs/photos --to torchvision -o resnet18.pth
  eigenview export runs/photos --to onnx --head labels.head.safetensors -o classifier.onnx
"""

from pathlib import Path
from typing import Annotated, Literal

from eigenview.cli.options import AsJson, Word, positional
from eigenview.cli.output import Output
from eigenview.cli.run_options import OpenOptions, is_encoder


class Options(OpenOptions):
    run: Annotated[Path, positional("RUN|ENCODER")]  # a run directory, or an encoder by name
    to: Literal["safetensors", "onnx", "torchvision", "timm"]  # the format; onnx needs the extra of that name
    out: Annotated[Path | None, Word("FILE", "-o")] = None  # RUN/export/FORMAT with its suffix unless given;
    # with --head, RUN/export/classifier.onnx
    head: Annotated[Path | None, Word("FILE")] = None  # what spread wrote beside the labels: the ONNX file then gives
    # the probabilities of its classes instead of features
    as_json: AsJson = False  # print what was written as JSON


def run(options: Options, output: Output) -> None:
    from eigenview.export import export
    from eigenview.runs import is_run, open_named, open_run

    if is_run(options.run) or not is_encoder(str(options.run)):
        opened = open_run(options.run, checkpoint=options.checkpoint)
        written = export(opened, options.to, options.out, head=options.head)
    else:
        written = export(open_named(str(options.run)), options.to, options.out, head=options.head)
    towers = None if written.towers is None else str(written.towers.image.parent)
    output.result({"path": str(written.path), "format": options.to, "difference": written.difference, "towers": towers})
    if not options.as_json:
        size = f"{written.path.stat().st_size / 1e6:.1f} MB"
        output.say(f"{written.path} ({size}); loaded back, it differs by {written.difference:.2g}")
        output.say(written.how_to_load)
        if towers is not None:
            output.say(f"both towers, of images and of words, and the tokenizer: {towers}")
