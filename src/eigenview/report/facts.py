"""Settings, environment, time: what made the run, in tables."""

from collections.abc import Mapping, Sequence

from eigenview.files import JSON
from eigenview.report.html import Html, element, join, table, table_row
from eigenview.runs import number
from eigenview.runs.contents import RunContents


def time_figures(run: RunContents) -> list[tuple[str, str]]:
    """What the run cost: hours, views, core-hours (seconds × cores used / 3600)."""
    last, seconds = run.metrics.last, number(run.metrics.last.get("seconds"))
    if seconds is None:
        return []
    costs = [("training time", duration(seconds)), ("optimizer steps", f"{number(last.get('step')) or 0:,.0f}")]
    speed = number(last.get("views_per_second"))
    if speed is not None:
        costs += [("views per second", f"{speed:,.0f}"), ("views seen", f"{speed * seconds:,.0f}")]
    cores = used_cores(run)
    if cores is not None:
        costs.append(("core-hours", f"{seconds * cores / 3600:.3g} ({cores:g} core{'s' if cores != 1 else ''})"))
    return costs


def used_cores(run: RunContents) -> float | None:
    """Processes × threads, but not more than the machine has; None where the run did not say."""
    if (machine := run.environment) is None or machine.threads is None:
        return None if machine is None else machine.cores
    used = machine.threads * (machine.processes or 1)
    return used if machine.cores is None else min(used, machine.cores)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {left} s"


def flat(settings: Mapping[str, JSON], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as (name.of.setting, value)."""
    pairs = []
    for name, value in settings.items():
        if isinstance(value, dict):
            pairs += flat(value, f"{before}{name}.")
        else:
            pairs.append((f"{before}{name}", said(value)))
    return pairs


def said(value: JSON) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ", ".join(said(item) for item in value) or "none"
    return str(value)


def facts_list(pairs: Sequence[tuple[str, str]]) -> Html:
    rows = [join(element("dt", name), element("dd", value)) for name, value in pairs]
    return element("dl.facts", *(element("div", row) for row in rows))


def blocks(run: RunContents) -> Html:
    """Time at once; settings, data and environment behind a click."""
    cost = time_figures(run)
    none = "This run logged no time." if run.is_trained else "Nothing was trained."
    shown = [facts_list(cost) if cost else element("p.quiet", none)]
    for title, settings in {
        "Settings": run.config,
        "Encoder": run.encoder,
        "Data": run.data,
        "Environment": run.environment,
    }.items():
        if settings is not None:
            listed = facts_list(flat(settings.model_dump(mode="json")))
            shown.append(element("details", element("summary", title), listed))
    return join(*shown)


def differing(every: Sequence[RunContents]) -> Html:
    """A table of the settings in which runs that were trained here differ, their folders aside."""
    runs = [run for run in every if run.is_trained]
    if len(runs) < 2:
        return element("p.quiet", "Fewer than two of these were trained here: there are no settings to compare.")
    listed = [{} if run.config is None else dict(flat(run.config.model_dump(mode="json"))) for run in runs]
    names = list(dict.fromkeys(name for settings in listed for name in settings if name != "out"))
    rows = []
    for name in names:
        values = [settings.get(name, "\N{EN DASH}") for settings in listed]
        if len(set(values)) > 1:
            rows.append(table_row(name, *(element("td", value) for value in values)))
    if not rows:
        return element("p.quiet", "All settings are the same.")
    return table(("setting", *(run.name for run in runs)), rows, label="settings that differ")
