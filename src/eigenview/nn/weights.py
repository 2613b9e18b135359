"""Starting weights from a file: safetensors, or a torch state dict read without executing anything."""

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from eigenview.errors import DataError
from eigenview.names import reason_of
from eigenview.nn.vit import fitted_positions
from eigenview.tensors import read_sealed

CONTAINERS = ("state_dict", "model_state_dict", "model", "teacher", "student")  # where checkpoints keep their weights
PREFERRED = ("", "module.", "encoder.", "module.encoder.", "backbone.", "model.", "module.encoder_q.")
COUNTER = "num_batches_tracked"  # old state dicts have none, and only a cumulative average reads it
SHOWN = 5


@dataclass(frozen=True)
class LoadReport:
    """What a file gave and did not give."""

    loaded: int
    prefix: str  # what stood before the module's names in the file
    missing: tuple[str, ...]  # in the module, not in the file: these keep their start
    unexpected: tuple[str, ...]  # under the prefix in the file, not in the module: left out

    def __str__(self) -> str:
        sentences = [f"{self.loaded} tensors loaded" + (f" from {self.prefix}*" if self.prefix else "")]
        sentences += [f"{len(self.missing)} missing ({_some(self.missing)})"] if self.missing else []
        sentences += [f"{len(self.unexpected)} left out ({_some(self.unexpected)})"] if self.unexpected else []
        return ", ".join(sentences)


def load_weights(
    module: nn.Module, path: str | Path, *, prefix: str | None = None, allows_missing: bool = False
) -> LoadReport:
    """Put the weights of a file into ``module``: safetensors (a run's checkpoint too) or a torch state dict.

    The file's names may all carry a prefix (``encoder.``, ``module.encoder_q.``, …); it is found unless given, and so
    is one that the module has and the file has not. Positions of a transformer's patches are stretched to the module's
    grid. Names that the module does not have (a classifier ``fc``) are left out and reported; names that the file does
    not have are an error unless ``allows_missing``. A shape that differs is an error. Nothing changes unless all fits.
    A torch file is read with weights only: a pickle that holds code is refused.
    """
    return fill_module(module, read_weights(path), Path(path), prefix=prefix, allows_missing=allows_missing)


def fill_module(
    module: nn.Module,
    given: Mapping[str, Tensor],
    path: Path,
    *,
    prefix: str | None = None,
    allows_missing: bool = False,
) -> LoadReport:
    """The same from tensors at hand; ``path`` is where they came from, for messages."""
    own: Mapping[str, Tensor] = module.state_dict()
    if prefix is None:
        own, prefix = _aligned(own, given, path)
    inside = {name[len(prefix) :]: tensor for name, tensor in given.items() if name.startswith(prefix)}
    shared = [name for name in own if name in inside]
    inside |= {name: fitted_positions(name, inside[name], tuple(own[name].shape)) for name in shared}
    if not shared:
        raise DataError(
            f"{path} has no weight of this module under the prefix {prefix!r}: it wants {_some(own)}, "
            f"the file has {_some(given)}"
        )
    wrong = [
        f"{name} is {tuple(inside[name].shape)} in the file, {tuple(own[name].shape)} here"
        for name in shared
        if own[name].shape != inside[name].shape
    ]
    if wrong:
        raise DataError(
            f"{path} does not fit: {len(wrong)} shapes differ ({_some(wrong, '; ')}); "
            "is it another encoder, width, stem or number of channels?"
        )
    missing = tuple(name for name in own if name not in inside)
    needed = [name for name in missing if not name.endswith(COUNTER)]
    if needed and not allows_missing:
        raise DataError(
            f"{path} lacks {len(needed)} of {len(own)} tensors: {_some(needed)}; "
            "is it another encoder (name, width, stem)? Allow missing weights to start those at random"
        )
    with torch.no_grad():
        for name in shared:
            own[name].copy_(inside[name])  # a state dict's tensors are the module's own
    unexpected = tuple(name for name in inside if name not in own)
    return LoadReport(len(shared), prefix, missing, unexpected)


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The named tensors of a safetensors file or a torch state dict, on the CPU."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"no file {path} to read weights from; is the path right?")
    if path.suffix == ".safetensors":
        return read_sealed(path, from_anywhere=True)[0]
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise DataError(
            f"{path} holds more than weights, and nothing in a foreign file is executed; "
            "save its state dict alone, or as safetensors"
        ) from error
    except Exception as error:  # a damaged pickle can raise nearly anything
        why = f" ({reason_of(error)})" if isinstance(error, (OSError, RuntimeError)) else ""  # others name no cause
        raise DataError(f"{path} cannot be read by torch{why}; is it cut short, or no file of weights?") from error
    return _state_dict(content, path)


def _state_dict(content: object, path: Path) -> dict[str, Tensor]:
    """The mapping of names to tensors, which may lie in a container such as ``state_dict``."""
    if isinstance(content, Mapping):
        for name in CONTAINERS:
            if isinstance(content.get(name), Mapping):
                return _state_dict(content[name], path)
        tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
        if tensors:
            return tensors
    raise DataError(f"{path} holds no named tensors; a state dict or one under {', '.join(CONTAINERS)} is expected")


def _aligned(own: Mapping[str, Tensor], given: Mapping[str, Tensor], path: Path) -> tuple[Mapping[str, Tensor], str]:
    """The module's tensors and the file's prefix under which most names are the same.

    A wrapper puts words before all of its module's names (``module.``), which a file of that module does not have.
    """
    best, most, wrapper = (own, ""), -1, ""
    while True:
        inner = {name[len(wrapper) :]: tensor for name, tensor in own.items()}
        prefix = _found_prefix(inner, given, path)
        matches = sum(prefix + name in given for name in inner)
        if matches > most:
            best, most = (inner, prefix), matches
        words = {name.partition(".")[0] for name in inner}
        if len(words) != 1 or any("." not in name for name in inner):
            return best
        wrapper += f"{words.pop()}."


def _found_prefix(own: Mapping[str, Tensor], given: Mapping[str, Tensor], path: Path) -> str:
    """The prefix under which most of the module's names stand in the file."""
    probes = [name for name in own if not name.endswith(COUNTER)][:SHOWN]
    candidates = {key[: -len(name)] for name in probes for key in given if key.endswith(name)}
    candidates = {prefix for prefix in candidates if not prefix or prefix.endswith(".")}
    if not candidates:
        return ""
    matches = {prefix: sum(prefix + name in given for name in own) for prefix in candidates}
    most = max(matches.values())
    best = sorted(prefix for prefix in candidates if matches[prefix] == most)
    preferred = [prefix for prefix in PREFERRED if prefix in best]
    if len(best) > 1 and not preferred:
        raise DataError(f"{path} holds several such encoders, under {', '.join(best)}; say which by prefix=")
    return (preferred or best)[0]


def _some(names: Iterable[str], separator: str = ", ") -> str:
    listed = list(names)
    return separator.join(listed[:SHOWN]) + (f"{separator}…" if len(listed) > SHOWN else "")
