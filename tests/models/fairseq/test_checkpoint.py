"""Checkpoints are read without running what is in them."""

from __future__ import annotations

import builtins
import io
import os
import pickle
import subprocess
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headtool.errors import HeadtoolError
from headtool.models.fairseq.checkpoint import load_checkpoint

FORMATS = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])


class Call:
    """Unpickles by calling a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


def save(value: Any, path: Path, *, zipped: bool = True) -> Path:
    torch.save(value, path, _use_new_zipfile_serialization=zipped)
    return path


def save_raw(pickled: bytes, path: Path, *, zipped: bool) -> Path:
    """Write a checkpoint whose pickle is given byte by byte."""
    if zipped:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickled)
            archive.writestr("archive/byteorder", "little")
            archive.writestr("archive/version", "3\n")
        return path
    whole = io.BytesIO()
    torch.save(0, whole, _use_new_zipfile_serialization=False)
    header, storages = pickle.dumps(0, protocol=2), pickle.dumps([], protocol=2)
    parts = whole.getvalue().removesuffix(header + storages)
    assert parts + header + storages == whole.getvalue()
    path.write_bytes(parts + pickled + storages)
    return path


def message(path: Path, **options: bool) -> str:
    with pytest.raises(HeadtoolError) as error:
        load_checkpoint(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# -- what is loaded -----------------------------------------------------------------------------


@FORMATS
def test_a_checkpoint_of_arguments_and_weights_comes_back(tmp_path: Path, zipped: bool) -> None:
    weights = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([1.5])}
    args = Namespace(arch="transformer", lr=[0.1], share=True, path=None)
    path = save({"args": args, "cfg": None, "model": weights}, tmp_path / "c.pt", zipped=zipped)
    loaded = load_checkpoint(path)
    assert loaded["args"] == args
    assert all(torch.equal(loaded["model"][name], weight) for name, weight in weights.items())


@FORMATS
@pytest.mark.parametrize("trust", [False, True])
def test_omegaconf_containers_become_plain(tmp_path: Path, zipped: bool, trust: bool) -> None:
    omegaconf = pytest.importorskip("omegaconf")
    model = Namespace(encoder_layers=2)
    config = omegaconf.OmegaConf.create(
        {"task": {"data": "bin", "n": 2, "x": 0.5, "on": True, "no": None, "lr": [1, [2.0]]}},
        flags={"allow_objects": True},
    )
    config.model = model
    config.secret = "${oc.env:HOME}"
    loaded = load_checkpoint(save({"cfg": config}, tmp_path / "c.pt", zipped=zipped), trust=trust)
    task = {"data": "bin", "n": 2, "x": 0.5, "on": True, "no": None, "lr": [1, [2.0]]}
    # The interpolation stays text: nothing looks into the environment.
    assert loaded["cfg"] == {"task": task, "model": model, "secret": "${oc.env:HOME}"}
    assert type(loaded["cfg"]["task"]["lr"]) is list


def test_typed_omegaconf_values_are_read(tmp_path: Path) -> None:
    nodes = pytest.importorskip("omegaconf").nodes
    omegaconf = pytest.importorskip("omegaconf")
    values = {
        "s": nodes.StringNode("x"),
        "i": nodes.IntegerNode(3),
        "f": nodes.FloatNode(0.5),
        "b": nodes.BooleanNode(True),
    }
    path = save({"cfg": omegaconf.OmegaConf.create(values)}, tmp_path / "c.pt")
    assert load_checkpoint(path)["cfg"] == {"s": "x", "i": 3, "f": 0.5, "b": True}


def test_numpy_scalars_of_a_training_state_do_no_harm(tmp_path: Path) -> None:
    import numpy as np

    path = save({"args": Namespace(a=1), "extra_state": {"best": np.float64(1.5)}}, tmp_path / "c")
    assert load_checkpoint(path)["args"] == Namespace(a=1)


def test_what_the_caller_allows_stays_allowed_and_nothing_is_added(tmp_path: Path) -> None:
    path = save({"args": Namespace(a=1)}, tmp_path / "c.pt")
    with torch.serialization.safe_globals([Namespace]):
        before = set(torch.serialization.get_safe_globals())
        load_checkpoint(path)
        assert set(torch.serialization.get_safe_globals()) == before
    load_checkpoint(path)
    assert set(torch.serialization.get_safe_globals()) == before - {Namespace}


# -- what is refused ----------------------------------------------------------------------------

# By the names that pickle protocol 2 writes: subprocess was once called commands.
ATTACKS: dict[str, Callable[[Path], Any]] = {
    "posix.system": lambda mark: Call(os.system, f"touch {mark}"),
    "commands.call": lambda mark: Call(subprocess.call, ["touch", str(mark)]),
    "eval": lambda mark: Call(builtins.eval, f"open({str(mark)!r}, 'w').close()"),
    "exec": lambda mark: Call(builtins.exec, f"open({str(mark)!r}, 'w').close()"),
    "io.open": lambda mark: Call(open, str(mark), "w"),
}


@FORMATS
@pytest.mark.parametrize("name", ATTACKS)
def test_a_malicious_checkpoint_runs_nothing(
    tmp_path: Path, name: str, zipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # fairseq's own tools need this variable; it must not open the door here.
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    mark = tmp_path / "mark"
    harmless = {"args": Namespace(arch="transformer"), "model": {"a": torch.zeros(2)}}
    path = save({**harmless, "x": ATTACKS[name](mark)}, tmp_path / "c.pt", zipped=zipped)
    text = message(path)
    assert name in text
    assert "`trust_checkpoint=True`" in text
    assert not mark.exists()


@FORMATS
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the file that the attack leaves open
def test_the_same_attack_works_when_the_file_is_trusted(tmp_path: Path, zipped: bool) -> None:
    mark = tmp_path / "mark"
    path = save({"x": Call(open, str(mark), "w")}, tmp_path / "c.pt", zipped=zipped)
    load_checkpoint(path, trust=True)
    assert mark.exists()


HIDDEN = {
    # argparse imports os under this name, so the path starts like an allowed one.
    "argparse._os.system": b"cargparse\n_os.system\n",
    "argparse.Namespace.__init__.__globals__": b"cargparse\nNamespace.__init__.__globals__\n",
    "omegaconf.base.sys": b"comegaconf.base\nsys\n",
    "typing.get_type_hints": b"ctyping\nget_type_hints\n",
    "collections._sys.modules": b"ccollections\n_sys.modules\n",
}


@FORMATS
@pytest.mark.parametrize("name", HIDDEN)
def test_code_does_not_hide_behind_an_allowed_name(tmp_path: Path, name: str, zipped: bool) -> None:
    mark = tmp_path / "mark"
    argument = f"touch {mark}".encode()
    pickled = b"\x80\x02" + HIDDEN[name] + b"U" + bytes([len(argument)]) + argument + b"\x85R."
    assert name in message(save_raw(pickled, tmp_path / "c.pt", zipped=zipped))
    assert not mark.exists()


@FORMATS
def test_an_allowed_name_is_not_the_class_of_that_name(tmp_path: Path, zipped: bool) -> None:
    # defaultdict(dict) called for real would be a dictionary; int("5") would be a number.
    for call in (
        b"ccollections\ndefaultdict\n(c__builtin__\ndict\ntR",
        b"c__builtin__\nint\n(U\x015tR",
    ):
        path = save_raw(b"\x80\x02}U\x03cfg" + call + b"s.", tmp_path / "c.pt", zipped=zipped)
        assert load_checkpoint(path) == {"cfg": None}


@FORMATS
def test_a_state_that_replaces_methods_runs_nothing(tmp_path: Path, zipped: bool) -> None:
    # An instance whose __setstate__ is another class: at most that class is called.
    args = Namespace()
    args.__dict__.update({"__setstate__": Namespace, "__class__": Namespace, "a": 1})
    path = save({"args": args}, tmp_path / "c.pt", zipped=zipped)
    assert load_checkpoint(path)["args"].a == 1


def test_pickles_of_other_protocols_are_refused_too(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for protocol in (0, 1, 3, 4, 5):
        pickled = pickle.dumps({"x": Call(os.system, f"touch {mark}")}, protocol=protocol)
        for zipped in (True, False):
            message(save_raw(pickled, tmp_path / "c.pt", zipped=zipped))
            assert not mark.exists()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_torchscript_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.pt"
    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)), path)
    assert "`trust_checkpoint=True`" in message(path)


# -- what is damaged ----------------------------------------------------------------------------


@FORMATS
def test_a_cut_or_altered_file_is_one_line(tmp_path: Path, zipped: bool) -> None:
    path = save({"args": Namespace(a=1), "model": {"w": torch.ones(500)}}, tmp_path / "c.pt")
    whole = path.read_bytes()
    for length in (0, 1, 3, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "damaged" in message(path), length


def test_a_flipped_byte_in_the_weights_is_noticed(tmp_path: Path) -> None:
    path = save({"model": {"w": torch.ones(500)}}, tmp_path / "c.pt")
    content = bytearray(path.read_bytes())
    content[content.index(torch.ones(3).numpy().tobytes()) + 7] ^= 1
    path.write_bytes(content)
    assert "damaged" in message(path)
    assert "damaged" in message(path, trust=True)


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize(
    "content",
    [b"plain text\n", b"\0" * 100, b"PK\x03\x04" + b"\0" * 50, b"\x80\x02}q\0.", b"(((((((((."],
)
def test_something_else_is_one_line(tmp_path: Path, content: bytes, trust: bool) -> None:
    path = tmp_path / "c.pt"
    path.write_bytes(content)
    assert "damaged" in message(path, trust=trust)


def test_a_checkpoint_of_something_else_says_what_it_is(tmp_path: Path) -> None:
    assert "holds a list" in message(save([1, 2], tmp_path / "c.pt"))
    assert "holds a Tensor" in message(save(torch.zeros(2), tmp_path / "c.pt"))


def test_a_trusted_checkpoint_may_lack_its_modules(tmp_path: Path) -> None:
    path = save_raw(b"\x80\x02cno_such_package\nThing\n.", tmp_path / "c.pt", zipped=True)
    assert "no_such_package" in message(path, trust=True)


def test_no_file(tmp_path: Path) -> None:
    assert "no file" in message(tmp_path / "none.pt")
    assert "folder" in message(tmp_path)
