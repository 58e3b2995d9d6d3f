"""Study files: what is wrong is told with its line and key; nothing grows out of a small file."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtool.errors import HeadtoolError
from headtool.studies.reading import read_yaml
from headtool.studies.spec import StudyFile, parse

GOOD = """\
out: runs/first
models:
  - name: nli
    model: builtin:nli
  - name: planted
    replicates:
      seed-1: builtin:planted?seed=1
tasks:
  - name: matched
    data: builtin:nli/matched
methods:
  - gradient
  - gates: {steps: 20}
steps: 25%
resources:
  limit: 20
"""


def parsed(text: str, folder: Path) -> StudyFile:
    path = folder / "study.yaml"
    path.write_text(text)
    return parse(read_yaml(path))


def test_a_study_is_read(tmp_path: Path) -> None:
    found = parsed(GOOD, tmp_path)
    assert [model.name for model in found.models] == ["nli", "planted"]
    assert found.models[1].replicates == {"seed-1": "builtin:planted?seed=1"}
    assert found.tasks[0].data == ["builtin:nli/matched"]
    assert found.methods is not None
    assert [(method.name, method.options) for method in found.methods] == [
        ("gradient", {}),
        ("gates", {"steps": 20}),
    ]
    assert (found.steps, found.resources.limit, found.draws) == ("25%", 20, None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("steps: 25%", "step: 25%", "study.yaml:14: step: there is no such key; did you mean"),
        ("replicates:", "seeds:", "there is no such key; did you mean 'replicates'?"),
        ("steps: 25%", "steps: [1]", "study.yaml:14: steps: must be text, got a list"),
        ("limit: 20", "limit: many", "study.yaml:16: resources.limit: must be a whole number, got"),
        ("limit: 20", "batch_tokens: 9", "resources.batch_tokens: there is no such key; did you"),
        ("limit: 20", "limit-order: best", "resources.limit-order: must be seeded or first, got"),
        ("seed-1: builtin:planted?seed=1", "[a]", "study.yaml:6: models[1].replicates: must be a"),
        ("seed-1: ", "a b: ", "study.yaml:7: models[1].replicates.a b: a name has letters, digits"),
        ("    data: builtin:nli/matched\n", "", "study.yaml:9: tasks[0].data: is missing"),
        ("out: runs/first\n", "", "study.yaml:1: out: is missing"),
        ("{steps: 20}", "{steps: 20}\n    more: {}", "study.yaml:13: methods[1]: must be the name"),
        ("seed-1", "seed-1: x\n      seed-1", "study.yaml:8: models[1].replicates.seed-1 is there"),
        ("- gradient", "- *gradient", "study.yaml:12: anchors and aliases (& and *) are not read"),
        (
            "- gradient",
            "- &a gradient",
            "study.yaml:12: anchors and aliases (& and *) are not read",
        ),
        ("- gradient", "- !!python/name:os.system x", "study.yaml:12: tags such as"),
        (
            "- gradient",
            f"- {'[' * 20}{']' * 20}",
            "study.yaml:12: this is nested more than 12 deep",
        ),
        ("- gradient", "- gradient\n  gates", "study.yaml:"),
        ("- gradient", "- 'gradient", "study.yaml:17: this is no YAML"),
        ("steps: 25%", "seed: -1", "study.yaml:14: seed: must be at least 0, got -1"),
        ("steps: 25%", "alpha: 0x", "study.yaml:14: alpha: must be a number, got '0x'"),
        ("steps: 25%", "per-kind: maybe", "per-kind: must be true or false, got 'maybe'"),
        ("- name: nli\n", "- name: ''\n", "study.yaml:3: models[0].name: a name has letters"),
    ],
)
def test_errors_name_line_and_key(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in GOOD
    with pytest.raises(HeadtoolError) as error:
        parsed(GOOD.replace(old, new), tmp_path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_first_of_several_mistakes_is_told(tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match=r"study\.yaml:4: models\[0\]\.modle"):
        parsed(GOOD.replace("limit: 20", "limit: x").replace("    model:", "    modle:"), tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b"- a\n", "study.yaml:1: a study is a mapping of keys"),
        (b"out: \xff\n", "is not UTF-8 (byte 5)"),
        (b"out: a\n---\nout: b\n", "this is no YAML"),
        (b"#" * 300_000, "has more than 256 KiB"),
        (b"a: 2001-99-99\n", "study.yaml:1: a cannot be read"),
        (b"? [a]\n: b\n", "study.yaml:1: a key must be text"),
        (b"out: a\0\n", "this is no YAML"),
    ],
)
def test_what_is_no_study(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes(content)
    with pytest.raises(HeadtoolError) as error:
        parse(read_yaml(path))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(HeadtoolError, match=r"there is no file .*; write a first one"):
        read_yaml(tmp_path / "study.yaml")
