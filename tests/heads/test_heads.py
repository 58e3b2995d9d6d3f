"""Names of heads, their order, and masks in the formats that other tools write."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtool.errors import HeadtoolError
from headtool.heads import KINDS, AttentionSite, Head, HeadMask, Kind, Sites, parse_kinds


def site(kind: Kind, layer: int, heads: int) -> AttentionSite:
    return AttentionSite(kind, layer, heads, heads, 2, f"{kind}.{layer}.out")


SITES = Sites(
    (
        site("cross", 0, 2),
        site("dec-self", 1, 2),
        site("enc-self", 10, 1),
        site("dec-self", 0, 3),
        site("enc-self", 2, 4),
    )
)


@st.composite
def all_sites(draw: st.DrawFn, kinds: tuple[Kind, ...] = KINDS) -> Sites:
    """Any sites: layers may be missing, and be of different widths."""
    places = draw(
        st.dictionaries(
            st.tuples(st.sampled_from(kinds), st.integers(0, 12)), st.integers(1, 5), min_size=1
        )
    )
    return Sites(tuple(site(kind, layer, heads) for (kind, layer), heads in places.items()))


@st.composite
def masks(draw: st.DrawFn, kinds: tuple[Kind, ...] = KINDS) -> HeadMask:
    sites = draw(all_sites(kinds))
    is_open = draw(st.lists(st.booleans(), min_size=sites.n_heads, max_size=sites.n_heads))
    return HeadMask(sites, np.array(is_open, dtype=np.bool_))


def assert_same(actual: HeadMask, wanted: HeadMask) -> None:
    assert actual.sites == wanted.sites
    np.testing.assert_array_equal(actual.open, wanted.open)


# -- heads and sites ----------------------------------------------------------------------------


@given(st.sampled_from(KINDS), st.integers(0, 200), st.integers(0, 200))
def test_a_head_reads_its_own_name(kind: Kind, layer: int, index: int) -> None:
    head = Head(kind, layer, index)
    assert Head.parse(str(head)) == head
    letter = {"enc-self": "E", "dec-self": "D", "cross": "A"}[kind]
    assert Head.parse(f" {letter}:{layer + 1}:{index + 1} ") == head


@pytest.mark.parametrize(
    "text",
    [
        *["", "enc-self", "enc-self.1", "enc-self.1.2.3", "enc-self.-1.2", "enc-self.1.x"],
        *["self.1.2", "enc-self.1.2 E:1:1", "E:0:1", "E:1:0", "B:1:1", "e:1:1", "E:1"],
    ],
)
def test_what_is_no_head_is_an_error(text: str) -> None:
    with pytest.raises(HeadtoolError, match="is not a head; write kind") as caught:
        Head.parse(text)
    assert f"'{text}'" in str(caught.value)


def test_canonical_order() -> None:
    assert [str(s) for s in SITES] == [
        "enc-self.2",
        "enc-self.10",
        "dec-self.0",
        "dec-self.1",
        "cross.0",
    ]
    assert SITES.n_heads == len(SITES.heads) == 12
    assert SITES.kinds == KINDS
    assert [str(head) for head in SITES.heads[3:7]] == [
        "enc-self.2.3",
        "enc-self.10.0",
        "dec-self.0.0",
        "dec-self.0.1",
    ]


@given(all_sites())
def test_places_of_heads_in_a_flat_array(sites: Sites) -> None:
    heads = sites.heads
    assert [sites.position(head) for head in heads] == list(range(sites.n_heads))
    for one in sites:
        assert heads[sites.columns(one)] == one.heads
    assert Sites(tuple(reversed(sites.items))) == sites


@given(all_sites(), st.data())
def test_restricted_sites_are_those_of_the_kinds(sites: Sites, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sites.kinds), min_size=1, unique=True))
    restricted = sites.restrict(kinds)
    assert restricted.heads == tuple(head for head in sites.heads if head.kind in kinds)
    assert sites.restrict(None) == sites


def test_what_a_model_lacks_is_an_error() -> None:
    encoder = Sites((site("enc-self", 0, 2), site("enc-self", 1, 2)))
    with pytest.raises(HeadtoolError, match="the model has no cross attention; it has enc-self"):
        encoder.restrict(["cross"])
    for name in ("enc-self.0.2", "enc-self.2.0", "dec-self.0.0"):
        message = f"the model has no head {name}; it has enc-self 2 x 2"
        with pytest.raises(HeadtoolError, match=message):
            encoder.position(Head.parse(name))


def test_two_sites_of_one_name_are_a_bug() -> None:
    with pytest.raises(ValueError, match=r"two sites are called cross\.1"):
        Sites((site("cross", 1, 2), site("cross", 1, 3)))


def test_summary() -> None:
    assert SITES.summary == "enc-self 2 layers, 5 heads, dec-self 2 layers, 5 heads, cross 1 x 2"


@given(st.lists(st.sampled_from(KINDS), min_size=1))
def test_kinds_are_read_into_canonical_order(kinds: list[Kind]) -> None:
    assert parse_kinds(" , ".join(kinds)) == tuple(k for k in KINDS if k in kinds)


def test_unknown_kinds_are_errors() -> None:
    with pytest.raises(HeadtoolError, match="unknown kind 'encself'; did you mean 'enc-self'"):
        parse_kinds("cross,encself")
    for text in ("", " , "):
        with pytest.raises(HeadtoolError, match="no attention kind in"):
            parse_kinds(text)


# -- masks --------------------------------------------------------------------------------------


@given(masks())
def test_masks_know_what_is_closed(mask: HeadMask) -> None:
    closed = mask.closed
    assert len(closed) == (~mask.open).sum()
    assert_same(HeadMask.without(mask.sites, closed), mask)
    assert np.concatenate([mask.at(one) for one in mask.sites]).tolist() == mask.open.tolist()


def test_a_full_mask_closes_nothing() -> None:
    assert HeadMask.full(SITES).closed == ()
    assert HeadMask.without(SITES, []).open.all()


@given(masks())
def test_json_round_trip(mask: HeadMask) -> None:
    text = mask.to_json()
    assert_same(HeadMask.from_json(text, mask.sites), mask)
    assert json.loads(text) == {
        "schema": "headtool/mask/1",
        "closed": [str(head) for head in mask.closed],
    }


@given(masks())
def test_michel_round_trip(mask: HeadMask) -> None:
    assert_same(HeadMask.from_michel(mask.to_michel(), mask.sites), mask)


@given(st.sampled_from(KINDS).flatmap(lambda kind: masks((kind,))))
def test_hugging_face_round_trip(mask: HeadMask) -> None:
    pruned = mask.to_huggingface()
    assert_same(HeadMask.from_huggingface(pruned, mask.sites), mask)
    # JSON makes strings of the layers.
    reread = json.loads(json.dumps(pruned))
    assert_same(HeadMask.from_huggingface(reread, mask.sites), mask)


def test_formats_of_other_tools() -> None:
    mask = HeadMask.without(SITES, map(Head.parse, ["enc-self.2.0", "dec-self.0.2", "cross.0.1"]))
    assert mask.to_michel() == "E:3:1 D:1:3 A:1:2"
    encoder = SITES.restrict(["enc-self"])
    pruned = {2: [1, 3], 10: [0]}
    assert HeadMask.from_huggingface(pruned, encoder).to_huggingface() == pruned
    assert HeadMask.full(encoder).to_huggingface() == {}
    assert HeadMask.full(encoder).to_michel() == ""


def test_hugging_faces_format_needs_one_kind() -> None:
    with pytest.raises(HeadtoolError, match="spans enc-self, dec-self, cross; restrict it"):
        HeadMask.full(SITES).to_huggingface()
    with pytest.raises(HeadtoolError, match="ambiguous for a model with enc-self, dec-self, cross"):
        HeadMask.from_huggingface({0: [1]}, SITES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the head mask is not JSON"),
        ("{", "the head mask is not JSON"),
        ("[]", 'lacks "schema"'),
        ('{"closed": []}', 'lacks "schema"'),
        ('{"schema": "headtool/mask/2", "closed": []}', 'lacks "schema": "headtool/mask/1"'),
        ('{"schema": "headtool/mask/1"}', '"closed" of the head mask must be a list'),
        ('{"schema": "headtool/mask/1", "closed": "cross.0.0"}', "must be a list"),
        ('{"schema": "headtool/mask/1", "closed": [3]}', "must be a list"),
        ('{"schema": "headtool/mask/1", "closed": ["cross"]}', "'cross' is not a head"),
        ('{"schema": "headtool/mask/1", "closed": ["cross.0.2"]}', "no head cross.0.2"),
    ],
)
def test_damaged_json_is_an_error_of_one_line(text: str, message: str) -> None:
    with pytest.raises(HeadtoolError) as caught:
        HeadMask.from_json(text, SITES)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["E:4:1", "A:1:3", "X:1:1", "E:3", "E:3:1,E:3:2"])
def test_damaged_michel_masks_are_errors(text: str) -> None:
    with pytest.raises(HeadtoolError, match=r"no head|is not a head"):
        HeadMask.from_michel(text, SITES)


def test_masks_of_the_wrong_size_or_type_are_bugs() -> None:
    for array in (np.ones(3, dtype=np.bool_), np.ones(12), np.ones((12, 1), dtype=np.bool_)):
        with pytest.raises(ValueError, match="a mask over 12 heads needs as many booleans"):
            HeadMask(SITES, array)


def test_sites_of_every_kind_are_told_apart() -> None:
    """Equal layer and index in three kinds are three heads."""
    sites = Sites(tuple(site(kind, 0, 2) for kind in KINDS))
    for closed in itertools.combinations(sites.heads, 2):
        assert HeadMask.without(sites, closed).closed == closed


def test_equal_masks_are_equal_and_hash_alike() -> None:
    sites = Sites((AttentionSite("enc-self", 0, 3, 3, 4, "a"),))
    other = Sites((AttentionSite("enc-self", 0, 3, 3, 5, "a"),))
    head = sites.heads[1]
    mask = HeadMask.without(sites, [head])
    assert mask == HeadMask.without(sites, [head])
    assert len({mask, HeadMask.without(sites, [head]), HeadMask.full(sites)}) == 2
    assert mask != HeadMask.full(sites)
    assert mask != HeadMask.without(other, [head])
    assert mask != "a mask"
