"""Reports as files: whichever format, whole or not at all, and never over something else."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headtool.errors import HeadtoolError
from headtool.reports.contents.held import InMemory, Written, folder_of, run_of
from headtool.reports.contents.run import Contents, read_contents, with_roles
from headtool.reports.formats.choice import FORMATS, Choice, choice_of
from headtool.reports.marks import is_marked
from headtool.results.replacing import replacing, sweep

if TYPE_CHECKING:
    import pandas as pd

    from headtool.reports.contents.studies import StudyContents
    from headtool.reports.sections.page import Page
    from headtool.results.studies import Study

__all__ = ["FORMATS", "add_report", "write_report", "write_study_report"]


class HasTables(Protocol):
    """What a report is made of."""

    def every_table(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """All tables with rows, by name."""


def write_report(
    source: InMemory | Written | Path | str,
    *,
    format: str = "html",
    roles: Written | Path | str | None = None,
    columns: Sequence[str] | None = None,
    width: float | None = None,
    font: str | None = None,
    out: Path | str | None = None,
    force: bool = False,
) -> Path:
    """Write a report on a result or a saved run; nothing is computed again.

    Parameters
    ----------
    source
        A result, such as a comparison, or the folder of a run.
    format
        ``html`` and ``markdown`` are a file; ``latex``, ``csv`` and ``figures`` a folder. Names of
        drawings, such as ``pdf`` or ``pdf,svg``, are figures in these formats alone.
    roles
        A run of ``headtool roles`` on the model that `source` compares methods on, to be joined.
    columns
        For ``latex``: titles of the columns that tables show beside those that name their rows; a
        table that has none of them is left out. None: all columns.
    width
        For figures: inches that each is wide; text keeps its size. None: as wide as it needs to be.
    font
        For figures: name of an installed font. None: DejaVu Sans.
    out
        Where to. None: inside the run's folder, under the format's default name.
    force
        Replace a report that is already there.

    Returns
    -------
    Path
        What was written.

    Raises
    ------
    HeadtoolError
        If there is no finished run, it is damaged or of another version, `roles` does not belong
        to it, a result without a folder comes without `out`, `out` cannot be written, or an
        option does not belong to the format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import headtool
    >>> compared = headtool.compare(
    ...     "builtin:nli", "builtin:nli/matched", methods=["confidence"],
    ...     limit=16, steps="16", draws=2, resamples=100,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = headtool.write_report(compared, out=Path(folder) / "report.html")
    ...     page.name, page.read_text()[:15]
    ('report.html', '<!doctype html>')
    """
    choice = choice_of(format, columns=columns, width=width, font=font)
    name = FORMATS[choice.format][0]
    with run_of(source) as (run, lasts):
        contents = read_contents(run)
        if roles is not None:
            contents = with_roles(contents, folder_of(roles))
        if out is None and not lasts:
            raise HeadtoolError(
                "this result lies in no folder, so its report has no place; give `out`"
            )
        place = Path(out) if out is not None else run / name
        _put(place, choice, contents, lambda made: _render(contents, choice, made), force)
    return place


def _put(
    place: Path,
    choice: Choice,
    contents: HasTables,
    render: Callable[[Path], None],
    force: bool,
) -> None:
    """Write a report whole or not at all, and never over something else."""
    try:
        sweep(place)
        _check(place, FORMATS[choice.format][1], contents, force=force)
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place, force=force) as made:
            render(made)
    except OSError as error:
        raise HeadtoolError(
            f"cannot write {place}: {error.strerror or error}; choose another `out`"
        ) from error


def write_study_report(
    source: StudyContents | Study | Path | str | Sequence[Path | str],
    *,
    format: str = "html",
    columns: Sequence[str] | None = None,
    out: Path | str | None = None,
    force: bool = False,
) -> Path:
    """Write a report on many comparisons; nothing is computed again.

    Methods are ranked over all of them, and every comparison links to its own report. What fits
    together is reported; the report says what was left out, and why.

    Parameters
    ----------
    source
        A study, its folder, or the folders of several comparisons.
    format
        ``html`` and ``markdown`` are a file; ``latex`` and ``csv`` a folder.
    columns
        As for `write_report`.
    out
        Where to. None: inside the study's folder, or for several comparisons the current one, under
        the format's default name.
    force
        Replace a report that is already there.

    Returns
    -------
    Path
        What was written.

    Raises
    ------
    HeadtoolError
        If there is no study, none of the comparisons can be shown, `out` cannot be written, or an
        option does not belong to the format.

    Examples
    --------
    >>> import headtool
    >>> headtool.write_study_report(["runs/sst2", "runs/nli"], out="methods.html")  # doctest: +SKIP
    PosixPath('methods.html')
    >>> headtool.write_study_report(["runs/sst2", "runs/nli"], format="pdf")
    Traceback (most recent call last):
        ...
    headtool.errors.HeadtoolError: a report on several comparisons has no figures of its own; ...
    """
    choice = choice_of(format, columns=columns)
    if choice.format == "figures":
        raise HeadtoolError(
            "a report on several comparisons has no figures of its own; choose html, markdown, "
            "latex or csv as `format`"
        )
    contents, folder = _study_of(source)
    place = Path(out) if out is not None else folder / FORMATS[choice.format][0]
    _put(place, choice, contents, lambda made: _render_study(contents, choice, made, place), force)
    return place


def _study_of(
    source: StudyContents | Study | Path | str | Sequence[Path | str],
) -> tuple[StudyContents, Path]:
    """The comparisons, and the folder that their report belongs to."""
    from headtool.reports.contents.studies import StudyContents, of_runs, of_study
    from headtool.results.studies import Study, read_study

    if isinstance(source, StudyContents):
        return source, source.folder
    if isinstance(source, Study):
        contents = of_study(source)
    elif isinstance(source, Path | str):
        contents = of_study(read_study(source))
    else:
        contents = of_runs([Path(folder) for folder in source])
    return contents, contents.folder


def _render_study(contents: StudyContents, choice: Choice, made: Path, place: Path) -> None:
    """Write one format at `made`, from where it will go to `place`."""
    from headtool.reports.sections.studies import build_study_page

    if choice.format == "csv":
        made.mkdir()
        _write_csv(contents, made)
    else:
        _write_page(build_study_page(contents, place.parent), choice, made)


def add_report(run: Path) -> None:
    """Write the page of a run into its folder, which is still being made.

    Parameters
    ----------
    run
        The folder; it holds everything else.
    """
    name, _ = FORMATS["html"]
    _render(read_contents(run), Choice("html"), run / name)


def _render(contents: Contents, choice: Choice, place: Path) -> None:
    """Write one format at `place`, which does not exist."""
    if choice.format == "csv":
        place.mkdir()
        _write_csv(contents, place)
    elif choice.format == "figures":
        from headtool.reports.formats.figures import write_figures

        place.mkdir()
        if not write_figures(
            contents, place, formats=choice.drawings, width=choice.width, font=choice.font
        ):
            raise HeadtoolError(
                f"a run of {contents.kind} has tables and no figures; choose html, markdown, "
                "latex or csv as `format`"
            )
    else:
        from headtool.reports.sections.page import build_page

        _write_page(build_page(contents), choice, place)


def _write_page(page: Page, choice: Choice, place: Path) -> None:
    """Write a page as HTML, as Markdown, or as a folder of LaTeX."""
    if choice.format == "html":
        from headtool.reports.formats.html import render_page

        place.write_text(render_page(page), encoding="utf-8")
    elif choice.format == "markdown":
        from headtool.reports.formats.markdown import markdown_of

        place.write_text(markdown_of(page), encoding="utf-8")
    else:
        from headtool.reports.formats.latex import latex_files

        place.mkdir()
        for name, text in latex_files(page, columns=choice.columns).items():
            (place / name).write_text(text, encoding="utf-8")


def _write_csv(contents: HasTables, folder: Path) -> None:
    """Every table, all digits kept; what is not computed is an empty field."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    for name, frame in contents.every_table():
        for column in frame.columns[frame.dtypes == "category"]:
            frame[column] = frame[column].astype(str)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        arrow_csv.write_csv(table, folder / f"{name}.csv")


def _check(place: Path, endings: tuple[str, ...], contents: HasTables, *, force: bool) -> None:
    """Refuse, before any work is done, what must not be replaced."""
    if place.is_dir() and not endings:
        raise HeadtoolError(f"{place} is a folder; give `out` the name of a file")
    if place.exists() and not place.is_dir() and endings:
        raise HeadtoolError(f"{place} is a file, and this format is a folder; choose another `out`")
    held = sorted(place.iterdir()) if place.is_dir() else [place] if os.path.lexists(place) else []
    if held and not force:
        raise HeadtoolError(f"{place} exists already; choose another `out` or add `force=True`")
    ours = _is_table(contents) if held and endings == (".csv",) else is_marked
    for entry in held:
        if not ours(entry) or (endings and entry.suffix not in endings):
            raise HeadtoolError(
                f"headtool did not write {entry}, so `force=True` does not replace it; choose "
                "another `out`"
            )


def _is_table(contents: HasTables) -> Callable[[Path], bool]:
    """What tells whether a file is one of the run's tables as CSV: by its name and header."""
    columns = {f"{name}.csv": list(frame.columns) for name, frame in contents.every_table()}

    def is_table(path: Path) -> bool:
        if not path.is_file():
            return False
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            return next(csv.reader(file), None) == columns.get(path.name)

    return is_table
