"""Files of scores: every format is told from its content; what is wrong is named by its place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headtool.errors import HeadtoolError
from headtool.exchange.fitting import fit, parse_shape
from headtool.exchange.reading import read_foreign
from headtool.heads import AttentionSite, Head, Sites

ONE = Sites(tuple(AttentionSite("dec-self", layer, 4, 2, 8, "x") for layer in range(2)))
TWO = Sites((AttentionSite("enc-self", 0, 2, 2, 4, "x"), AttentionSite("cross", 0, 2, 2, 4, "y")))
VALUES = [0.5, -1.0, 0.25, 3.0, 2.0, 0.0, 1.5, 0.75]
PLACES = [(layer, head) for layer in range(2) for head in range(4)]
SCORES = dict(zip(PLACES, VALUES, strict=True))


def graph(*, nodes: bool = True, edges: bool = False) -> dict[str, object]:
    named = {
        f"a{i}.h{j}": {"in_graph": value > 0} | ({"score": value} if nodes else {})
        for (i, j), value in SCORES.items()
    }
    between = {}
    if edges:
        for (i, j), value in SCORES.items():
            between[f"a{i}.h{j}->m{i}"] = {"score": value / 4, "in_graph": True}
            between[f"a{i}.h{j}->logits"] = {"score": value * 3 / 4, "in_graph": True}
        between["input->a0.h0<q>"] = {"score": 9.0, "in_graph": True}
    return {
        "cfg": {"n_layers": 2, "n_heads": 4, "d_model": 32},
        "nodes": {"input": {"in_graph": True}, **named, "logits": {"in_graph": True}},
        "edges": between,
    }


def lines(header: str, row: str, end: str = "\n") -> str:
    """A table with a row a head."""
    rows = [row.format(i=i, j=j, v=v) for (i, j), v in SCORES.items()]
    return "".join(f"{line}{end}" for line in (header, *rows))


ROWS = [{"layer": i, "head": j, "score": value} for (i, j), value in SCORES.items()]
FILES = {
    "comma.csv": ("csv", lines("layer,head,score", "{i},{j},{v}")),
    "tab.tsv": ("csv", lines("Head\tScore\tNote", "L{i}H{j}\t{v}\t-")),
    "semicolon.csv": ("csv", lines("score;head;layer", "{v};{j};{i}", "\r\n")),
    "rows.json": ("json", json.dumps(ROWS)),
    "document.json": ("json", json.dumps({"schema": "headtool/scores/1", "scores": ROWS})),
    "keys.json": ("json", json.dumps({f"L{i}H{j}": v for (i, j), v in SCORES.items()})),
    "hooked.json": ("json", json.dumps({f"a{i}.h{j}": v for (i, j), v in SCORES.items()})),
    "named.json": ("json", json.dumps({f"dec-self.{i}.{j}": v for (i, j), v in SCORES.items()})),
    "repeats.json": (
        "retrieval",
        json.dumps({f"{i}-{j}": [v - 1, v + 1, v, v] for (i, j), v in SCORES.items()}),
    ),
    "nodes.json": ("mib", json.dumps(graph())),
    "edges.json": ("mib", json.dumps(graph(nodes=False, edges=True))),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("sites", [ONE, None], ids=["model", "no-model"])
def test_every_format_is_told_and_read(name: str, sites: Sites | None, tmp_path: Path) -> None:
    form, text = FILES[name]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    for given in (None, form):
        foreign = read_foreign(path, format=given)
        assert foreign.format == form
        found = fit(foreign, sites)
        assert found.heads == ONE.heads
        np.testing.assert_allclose(found.score, VALUES, atol=1e-15)


def test_repeats_have_a_mean_and_a_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(FILES["repeats.json"][1])
    found = fit(read_foreign(path), ONE)
    assert found.repeats is not None
    assert found.repeats.shape == (4, 8)
    np.testing.assert_allclose(found.stderr, np.std([-1, 1, 0, 0], ddof=1) / 2)
    signless = fit(read_foreign(path), ONE, absolute=True)
    np.testing.assert_allclose(signless.score[1], np.mean([2, 0, 1, 1]))  # of -1 -+ 1


def test_heads_measured_unequally_often_have_no_repeats(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"0-0": [1, 2, 3], "0-1": [1, 3], "0-2": [1]}))
    found = fit(read_foreign(path), None)
    assert found.repeats is None
    assert found.uneven == (1, 3)
    np.testing.assert_allclose(found.score, [2, 2, 1])
    np.testing.assert_allclose(found.stderr, [1 / np.sqrt(3), 1, np.nan])


def test_groups_give_their_score_to_each_of_their_heads(tmp_path: Path) -> None:
    path = tmp_path / "full_attention_heads.tsv"
    path.write_text("0.25\t1e0\n0\t0.5\n")
    foreign = read_foreign(path)
    assert foreign.format == "duo"
    for found in (fit(foreign, ONE), fit(foreign, None, shape=(2, 4))):
        assert found.score.tolist() == [0.25, 0.25, 1, 1, 0, 0, 0.5, 0.5]
    assert fit(foreign, None).score.tolist() == [0.25, 1, 0, 0.5]
    with pytest.raises(HeadtoolError, match=r"2 layers of 2 groups, .* 3 layers of 4 heads"):
        fit(foreign, None, shape=(3, 4))


def test_heads_that_go_score_zero(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"0": [1, 3], "1": []}')
    foreign = read_foreign(path)
    assert foreign.format == "hf"
    assert fit(foreign, ONE).score.tolist() == [1, 0, 1, 0, 1, 1, 1, 1]
    assert fit(foreign, None, shape=(2, 4)).score.tolist() == [1, 0, 1, 0, 1, 1, 1, 1]
    with pytest.raises(HeadtoolError, match="does not say how many heads"):
        fit(foreign, None)


def test_a_circuit_without_scores_is_ones_and_zeros(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(graph(nodes=False)))
    assert fit(read_foreign(path), ONE).score.tolist() == [float(value > 0) for value in VALUES]


def test_several_kinds_need_a_name(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("layer,head,score\n0,0,1\n0,1,2\n")
    foreign = read_foreign(path)
    with pytest.raises(HeadtoolError, match="the model has enc-self, cross; name one by `kind`"):
        fit(foreign, TWO)
    assert fit(foreign, TWO, kind="cross").heads == (Head("cross", 0, 0), Head("cross", 0, 1))
    path.write_text(
        "kind,layer,head,score\ncross,0,0,1\ncross,0,1,2\nenc-self,0,0,3\nenc-self,0,1,4\n"
    )
    assert fit(read_foreign(path), TWO).score.tolist() == [3, 4, 1, 2]
    with pytest.raises(HeadtoolError, match="names the kinds itself"):
        fit(read_foreign(path), TWO, kind="cross")


def test_one_of_several_methods(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("method,layer,head,score\na,0,0,1\na,0,1,2\nb,0,0,3\nb,0,1,4\n")
    assert fit(read_foreign(path, method="b"), None).score.tolist() == [3, 4]
    with pytest.raises(HeadtoolError, match=r"several methods .*a, b.*; give `method`"):
        read_foreign(path)
    with pytest.raises(HeadtoolError, match="no scores of the method 'c'"):
        read_foreign(path, method="c")


WRONG = {
    "layer,head,score\n0,0,1\n0,0,2\n": r"line 3: layer 0, head 0 was there before \(line 2\)",
    "layer,head,score\n0,0,x\n": "line 2: the score 'x' is no finite number",
    "layer,head,score\n0,0,nan\n": "line 2: the score 'nan' is no finite number",
    "layer,head,score\n0,0,1e999\n": "line 2: the score '1e999' is no finite number",
    "layer,head,score\n0,-1,1\n": "line 2: '-1' is no number of a head",
    "layer,head,score\n0,4294967296,1\n": "line 2: '4294967296' is no number of a head",
    "layer,head,score\n0,0\n": "line 2 has 2 columns, and the header has 3",
    "layer,head,score,score\n0,0,1,2\n": "two columns are called 'score'",
    "layer,head,value\n0,0,1\n": "no column 'score'",
    "layer,head,score\n": "it has no heads",
    "kind,layer,head,score\nself,0,0,1\n": "line 2: the kind 'self' is none of enc-self",
    "0.5 0.5\n0.5\n": "line 2 has 1 columns, and those before 2",
    "0.5 nan\n": "line 1, column 2: the score 'nan'",
    '{"0-0": 1, "0-0": 2}': "the key '0-0' is there twice",
    '{"0-0": 1, "00-0": 2}': r"'00-0': layer 0, head 0 was there before \('0-0'\)",
    '{"0-0": 1, "nonsense": 2}': "'nonsense': 'nonsense' is no head; write L5H1",
    '{"0-0": [], "0-1": [1]}': "'0-0': the head has an empty list of scores",
    '{"0-0": NaN}': "'0-0': the score nan is no finite number",
    '{"0-0": true}': "'0-0': the score True is no finite number",
    '{"0-0": 1, "999999-0": 1}': "'999999-0': '999999' is no number of a layer",
    '[{"layer": 0, "head": 0}]': "row 1 has no 'score'",
    '[{"layer": 0, "head": 0.5, "score": 1}]': "row 1: 0.5 is no number of a head",
    '[{"layer": 0, "head": 0, "score": 1, "stderr": -1}]': "row 1: the standard error -1 is below",
    "[1, 2]": "row 1 is 1, not layer, head and score",
    '{"0": [0, 0]}': "layer 0: layer 0, head 0 was there before",
    '{"0": 5}': "layer 0 has 5, which is no list of heads",
    '{"a": {"b": 1}}': "it holds no scores of heads",
    '{"cfg": {"n_layers": 2}, "nodes": {}}': "'cfg' of the graph has None as n_heads",
    '{"cfg": {"n_layers": 1, "n_heads": 1}, "nodes": {"a0.h0": {}}}': "node a0.h0 has neither",
    "[" * 100_000: "it is not JSON",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_said_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(HeadtoolError, match=WRONG[text]) as found:
        fit(read_foreign(path), None)
    assert str(found.value).startswith(f"{path}: ")
    assert "\n" not in str(found.value)


def test_a_gap_without_a_model_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("layer,head,score\n0,0,1\n0,1,2\n1,1,4\n")
    with pytest.raises(HeadtoolError, match=r"1 of 4 heads are missing, such as dec-self\.1\.0"):
        fit(read_foreign(path), None)
    path.write_text("layer,head,score\n0,0,1\n99999,99999,2\n")
    with pytest.raises(HeadtoolError, match="2 heads, which do not fill 100000 layers of 100000"):
        fit(read_foreign(path), None)


def test_more_and_fewer_heads_than_the_model_has_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({f"L{i}H{j}": 1 for i in range(2) for j in range(5)}))
    with pytest.raises(HeadtoolError, match=r"'L0H4': there is no head dec-self\.0\.4 .* 8 in 2"):
        fit(read_foreign(path), ONE)
    path.write_text(json.dumps({f"L{i}H{j}": 1 for i in range(2) for j in range(3)}))
    with pytest.raises(HeadtoolError, match=r"2 of 8 heads are missing, such as dec-self\.0\.3"):
        fit(read_foreign(path), ONE)


@pytest.mark.parametrize("text", ["", "32", "0x4", "4x0", "1000x1000", "4x4x4", "-1x4"])
def test_a_shape_is_two_numbers(text: str) -> None:
    with pytest.raises(HeadtoolError, match="`heads` takes layers and heads of a layer"):
        parse_shape(text)
