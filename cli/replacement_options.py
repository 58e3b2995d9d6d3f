"""``--replacement``: what closed heads put out, one replacement or several side by side."""

from __future__ import annotations

from typing import Any

__all__ = ["WHICH", "replacements"]

WHICH = "zero, mean, resample, counterfactual (for data with a column corrupted) or optimal"


def replacements(text: str | None) -> dict[str, Any]:
    """Read the option as the fields `replacement` and `beside`; nothing if it is not given.

    Parameters
    ----------
    text
        Names, separated by commas.
    """
    if text is None:
        return {}
    first, *beside = (name.strip() for name in text.split(","))
    return {"replacement": first, "beside": tuple(beside)}
