"""The plotting area of a chart: what stands along its axes, and the drawing that holds it all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from headtool.reports.charts.svg import Scale, element
from headtool.reports.wording.words import number

__all__ = ["Axes", "drawing"]


@dataclass(frozen=True)
class Axes:
    """A plotting area between the ends of two scales.

    Attributes
    ----------
    across
        Maps values to positions from left to right, in pixels.
    up
        Maps values to positions from the bottom (``up.start``) to the top (``up.end``).
    """

    across: Scale
    up: Scale

    def level_line(self, value: float, css: str = "rule") -> Markup:
        """Draw a line over the whole width at a value of the vertical axis.

        Parameters
        ----------
        value
            In the unit of the vertical axis.
        css
            Class of the line: ``rule``, ``reference`` or ``margin``.
        """
        y = self.up(value)
        return element("line", x1=self.across.start, x2=self.across.end, y1=y, y2=y, class_=css)

    def upright_line(self, value: float, css: str = "rule") -> Markup:
        """Draw a line over the whole height at a value of the horizontal axis.

        Parameters
        ----------
        value
            In the unit of the horizontal axis.
        css
            Class of the line.
        """
        x = self.across(value)
        return element("line", x1=x, x2=x, y1=self.up.end, y2=self.up.start, class_=css)

    def beside(self, value: float, text: str, *, gap: int = 7) -> Markup:
        """Write `text` left of the vertical axis at a value of it, `gap` pixels away.

        Parameters
        ----------
        value
            In the unit of the vertical axis.
        text
            What to write.
        gap
            Pixels between the text and the axis.
        """
        return element(
            "text",
            text,
            x=self.across.start - gap,
            y=self.up(value),
            dy=".35em",
            text_anchor="end",
            class_="tick",
        )

    def below(self, value: float, text: str) -> Markup:
        """Write `text` under the horizontal axis, at a value of it.

        Parameters
        ----------
        value
            In the unit of the horizontal axis.
        text
            What to write.
        """
        return element(
            "text",
            text,
            x=self.across(value),
            y=self.up.start + 16,
            text_anchor="middle",
            class_="tick",
        )

    def levels(self, count: int, *, zero: str = "rule") -> list[Markup]:
        """Draw horizontal rules at round values, each with its value beside it.

        Parameters
        ----------
        count
            About how many.
        zero
            Class of the line at zero, if there is one.
        """
        parts = []
        for value in self.up.ticks(count):
            parts += [
                self.level_line(value, "rule" if value else zero),
                self.beside(value, number(value)),
            ]
        return parts

    def uprights(self, count: int) -> list[Markup]:
        """Draw about `count` vertical rules at round values, each with its value below."""
        parts = []
        for value in self.across.ticks(count):
            parts += [self.upright_line(value), self.below(value, number(value))]
        return parts

    def x_name(self, text: str, y: float, *, css: str = "axis") -> Markup:
        """Write the name of the horizontal axis in its middle, `y` pixels from the top.

        Parameters
        ----------
        text
            The name.
        y
            Pixels from the top of the drawing.
        css
            Classes of the text.
        """
        middle = (self.across.start + self.across.end) / 2
        return element("text", text, x=middle, y=y, text_anchor="middle", class_=css)

    def y_name(self, text: str, x: int = 12, *, css: str = "axis") -> Markup:
        """Write the name of the vertical axis upwards in its middle, `x` pixels from the left.

        Parameters
        ----------
        text
            The name.
        x
            Pixels from the left of the drawing.
        css
            Classes of the text.
        """
        middle = (self.up.start + self.up.end) / 2
        return element(
            "text",
            text,
            transform=f"translate({x} {middle:.0f}) rotate(-90)",
            text_anchor="middle",
            class_=css,
        )

    def cursor(self) -> Markup:
        """Draw the line that the page's script moves with the pointer; hidden until then."""
        return element(
            "line",
            x1=-9,
            x2=-9,
            y1=self.up.end,
            y2=self.up.start,
            class_="cursor",
            visibility="hidden",
        )


def drawing(
    parts: Iterable[Markup | None],
    *,
    label: str,
    width: float,
    height: float,
    top: float = 0.0,
    css: str = "chart",
    **attributes: object,
) -> Markup:
    """Put parts together to one drawing.

    Parameters
    ----------
    parts
        From back to front; None is left out.
    label
        What a screen reader calls it.
    width, height
        In pixels.
    top
        Where the drawing begins vertically.
    css
        Its classes.
    attributes
        Further attributes, as `headtool.reports.charts.svg.element` takes them.
    """
    return element(
        "svg",
        *parts,
        viewBox=f"0 {top:.0f} {width} {height}",
        width=width,
        height=height,
        **{"role": "img", **attributes},
        aria_label=label,
        class_=css,
    )
