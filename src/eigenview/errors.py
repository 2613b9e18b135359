"""What can go wrong because of a user's input. Each message names the rule, what arrived, and the remedy."""


class EigenviewError(Exception):
    """Every error that Eigenview raises on purpose."""


class ShapeError(EigenviewError, ValueError):
    """Tensors whose shapes or dtypes do not fit together."""


class SettingError(EigenviewError, ValueError):
    """An option outside its range, or two options that exclude each other."""


class DataError(EigenviewError, ValueError):
    """Values, files or labels that cannot be used: NaN rows, an empty folder, a corrupt table."""


class WriteError(DataError):
    """A place that cannot be written: a full disk, a folder that is read-only."""


class NotFiniteError(DataError):
    """NaN or Inf where numbers were needed."""


class MissingLibraryError(SettingError):
    """A library that is not installed, or does not import."""
