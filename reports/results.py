"""Results that show themselves: figures, a report, LaTeX, and a few lines in a notebook.

Scores and comparisons are made in rooms below this one, which know nothing of what they look like.
The classes that users get derive from those and add it here; results of experiments, in a room
above, derive from `Reported` themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.analysis import comparison
from headtool.errors import HeadtoolError, unknown
from headtool.reports.contents.held import Held, contents_of
from headtool.reports.findings.headline import headline
from headtool.reports.sections.frames import frame_table
from headtool.reports.writing import write_report
from headtool.results import scores
from headtool.results.display import Tabled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Comparison", "EffectPlots", "HeadPlots", "HeadScores", "Reported"]

_BY_ENDING = {".html": "html", ".md": "markdown"}


class Reported(Tabled):
    """A result that writes its own report and draws its own figures.

    Every ``plot_`` method returns a figure of Matplotlib, which a notebook shows and ``savefig``
    writes. It draws on axes of yours with `ax`: one, or where the method says so, as many as it
    names. Methods have the colours that they have in reports.
    """

    folder: Path | None

    def held(self) -> Held:
        """Return what a run directory of this result would hold, for its report.

        Raises
        ------
        HeadtoolError
            If there is no report on such a result.
        """
        raise HeadtoolError(
            f"there is no report on a {type(self).__name__}; its tables are in .frame"
        )

    def report(
        self, path: Path | str, *, format: str | None = None, force: bool = False, **options: Any
    ) -> Path:
        """Write a report; see `headtool.write_report`.

        Parameters
        ----------
        path
            Where to.
        format
            As for `headtool.write_report`; None goes by the ending: ``.html`` or ``.md``.
        force
            Replace a report that is already there.
        options
            Further options of `headtool.write_report`.

        Returns
        -------
        Path
            What was written.

        Raises
        ------
        HeadtoolError
            As `headtool.write_report` does, or if the ending says no format.
        """
        chosen = format or _BY_ENDING.get(Path(path).suffix.lower())
        if chosen is None:
            raise HeadtoolError(
                f"the ending of {path} says no format; write .html or .md, or give `format`"
            )
        return write_report(self, format=chosen, out=path, force=force, **options)

    def to_latex(self, table: str | None = None, *, columns: Sequence[str] | None = None) -> str:
        """Return the report's tables in LaTeX, with rules of the package booktabs.

        Parameters
        ----------
        table
            Name of one of them, such as ``overview``; None for all, one after the other.
        columns
            Titles of the columns that are shown beside those that name rows; None for all.

        Raises
        ------
        HeadtoolError
            If there is no such table or column.
        """
        from headtool.reports.formats.latex import render_latex
        from headtool.reports.formats.latex_tables import latex_table

        with contents_of(self) as contents:
            files = render_latex(contents, columns=columns)
        tables = {name.removesuffix(".tex"): text for name, text in files.items()}
        del tables["all"]
        if not tables:  # the report shows pictures alone
            name = type(self).__name__
            shown = frame_table(name.lower(), name, self._table())
            tables = {name.lower(): "\n".join(latex_table(shown))}
        if table is not None and table not in tables:
            raise unknown("table", table, tables)
        return tables[table] if table is not None else "\n".join(tables.values())

    def _draw(self, name: str, ax: Any) -> Figure:
        """Draw one of the figures of a report."""
        from headtool.reports.formats.figures import figure_of

        with contents_of(self) as contents:
            return figure_of(contents, name, ax)


class HeadPlots(Reported):
    """A result about single heads, which has a picture of all of them."""

    def plot_heads(self, ax: Any = None) -> Figure:
        """Draw a grid of layers and heads for each method: the darker, the more important.

        Parameters
        ----------
        ax
            Where to draw: a row of axes for each kind of attention, a column for each method (and
            one for their consensus). None makes a figure.

        Raises
        ------
        HeadtoolError
            If `ax` has another number of axes.
        """
        return self._draw("heads", ax)


class EffectPlots(HeadPlots):
    """A result about what closing single heads does."""

    def plot_effects(self, ax: Any = None) -> Figure:
        """Draw what closing each head costs, in ascending order, with verdicts where there are any.

        Parameters
        ----------
        ax
            Where to draw; None makes a figure.

        Raises
        ------
        HeadtoolError
            If no head was closed alone, as in a curve.
        """
        return self._draw("effects", ax)


class HeadScores(scores.HeadScores, HeadPlots):
    """How important one method finds each head: `headtool.results.scores.HeadScores`, drawn."""

    folder = None

    def held(self) -> Held:
        """Return what a run of ``score`` would hold."""
        return Held({self.method: dict(self.provenance)}, {"scores": self.frame})


class Comparison(comparison.Comparison, EffectPlots):
    """What several methods say: `headtool.analysis.comparison.Comparison`, drawn."""

    @property
    def frame(self) -> Any:
        """The curves."""
        return self.curves

    @property
    def verdict(self) -> str:
        """The answer in one sentence: which methods choose best, how many heads can go."""
        with contents_of(self) as contents:
            return headline(contents)

    def held(self) -> Held:
        """Return what its run directory holds."""
        return Held(
            {str(self.settings.get("command", "compare")): dict(self.settings)},
            {name: frame for name, frame in self.tables.items() if len(frame)},
            self.command,
        )

    def plot_curves(self, ax: Any = None) -> Figure:
        """Draw what is left of the metric as each method removes heads, beside random masks.

        Parameters
        ----------
        ax
            Where to draw: one axes, or with ``per_kind`` one for all heads and one for each kind.
            None makes a figure.
        """
        return self._draw("curves", ax)

    def plot_against_random(self, ax: Any = None) -> Figure:
        """Draw each method beside random masks with as many heads in every layer.

        Parameters
        ----------
        ax
            Where to draw: as many axes as there are methods, in rows of four that are filled up.
            None makes a figure.
        """
        return self._draw("against-random", ax)

    def plot_faithfulness(self, ax: Any = None) -> Figure:
        """Draw how faithful the most important heads alone are, against the share that is kept.

        Parameters
        ----------
        ax
            Where to draw; None makes a figure.
        """
        return self._draw("faithfulness", ax)

    def plot_agreement(self, ax: Any = None) -> Figure:
        """Draw Kendall's tau-b of each two methods, and of each with itself on other examples.

        Parameters
        ----------
        ax
            Where to draw; None makes a figure.

        Raises
        ------
        HeadtoolError
            If one method was compared, or it is a curve.
        """
        return self._draw("agreement", ax)

    def plot_scores(self, ax: Any = None) -> Figure:
        """Draw two methods' scores of every head against each other.

        Parameters
        ----------
        ax
            Where to draw; None makes a figure.

        Raises
        ------
        HeadtoolError
            If one method was compared, or it is a curve.
        """
        return self._draw("scores", ax)

    def plot_data_sets(self, ax: Any = None) -> Figure:
        """Draw effects of heads on one data set against those on another.

        Parameters
        ----------
        ax
            Where to draw: one axes for each pair of data sets, three at most. None makes a figure.

        Raises
        ------
        HeadtoolError
            If there is one data set.
        """
        return self._draw("data-sets", ax)

    def plot_role_survival(self, ax: Any = None) -> Figure:
        """Draw how many heads of each role each method keeps.

        Parameters
        ----------
        ax
            Where to draw: a row of axes for each method, a column for each role. None makes a
            figure.

        Raises
        ------
        HeadtoolError
            If no roles were given.
        """
        return self._draw("role-survival", ax)
