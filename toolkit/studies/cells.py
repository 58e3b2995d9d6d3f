"""From a study file to its cells: what each compares, checked whole before anything runs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.data.columns import check_columns
from headtool.errors import HeadtoolError, unknown
from headtool.experiments.inputs import DataSource, read_data
from headtool.experiments.request import Request
from headtool.heads.sites import parse_kinds
from headtool.masks.curves import budgets_of
from headtool.methods import describe_method, get_method
from headtool.models.source import ModelSource
from headtool.results.studies import Cell, Study, read_study
from headtool.searching import Search
from headtool.studies.reading import Key, Source, given_study
from headtool.studies.spec import ModelEntry, Resources, StudyFile, TaskEntry, parse

if TYPE_CHECKING:
    from headtool.methods.base import Method

__all__ = ["Comparing", "StudyPlan", "check_inputs", "open_study", "plan_cells"]

_FIELD = re.compile(r"`([a-z][a-z_]*)|^unknown ([a-z_]+) ")
_MANY = 10_000  # heads; for checking budgets of models that are not loaded yet
_KEYS = {"kind": "kinds"}
_PLACING = ("device", "dtype", "device_map", "load_in")


@dataclass(frozen=True)
class Comparing:
    """What a cell compares.

    Attributes
    ----------
    cell
        Its name and place.
    model
        The model, and how to load it.
    data, select_data
        The data sets, and the one that selects; None halves the first.
    request
        What to compare and how.
    model_key, task_key
        Where model and task stand in the file.
    """

    cell: Cell
    model: ModelSource
    data: tuple[DataSource, ...]
    select_data: DataSource | None
    request: Request
    model_key: Key
    task_key: Key


@dataclass(frozen=True)
class StudyPlan:
    """A study that can run.

    Attributes
    ----------
    study
        Its name, folder and cells, of which none has run as far as this knows.
    comparing
        What each cell compares, in the same order: cells of one model stand together.
    resources
        Where models run.
    source
        The file.
    """

    study: Study
    comparing: tuple[Comparing, ...]
    resources: Resources
    source: Source


def open_study(place: Path | str) -> Study:
    """Open a study that has begun, by its file or its folder.

    Parameters
    ----------
    place
        The study file, the folder of its runs, or the ``study.json`` in there.

    Raises
    ------
    HeadtoolError
        If there is none, or its files are damaged.
    """
    path = Path(place)
    if path.is_dir() or path.suffix == ".json":
        return read_study(path)
    return read_study(parse(given_study(path)).out)


def plan_cells(given: Path | str | Mapping[str, Any]) -> StudyPlan:
    """Read a study, and check all that can be checked without models and data.

    Parameters
    ----------
    given
        The study file, or its content.

    Raises
    ------
    HeadtoolError
        Naming the line and the key that are wrong.
    """
    source = given_study(given)
    file = parse(source)
    _check_names(file, source)
    folder = Path(file.out)
    tasks = {task.name: (number, task) for number, task in enumerate(file.tasks)}
    comparing = []
    for number, model in enumerate(file.models):
        key = ("models", number)
        methods = _methods(file, model, key, source)
        for replicate, spec, model_key in _specs(model, key):
            loading = _loading(file, model, spec, model_key, source)
            for name in model.tasks or list(tasks):
                place, task = tasks[name]
                comparing.append(
                    _comparing(
                        *(source, file, folder, model, replicate, loading, model_key),
                        *(task, ("tasks", place), methods),
                    )
                )
    name = file.name or Path(source.name).stem
    study = Study(name, folder, tuple(one.cell for one in comparing), file.metric)
    return StudyPlan(study, tuple(comparing), file.resources, source)


def check_inputs(plan: StudyPlan, wanted: Sequence[Comparing]) -> None:
    """Check that the models and the data of cells are there; no weights are loaded.

    Parameters
    ----------
    plan
        The study.
    wanted
        The cells that are to run.

    Raises
    ------
    HeadtoolError
        Naming the line and the key that are wrong.
    """
    from headtool.models import check_model

    models: set[ModelSource] = set()
    data: set[str] = set()
    for one in wanted:
        if one.model not in models:
            models.add(one.model)
            with _located(plan.source, one.model_key):
                check_model(one.model.spec)
        for part, given in [("data", each) for each in one.data] + [
            ("select-data", one.select_data)
        ]:
            if given is None or repr(given) in data:
                continue
            data.add(repr(given))
            with _located(plan.source, (*one.task_key, part)):
                read_data(
                    given,
                    one.model,
                    limit=one.request.limit,
                    limit_order=one.request.limit_order,
                    seed=one.request.seed,
                )


class _located:  # noqa: N801 - reads as a function
    """Name a line and a key in what is refused inside."""

    def __init__(self, source: Source, key: Key, *others: Key) -> None:
        self.source, self.key, self.others = source, key, others

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, HeadtoolError):
            return
        message = str(error)
        key = next(self._named(message), self.key)
        raise self.source.error(key, message) from error

    def _named(self, message: str) -> Iterator[Key]:
        """Where a field stands that the message names."""
        for quoted, unknown_one in _FIELD.findall(message):
            field = _KEYS.get(unknown_one, unknown_one) or quoted
            for around in (self.key, *self.others):
                key = (*around, field.replace("_", "-"))
                if self.source.line(key):
                    yield key


def _check_names(file: StudyFile, source: Source) -> None:
    for part, names in (
        ("models", [model.name for model in file.models]),
        ("tasks", [task.name for task in file.tasks]),
    ):
        folded = [name.lower() for name in names]
        for number, name in enumerate(names):
            if name.lower() in folded[:number]:
                raise source.error(
                    (part, number, "name"), f"'{name}' is there twice; give another name"
                )
    known = [task.name for task in file.tasks]
    used: set[str] = set()
    for number, model in enumerate(file.models):
        for place, name in enumerate(model.tasks or known):
            key = ("models", number, "tasks", place)
            if name not in known:
                raise source.error(key, str(unknown("task", name, known)))
            if (model.tasks or known).index(name) < place:
                raise source.error(key, f"'{name}' is there twice; leave one out")
            used.add(name)
    for number, name in enumerate(known):
        if name not in used:
            raise source.error(("tasks", number), f"no model has the task '{name}'; leave it out")


def _specs(model: ModelEntry, key: Key) -> Iterator[tuple[str, str, Key]]:
    """Name and SPEC of each replicate, and where it stands."""
    if model.model is not None:
        yield "", model.model, (*key, "model")
    for name, spec in (model.replicates or {}).items():
        yield name, spec, (*key, "replicates", name)


def _methods(
    file: StudyFile, model: ModelEntry, key: Key, source: Source
) -> tuple[tuple[str, dict[str, str]], ...]:
    """The methods of a model, with their options as text."""
    if (model.model is None) == (model.replicates is None):
        raise source.error(key, "a model has either `model`, its SPEC, or `replicates`")
    entries, place = (
        (model.methods, (*key, "methods"))
        if model.methods is not None
        else (file.methods, ("methods",))
    )
    if entries is None:
        return tuple((str(name), {}) for name in Request.methods)
    found: dict[str, dict[str, str]] = {}
    for number, entry in enumerate(entries):
        at: Key = (*place, number)
        if entry.name in found:
            raise source.error(at, f"'{entry.name}' is there twice; leave one out")
        found[entry.name] = {}
        with _located(source, at):
            described = describe_method(entry.name)
        for option, value in entry.options.items():
            with _located(source, (*at, entry.name, option)):
                found[entry.name][option] = _as_text(value)
                described.read({option: _as_text(value)})
    return tuple(found.items())


def _as_text(value: Any) -> str:
    """A value of an option as ``headtool compare --set`` takes it."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if not isinstance(value, str | int | float):
        raise HeadtoolError("must be text, a number, or true or false")
    return str(value)


def _loading(
    file: StudyFile, model: ModelEntry, spec: str, key: Key, source: Source
) -> ModelSource:
    """How to load a model: as it says, else as the study does."""
    own = {name: getattr(model, name) for name in _PLACING}
    shared = {name: getattr(file.resources, name) for name in _PLACING}
    if own["device"] is not None:
        shared["device_map"] = None
    if own["device_map"] is not None:
        shared["device"] = "auto"
    placed = {name: shared[name] if own[name] is None else own[name] for name in _PLACING}
    with _located(source, key[:2], ("resources",)):
        return ModelSource(spec, **placed, fairseq_data=model.fairseq_data, bpe=model.bpe)


def _comparing(
    source: Source,
    file: StudyFile,
    folder: Path,
    model: ModelEntry,
    replicate: str,
    loading: ModelSource,
    model_key: Key,
    task: TaskEntry,
    task_key: Key,
    methods: tuple[tuple[str, dict[str, str]], ...],
) -> Comparing:
    with _located(source, task_key, ("resources",), ()):
        check_columns(task.columns or {})
        request = _request(file, task, methods)
    name = ".".join(filter(None, (model.name, replicate, task.name)))
    select = task.select_data
    cell = Cell(
        *(name, model.name, model.family or model.name, replicate, task.name, loading.spec),
        data=tuple(task.data),
        run=folder / "cells" / name,
        settings=_settings(loading, task, request, methods),
    )
    return Comparing(
        cell,
        loading,
        tuple(DataSource(spec, task.columns) for spec in task.data),
        None if select is None else DataSource(select, task.columns),
        request,
        model_key,
        task_key,
    )


def _request(
    file: StudyFile, task: TaskEntry, methods: tuple[tuple[str, dict[str, str]], ...]
) -> Request:
    """What a cell is asked for: the task's own settings, else the study's."""
    own = ("kinds", "metric", "margin", "methods", "search", "limit", "limit_order", "batch_tokens")
    names = {field.name for field in dataclasses.fields(Request)} - set(own)
    metric = file.metric if task.metric is None else task.metric
    search = Search(task.beam, task.length_penalty, task.max_length)
    _check_metric(metric, decodes=search != Search())
    budgets_of(file.steps, _MANY)
    from headtool.engine.replacement import REPLACEMENTS  # torch

    if file.replacement not in REPLACEMENTS:
        raise unknown("replacement", file.replacement, REPLACEMENTS)
    built: list[Method] = [get_method(name).configured(options) for name, options in methods]
    return Request(
        **{name: getattr(file, name) for name in names},
        methods=built,
        kinds=None if file.kinds is None else parse_kinds(",".join(file.kinds)),
        metric=metric,
        margin=file.margin if task.margin is None else task.margin,
        search=search,
        limit=file.resources.limit if task.limit is None else task.limit,
        limit_order=file.resources.limit_order,
        batch_tokens=file.resources.batch_tokens,
    )


def _check_metric(metric: str | None, *, decodes: bool) -> None:
    from headtool.metrics.prediction import METRICS
    from headtool.metrics.translation import TRANSLATION_METRICS

    known = {one.name for one in METRICS}
    if metric is not None and metric not in known:
        raise unknown("metric", metric, known)
    if decodes and metric not in TRANSLATION_METRICS:
        raise HeadtoolError(
            "`beam`, `length_penalty` and `max_length` are for metrics that decode; give `metric` "
            "bleu, chrf or ter, or leave them out"
        )


def _settings(
    loading: ModelSource,
    task: TaskEntry,
    request: Request,
    methods: tuple[tuple[str, dict[str, str]], ...],
) -> dict[str, Any]:
    """What decides a cell's numbers, as JSON: a run that others made is none of this study."""
    options = request.options
    return {
        "model": loading.spec,
        "dtype": loading.dtype,
        "load_in": loading.load_in,
        "fairseq_data": loading.fairseq_data,
        "bpe": loading.bpe,
        "data": list(task.data),
        "select_data": task.select_data,
        "columns": task.columns,
        "beam": task.beam,
        "length_penalty": task.length_penalty,
        "max_length": task.max_length,
        "methods": dict(methods),
        **{
            name: list(value) if isinstance(value, tuple) else value
            for name, value in options.items()
        },
    }
