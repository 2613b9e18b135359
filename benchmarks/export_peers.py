"""Exported weights in the real libraries: torchvision, timm. Needs both; `make bench` runs it in their environment.

.venv-peers/bin/python benchmarks/export_peers.py [MODEL…]   exports, loads there, compares the features
.venv-peers/bin/python benchmarks/export_peers.py --record   writes tests/export/fixtures anew from the libraries
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from eigenview.export import export
from eigenview.export.names import ARCHITECTURES, TIMM, options_of
from eigenview.nn import build_encoder, read_weights
from eigenview.views import EVALUATIONS

FIXTURES = Path(__file__).parent.parent / "tests" / "export" / "fixtures"
SUFFIX = {"torchvision": (".safetensors", ".pth"), "timm": (".safetensors", ".pth")}
TOLERANCE = 1e-5  # of the largest feature


def record() -> None:
    """Names and shapes of the libraries' own models, classifier included."""
    import timm
    import torchvision

    FIXTURES.mkdir(parents=True, exist_ok=True)
    for library, version in (("torchvision", torchvision.__version__), ("timm", timm.__version__)):
        names = (*ARCHITECTURES, *(TIMM.values() if library == "timm" else ()))
        models = {name: _shapes(_bare(library, name)) for name in names}
        content = {"library": library, "version": version.split("+")[0], "models": models}
        file = FIXTURES / f"{library}.json"
        file.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{file.name}: {library} {content['version']}, {', '.join(models)}")


def compare(names: list[str]) -> None:
    images = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(0)) * 4 - 2
    print(f"{'library':12} {'model':18} {'file':13} largest difference, as a share of the largest feature")
    with tempfile.TemporaryDirectory() as folder:
        for library, suffixes in SUFFIX.items():
            for name in (*names, *(TIMM if library == "timm" else ())):
                encoder = _started(name)
                with torch.no_grad():
                    ours = encoder(images)
                for suffix in suffixes:
                    written = export(encoder, library, Path(folder) / f"{name}{suffix}", view=EVALUATIONS["imagenet"])
                    theirs = _loaded(library, str(written.card.architecture), written.path, options_of(encoder))(images)
                    difference = float((ours - theirs).abs().max() / ours.abs().max())
                    print(f"{library:12} {name:18} {suffix:13} {difference:.1e}")
                    if not difference <= TOLERANCE:
                        raise SystemExit(f"{library} {name}: features differ")


def _started(name: str) -> nn.Module:
    """Random weights, and batch statistics that are not the identity: a name that is mixed up shows."""
    torch.manual_seed(0)
    encoder = build_encoder(name, stem="imagenet") if name in ARCHITECTURES else build_encoder(name, image_size=96)
    for part in encoder.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.uniform_(-0.2, 0.2)
            part.running_var.uniform_(0.6, 1.4)
    return encoder.eval()


def _bare(library: str, name: str) -> nn.Module:
    if library == "torchvision":
        import torchvision

        return torchvision.models.get_model(name)
    import timm

    return timm.create_model(name)


@torch.no_grad()
def _loaded(library: str, name: str, file: Path, options: dict[str, int]) -> nn.Module:
    """The library's model with the file's weights, as its users load them."""
    if library == "timm":
        import timm

        model = timm.create_model(name, num_classes=0, checkpoint_path=str(file), **options)
        return model.eval().requires_grad_(False)
    model = _bare(library, name)
    report = model.load_state_dict(read_weights(file), strict=False)
    if sorted(report.missing_keys) != ["fc.bias", "fc.weight"] or report.unexpected_keys:
        raise SystemExit(f"{library} {name} took the weights otherwise: {report}")
    model.fc = nn.Identity()
    return model.eval().requires_grad_(False)


def _shapes(model: nn.Module) -> dict[str, list[int]]:
    weights: dict[str, Tensor] = model.state_dict()
    return {name: list(tensor.shape) for name, tensor in weights.items()}


if __name__ == "__main__":
    record() if "--record" in sys.argv[1:] else compare(sys.argv[1:] or list(ARCHITECTURES))
