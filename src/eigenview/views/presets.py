"""Recipes with published parameters, and one chosen from the images themselves.

Where a paper's code clamps after each colour step, these use one colour matrix (see ``colour``); ask for
``replace(recipe, colour="steps")`` to have the steps. Where a paper names no interpolation it is bilinear.
"""

from dataclasses import dataclass, replace

from eigenview.errors import SettingError
from eigenview.names import Table
from eigenview.views.recipe import Affine, Blur, Crop, Jitter, Recipe

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
KERNEL_CIFAR_MEAN, KERNEL_CIFAR_STD = (125.3 / 255, 123.0 / 255, 113.9 / 255), (63.0 / 255, 62.1 / 255, 66.7 / 255)
KERNEL_STL_MEAN, KERNEL_STL_STD = (0.43, 0.42, 0.39), (0.27, 0.26, 0.27)
WANG_ISOLA_MEAN, WANG_ISOLA_STD = (0.4409, 0.4279, 0.3868), (0.2683, 0.2610, 0.2687)
DARKEST, BRIGHTEST, LEAST_CONTRAST = 0.25, 0.75, 0.12  # mean and deviation of ordinary photographs lie well inside
LEAST_DEVIATION = 0.02  # to normalise by: five grey levels
SWAV_STD = (0.228, 0.224, 0.225)  # sic, in the authors' code

_FULL = Jitter(0.8, 0.8, 0.8, 0.2, probability=0.8)  # SimCLR's strength 1
_HALF = Jitter(0.4, 0.4, 0.4, 0.1, probability=0.8)  # strength 0.5; also MoCo v2's
_QUARTER = Jitter(0.2, 0.2, 0.2, 0.05, probability=0.8)  # strength 0.25
_MOCO_V1 = Jitter(0.4, 0.4, 0.4, 0.4)
_KERNEL_BLUR = Blur(0.5, (0.1, 2.0), kernel=0.1)
_RADIUS_BLUR = Blur(0.5, (0.1, 2.0), kernel=None)  # a Pillow radius: the Gaussian that Pillow's box filters approximate

_SIMCLR = Recipe((Crop(224),), jitter=_FULL, grey=0.2, blur=_KERNEL_BLUR, interpolation="bicubic")
_MOCO_V2 = Recipe(
    (Crop(224, scale=(0.2, 1.0)),), jitter=_HALF, grey=0.2, blur=_RADIUS_BLUR, mean=IMAGENET_MEAN, std=IMAGENET_STD
)
_SMALL = Recipe((Crop(32, scale=(0.2, 1.0)),), jitter=_HALF, grey=0.2, mean=CIFAR_MEAN, std=CIFAR_STD)
_KERNEL = Recipe((Crop(224),), jitter=_FULL, grey=0.2, blur=_KERNEL_BLUR, mean=IMAGENET_MEAN, std=IMAGENET_STD)
_SWAV = Recipe(
    (Crop(224, 2, (0.14, 1.0)), Crop(96, 6, (0.05, 0.14))),
    jitter=_FULL,
    grey=0.2,
    blur=_RADIUS_BLUR,
    mean=IMAGENET_MEAN,
    std=SWAV_STD,
)

PRESETS = Table(
    "preset",
    {
        "simclr-imagenet": _SIMCLR,
        "simclr-cifar": Recipe((Crop(32),), jitter=_HALF, grey=0.2),
        "moco-v1": replace(_MOCO_V2, jitter=_MOCO_V1, blur=None),
        "moco-v2": _MOCO_V2,
        "simsiam-imagenet": _MOCO_V2,
        "simsiam-cifar": _SMALL,  # statistics: the random-walk authors'; SimSiam names none
        "random-walk-cifar": _SMALL,
        "spectral-cifar": replace(_SMALL, mean=IMAGENET_MEAN, std=IMAGENET_STD),
        "kernel-infonce-cifar": Recipe(
            (Crop(32),), jitter=_HALF, grey=0.2, mean=KERNEL_CIFAR_MEAN, std=KERNEL_CIFAR_STD
        ),  # the same statistics for CIFAR-100
        "kernel-infonce-tiny-imagenet": replace(_KERNEL, crops=(Crop(64),)),
        "kernel-infonce-imagenet": _KERNEL,
        "kernel-infonce-stl": replace(_KERNEL, crops=(Crop(96),), mean=KERNEL_STL_MEAN, std=KERNEL_STL_STD),
        "wang-isola-stl": Recipe((Crop(64),), jitter=_MOCO_V1, grey=0.2, mean=WANG_ISOLA_MEAN, std=WANG_ISOLA_STD),
        "swav": _SWAV,
        "swav-160": replace(_SWAV, crops=(Crop(160, 2, (0.08, 1.0)), Crop(96, 4, (0.05, 0.14)))),
        "swav-two-crops": replace(_SWAV, crops=(Crop(224, 2, (0.08, 1.0)),)),
        "laclip": Recipe((Crop(224, 1, (0.5, 1.0)),), flip=0.0, mean=IMAGENET_MEAN, std=IMAGENET_STD),
        "digits": Recipe(
            (Crop(8, scale=(0.7, 1.0)),),
            ratio=(0.85, 1.18),
            flip=0.0,  # a mirrored digit is not a digit
            jitter=Jitter(brightness=0.3, contrast=0.3),
            affine=Affine(degrees=12.0, shift=0.06, zoom=(0.9, 1.1), shear=8.0),
            mean=(0.3,),
            std=(0.35,),
        ),
        "none": Recipe(  # the whole image, resized: no augmentation, for experiments that ask what augmentation does
            (Crop(224, scale=(1.0, 1.0)),), ratio=None, flip=0.0, mean=IMAGENET_MEAN, std=IMAGENET_STD
        ),
    },
    more=", auto",
)


def preset(name: str, *, size: int | None = None) -> Recipe:
    """The recipe of that name; ``size`` changes the pixels of a recipe that has one resolution."""
    recipe = PRESETS.find(name)
    if size is None:
        return recipe
    if len(recipe.crops) > 1:
        raise SettingError(
            f"{name} has several resolutions; give recipe.with_crops(...) the sizes instead of size={size}"
        )
    return recipe.with_crops([replace(recipe.crops[0], size=size)])


@dataclass(frozen=True)
class ImageStatistics:
    """Of the pixels of some images, in [0, 1]: the mean and the standard deviation of each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def is_like_photographs(self) -> bool:
        """Neither dark nor bright throughout, and of some contrast: what published jitter was made for."""
        level, contrast = sum(self.mean) / len(self.mean), sum(self.std) / len(self.std)
        return DARKEST <= level <= BRIGHTEST and contrast >= LEAST_CONTRAST


def auto_recipe(height: int, width: int, channels: int, *, statistics: ImageStatistics | None = None) -> Recipe:
    """A recipe from the images' own shape, for two views of a set nobody has published a recipe for.

    One channel: digits and the like, at their own size. Colour: SimCLR's, at the shorter side up to 224 pixels; half
    strength, no blur and crops of a fifth of the image or more up to 48 pixels (as published for CIFAR), full strength
    with blur above; ImageNet's statistics. Images whose ``statistics`` are far from photographs' (dark tiles, X-rays,
    drawings on white) are jittered at a quarter of the strength, which leaves them visible, and normalised
    by their own.
    """
    side = min(height, width)
    if side < 1 or channels not in (1, 3):
        raise SettingError(
            f"views need images of at least 1 × 1 pixel in 1 or 3 channels; got {width} × {height}, {channels}"
        )
    if channels == 1:
        return preset("digits", size=min(side, 224))
    base = PRESETS["spectral-cifar"] if side <= 48 else PRESETS["simclr-imagenet"]
    recipe = replace(base, crops=(replace(base.crops[0], size=min(side, 224)),), mean=IMAGENET_MEAN, std=IMAGENET_STD)
    if statistics is None or statistics.is_like_photographs:
        return recipe
    own = tuple(max(value, LEAST_DEVIATION) for value in statistics.std)
    return replace(recipe, jitter=_QUARTER, mean=statistics.mean, std=own)
