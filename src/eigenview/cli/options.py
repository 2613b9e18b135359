"""A verb's options from pydantic models: names, types, limits, defaults and comments are the models' own.

click cuts the words apart and raises typed exceptions, pydantic checks the values; tyro, which was here first, tells
its errors only as a box drawn for the screen. The field ``learning_rate`` of the
model in the field ``optimizer`` is ``--optimizer.learning-rate``; a list takes several words, words with commas between
them, or its flag again; a dict or a list of models is JSON; what is true unless told otherwise has a ``--no-…``.
"""

import re
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import click
from click.core import ParameterSource
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from eigenview.cli.settings import (
    default_text,
    fields_of,
    kind_text,
    limits_text,
    metavar_text,
    needs_json,
    without_none,
)
from eigenview.errors import SettingError
from eigenview.names import did_you_mean, first_mistake
from eigenview.settings import read_settings

Kind = TypeVar("Kind", bound=BaseModel)
FLAG = re.compile(r"--?[A-Za-z].*", re.DOTALL)
JOINT = "\0"  # between the words of a list: no word on a command line can hold it
MANY = sys.maxsize
CONTEXT = {"help_option_names": ["-h", "--help"], "allow_extra_args": True, "max_content_width": 120}


@dataclass(frozen=True)
class Word:
    """How a field is written on the command line, where its name and type do not say so; put into ``Annotated``."""

    metavar: str = ""
    short: str = ""  # a second flag, such as -o
    name: str = ""  # of the flag, where pydantic has taken the field's (json)
    is_positional: bool = False
    holds_commas: bool = False  # of a list: commas belong to a word, and separate none


def positional(metavar: str) -> Word:
    """The mark of a field that has no flag."""
    return Word(metavar, is_positional=True)


AsJson = Annotated[bool, Word(name="json")]


@dataclass(frozen=True)
class Group:
    """A model whose fields are options, and their title in the help."""

    model: type[BaseModel]
    title: str = "Options"
    inside: Mapping[str, type[BaseModel]] = field(default_factory=dict)  # models known only when the program runs
    without: Sequence[str] = ()  # fields that are no options
    may_lack: bool = False  # what the model needs may be left out: someone else completes it
    aliases: Mapping[str, str] = field(default_factory=dict)  # one more flag: {"encoder.name": "--encoder"}


def parse(kind: type[Kind], arguments: Sequence[str], *, verb: str, about: str | None) -> Kind:
    """The options among ``arguments``; ``about`` heads the help. A mistake is a SettingError that ends with advice."""
    (given,) = given_options([Group(kind)], arguments, verb=verb, about=about)
    return read_settings(kind, given)


def given_options(
    groups: Sequence[Group], arguments: Sequence[str], *, verb: str, about: str | None
) -> list[dict[str, Any]]:
    """What was given and nothing else: for each group a nested dict, as a config file would hold it."""
    command = OptionsCommand(groups, about=about or "")
    try:
        context = command.make_context(f"eigenview {verb}", list(arguments))
    except click.exceptions.Exit as stop:  # the help was asked for, and printed
        raise SystemExit(stop.exit_code) from None
    except click.UsageError as error:
        raise SettingError(f"{command.explain(error, verb)} (eigenview {verb} --help tells more)") from None
    if context.args:
        raise SettingError(f"too much was given: {' '.join(context.args)} (eigenview {verb} --help tells more)")
    return command.given(context)


class Setting(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A field as an option: its flags, its line in the help, and how its words become a value."""

    name = "setting"

    def __init__(self, number: int, path: tuple[str, ...], info: FieldInfo, comment: str, group: Group) -> None:
        self.number, self.path, self.info, self.comment, self.group = number, path, info, comment, group
        self.word = next((note for note in info.metadata if isinstance(note, Word)), Word())
        self.kind = without_none(info.annotation)
        self.takes_json = needs_json(self.kind)
        inner = get_args(self.kind) if get_origin(self.kind) is tuple and not self.takes_json else ()
        self.is_list = Ellipsis in inner
        self.most_words = MANY if self.is_list else 0 if self.kind is bool else max(1, len(inner))  # after the flag
        self.metavar = self.word.metavar or metavar_text(self.kind)
        outer, last = "".join(f"{step}." for step in path[:-1]), self.word.name or path[-1]
        self.flag, self.refusal = (f"--{outer}{no}{last}".replace("_", "-") for no in ("", "no-"))
        self.flags = [*filter(None, (self.word.short, group.aliases.get(".".join(path)))), self.flag]
        self.label = self.metavar.removesuffix(" ...") if self.word.is_positional else self.flag

    def parameter(self, name: str) -> click.Parameter:
        """What click parses; no defaults, so that what was given can be told from what was not."""
        is_needed = self.info.is_required() and not self.group.may_lack
        if self.word.is_positional:
            return click.Argument([name], type=self, nargs=-1 if self.is_list else 1, required=is_needed)
        if self.kind is bool:
            return click.Option([name, f"{self.flag}/{self.refusal}"], is_flag=True, default=None)
        return click.Option([name, *self.flags], type=self, multiple=self.is_list, required=is_needed)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        kind: Any = Annotated[self.info.annotation, self.info]  # with its limits
        if self.word.is_positional and self.is_list:
            kind = get_args(self.kind)[0]  # click brings one word after the other
        elif self.most_words > 1:
            value = [word for word in re.split(JOINT if self.word.holds_commas else f"[,{JOINT}]", value) if word]
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        try:
            if self.takes_json:
                return adapter.dump_python(adapter.validate_json(value), mode="json", exclude_unset=True)
            return adapter.validate_python(value)
        except ValidationError as error:
            raise click.BadParameter(self._broken_rule(error)) from None

    def _broken_rule(self, error: ValidationError) -> str:
        problem, rule = error.errors()[0], kind_text(self.info).removesuffix(" or none")
        if self.takes_json:
            return f"{self.label} is JSON, {rule}; {first_mistake(error)}"
        word = " ".join(problem["input"]) if isinstance(problem["input"], list) else str(problem["input"])
        if get_origin(self.kind) is Literal:
            return f"{self.label} is one of {rule}; got {word!r}{did_you_mean(word, map(str, get_args(self.kind)))}"
        article = "a " if rule.startswith(("whole", "number", "path", "list")) else ""
        return f"{self.label} is {article}{rule}; got {word!r}"

    def help_row(self) -> tuple[str, str]:
        """Its flags, and what it is for."""
        value = self.info.get_default(call_default_factory=True)
        is_plain = self.info.is_required() or value is None or value is False or value in ((), {})
        shown = "" if is_plain else f"default {default_text(self.info)}"
        notes = "; ".join(filter(None, (limits_text(self.info), shown)))
        said = " ".join(filter(None, (self.comment, f"({notes})" if notes else "")))
        if self.word.is_positional:
            return self.metavar, said
        flags = [*self.flags, self.refusal] if value is True else self.flags
        return " ".join([", ".join(flags), *([] if self.kind is bool else [self.metavar])]), said


class OptionsCommand(click.Command):
    """The options of all groups as a click command, which parses them and writes the help; it does nothing else."""

    def __init__(self, groups: Sequence[Group], *, about: str) -> None:
        self.groups, self.long_list = groups, ""  # the flag of a list that may have taken too many words
        settings = [
            Setting(number, path, info, comment, group)
            for number, group in enumerate(groups)
            for path, info, comment in fields_of(group.model, group.inside)
            if ".".join(path) not in group.without
        ]
        self.settings = {f"setting_{number}": each for number, each in enumerate(settings)}
        self.by_flag = {flag: each for each in settings if not each.word.is_positional for flag in each.flags}
        self.by_flag |= {each.refusal: each for each in settings if each.kind is bool}
        super().__init__(
            name=None,
            help=about,
            params=[each.parameter(name) for name, each in self.settings.items()],
            context_settings=CONTEXT,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        wants_help = any(word in ctx.help_option_names for word in args)
        return super().parse_args(ctx, ["--help"] if wants_help else list(self._joined(deque(args))))

    def _joined(self, words: deque[str]) -> Iterator[str]:
        """The words with every value at its flag, ``--flag=value``, and the words of a list as one value."""
        while words:
            word = words.popleft()
            if word == "--":
                yield from (word, *words)
                return
            if not FLAG.fullmatch(word):
                yield word
                continue
            flag, equals, value = word.partition("=")
            option = self.by_flag.get(flag.replace("_", "-"))
            if option is None:
                raise click.NoSuchOption(flag)
            values = [value] if equals else []
            while not equals and words and len(values) < option.most_words and not FLAG.fullmatch(words[0]):
                values.append(words.popleft())
            if (option.most_words == 0 and equals) or (option.most_words == 1 and not values):
                raise click.BadOptionUsage(flag, f"{flag} {'takes no' if equals else 'needs a'} value")
            self.long_list = flag if len(values) > 1 else self.long_list
            yield flag.replace("_", "-") if option.most_words == 0 else f"{option.flag}={JOINT.join(values)}"

    def given(self, context: click.Context) -> list[dict[str, Any]]:
        """What the user wrote, by group and path."""
        by_group: list[dict[str, Any]] = [{} for _ in self.groups]
        for name, option in self.settings.items():
            value = context.params[name]
            if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or value == ():
                continue
            place = by_group[option.number]
            for step in option.path[:-1]:
                place = place.setdefault(step, {})
            is_chunked = option.is_list and not option.word.is_positional  # ((a, b), (c,)) for --x a b --x c
            place[option.path[-1]] = tuple(word for chunk in value for word in chunk) if is_chunked else value
        return by_group

    def explain(self, error: click.UsageError, verb: str) -> str:
        """What was wrong, in our words, by click's kind of error."""
        if isinstance(error, click.NoSuchOption):
            flag = error.option_name
            inner = [known for known in self.by_flag if known.endswith(f".{flag.lstrip('-').replace('_', '-')}")]
            meant = f"; did you mean {inner[0]}?" if inner else did_you_mean(flag, self.by_flag)
            if flag.startswith("--method-settings."):
                meant += "; those of a method are known once it is named (--method)"
            return f"{verb} has no option {flag}{meant}"
        if isinstance(error, click.MissingParameter) and error.param is not None:
            option = self.settings[str(error.param.name)]
            taken = f"; what stands behind {self.long_list} belongs to it" if self.long_list else ""
            return f"{option.label} is missing: {option.comment}{taken}"
        return error.message

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        words = [each.metavar for each in self.settings.values() if each.word.is_positional]
        formatter.write_usage(ctx.command_path, " ".join([*words, "[OPTIONS]"]), prefix="usage: ")
        about, _, examples = (self.help or "").partition("\nExample")
        formatter.write_paragraph()
        formatter.write_text(about)
        formatter.write(f"\nExample{examples.rstrip()}\n")
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], self.groups[0].title: []}
        for each in self.settings.values():
            title = each.path[0].replace("_", " ").capitalize() if len(each.path) > 1 else each.group.title
            sections.setdefault("Arguments" if each.word.is_positional else title, []).append(each.help_row())
        sections[self.groups[0].title].append(("-h, --help", "this page"))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=34)
