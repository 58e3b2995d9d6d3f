"""Names of curves stand where the gap is widest, and never on a curve."""

from __future__ import annotations

from headtool.reports.charts.labels import Box, at_gaps, width_of

AREA = Box(0.0, 400.0, 0.0, 300.0)


def test_a_name_stands_where_its_curve_is_furthest_from_others() -> None:
    curves = [
        [(0.0, 100.0), (200.0, 20.0), (400.0, 100.0)],
        [(0.0, 110.0), (200.0, 250.0), (400.0, 110.0)],
    ]
    boxes = at_gaps(["up", "down"], curves, AREA)
    assert boxes is not None
    for box in boxes:
        assert 120 < (box.left + box.right) / 2 < 280
    assert boxes[0].bottom < boxes[1].top


def test_no_name_lies_on_a_curve_or_on_another_name() -> None:
    curves = [[(float(x), 40.0 * i + 0.1 * x) for x in range(0, 401, 40)] for i in range(1, 6)]
    boxes = at_gaps(list("abcde"), curves, AREA)
    assert boxes is not None
    for i, box in enumerate(boxes):
        for curve in curves:
            assert not any(box.left < x < box.right and box.top < y < box.bottom for x, y in curve)
        assert all(box.apart(other) > 0 for other in boxes[i + 1 :])


def test_there_is_no_room_where_curves_coincide() -> None:
    same = [[(0.0, 50.0), (400.0, 60.0)]] * 3
    assert at_gaps(["a" * 100], [same[0]], AREA) is None
    assert width_of("a" * 100) > 400
