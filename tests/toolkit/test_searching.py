"""Search: what cannot be searched is refused by the name of its field."""

from __future__ import annotations

from typing import Any

import pytest

from headtool.errors import HeadtoolError
from headtool.searching import Search


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "`beam` must be at least 1, got 0"),
        ({"max_length": 0}, "`max_length` must be at least 1, got 0"),
    ],
)
def test_a_bad_value_is_named_by_its_field(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadtoolError) as error:
        Search(**settings)
    assert str(error.value) == message


def test_the_smallest_values_and_no_values_are_fine() -> None:
    assert Search(1, None, 1) == Search(beam=1, max_length=1)
    assert Search() == Search(None, None, None)
