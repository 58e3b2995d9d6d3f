"""The words of the built-in inference data.

`COMMON` fills nearly all training scenes; `RARE` fills the few others and the `mismatched` set.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from headtool.builtin.nli_facts import Quantifier, Verb


@dataclass(frozen=True)
class Words:
    """A vocabulary, or a scene: the very few words that one pair is about."""

    people: tuple[str, ...]
    actions: tuple[Verb, ...]
    dealings: tuple[Verb, ...]
    purchases: tuple[Verb, ...]
    adverbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    things: dict[str, tuple[str, ...]]
    groups: dict[str, tuple[str, ...]]
    factive: tuple[str, ...]
    non_factive: tuple[str, ...]
    counterfactual: tuple[str, ...]

    def scene(self, rng: random.Random) -> Words:
        """Draw a scene."""
        return replace(
            self,
            people=tuple(rng.sample(self.people, 3)),
            actions=tuple(rng.sample(self.actions, 2)),
            dealings=tuple(rng.sample(self.dealings, 2)),
            purchases=tuple(rng.sample(self.purchases, 2)),
            adverbs=tuple(rng.sample(self.adverbs, 2)),
            adjectives=tuple(rng.sample(self.adjectives, 2)),
            things=_draw_families(rng, self.things, 1),
            groups=_draw_families(rng, self.groups, 2),
        )


def _draw_families(
    rng: random.Random, families: dict[str, tuple[str, ...]], count: int
) -> dict[str, tuple[str, ...]]:
    drawn = rng.sample(list(families), count)
    return {family: tuple(rng.sample(families[family], 2)) for family in drawn}


def _verbs(*forms: str) -> tuple[Verb, ...]:
    """Read "base past" or, where the participle differs, "base past participle"."""
    return tuple(Verb(words[0], words[1], words[-1]) for words in map(str.split, forms))


COMMON = Words(
    people=(
        "Anna",
        "Boris",
        "Clara",
        "David",
        "Emma",
        "Felix",
        "Greta",
        "Hugo",
        "Irene",
        "Jonas",
        "Klara",
        "Leo",
    ),
    actions=_verbs(
        "sing sang", "sleep slept", "laugh laughed", "dance danced", "swim swam", "wait waited"
    ),
    dealings=_verbs(
        "thank thanked",
        "visit visited",
        "follow followed",
        "help helped",
        "see saw seen",
        "call called",
    ),
    purchases=_verbs(
        "buy bought", "sell sold", "find found", "lose lost", "clean cleaned", "carry carried"
    ),
    adverbs=("indoors", "outdoors", "nearby", "yesterday", "quietly", "alone"),
    adjectives=("small", "old", "pale", "heavy"),
    things={
        "instrument": ("violin", "flute", "drum"),
        "fruit": ("apple", "plum", "pear"),
        "tool": ("hammer", "saw", "drill"),
        "flower": ("rose", "tulip", "lily"),
    },
    groups={
        "animals": ("dogs", "cats", "horses"),
        "musicians": ("drummers", "singers", "fiddlers"),
        "athletes": ("runners", "boxers", "divers"),
    },
    factive=("knew", "noticed", "remembered"),
    non_factive=("believed", "hoped", "claimed"),
    counterfactual=("pretended", "wrongly believed"),
)

RARE = Words(
    people=("Mila", "Nils", "Olga", "Pavel", "Rosa", "Stefan", "Tilda", "Viktor"),
    actions=_verbs("whistle whistled", "kneel knelt", "cough coughed", "travel travelled"),
    dealings=_verbs("praise praised", "warn warned", "teach taught", "choose chose chosen"),
    purchases=_verbs("borrow borrowed", "hide hid hidden", "draw drew drawn", "break broke broken"),
    adverbs=("abroad", "slowly", "today", "early"),
    adjectives=("large", "thin", "bright", "strange"),
    things={
        "vehicle": ("bicycle", "tractor", "van"),
        "garment": ("coat", "scarf", "hat"),
        "dish": ("plate", "bowl", "jug"),
    },
    groups={
        "birds": ("ducks", "geese", "owls"),
        "artists": ("sculptors", "actors", "jugglers"),
    },
    factive=("regretted", "discovered"),
    non_factive=("suspected", "feared"),
    counterfactual=("wrongly claimed", "wrongly suspected"),
)

PLAIN_QUANTIFIERS = (
    Quantifier("some", low=1),
    Quantifier("no", high=0),
    Quantifier("all", share="all"),
    Quantifier("not all", share="not all"),
)
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
NUMBER_QUANTIFIERS = tuple(
    quantifier
    for word, number in _NUMBERS.items()
    for quantifier in (
        Quantifier(f"at least {word}", low=number),
        Quantifier(f"at most {word}", high=number),
        Quantifier(f"exactly {word}", low=number, high=number),
    )
)
# A premise needs room on both sides of a claimed number.
CLAIMED_NUMBERS = tuple(q for q in NUMBER_QUANTIFIERS if not q.text.endswith(("two", "six")))
