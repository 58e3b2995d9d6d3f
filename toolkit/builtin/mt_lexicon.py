"""Words of ``builtin:mt``: a small English and Velic, a language invented for this package.

Velic shows its grammar at the end of each word, so that the tables need only stems. The gender of a
noun is its last letter: a consonant is masculine, ``-a`` feminine, ``-o`` neuter. An *agreement* is
one of ``m``, ``f``, ``n`` (singular of that gender) or ``p`` (plural of any).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

AGREEMENTS = "mfnp"
CASES = {"nom": "n", "acc": "th", "gen": "s", "dat": "m"}
TENSES = ("present", "past", "future")
_ENDINGS = {"m": "", "f": "a", "n": "o", "p": "i"}


@dataclass(frozen=True)
class Noun:
    """A noun: its two English forms and its Velic singular."""

    singular: str
    plural: str
    velic: str

    @property
    def gender(self) -> str:
        """``m``, ``f`` or ``n``."""
        return {"a": "f", "o": "n"}.get(self.velic[-1], "m")

    def source(self, agreement: str) -> str:
        """English form."""
        return self.plural if agreement == "p" else self.singular

    def target(self, agreement: str) -> str:
        """Velic form; the plural ends in ``-i``, ``-e`` or ``-u`` by gender."""
        if agreement != "p":
            return self.velic
        return (
            self.velic + "i" if self.gender == "m" else self.velic[:-1] + "eu"[self.gender == "n"]
        )


@dataclass(frozen=True)
class Homonym:
    """An English noun with an animal sense and a thing sense, two words in Velic."""

    animal: Noun
    thing: Noun


@dataclass(frozen=True)
class Verb:
    """One meaning: English forms, a particle that stands apart, a Velic stem, and its domain.

    The domain, ``nature`` or ``craft``, decides which sense a homonym in the same clause has.
    """

    base: str
    third: str
    past: str
    particle: str
    velic: str
    domain: str

    def source(self, tense: str, agreement: str) -> tuple[str, str]:
        """Finite English form without helper, and the helper used in questions and negations."""
        if tense == "past":
            return self.past, "did"
        if tense == "future":
            return self.base, "will"
        return (self.base, "do") if agreement == "p" else (self.third, "does")

    def target(self, tense: str, agreement: str) -> tuple[str, str]:
        """Velic form, and the helper (empty but for the future, which takes the infinitive)."""
        if tense == "past":
            return f"{self.velic}al{_ENDINGS[agreement]}", ""
        if tense == "future":
            return f"{self.velic}ar", "volu" if agreement == "p" else "vol"
        return f"{self.velic}{'ut' if agreement == 'p' else 'it'}", ""


def _inflected(base: str, ending: str) -> str:
    if ending == "s":
        return base + ("es" if base.endswith(("sh", "ch", "x")) else "s")
    return base + ("d" if base.endswith("e") else "ed")


def _noun(english: str, velic: str) -> Noun:
    singular, _, plural = english.partition("/")
    return Noun(singular, plural or _inflected(singular, "s"), velic)


def _nouns(table: str) -> tuple[Noun, ...]:
    words = table.split()
    return tuple(_noun(*pair) for pair in zip(words[::2], words[1::2], strict=True))


def _verbs(table: str) -> tuple[Verb, ...]:
    """Read lines of a domain and entries; an entry is ``base[/third/past][+particle]=velic``."""
    verbs = []
    for line in table.strip().splitlines():
        domain, *entries = line.split()
        for entry in entries:
            english, velic = entry.split("=")
            forms, _, particle = english.partition("+")
            base, *irregular = forms.split("/")
            third, past = irregular or (_inflected(base, "s"), _inflected(base, "ed"))
            verbs.append(Verb(base, third, past, particle, velic, domain))
    # The halves of the table take turns, so that the frequent first entries hold both domains.
    nature = [verb for verb in verbs if verb.domain == "nature"]
    craft = [verb for verb in verbs if verb.domain == "craft"]
    longest = max(len(nature), len(craft))
    return tuple(verb for i in range(longest) for verb in (*nature[i : i + 1], *craft[i : i + 1]))


def _pairs(table: str) -> tuple[tuple[str, str], ...]:
    words = table.split()
    return tuple(zip(words[::2], words[1::2], strict=True))


ANIMALS = _nouns("""
    badger torvek  fox lissa  heron kemar  otter vuola  crow krann  hedgehog pinto
    goose/geese gashta  hare rivel  owl umera  toad blodo  wolf/wolves harug  mouse/mice tikko
    beaver dambor  squirrel sherra  lynx ilvo  swan olanna  raven korvath  mole mutto
    weasel zelka  bear ormund  lamb befo  hen chuka  goat megir  pony/ponies jullo
""")
THINGS = _nouns("""
    lamp lusta  door portun  bell tindo  basket korbala  ladder stigon  boat navvo
    kettle bulka  rope sharn  letter skrivo  apple ponda  lantern fanor  wheel rullo
    blanket desha  hammer tombar  barrel vatto  mirror glinda  broom fegor  window visno
    crown korilla  bucket hodel  map kartavo  candle wessa  clock oravel  cart drugo
""")
PLACES = _nouns("""
    river ruvesh  hill bolna  mill mahlo  bridge pontek  forest shurna  barn skello
    well akdun  garden hortila  tower turro  cave grom  meadow vessna  harbour dokko
""")
HOMONYMS = tuple(
    Homonym(_noun(english, animal), _noun(english, thing))
    for english, animal, thing in (
        ("crane", "grulla", "hevtor"),
        ("seal", "fokko", "sigla"),
        ("bat", "nattik", "klubo"),
        ("kite", "milana", "paprun"),
        ("ram", "ovgar", "stusso"),
    )
)

TRANSITIVE = _verbs("""
    nature call=rop see/sees/saw=vid call+back=revk follow=sekh bring/brings/brought+up=aled
    nature hear/hears/heard=hol take/takes/took+in=adop fear=pavr send/sends/sent+away=fork
    nature feed/feeds/fed=nurm call+over=obrol greet=salb find/finds/found=trof watch=skau
    craft turn=gir turn+on=zund take/takes/took=nem take/takes/took+away=robb turn+off=lesk
    craft bring/brings/brought=fert pull+down=demol carry/carries/carried=bersh pull=tirsh
    craft repair=remb take/takes/took+down=senk bring/brings/brought+back=retr lift=hevr
    craft send/sends/sent=mitt turn+over=vendr paint=farn pull+out=ekstr clean=purg
    craft buy/buys/bought=kopt send/sends/sent+back=dovr hide/hides/hid=kelp
    craft break/breaks/broke=brezt
""")
DITRANSITIVE = _verbs("""
    nature show=pokh offer=ponur describe=grafn
    craft give/gives/gave=don sell/sells/sold=merk lend/lends/lent=leth
""")
INTRANSITIVE = _verbs("""
    nature sleep/sleeps/slept=dorv sing/sings/sang=kanth wait=vart laugh=hihr tremble=drozh
    craft fall/falls/fell=padr shine/shines/shone=blesk creak=skrip vanish=ziknr topple=kuldr
""")
COMPLEMENT = _verbs("""
    nature say/says/said=dikt think/thinks/thought=menth know/knows/knew=konn
    nature believe=verd forget/forgets/forgot=zabr
""")

ADJECTIVES = _pairs("""
    old sten  young jov  small mikk  big gront  red rosh  green virn  blue azhd  quiet tish
    brave kural  tired muden  clever hitr  hungry golod  strong vald  lazy lenk  gentle mirn
    golden aurn  heavy tunk  strange divn  lost perd  kind drush
""")
MANNERS = _pairs("slowly lenem  quickly skorem  quietly tishem  gladly radem  again zovem")
PREPOSITIONS = _pairs("near bliz  under podu  behind zadu  beside lato  above vrhu  inside nutra")
CONJUNCTIONS = _pairs("because porgu  when kadra  although hotem  before predun  while dokram")
TIMES = {
    "past": ("yesterday", "vechor"),
    "present": ("today", "dansu"),
    "future": ("tomorrow", "utro"),
}
NUMERALS = _pairs("two dva  three trin  four kvor")

QUESTION_END, COMPLEMENT_START, NEGATION, AND = "ka", "kel", "ne", "ol"
RELATIVE_END, FRONTED_END = "sha", "ya"


def definite(case: str, agreement: str) -> str:
    """Velic definite article."""
    return f"l{ {'m': 'o', 'f': 'a', 'n': 'u', 'p': 'i'}[agreement] }{CASES[case]}"


def indefinite(case: str, agreement: str) -> str:
    """Velic indefinite article; there is none in the plural."""
    ending = "" if case == "nom" else CASES[case]
    return "" if agreement == "p" else f"ek{_ENDINGS[agreement] or 'e' * bool(ending)}{ending}"


def possessive(agreement: str) -> str:
    """Velic word for *its* and *their*; agrees with what is owned, not with the owner."""
    return f"sov{_ENDINGS[agreement]}"


def adjective(stem: str, agreement: str) -> str:
    """Velic adjective."""
    return f"{stem}{_ENDINGS[agreement]}"


def relative(case: str, agreement: str) -> str:
    """Velic relative pronoun, which agrees with the noun before it."""
    return f"kver{_ENDINGS[agreement]}{'' if case == 'nom' else 'th'}"


def pronoun(agreement: str) -> str:
    """Velic subject pronoun, which agrees with the noun it stands for."""
    return f"on{_ENDINGS[agreement]}"


@cache
def vocabulary() -> tuple[frozenset[str], frozenset[str]]:
    """Return every word that the grammar can write, in English and in Velic."""
    nouns = [*ANIMALS, *THINGS, *PLACES, *(n for h in HOMONYMS for n in (h.animal, h.thing))]
    verbs = [*TRANSITIVE, *DITRANSITIVE, *INTRANSITIVE, *COMPLEMENT]
    fixed = [*ADJECTIVES, *MANNERS, *PREPOSITIONS, *CONJUNCTIONS, *TIMES.values(), *NUMERALS]
    english = {"the", "a", "an", "its", "their", "it", "they", "that", "of", "to", "and", "not"}
    velic = {QUESTION_END, COMPLEMENT_START, NEGATION, AND, RELATIVE_END, FRONTED_END}
    english.update(word for word, _ in fixed)
    velic.update(word for _, word in fixed if (_, word) not in ADJECTIVES)
    for noun, agreement in product(nouns, AGREEMENTS):
        english.add(noun.source(agreement))
        velic.add(noun.target(agreement))
    for verb, tense, agreement in product(verbs, TENSES, AGREEMENTS):
        english.update((verb.base, verb.particle, *verb.source(tense, agreement)))
        velic.update(verb.target(tense, agreement))
    for agreement in AGREEMENTS:
        velic.update(adjective(stem, agreement) for _, stem in ADJECTIVES)
        velic.update((possessive(agreement), pronoun(agreement)))
        velic.update(relative(case, agreement) for case in ("nom", "acc"))
        velic.update(
            article(case, agreement) for case in CASES for article in (definite, indefinite)
        )
    return frozenset(english - {""}), frozenset(velic - {""})
