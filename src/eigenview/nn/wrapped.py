"""Any module as an encoder: a user's own, or a library's."""

import inspect
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from eigenview.errors import SettingError, ShapeError
from eigenview.names import own_code
from eigenview.nn.encoder import POOLED, Encoder, Step, check_layers, global_average

TRIAL_SIZE = 32  # pixels of the dry run when no image size is given


class WrappedEncoder(Encoder):
    """A module as an encoder: its output, averaged over positions if it has any, is the pooled feature.

    Layers: ``pooled`` and the dotted names of the module's submodules. Of what a submodule returns the first tensor
    counts, channels before positions: tokens (n, t, d) come as (n, d, t), and so do maps of a module whose
    ``output_fmt`` says NHWC, as timm's do.
    """

    def __init__(self, module: nn.Module, feature_width: int, *, channels: int = 3) -> None:
        super().__init__()
        self.module, self.feature_width, self.channels = module, feature_width, channels

    def steps(self) -> list[Step]:
        return [(POOLED, lambda images: _pooled(self.module(images)))]

    @property
    def layer_names(self) -> tuple[str, ...]:
        return (*(name for name, _ in self.module.named_modules() if name), POOLED)

    def features(self, images: Tensor, layers: Sequence[str] = (POOLED,)) -> dict[str, Tensor]:
        """Features by submodule name, read as the module runs; the last call counts if one runs several times."""
        check_layers(layers, self.layer_names)
        features: dict[str, Tensor] = {}

        def keep(name: str) -> object:
            def hook(layer: nn.Module, _inputs: object, output: object) -> None:
                tensor = _first_tensor(output)
                if tensor is None:
                    raise ShapeError(f"layer {name!r} returns a {type(output).__name__}, not a tensor; pick another")
                features[name] = self._channels_first(tensor, layer).clone()  # a later layer may work in place

            return self.module.get_submodule(name).register_forward_hook(hook)

        hooks = [keep(name) for name in layers if name != POOLED]
        try:
            features[POOLED] = self(images)
        finally:
            for hook in hooks:
                hook.remove()  # type: ignore[attr-defined]
        silent = [name for name in layers if name not in features]
        if silent:
            raise SettingError(f"layer {', '.join(map(repr, silent))} did not run in this forward pass; pick another")
        return {name: features[name] for name in layers}

    def _channels_first(self, rows: Tensor, layer: nn.Module) -> Tensor:
        if rows.ndim == 3:
            return rows.transpose(1, 2)
        is_last = rows.ndim == 4 and str(getattr(self.module, "output_fmt", "")).endswith("NHWC")
        return rows.permute(0, 3, 1, 2) if is_last and not isinstance(layer, nn.Conv2d) else rows


def _first_tensor(output: object) -> Tensor | None:
    values = output.values() if isinstance(output, Mapping) else output
    if isinstance(values, Tensor):
        return values
    several = values if isinstance(values, Iterable) else ()
    return next((value for value in several if isinstance(value, Tensor)), None)


def wrap(
    module: nn.Module, *, feature_width: int | None = None, channels: int = 3, image_size: int | None = None
) -> Encoder:
    """Any module that maps images (n, channels, h, w) to (n, d) or (n, d, h', w') as an encoder.

    The width d is found by a dry run on two images of ``image_size`` (32 unless given), in evaluation mode, without
    touching the random state; a given ``feature_width`` is held against it. An :class:`Encoder` passes unchanged.
    """
    if isinstance(module, Encoder):
        return module
    size = TRIAL_SIZE if image_size is None else image_size
    was_training = {layer: layer.training for layer in module.modules()}
    like = next((tensor for tensor in module.parameters() if tensor.is_floating_point()), torch.empty(0))
    module.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            output = module(torch.zeros(2, channels, size, size, dtype=like.dtype, device=like.device))
    except Exception as error:
        raise SettingError(
            f"the encoder failed on a trial batch of shape (2, {channels}, {size}, {size}): "
            f"{str(error).strip().partition(chr(10))[0]}; "
            "is image_size or channels wrong?"
        ) from error
    finally:
        for layer, mode in was_training.items():
            layer.training = mode
    width = _pooled(output).shape[1]
    if feature_width is not None and feature_width != width:
        raise SettingError(f"feature_width says {feature_width}, but the module gives features of width {width}")
    return WrappedEncoder(module, width, channels=channels)


def own_encoder(name: str, *, channels: int = 3, image_size: int | None = None) -> Encoder:
    """What ``module:attribute`` of a user's own builds: a class or function that returns a module.

    It is called with ``channels=`` and ``image_size=`` where it has such arguments, and nothing else.
    """
    build = own_code(name, kind="encoder")
    if not callable(build) or isinstance(build, nn.Module):
        raise SettingError(
            f"encoder {name} must be a class or a function that builds a module; got a {type(build).__name__}: "
            "write a function that returns it"
        )
    known = {"channels": channels, **({} if image_size is None else {"image_size": image_size})}
    try:
        signature = inspect.signature(build)
        given = {option: value for option, value in known.items() if option in signature.parameters}
        signature.bind(**given)
    except (TypeError, ValueError) as error:
        raise SettingError(f"encoder {name} is called with channels= and image_size= at most: {error}") from None
    module = build(**given)
    if not isinstance(module, nn.Module):
        raise SettingError(f"encoder {name} must build a torch module; got a {type(module).__name__}")
    return wrap(module, channels=channels, image_size=image_size)


def _pooled(output: object) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim not in (2, 4):
        got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ShapeError(f"an encoder's module must return (n, d) or (n, d, h, w); got {got}")
    return output if output.ndim == 2 else global_average(output)
