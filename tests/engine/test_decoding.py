"""What translating has in common, whatever the library: settings, units, and the search rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch

from headtool.data import TextData, load_data
from headtool.engine.decoding import Search, translate
from headtool.engine.store import UnitStore
from headtool.engine.units import Unit, UnitResult, in_turn
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask
from headtool.models import load_model
from headtool.models.fairseq.beam import BeamSearch
from headtool.models.fairseq.model import FairseqModel

LINES = ("a b c", "", "f e d c b a", "b b", "g h")
PAIRS = TextData("pairs", "translation", {"source": LINES, "target": LINES})
GREEDY = Search(beam=1, max_length=9)


@pytest.fixture
def model(save_fairseq: Callable[..., Path]) -> FairseqModel:
    return FairseqModel.load(str(save_fairseq()), device=torch.device("cpu"), dtype=torch.float32)


def single_heads(model: FairseqModel) -> list[HeadMask]:
    return [HeadMask.without(model.sites, [head]) for head in model.sites.heads]


def test_finished_units_are_not_decoded_again(model: FairseqModel, tmp_path: Path) -> None:
    examples = model.encode(PAIRS, batch_tokens=8)
    masks = single_heads(model)[:3]
    whole = translate(model, examples, masks, search=GREEDY)
    done: list[int] = []

    def interrupted(
        units: Sequence[Unit], work: Callable[[Unit], UnitResult]
    ) -> Iterator[tuple[Unit, UnitResult]]:
        for unit, result in in_turn(units, work):
            done.append(unit.number)
            yield unit, result
            if len(done) == 2:
                raise KeyboardInterrupt

    def take_up(
        units: Sequence[Unit], work: Callable[[Unit], UnitResult]
    ) -> Iterator[tuple[Unit, UnitResult]]:
        assert not {unit.number for unit in units} & set(done)
        yield from reversed(list(in_turn(units, work)))

    def run(execute: object) -> object:
        with UnitStore(tmp_path / "units", {"run": 1}) as store:
            return translate(
                model,
                examples,
                masks,
                search=GREEDY,
                store=store,
                execute=execute,  # type: ignore[arg-type]
            )

    with pytest.raises(KeyboardInterrupt):
        run(interrupted)
    assert run(take_up) == whole
    assert run(take_up) == whole


def test_more_masks_than_a_unit_holds(model: FairseqModel) -> None:
    masks = single_heads(model)
    many = [*masks, *masks, *masks]
    assert len(many) > 64
    examples = model.encode(PAIRS)
    found = translate(model, examples, many, search=GREEDY)
    assert found.masks == tuple(many)
    assert found.masked == translate(model, examples, masks, search=GREEDY).masked * 3


def test_the_share_of_unchanged_sentences(model: FairseqModel) -> None:
    masks = [HeadMask.full(model.sites), HeadMask.without(model.sites, model.sites.heads)]
    found = translate(model, model.encode(PAIRS), masks, search=GREEDY)
    same = sum(a == b for a, b in zip(found.whole, found.masked[1], strict=True))
    assert found.unchanged.tolist() == [1.0, same / len(LINES)]
    assert same < len(LINES)


def test_classifiers_write_nothing() -> None:
    model = load_model("builtin:nli")
    examples = model.encode(load_data("builtin:nli/matched", limit=2))
    with pytest.raises(HeadtoolError, match="classification model, which writes no text"):
        translate(model, examples, [])


def test_the_end_of_a_sentence_is_no_translation(model: FairseqModel) -> None:
    with pytest.raises(HeadtoolError, match="give 2 or more"):
        translate(model, model.encode(PAIRS), [], search=Search(max_length=1))


@pytest.mark.parametrize(
    ("settings", "message"), [({"beam": 0}, "`beam`"), ({"max_length": 0}, "`max_length`")]
)
def test_settings_out_of_range(settings: dict[str, int], message: str) -> None:
    with pytest.raises(HeadtoolError, match=message):
        Search(**settings)


# -- the rule -----------------------------------------------------------------------------------


def rule(**options: object) -> BeamSearch:
    settings = {"beam": 2, "length_penalty": 1.0, "max_length": 3, "end": 0, "tolerance": 0.01}
    return BeamSearch(1, **{**settings, **options}, device=torch.device("cpu"))  # type: ignore[arg-type]


def candidates(*rows: Sequence[tuple[int, float]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and tokens [1, beam, candidates] of pairs of token and probability."""
    values = torch.tensor([[[p for _, p in row] for row in rows]]).log()
    return values, torch.tensor([[[token for token, _ in row] for row in rows]])


FIRST = [(5, 0.5), (6, 0.3), (0, 0.15), (7, 0.05)]


def test_two_steps_by_hand() -> None:
    search = rule()
    step = search.step(*candidates(FIRST, FIRST))
    assert step.tokens.tolist() == [[5, 6]]
    assert step.parents.tolist() == [[0, 0]]  # the second beam is no prefix of its own at first
    # Ends: .5 * .6 = .30 and .3 * .5 = .15, the others .5 * .3 = .15 - and .3 * .4 = .12
    search.step(
        *candidates(
            [(0, 0.6), (8, 0.32), (9, 0.05), (7, 0.03)], [(0, 0.5), (8, 0.4), (9, 0.06), (7, 0.04)]
        )
    )
    # The end of .15 is third, behind .16: it counts no more.
    assert search.finished.tolist() == [1]
    assert search.hypotheses == [[5]]
    search.step(
        *candidates(
            [(0, 0.99), (8, 0.005), (9, 0.004), (7, 0.001)],
            [(0, 0.5), (8, 0.3), (9, 0.1), (7, 0.1)],
        )
    )
    assert len(search.ids) == 0
    # log(.16 * .99) / 3 = -0.61 is below log(.30) / 2 = -0.60.
    assert search.hypotheses == [[5]]
    assert not search.tied.any()


def test_what_rounding_decides_is_a_tie() -> None:
    close = [(5, 0.5), (6, 0.2), (7, 0.2), (0, 0.1)]
    search = rule()
    search.step(*candidates(close, close))
    assert search.tied.tolist() == [True]  # 6 or 7 lives on
    clear = rule()
    clear.step(*candidates(FIRST, FIRST))
    assert clear.tied.tolist() == [False]


def test_only_prefixes_that_can_matter_are_needed() -> None:
    search = rule()
    search.step(*candidates(FIRST, FIRST))
    values, tokens = candidates(
        [(8, 0.7), (9, 0.2), (0, 0.06), (7, 0.04)], [(8, 1.0), (9, 1.0), (0, 1.0), (7, 1.0)]
    )
    second = torch.tensor([[False, True]])
    # The first prefix offers .35 and .10: the second, of .30, may come in between.
    assert search.needed(values, tokens, second).tolist() == [[False, True]]
    search.scores[0, 1] = torch.tensor(0.11).log()
    assert search.needed(values, tokens, second).tolist() == [[False, True]]
    search.scores[0, 1] = torch.tensor(0.09).log()
    assert search.needed(values, tokens, second).tolist() == [[False, False]]
