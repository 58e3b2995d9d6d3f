"""What methods of other packages do wrong is said in one line that names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from headtool.errors import HeadtoolError
from headtool.methods.base import Job, Method, Scored

NOTHING = np.full(2, np.nan)


def two_heads(toy: Any, toy_data: Any) -> tuple[Any, Any]:
    model = toy((1.0, 2.0))
    return model, model.encode(toy_data)


def broken(compute: Callable[[Job], Any]) -> Method:
    @dataclass(frozen=True)
    class Broken(Method):
        name: ClassVar[str] = "broken"
        summary: ClassVar[str] = "x"
        reference: ClassVar[str] = "x"

        def compute(self, job: Job) -> Scored:
            found: Scored = compute(job)
            return found

    return Broken()


def fails(error: BaseException) -> Callable[[Job], Any]:
    def compute(_: Job) -> Any:
        raise error

    return compute


@pytest.mark.parametrize(
    ("compute", "part"),
    [
        (lambda _: Scored(np.zeros(3), NOTHING), r"returned (3,) as 'score' where (2,) is one per"),
        (lambda _: Scored(np.zeros((2, 1)), NOTHING), "returned (2, 1) as 'score'"),
        (lambda _: Scored(np.float64(1), NOTHING), "returned () as 'score'"),  # type: ignore[arg-type]
        (lambda _: Scored([1.0, 2.0], NOTHING), "returned list as 'score'"),  # type: ignore[arg-type]
        (lambda _: Scored(np.zeros(2), np.zeros(1)), "returned (1,) as 'stderr'"),
        (lambda _: Scored(np.zeros(2), NOTHING, {"x": np.zeros(5)}), "returned (5,) as 'x'"),
        (lambda _: Scored(np.zeros(2), NOTHING, [1]), "returned list as its columns"),  # type: ignore[arg-type]
        (lambda _: Scored(np.zeros(2), NOTHING, tie_break=np.zeros(3)), "(3,) as 'tie_break'"),
        (lambda _: Scored(np.array(["a", "b"]), NOTHING), "values as 'score' instead of numbers"),
        (lambda _: Scored(np.array([1.0, np.inf]), NOTHING), "returned an infinite score"),
        (lambda _: np.zeros(2), "returned ndarray instead of a Scored"),
        (lambda _: None, "returned NoneType instead of a Scored"),
        (fails(ZeroDivisionError("division by zero")), "raised ZeroDivisionError: division by"),
        (fails(KeyError("x\ny")), r"raised KeyError: 'x\ny'"),
        (fails(RuntimeError("two\nlines")), "raised RuntimeError: two lines"),
        (fails(NotImplementedError()), "raised NotImplementedError; correct"),
    ],
)
def test_one_line_names_the_method(toy: Any, toy_data: Any, compute: Any, part: str) -> None:
    with pytest.raises(HeadtoolError) as caught:
        broken(compute).score(*two_heads(toy, toy_data))
    message = str(caught.value)
    assert message.startswith(f"method 'broken' ({__name__}) ")
    assert part in message
    assert message.endswith("; correct or update its package")
    assert "\n" not in message


def test_its_own_complaints_and_interrupts_pass(toy: Any, toy_data: Any) -> None:
    with pytest.raises(HeadtoolError, match=r"^no such thing$"):
        broken(fails(HeadtoolError("no such thing"))).score(*two_heads(toy, toy_data))
    with pytest.raises(KeyboardInterrupt):
        broken(fails(KeyboardInterrupt())).score(*two_heads(toy, toy_data))


def test_bugs_of_ours_keep_their_traceback(
    toy: Any, toy_data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = broken(fails(ZeroDivisionError()))
    monkeypatch.setattr(type(method), "__module__", "headtool.methods.broken")
    with pytest.raises(ZeroDivisionError):
        method.score(*two_heads(toy, toy_data))


def test_heads_without_a_score_rank_last(toy: Any, toy_data: Any) -> None:
    scored = Scored(np.array([np.nan, -5.0]), NOTHING)
    assert broken(lambda _: scored).score(*two_heads(toy, toy_data)).frame["rank"].tolist() == [
        2,
        1,
    ]
