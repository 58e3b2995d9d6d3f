"""Units: what is finished is kept, and an interrupted run ends as an uninterrupted one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headtool.engine.evaluation import evaluate
from headtool.engine.store import UnitStore
from headtool.engine.units import Unit, cut, in_turn
from headtool.errors import HeadtoolError
from headtool.results.outcomes import Outcomes

from ..support.family_model import DATA, FamilyModel, some_masks

KEY = {"model": "a", "masks": "b"}


@pytest.fixture(scope="module")
def model() -> FamilyModel:
    return FamilyModel("BERT")


def test_units_cover_every_mask_and_example_once(model: FamilyModel) -> None:
    examples = model.encode(DATA, batch_tokens=15)
    seen = np.zeros((150, len(examples)), dtype=int)
    for number, unit in enumerate(cut(examples.batches(), 150)):
        assert unit.number == number
        seen[np.ix_(unit.masks, unit.examples)] += 1
    assert (seen == 1).all()
    assert len(cut(examples.batches(), 0)) == len(examples.batches())


def test_an_interrupted_run_continues_to_the_same_bits(model: FamilyModel, tmp_path: Path) -> None:
    examples = model.encode(DATA, batch_tokens=15)
    masks = some_masks(model)
    straight = evaluate(model, examples, masks)
    done: list[int] = []

    def two_units(units, work):
        for unit in units[:2]:
            done.append(unit.number)
            yield unit, work(unit)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), UnitStore(tmp_path / "run", KEY) as store:
        evaluate(model, examples, masks, store=store, execute=two_units)

    def the_rest(units, work):
        assert not set(done) & {unit.number for unit in units}
        return in_turn(units[::-1], work)  # the order must not matter

    with UnitStore(tmp_path / "run", KEY) as store:
        continued = evaluate(model, examples, masks, store=store, execute=the_rest)
    with UnitStore(tmp_path / "run", KEY) as store:
        again = evaluate(model, examples, masks, store=store, execute=None)  # nothing is left to do
    for outcomes in (continued, again):
        for name, values in straight.masked.items():
            np.testing.assert_array_equal(outcomes.masked[name], values)
            np.testing.assert_array_equal(outcomes.whole[name], straight.whole[name])


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from headtool.engine.store import UnitStore\n"
        "from headtool.errors import HeadtoolError\n"
        "try:\n"
        "    with UnitStore(Path(sys.argv[1]), {}): print('entered')\n"
        "except HeadtoolError as error: print(error)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    with UnitStore(tmp_path / "run", {}):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "another process is at work" in done.stdout
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "entered\n"


def test_units_of_another_run_are_refused_and_kept(tmp_path: Path) -> None:
    unit = Unit(0, np.arange(2), range(1))
    with UnitStore(tmp_path / "run", KEY) as store:
        store.save(unit, {"loss": np.ones((2, 2))})
    with (
        pytest.raises(HeadtoolError, match="unfinished run of something else"),
        UnitStore(tmp_path / "run", {"model": "other"}),
    ):
        pass
    with UnitStore(tmp_path / "run", KEY) as store:
        result = store.load(unit)
        assert result is not None
        np.testing.assert_array_equal(result["loss"], np.ones((2, 2)))


def save_one(store: UnitStore) -> None:
    store.save(Unit(0, np.arange(2), range(1)), {"loss": np.ones((2, 2))})


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    for name, content in (("cat.jpg", "precious"), ("description.json", "{}")):
        (place / name).write_text(content)
        with pytest.raises(HeadtoolError, match="choose another `out`"), UnitStore(place, KEY):
            pass
        assert [path.name for path in place.iterdir()] == [name]
        (place / name).unlink()


def test_nothing_is_left_where_nothing_was_finished(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "run"

    def interrupt(work: Callable[[UnitStore], object]) -> None:
        with UnitStore(place, KEY) as store:
            work(store)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt(lambda store: (place / "unit-000000.tmp").touch())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt):
        interrupt(save_one)
    assert {path.name for path in place.iterdir()} == {
        "description.json",
        "lock",
        "unit-000000.npz",
    }


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    message = r"cannot write .*run: No space left on device; choose another `out`"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(HeadtoolError, match=message), UnitStore(tmp_path / "run", KEY):
            pass
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(HeadtoolError, match=message), UnitStore(tmp_path / "run", KEY) as store:
        save_one(store)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_removed_meanwhile(tmp_path: Path) -> None:
    def removed() -> None:
        with UnitStore(tmp_path / "run", KEY) as store:
            shutil.rmtree(tmp_path / "run")
            save_one(store)

    with pytest.raises(HeadtoolError, match="run was removed while the command was at work"):
        removed()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut short"])
def test_a_damaged_unit_is_named(tmp_path: Path, content: bytes) -> None:
    unit = Unit(7, np.arange(2), range(1))
    with UnitStore(tmp_path / "run", KEY) as store:
        (tmp_path / "run" / "unit-000007.npz").write_bytes(content)
        with pytest.raises(HeadtoolError, match=r"unit-000007\.npz is damaged"):
            store.load(unit)


def test_outcomes_survive_their_frame(model: FamilyModel) -> None:
    masks = [mask for mask in some_masks(model) if mask.closed]
    outcomes = evaluate(model, model.encode(DATA), masks)
    back = Outcomes.from_frame(outcomes.to_frame(), model.sites)
    assert [mask.closed for mask in back.masks] == [mask.closed for mask in masks]
    for name in outcomes.whole:
        np.testing.assert_array_equal(back.whole[name], outcomes.whole[name])
        np.testing.assert_array_equal(back.masked[name], outcomes.masked[name])
