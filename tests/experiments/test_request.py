"""A request: what is asked of a comparison, put together from keywords and checked."""

from __future__ import annotations

from typing import Any

import pytest

from headtool.errors import HeadtoolError
from headtool.experiments.request import Request, requested
from headtool.methods.gradient import Gradient


def test_methods_are_named_or_made() -> None:
    made = Gradient(granularity="example")
    asked = Request(methods=["confidence", made])
    assert asked.methods == ("confidence", made)
    first, second = asked.scorers()
    assert first.name == "confidence"
    assert second is made


def test_keywords_replace_the_fields_of_a_request() -> None:
    asked = Request(methods=["gradient"], steps="20%", draws=3)
    again = requested(asked, {"draws": 7, "metric": "loss"})
    assert (again.steps, again.draws, again.metric) == ("20%", 7, "loss")
    assert again.methods == ("gradient",)
    assert requested(None, {"seed": 4}) == Request(seed=4)
    assert requested(None, {}, methods=["confidence"]).methods == ("confidence",)
    assert requested(None, {"methods": ["gradient"]}, methods=["confidence"]).methods == (
        "gradient",
    )


def test_options_are_all_fields_that_are_told_nowhere_else() -> None:
    options = Request(kinds=["cross"], draws=3).options
    assert options["kinds"] == ("cross",)
    assert options["draws"] == 3
    assert not {"methods", "search"} & set(options)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"step": "10%"}, "unknown option 'step'; did you mean 'steps'"),
        ({"methods": "gradient"}, r"`methods` is a list, got 'gradient'; give \['gradient'\]"),
        ({"kinds": "cross"}, "`kinds` is a list"),
        ({"methods": []}, "no method to compare"),
        ({"methods": ["gradient", Gradient()]}, "'gradient' is given twice"),
        ({"methods": ["random"]}, "leave 'random' out"),
        ({"methods": ["gradeint"]}, "did you mean 'gradient'"),
        ({"alpha": 1.5}, "`alpha` must be between 0 and 1, got 1.5"),
        ({"alpha": float("nan")}, "`alpha` must be between 0 and 1"),
        ({"margin": 0.0}, "`margin` must be above 0, got 0"),
        ({"stability": 1}, "`stability` must be at least 2, or 0"),
        ({"draws": -1}, "`draws` must be at least 0, got -1"),
        ({"resamples": 0}, "`resamples` must be at least 1, got 0"),
        ({"limit": 0}, "`limit` must be at least 1, got 0"),
    ],
)
def test_what_does_not_fit_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadtoolError, match=message):
        requested(None, fields)
