"""The verdict in a sentence: is it healthy, and how far above the baselines."""

from eigenview.evaluation import Compared
from eigenview.report.html import Html, element
from eigenview.report.scores import Measure, headline, interval, shown, title
from eigenview.runs import number
from eigenview.runs.contents import RunContents

LIKELY = 0.05  # p-values above this are no evidence of a difference


def summarise(run: RunContents) -> tuple[str, str, str]:
    """The state, "good", "bad" or "unknown"; a badge of a word or two; and a sentence."""
    diagnosis = run.diagnosis
    measured = headline(run)
    gain = "" if not measured else f" {_gain(measured[0])}"
    if diagnosis is None:
        return "unknown", "Not diagnosed", f"{_progress(run)}{gain}"
    if diagnosis.findings:
        return "bad", _capital(diagnosis.verdict), f"{_capital(diagnosis.findings[0].reasons[0])}.{gain}"
    figures = diagnosis.figures
    said = f"The embeddings spread over {figures.effective_rank:.0f} of {min(figures.n, figures.d)} directions"
    if figures.views is not None:
        matched = f"{figures.views.matched.value:.0%} of images find their own other view first"
        said += f", and {matched} among {figures.n:,}"
    return "good", "Healthy", f"{said}.{gain}"


def _gain(measure: Measure) -> str:
    own = measure.own
    name = title(own)
    name = name if name[:2].isupper() or name.startswith("k-") else name[:1].lower() + name[1:]
    value = f"{shown(own)} (95\N{NO-BREAK SPACE}% interval {interval(own)})"
    said = f"{_capital(own.metric)} by {name} is {value}"
    gaps = [_gap(row) for row in measure.compared]
    listed = " and ".join(filter(None, [", ".join(gaps[:-1]), *gaps[-1:]]))
    return f"{said}, {listed}." if gaps else f"{said}; no baseline was measured on these images."


def _gap(row: Compared) -> str:
    """How far the run is above a baseline; a difference that chance alone would often show is called so."""
    difference, subject = -row.difference, row.score.subject
    named = {
        "untrained": "the untrained encoder",
        "supervised": "a supervised run",
        "starting point": "its starting point",
    }.get(subject, subject)
    size = f"{row.score.text(abs(difference))}{' points' if row.score.is_share else ''}"
    chance = f" (within chance, {row.chance})" if row.p_value is not None and row.p_value > LIKELY else ""
    return f"{size} {'above' if difference >= 0 else 'below'} {named}{chance}"


def _progress(run: RunContents) -> str:
    if not run.is_trained:
        return "This encoder was not trained here, and not looked at yet: eigenview look SOURCE does."
    loss, chance = number(run.metrics.last.get("loss")), number(run.metrics.last.get("chance"))
    if loss is None:
        return "This run has logged no steps yet."
    if chance is None:
        return f"The loss ended at {loss:.4g}."
    where = "below" if loss < chance - 0.02 * abs(chance) else "at"
    return f"The loss ended at {loss:.3g}, {where} its chance level of {chance:.3g}."


def findings(run: RunContents) -> Html | None:
    """What is wrong, why, and what to try."""
    if run.diagnosis is None or not run.diagnosis.findings:
        return None
    listed = []
    for finding in run.diagnosis.findings:
        reasons = element("ul", *(element("li", reason) for reason in finding.reasons))
        advice = element("p", element("b", "Try: "), finding.advice)
        listed.append(element("li", element("h3", _capital(finding.name)), reasons, advice))
    return element("ol.findings", *listed)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
