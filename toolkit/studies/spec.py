"""What a study file holds, key by key: checked whole, and described for editors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from headtool.errors import nearest
from headtool.experiments.request import Request
from headtool.studies.reading import Source

__all__ = [
    "MethodEntry",
    "ModelEntry",
    "Resources",
    "StudyFile",
    "TaskEntry",
    "json_schema",
    "parse",
]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
_LARGEST_SEED = 2**63 - 1  # what torch takes


def _key(name: str) -> str:
    return name.replace("_", "-")


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _auto(value: Any) -> Any:
    return None if value == "auto" else value


def _as_json(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value


def _method(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value, "options": {}}
    if isinstance(value, dict) and len(value) == 1:
        ((name, options),) = value.items()
        if isinstance(options, dict | None) and isinstance(name, str):
            return {"name": name, "options": options or {}}
    raise ValueError(
        "must be the name of a method, or one name with its options, such as gates: {steps: 50}"
    )


_MEANT = {"seeds": "replicates"}  # what a key is taken for, where it is spelt otherwise


class _Keys(BaseModel):
    """Keys are written as options are; there are no others, and no value is bent into its type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=_key)


Name = Annotated[str, Field(pattern=_NAME, max_length=40)]
Specs = Annotated[
    list[str],
    BeforeValidator(_one_or_more, json_schema_input_type=str | list[str]),
    Field(min_length=1),
]
Steps = Annotated[str, BeforeValidator(_number_as_text, json_schema_input_type=str | int)]
AutoCount = Annotated[
    int | None,
    BeforeValidator(_auto, json_schema_input_type=int | Literal["auto"]),
]
DeviceMap = Annotated[
    str | None,
    BeforeValidator(_as_json, json_schema_input_type=str | dict[str, str | int]),
]


class _Method(_Keys):
    """A method, and its options as they are written."""

    name: str
    options: dict[str, Any]


MethodEntry = Annotated[
    _Method,
    BeforeValidator(
        _method, json_schema_input_type=str | dict[str, dict[str, str | int | float | bool | None]]
    ),
]


class ModelEntry(_Keys):
    """A model, or one architecture trained from several seeds."""

    name: Name = Field(description="What the study calls the model.")
    model: str | None = Field(None, description="Its SPEC, as for headtool compare --model.")
    replicates: dict[Name, str] | None = Field(
        None,
        min_length=1,
        description="In place of model: SPECs of the same architecture trained from other seeds, "
        "or of checkpoints, by name.",
    )
    family: Name | None = Field(
        None, description="Family of models it belongs to. Default: its own name."
    )
    tasks: list[str] | None = Field(
        None, min_length=1, description="Names of the tasks it is compared on. Default: all."
    )
    methods: list[MethodEntry] | None = Field(
        None, min_length=1, description="Methods for this model. Default: the study's."
    )
    device: str | None = Field(None, description="auto, cpu, cuda, cuda:1 or mps.")
    dtype: str | None = Field(None, description="auto, float32, bfloat16 or float16.")
    device_map: DeviceMap = Field(None, description="In place of device: auto, disk or a mapping.")
    load_in: str | None = Field(None, description="8bit or 4bit: quantise, on a GPU.")
    fairseq_data: str | None = Field(None, description="Dictionaries of a fairseq model.")
    bpe: str | None = Field(None, description="Subwords of a fairseq model, NAME:FILE.")


class TaskEntry(_Keys):
    """Data, how to read it, and what is measured on it."""

    name: Name = Field(description="What the study calls the task.")
    data: Specs = Field(
        description="SPEC of a data set, as for headtool compare --data, or several: the first is "
        "the one of the curves."
    )
    select_data: str | None = Field(
        None, description="Score heads on this data set. Default: on one half of the first."
    )
    columns: dict[str, str] | None = Field(
        None, description="Which column of a table is which, such as text: sentence."
    )
    metric: str | None = Field(None, description="Default: the study's, or the task's own.")
    margin: float | None = Field(
        None, description="What a removable head may cost. Default: the study's."
    )
    limit: int | None = Field(None, description="Use so many examples. Default: the study's.")
    beam: int | None = Field(None, description="Hypotheses kept at each step, where one decodes.")
    length_penalty: float | None = Field(None, description="Of the search for translations.")
    max_length: int | None = Field(None, description="Most tokens written, where one decodes.")


class Resources(_Keys):
    """Where models run, and how much of the data they see."""

    workers: int | None = Field(None, description="Run on so many processes (takes ray).")
    ray: str | None = Field(None, description="With workers: address of a cluster, or auto.")
    gpus_per_worker: float | None = Field(None, description="With workers: GPUs of each.")
    ship_weights: bool = Field(False, description="With workers: send them the weights.")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1 or mps.")
    dtype: str = Field("float32", description="auto, float32, bfloat16 or float16.")
    device_map: DeviceMap = Field(None, description="In place of device: auto, disk or a mapping.")
    load_in: str | None = Field(None, description="8bit or 4bit: quantise, on a GPU.")
    limit: int | None = Field(None, description="Use so many examples of each data set.")
    limit_order: Literal["seeded", "first"] = Field(
        "seeded", description="seeded draws the examples, first takes the first ones."
    )
    batch_tokens: AutoCount = Field(
        Request.batch_tokens, description="Tokens in a batch; auto: as many as fit."
    )


class StudyFile(_Keys):
    """A study: every model on each of its tasks, compared in the same way."""

    name: str | None = Field(
        None, min_length=1, max_length=100, description="Title. Default: the name of the file."
    )
    out: str = Field(min_length=1, description="Folder of the study's runs.")
    models: list[ModelEntry] = Field(min_length=1, description="Models, with their replicates.")
    tasks: list[TaskEntry] = Field(min_length=1, description="Data sets by task.")
    methods: list[MethodEntry] | None = Field(
        None, min_length=1, description="Scoring methods, as headtool methods lists them."
    )
    metric: str | None = Field(None, description="Of all tasks that name none.")
    margin: float | None = Field(
        None, description="What a removable head may cost. Default: 1% of the metric's scale."
    )
    kinds: list[str] | None = Field(
        None, min_length=1, description="Attention kinds: enc-self, dec-self, cross."
    )
    steps: Steps = Field(
        Request.steps,
        description="Budgets: heads removed from point to point (10% or 4), or points (20%,50%).",
    )
    iterative: bool = Field(Request.iterative, description="Score what is left after every step.")
    keep_one_per_layer: bool = Field(
        Request.keep_one_per_layer, description="Never remove the last head of a layer."
    )
    per_kind: bool = Field(Request.per_kind, description="Also curves of each kind.")
    replacement: str = Field(
        Request.replacement, description="What closed heads put out: zero, mean, resample, ..."
    )
    beside: list[str] = Field([], description="Further replacements to show beside the first.")
    faithfulness: bool = Field(Request.faithfulness, description="Also keep-only curves.")
    absolute: bool = Field(
        Request.absolute, description="Keep-only curves by scores in absolute value."
    )
    draws: AutoCount = Field(
        Request.draws, description="Random masks at every point; auto: as many as it takes."
    )
    alpha: float = Field(Request.alpha, description="Level of tests and intervals.")
    resamples: int | None = Field(None, description="Bootstrap resamples of the curves.")
    stability: int = Field(
        Request.stability, description="Score again on so many random halves; 0: none."
    )
    seed: int = Field(
        Request.seed, ge=0, le=_LARGEST_SEED, description="Seed of everything random."
    )
    resources: Resources = Field(
        default_factory=lambda: Resources.model_validate({}),
        description="Where models run, and on how much data.",
    )


def parse(source: Source) -> StudyFile:
    """Check that a study has the keys that it needs, no others, and values of their types.

    Parameters
    ----------
    source
        What was read.

    Raises
    ------
    HeadtoolError
        Naming the first line and key that are wrong.
    """
    if not isinstance(source.values, dict):
        raise source.error((), "a study is a mapping of keys; headtool study init writes one")
    try:
        return StudyFile.model_validate(source.values)
    except ValidationError as error:
        found = [(_place(one["loc"]), one) for one in error.errors(include_url=False)]
        key, first = min(found, key=lambda pair: source.line(pair[0]) or math.inf)
        raise source.error(key, _reason(key, first)) from error


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a study file, for editors."""
    schema = StudyFile.model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "headtool study",
    }


def _place(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where an error is, in the words of the file: what pydantic adds of its own is left out."""
    return tuple(part for part in location if part != "[key]")


def _reason(key: tuple[str | int, ...], error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    got = _shown(error["input"])
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"there is no such key{_nearest_key(key)}; leave it out"
    if kind == "value_error":
        return f"{context['error']!s}, got {got}"
    if kind == "string_pattern_mismatch":
        return f"a name has letters, digits, - and _ alone, got {got}"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters"
    if kind == "literal_error":
        return f"must be {context['expected'].replace(chr(39), '')}, got {got}"
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = "least" if "ge" in context else "most"
        return f"must be at {bound} {context.get('ge', context.get('le'))}, got {got}"
    wanted = {
        "string": "text",
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "list": "a list",
        "dict": "a mapping",
        "model": "a mapping",
        "finite": "a finite number",
    }.get(kind.partition("_")[0])
    if wanted is None:
        return f"{error['msg'][0].lower()}{error['msg'][1:]}, got {got}"
    return f"must be {wanted}, got {got}"


def _nearest_key(key: tuple[str | int, ...]) -> str:
    parents: dict[str, type[_Keys]] = {
        "models": ModelEntry,
        "tasks": TaskEntry,
        "resources": Resources,
    }
    owner: type[_Keys] = StudyFile
    if len(key) > 1:
        owner = parents.get(str(key[0]), StudyFile)
    if (meant := _MEANT.get(str(key[-1]))) in owner.model_fields:
        return f"; did you mean '{meant}'?"
    return nearest(str(key[-1]), [_key(name) for name in owner.model_fields])


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value)[:60]
