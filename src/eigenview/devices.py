"""Where to compute: the processor, or an accelerator, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from eigenview.errors import SettingError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda", "mps"]


def devices_here() -> list[str]:
    """What torch can use on this machine, the fastest first."""
    import torch

    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    return [name for name, is_here in has.items() if is_here]


def find_device(name: str = "auto") -> torch.device:
    """The device called ``name``; ``auto`` is an accelerator if there is one. What this machine lacks is refused."""
    import torch

    here = devices_here()
    if name != "auto" and name not in here:
        raise SettingError(f"device must be auto or one of this machine's ({', '.join(here)}); got {name!r}")
    return torch.device(here[0] if name == "auto" else name)


def device_text(device: torch.device) -> str:
    """For people: ``cpu, 8 threads``, ``cuda (NVIDIA A100)``."""
    import torch

    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    if device.type == "cpu":
        threads = torch.get_num_threads()
        return f"cpu, {threads} thread{'s' if threads > 1 else ''}"
    return device.type


class GeneratorStates(NamedTuple):
    """Where the generators stand that modules draw from: the processor's, and the device's own where it has another."""

    processor: torch.Tensor
    device: torch.Tensor | None


def generator_states(device: torch.device) -> GeneratorStates:
    import torch

    if device.type == "cuda":
        return GeneratorStates(torch.get_rng_state(), torch.cuda.get_rng_state(device))
    return GeneratorStates(torch.get_rng_state(), torch.mps.get_rng_state() if device.type == "mps" else None)


def set_generator_states(device: torch.device, states: GeneratorStates) -> None:
    """A run that went on elsewhere before has another device's state, which fits nothing here."""
    import torch

    torch.set_rng_state(states.processor)
    if states.device is not None and device.type == "cuda":
        torch.cuda.set_rng_state(states.device, device)
    elif states.device is not None and device.type == "mps":
        torch.mps.set_rng_state(states.device)
