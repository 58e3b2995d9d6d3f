"""Cards of pruned models, and ``headtool prune --push`` against a stand-in of the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
import transformers
import yaml

from headtool import load_pruned

from ..support.hub import Hub, hub


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The stand-in, where everything that asks the hub goes."""
    with hub() as found:
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        yield found


@pytest.fixture
def mask(workplace: Path) -> Path:
    path = workplace / "mask.txt"
    path.write_text("E:1:1 E:2:2")
    return path


def front(card: str) -> dict[str, object]:
    """The YAML before the text."""
    assert card.startswith("---\n")
    found: dict[str, object] = yaml.safe_load(card.split("---\n")[1])
    return found


def test_everything_goes_up(headtool, bert: Path, mask: Path, online: Hub) -> None:
    asked = ("prune", "--model", bert, "--mask", mask, "--out", "smaller")
    done = headtool(*asked, "--push", "org/name", "--private")
    assert done.code == 0, done.err
    assert f"pushed to {online.url}/org/name" in done.err
    held = {path.name: path.read_bytes() for path in Path("smaller").iterdir()}
    assert online.files == held
    assert len(online.blobs) == 1
    (made,) = online.made
    assert (made["name"], made["organization"]) == ("name", "org")
    assert made.get("private") or made["visibility"] == "private"
    assert "Bearer hf_secret" in online.tokens
    assert online.unknown == []
    assert 'headtool.load_pruned(snapshot_download("org/name"))' in held["README.md"].decode()


@pytest.mark.parametrize(
    ("status", "said"), [(401, "hf auth login"), (403, "a token that may write there")]
)
def test_refusals_are_a_line_and_the_folder_stays(
    headtool, bert: Path, mask: Path, online: Hub, status: int, said: str
) -> None:
    online.refuse = status
    done = headtool(
        *("prune", "--model", bert, "--mask", mask, "--out", "smaller", "--push", "org/name", "-q")
    )
    assert done.code == 2
    (line,) = done.err.strip().splitlines()
    assert f"but not on the hub: the hub answers {status}; " in line
    assert said in line
    assert line.endswith("'hf upload org/name smaller'")
    assert load_pruned("smaller") is not None


@pytest.mark.parametrize("what", ["offline", "no token", "nobody there"])
def test_without_the_hub(
    headtool, bert: Path, mask: Path, online: Hub, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "offline":
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    elif what == "no token":
        monkeypatch.delenv("HF_TOKEN")
        monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", "nowhere")
    else:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    done = headtool(
        *("prune", "--model", bert, "--mask", mask, "--out", "smaller", "--push", "org/name", "-q")
    )
    assert done.code == 2, done.err
    (line,) = done.err.strip().splitlines()
    reason = {"offline": "offline mode is on", "no token": "there is no token"}.get(what, "network")
    assert reason in line
    assert (Path("smaller") / "README.md").is_file()
    assert online.made == []


def test_names_are_checked_before_any_work(headtool, bert: Path, mask: Path) -> None:
    for name in ("name", "org/na me", "a/b/c"):
        done = headtool("prune", "--model", bert, "--mask", mask, "--out", "x", "--push", name)
        assert done.code == 2
        assert "--push takes a repository such as org/name" in done.err
        assert not Path("x").exists()
    done = headtool("prune", "--model", bert, "--mask", mask, "--push", "org/name")
    assert "--push is for a model that is written; give --out" in done.err
    done = headtool("prune", "--model", bert, "--mask", mask, "--out", "x", "--private")
    assert "--private is for --push" in done.err


def test_the_card_says_what_went_by_what_and_at_what_cost(
    headtool, bert: Path, reviews: Path, workplace: Path
) -> None:
    scored = ("score", "--model", bert, "--data", reviews, "--out", "scores")
    assert headtool(*scored).code == 0
    asked = ("prune", "--model", bert, "--scores", "scores", "--remove", "25%", "--data", reviews)
    document = json.loads(headtool(*asked, "--out", "smaller", "--format", "json").out)
    card = Path("smaller/README.md").read_text("utf-8")
    assert front(card)["tags"] == ["headtool", "pruned", "attention-heads"]
    assert front(card)["pipeline_tag"] == "text-classification"
    assert "lowest scores by gradient (25%)" in card
    assert "`" + " ".join(document["removed"]) + "`" in card
    assert f"{document['savings'][0]['parameters_after']:,}" in card
    whole = document["quality"]["accuracy"]["whole"]
    assert f"| accuracy | whole model | {whole:.3g}" in card
    assert str(workplace) not in card
    assert str(bert.parent) not in card


def test_a_baked_card_says_how_anybody_loads_it(headtool, bert: Path, mask: Path) -> None:
    assert headtool("prune", "--model", bert, "--mask", mask, "--bake", "--out", "baked").code == 0
    card = Path("baked/README.md").read_text("utf-8")
    assert 'BertForSequenceClassification.from_pretrained("baked")' in card
    assert transformers.AutoModelForSequenceClassification.from_pretrained("baked") is not None


def test_what_others_wrote_is_escaped(headtool, bert: Path, reviews: Path, workplace: Path) -> None:
    model = workplace / "a*b*<b>[x](y): # ---"
    model.symlink_to(bert)
    data = workplace / "d|`e`.tsv"
    data.write_bytes(reviews.read_bytes())
    (workplace / "mask.txt").write_text("E:1:1")
    done = headtool(
        *("prune", "--model", model, "--mask", "mask.txt", "--data", data, "--out", 'o"ut'),
    )
    assert done.code == 0, done.err
    card = Path('o"ut/README.md').read_text("utf-8")
    assert front(card)["library_name"] == "transformers"
    assert r"# a\*b\*\<b\>\[x\](y): \# --- without 1 of its" in card
    assert r"d\|\`e\`.tsv" in card
    assert r'headtool.load_pruned("o\"ut")' in card


def test_no_bar_of_others_is_shown(headtool, bert: Path, mask: Path) -> None:
    done = headtool("prune", "--model", bert, "--mask", mask, "--out", "smaller", "-q")
    assert done.err == ""
