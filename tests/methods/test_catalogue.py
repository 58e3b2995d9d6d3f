"""The catalogue, which tells of methods without torch, says what their classes say."""

from __future__ import annotations

import dataclasses
import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from headtool.errors import HeadtoolError
from headtool.methods import BUILTIN, describe_method, get_method, method_doc
from headtool.methods.base import Job, Method, Scored, option

CATALOGUE = Path(__file__).parents[2] / "methods" / "catalogue.json"


def test_the_catalogue_is_up_to_date() -> None:
    classes = [dataclasses.asdict(get_method(name).described()) for name in BUILTIN]
    written = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    stale = "run make tables (python -m headtool.methods > methods/catalogue.json)"
    assert written == json.loads(json.dumps(classes)), stale


@pytest.mark.parametrize("name", BUILTIN)
def test_descriptions_are_those_of_the_classes(name: str) -> None:
    method = get_method(name)
    assert describe_method(name) == method.described()
    assert describe_method(name).options == method.options()
    assert inspect.cleandoc(method_doc(name)) == inspect.getdoc(method)


@dataclass(frozen=True)
class Foreign(Method):
    """A method of another package."""

    name: ClassVar[str] = "foreign"
    summary: ClassVar[str] = "something"
    reference: ClassVar[str] = "nobody"
    depth: int | None = option(None, "how deep")
    share: float = option(0.5, "how much")
    fast: bool = option(False, "whether fast")
    mode: str = option("a", "which", choices=("a", "b"))

    def compute(self, job: Job) -> Scored:
        raise NotImplementedError


def test_values_are_read_by_type() -> None:
    described = Foreign.described()
    types = [declared.type for declared in described.options]
    assert types == ["int | None", "float", "bool", "str"]
    texts = {"depth": "3", "share": "1e-2", "fast": "True", "mode": "b"}
    assert described.read(texts) == {"depth": 3, "share": 0.01, "fast": True, "mode": "b"}
    assert described.read({"depth": "none"}) == {"depth": None}
    assert Foreign.configured(texts) == Foreign(depth=3, share=0.01, fast=True, mode="b")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("depth", "x", "foreign.depth must be a whole number, got 'x'"),
        ("share", "none", "foreign.share must be a number, got 'none'"),
        ("share", "inf", "foreign.share must be a finite number, got 'inf'"),
        ("fast", "1", "foreign.fast must be true or false, got '1'"),
        ("mode", "c", "foreign.mode must be one of a, b, got 'c'"),
        ("dept", "1", "foreign has no option 'dept'; did you mean 'depth'?"),
    ],
)
def test_mistakes_name_the_option(name: str, text: str, message: str) -> None:
    with pytest.raises(HeadtoolError) as raised:
        Foreign.described().read({name: text})
    assert str(raised.value).startswith(message)
