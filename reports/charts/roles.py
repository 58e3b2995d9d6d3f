"""Roles in SVG: their colours and letters, in legends and in the cells of a grid."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from headtool.reports.charts.svg import element
from headtool.reports.contents.roles import ROLE_LETTERS, letter_of

__all__ = ["css_of", "role_legend", "role_swatch", "stripes"]


def css_of(role: str) -> str:
    """The class of a role's colour; the same in every report."""
    return f"r{list(ROLE_LETTERS).index(role)}" if role in ROLE_LETTERS else "unknown"


def role_swatch(role: str) -> Markup:
    """A role's colour and letter, for legends."""
    return element(
        "svg",
        element("rect", x=1, y=1, width=14, height=14, rx=2),
        element("text", letter_of(role), x=8, y=8, dy=".36em", text_anchor="middle"),
        class_=f"stripe {css_of(role)}",
        width=16,
        height=16,
        aria_hidden="true",
    )


def role_legend(roles: Sequence[str]) -> list[tuple[Markup, str]]:
    """The colour and letter of each role, with its name."""
    return [(role_swatch(name), name) for name in roles]


def stripes(roles: Sequence[str], x: float, y: float, side: float) -> Markup:
    """A cell in the colours of its roles, side by side.

    Parameters
    ----------
    roles
        At least one.
    x, y
        Upper left corner of the cell, in pixels.
    side
        Its width and height, in pixels.
    """
    width = side / len(roles)
    return element(
        "g",
        *(
            element(
                "rect",
                x=x + i * width,
                y=y,
                width=width,
                height=side,
                rx=min(3, side / 6) if len(roles) == 1 else None,
                class_=f"stripe {css_of(role)}",
            )
            for i, role in enumerate(roles)
        ),
        class_="stripes",
    )
