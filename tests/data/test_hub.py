"""Hub data through the datasets library: local folders for real, the network as a stand-in."""

from __future__ import annotations

import pytest

from headtool.data import load_data
from headtool.errors import HeadtoolError

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "my-data"
    path.mkdir()
    path.joinpath("train.csv").write_text("text,label\nignored,0\n")
    path.joinpath("validation.csv").write_text("text,label\nfine,1\nbad,0\nbest,1\n")
    return path


class Hub:
    """Stands in for ``datasets.load_dataset`` and records how it is called."""

    def __init__(self, contents):
        self.contents, self.calls = contents, []

    def __call__(self, *arguments, split):
        self.calls.append(arguments)
        found = self.contents.get(arguments)
        if found is None:
            raise datasets.exceptions.DatasetNotFoundError(f"no {arguments}\non the hub")
        if isinstance(found, Exception):
            raise found
        return found


def hub_set(**columns):
    features = columns.pop("features", None)
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.fixture
def hub(monkeypatch):
    def install(contents):
        stand_in = Hub(contents)
        monkeypatch.setattr(datasets, "load_dataset", stand_in)
        return stand_in

    return install


def test_a_local_folder_by_split(folder):
    data = load_data(f"hub:{folder}:validation")
    assert data.columns == {"text_a": ("fine", "bad", "best"), "label": ("1", "0", "1")}
    assert data.name == "my-data/validation"


def test_a_slice_of_a_split(folder):
    assert len(load_data(f"hub:{folder}:validation[:2]")) == 2
    assert len(load_data(f"hub:{folder}:validation[1:]", limit=1)) == 1


def test_class_numbers_become_names(hub):
    features = datasets.Features(
        sentence=datasets.Value("string"), label=datasets.ClassLabel(names=["neg", "pos"])
    )
    sst2 = hub_set(sentence=["a", "b"], label=[1, 0], features=features)
    stand_in = hub({("glue", "sst2"): sst2})
    assert load_data("hub:glue/sst2:validation").columns["label"] == ("pos", "neg")
    assert stand_in.calls == [("glue", "sst2")]


def test_rows_without_a_class_are_left_out(hub, caplog):
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=["neg", "pos"])
    )
    hub({("snli",): hub_set(text=["a", "b"], label=[-1, 1], features=features)})
    assert load_data("hub:snli:test").columns == {"text_a": ("b",), "label": ("pos",)}
    assert "left out 1 of 2 rows" in caplog.text
    hub({("snli",): hub_set(text=["a"], label=[-1], features=features)})
    with pytest.raises(HeadtoolError, match="'hub:snli:test' has no labels"):
        load_data("hub:snli:test")


@pytest.mark.parametrize(
    ("path", "readings"),
    [
        ("imdb", [("imdb",)]),
        ("stanfordnlp/imdb", [("stanfordnlp", "imdb"), ("stanfordnlp/imdb",)]),
        ("nyu-mll/glue/sst2", [("nyu-mll/glue", "sst2")]),
    ],
)
def test_how_names_are_read(hub, path, readings):
    stand_in = hub({readings[-1]: hub_set(text=["a"], label=[1])})
    assert load_data(f"hub:{path}:test").columns["label"] == ("1",)
    assert stand_in.calls == readings


def test_translation_fields_are_columns_with_a_dot(hub):
    hub({("wmt",): hub_set(translation=[{"de": "ja", "en": "yes"}])})
    columns = {"source": "translation.de", "target": "translation.en"}
    data = load_data("hub:wmt:test", columns=columns)
    assert data.columns == {"source": ("ja",), "target": ("yes",)}


@pytest.mark.parametrize(
    ("outcome", "parts"),
    [
        (None, ["the hub has no public data set", "hf auth login"]),
        (ConnectionError("Couldn't reach it"), ["cannot reach the hub", "HF_HUB_OFFLINE"]),
        (ValueError("BuilderConfig 'x' not found.\nmore"), ["BuilderConfig 'x' not found."]),
        (RuntimeError("Dataset scripts are no longer supported"), ["scripts are no longer"]),
        (hub_set(text=[], label=[]), ["has no rows"]),
    ],
)
def test_a_hub_that_does_not_deliver(hub, outcome, parts):
    hub({("org", "data"): outcome})
    with pytest.raises(HeadtoolError) as caught:
        load_data("hub:org/data:test")
    message = str(caught.value)
    assert "\n" not in message
    for part in ["'hub:org/data:test'", *parts]:
        assert part in message


@pytest.mark.parametrize("offline", [True, False])
def test_only_one_time_out_is_waited_for(hub, monkeypatch, offline):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", offline)
    stand_in = hub({("org", "data"): ConnectionError(), ("org/data",): ConnectionError()})
    with pytest.raises(HeadtoolError, match="cannot reach the hub"):
        load_data("hub:org/data:test")
    assert len(stand_in.calls) == (2 if offline else 1)


def test_an_unknown_split_of_a_folder_names_those_present(folder):
    with pytest.raises(HeadtoolError, match=r'Unknown split "test".*validation'):
        load_data(f"hub:{folder}:test")


def test_a_folder_without_data(tmp_path):
    (tmp_path / "void").mkdir()
    with pytest.raises(HeadtoolError, match="doesn't contain any data files"):
        load_data(f"hub:{tmp_path}/void:test")


def test_damaged_files_of_a_folder_give_the_cause(folder):
    folder.joinpath("validation.csv").write_bytes(b"text,label\ncaf\xe9,1\n")
    with pytest.raises(HeadtoolError, match="codec can't decode byte 0xe9") as caught:
        load_data(f"hub:{folder}:validation")
    assert "\n" not in str(caught.value)
