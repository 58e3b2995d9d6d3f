"""Numbers and names as running text has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headtool.reports.wording.text import visible

__all__ = [
    "bare_p_value",
    "count",
    "digits",
    "filled",
    "given",
    "how_drawn",
    "in_a_column",
    "is_or_are",
    "listed",
    "names",
    "number",
    "p_value",
    "percent",
    "sentence",
    "short",
    "stage_name",
]

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def digits(value: float) -> str:
    """Three significant digits with a minus sign; a dash for what was not computed."""
    if math.isnan(value):
        return "–"
    return short(value + 0.0).replace("-", "−").replace("inf", "∞")


def number(value: float) -> str:
    """`digits` without zeros at the end, for running text."""
    if 1e-5 <= abs(value) < 1e-3:
        text = f"{value:.{1 - math.floor(math.log10(abs(value)))}f}".replace("-", "−")
    else:
        text = digits(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def given(value: float) -> str:
    """A number that somebody chose, such as a level: as it was written."""
    return "–" if math.isnan(value) else f"{value:g}"


def p_value(value: float) -> str:
    """``p = 0.012``, or ``p < 0.001``."""
    if math.isnan(value):
        return "p undefined"
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def bare_p_value(value: float) -> str:
    """``0.012`` or ``<0.001``, where the column says p; a dash for an undefined one."""
    return "–" if math.isnan(value) else "<0.001" if value < 0.001 else f"{value:.2g}"


def percent(share: float) -> str:
    """A share in percent, with a decimal only where rounding would move it noticeably."""
    digits = 0 if abs(100 * share - round(100 * share)) < 0.25 else 1
    return f"{100 * share:.{digits}f}%"


def count(amount: int, noun: str, plural: str | None = None) -> str:
    """Write an amount with its noun: ``one head``, ``12 heads``.

    Parameters
    ----------
    amount
        How many.
    noun
        What they are, in the singular.
    plural
        Its plural; None: with an s.
    """
    written = _WORDS[amount] if 0 < amount < len(_WORDS) else str(amount)
    return f"{written} {noun if amount == 1 else plural or noun + 's'}"


def listed(items: Sequence[str]) -> str:
    """Join names: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def how_drawn(source: Mapping[str, Any]) -> str:
    """Say which examples a limit took of a data set, from its provenance; empty if all were used.

    Parameters
    ----------
    source
        What `headtool.engine.provenance.data_provenance` returned, or older runs hold.

    Examples
    --------
    >>> from headtool.reports.wording.words import how_drawn
    >>> drawn = {"limit": 400, "limit_order": "seeded", "seed": 7, "of": 2000}
    >>> how_drawn({"drawn": drawn, "classes": {"no": 200, "yes": 200}})
    '400 of 2,000, drawn by seed 7, each class in its share'
    >>> how_drawn({"drawn": {**drawn, "limit_order": "first"}}), how_drawn({"drawn": None})
    ('the first 400 of 2,000', '')
    """
    drawn = source.get("drawn")
    if not isinstance(drawn, Mapping):
        return ""
    limit, rows = drawn.get("limit"), drawn.get("of")
    if not isinstance(limit, int) or not isinstance(rows, int):
        return ""
    amount = f"{limit:,} of {rows:,}"
    if drawn.get("limit_order") == "first":
        return f"the first {amount}"
    by_class = ", each class in its share" if source.get("classes") else ""
    return f"{amount}, drawn by seed {drawn.get('seed')}{by_class}"


def names(specs: Iterable[str]) -> dict[str, str]:
    """Short names of models or data sets: the ends of their paths, where these tell them apart.

    Examples
    --------
    >>> from headtool.reports.wording.words import names
    >>> names(["/home/me/data/sst2/dev.tsv", "builtin:nli"])
    {'/home/me/data/sst2/dev.tsv': 'sst2/dev.tsv', 'builtin:nli': 'builtin:nli'}
    >>> list(names(["data/test.de,data/test.en"]).values())
    ['data/test (de, en)']
    """
    given = list(dict.fromkeys(specs))
    shortened = {spec: _shortened(spec) for spec in given}
    taken = list(shortened.values())
    return {
        spec: visible(name if taken.count(name) == 1 and name else spec)
        for spec, name in shortened.items()
    }


def _shortened(spec: str) -> str:
    ends = [_end(part) for part in spec.split(",")]
    stems = [end.rpartition(".") for end in ends]
    if len(ends) > 1 and len({stem for stem, _, _ in stems}) == 1 and stems[0][0]:
        return f"{stems[0][0]} ({', '.join(language for _, _, language in stems)})"
    return ",".join(ends)


def _end(path: str) -> str:
    scheme, colon, rest = path.partition(":")
    place = rest if colon and "/" not in scheme else path
    parts = [part for part in place.split("/") if part]
    return "/".join(parts[-2:]) if place.startswith(("/", "~", ".")) or len(parts) > 2 else path


_FILLED = {
    "mean": "its mean over the data set",
    "resample": "its output on another example",
    "counterfactual": "its output on the corrupted text",
    "optimal": "the constant that gives the least loss",
}


def filled(replacement: object) -> str:
    """Say what a closed head puts out; empty for zero.

    Parameters
    ----------
    replacement
        Name of the replacement, as settings have it.

    Examples
    --------
    >>> from headtool.reports.wording.words import filled
    >>> filled("mean"), filled("zero")
    ('its mean over the data set', '')
    """
    return _FILLED.get(str(replacement), "")


def is_or_are(amount: int) -> str:
    """The verb for so many."""
    return "is" if amount == 1 else "are"


def sentence(note: str) -> str:
    """Write a note as a sentence; names in it, which may hold anything, stay as they are.

    Examples
    --------
    >>> from headtool.reports.wording.words import sentence
    >>> sentence("20 resamples are few; holm needs 100")
    '20 resamples are few; holm needs 100.'
    """
    text = note.strip()
    return f"{text[0].upper()}{text[1:].removesuffix('.')}." if text else ""


def short(number: float) -> str:
    """Write a number with three significant digits, or four decimals if those are fewer."""
    if number == 0:
        return "0"  # also for -0.0
    if not math.isfinite(number):
        return f"{number:g}"
    if 1e-3 <= abs(number) < 1e4:
        decimals = max(0, 2 - math.floor(math.log10(abs(number))))
        return f"{number:.{min(decimals, 4)}f}"
    return _exponent(number)


def in_a_column(numbers: Iterable[float]) -> list[str]:
    """Write the numbers of a column as `short` does, all with an exponent or none.

    Parameters
    ----------
    numbers
        The numbers; not a number is a dash.

    Examples
    --------
    >>> from headtool.reports.wording.words import in_a_column
    >>> in_a_column([0.0089, 0.000164]), in_a_column([0.5, 2e-9])
    (['0.0089', '0.000164'], ['5.00e-1', '2.00e-9'])
    """
    values = [float(number) for number in numbers]
    written = ["-" if math.isnan(value) else short(value) for value in values]
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    if len({1e-3 <= size < 1e4 for size in sizes}) < 2:
        return written
    is_plain = min(sizes) >= 1e-6 and max(sizes) < 1e8
    for place, value in enumerate(values):
        if value and math.isfinite(value) and (not is_plain or "e" in written[place]):
            written[place] = _plain(value) if is_plain else _exponent(value)
    return written


def _plain(number: float) -> str:
    return f"{number:.{max(0, 2 - math.floor(math.log10(abs(number))))}f}"


def _exponent(number: float) -> str:
    return f"{number:.2e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


_STAGES = {
    "whole": "whole model",
    "zero": "heads put out nothing",
    "mean": "heads put out their means",
    "optimal": "heads put out optimal constants",
    "rescaled": "heads that stay rescaled",
    "finetuned": "fine-tuned",
}


def stage_name(stage: str) -> str:
    """Return what a stage of the table ``recovery`` is called.

    Parameters
    ----------
    stage
        The stage.
    """
    return _STAGES.get(stage, stage)
