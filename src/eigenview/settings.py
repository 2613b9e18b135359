"""Settings as models: strict, typed, JSON both ways; what is wrong with them is said in one line.

The comment at the end of a setting's line is its explanation, shown by the command line and in the docs.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from eigenview.errors import SettingError
from eigenview.names import first_mistake

Model = TypeVar("Model", bound=BaseModel)


class Strict(BaseModel):
    """Settings that refuse unknown names and never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_settings(kind: type[Model], given: Mapping[str, Any], *, known: Iterable[str] = ()) -> Model:
    """The settings in ``given``; a mistake names the setting, what arrived and, if ``known``, what was meant."""
    try:
        return kind(**given)
    except ValidationError as error:
        raise SettingError(first_mistake(error, [*kind.model_fields, *known])) from None
