"""From a study file to its cells; what does not fit together is told before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headtool.errors import HeadtoolError
from headtool.studies.cells import check_inputs, plan_cells
from headtool.studies.spec import json_schema
from headtool.studies.starting import SCHEMA_FILE, write_example

STUDY = """\
name: first
out: runs/first
metric: loss
models:
  - name: nli
    family: bert
    model: builtin:nli
    tasks: [matched, both]
  - name: planted
    replicates:
      one: builtin:planted?seed=1
      two: builtin:planted?seed=2
    tasks: [planted]
    methods: [magnitude]
tasks:
  - name: matched
    data: builtin:nli/matched
    margin: 0.5
  - name: both
    data: [builtin:nli/matched, builtin:nli/mismatched]
    metric: accuracy
    limit: 9
  - name: planted
    data: builtin:planted
methods:
  - gradient: {granularity: example}
  - ablation
steps: 50%
resources:
  limit: 20
  dtype: float32
"""


def planned(folder: Path, old: str = "", new: str = "") -> Any:
    assert old in STUDY
    path = folder / "study.yaml"
    path.write_text(STUDY.replace(old, new, 1) if old else STUDY)
    return plan_cells(path)


def test_cells_are_models_by_replicates_by_tasks(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert [(c.id, c.family, c.replicate, c.task) for c in plan.study.cells] == [
        ("nli.matched", "bert", "", "matched"),
        ("nli.both", "bert", "", "both"),
        ("planted.one.planted", "planted", "one", "planted"),
        ("planted.two.planted", "planted", "two", "planted"),
    ]
    assert plan.study.cells[1].run == Path("runs/first/cells/nli.both")
    requests = [one.request for one in plan.comparing]
    assert [(r.metric, r.limit, r.margin) for r in requests[:2]] == [
        ("loss", 20, 0.5),
        ("accuracy", 9, None),
    ]
    assert [[method.name for method in r.methods] for r in requests[1:3]] == [
        ["gradient", "ablation"],
        ["magnitude"],
    ]
    assert requests[0].methods[0].settings()["granularity"] == "example"
    json.dumps([dict(cell.settings) for cell in plan.study.cells])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "[planted]",
            "[plantde]",
            "study.yaml:13: models[1].tasks[0]: unknown task 'plantde'; did",
        ),
        ("[planted]", "[matched]", "study.yaml:23: tasks[2]: no model has the task 'planted'"),
        ("[matched, both]", "[both, both]", "study.yaml:8: models[0].tasks[1]: 'both' is there"),
        ("name: planted", "name: NLI", "study.yaml:9: models[1].name: 'NLI' is there twice"),
        ("    model: builtin:nli\n", "", "study.yaml:5: models[0]: a model has either"),
        ("- ablation", "- ablatoin", "study.yaml:27: methods[1]: unknown method 'ablatoin'; did"),
        ("example}", "word}", "study.yaml:26: methods[0].gradient.granularity: gradient"),
        ("{granularity:", "{grain:", "study.yaml:26: methods[0].gradient.grain: gradient has no"),
        ("steps: 50%", "steps: 0%", "study.yaml:28: steps: `steps` 0%: 0% must be above 0"),
        (
            "metric: accuracy",
            "metric: acuracy",
            "study.yaml:21: tasks[1].metric: unknown metric",
        ),
        ("metric: loss", "metric: los", "study.yaml:3: metric: unknown metric 'los'"),
        ("limit: 9", "limit: 0", "study.yaml:22: tasks[1].limit: `limit` must be at least 1"),
        ("limit: 20", "limit: 0", "study.yaml:30: resources.limit: `limit` must be at least 1"),
        ("margin: 0.5", "margin: -1.0", "study.yaml:18: tasks[0].margin: `margin` must be above 0"),
        ("margin: 0.5", "beam: 3", "study.yaml:18: tasks[0].beam: `beam`, `length_penalty` and"),
        ("dtype: float32", "dtype: float31", "study.yaml:31: resources.dtype: unknown dtype"),
        ("steps: 50%", "replacement: nil", "study.yaml:28: replacement: unknown replacement"),
        ("steps: 50%", "alpha: 2", "study.yaml:28: alpha: `alpha` must be between 0 and 1, got 2"),
        ("steps: 50%", "kinds: [slef]", "study.yaml:28: kinds: unknown kind 'slef'"),
    ],
)
def test_what_does_not_fit_is_told_with_line_and_key(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(HeadtoolError) as error:
        planned(tmp_path, old, new)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("one: builtin:planted?seed=1", "one: nowhere/x", "yaml:11: models[1].replicates.one: "),
        (
            "    model: builtin:nli\n",
            "    model: builtin:nil\n",
            "yaml:7: models[0].model: unknown",
        ),
        ("data: builtin:planted", "data: none.tsv", "study.yaml:24: tasks[2].data: "),
        ("margin: 0.5", "select-data: none.tsv", "study.yaml:18: tasks[0].select-data: "),
    ],
)
def test_models_and_data_that_are_not_there(
    old: str, new: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    plan = planned(tmp_path, old, new)
    with pytest.raises(HeadtoolError) as error:
        check_inputs(plan, plan.comparing)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_schema_for_editors_is_that_of_the_classes() -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == json_schema(), "run `make tables`"


def test_the_example_is_a_study(tmp_path: Path) -> None:
    path = write_example(tmp_path / "my study.yaml")
    plan = plan_cells(path)
    assert plan.study.name == "my-study"
    assert path.read_text().startswith(f"# yaml-language-server: $schema={SCHEMA_FILE.as_uri()}\n")
    assert {cell.family for cell in plan.study.cells} == {"bert", "planted"}
    with pytest.raises(HeadtoolError, match="exists already"):
        write_example(path)
    write_example(path, force=True)
