"""Definitions in files: what their comments say, inputs of a call, and files that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowering.ground.errors import UnsupportedError
from tests.schedules import definition
from wsched.bench.models.listed import Given, listed, read_listed
from wsched.fusion import DataType

BF16 = DataType.BFloat16


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("2x1024:bf16", Given((2, 1024), BF16)),
        ("8x16:f16@1,8", Given((8, 16), DataType.Half, (1, 8))),
        ("3:i64", Given((3,), DataType.Int)),
        (":f32", Given((), DataType.Float)),
        ("2:bool@0", Given((2,), DataType.Bool, (0,))),
        ("0.5", Given(number=0.5)),
        ("-3", Given(number=-3)),
    ],
)
def test_an_input(text: str, given: Given) -> None:
    found = Given.parse(text)
    assert found == given and type(found.number) is type(given.number)


@pytest.mark.parametrize("text", ["8x16:f8", "8x16:f16@1", "8x0:f16", "8xN:f16", "8:f16@x", "x"])
def test_an_input_that_is_none(text: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        Given.parse(text)
    assert str(error.value) == (
        f"the input {text!r} is not supported; supported: SIZES:TYPE[@STRIDES] of a type of bf16, "
        "bool, f16, f32, f64, i32, i64"
    )


def test_tensors() -> None:
    """Lie as they are said to; elements of deviation 1, or of 0 and 1, and none on meta."""
    torch = pytest.importorskip("torch")
    draw = torch.Generator().manual_seed(1)
    wide = Given.parse("64x100:f32@1,64").tensor("cpu", draw)
    assert (wide.dtype, wide.shape, wide.stride()) == (torch.float32, (64, 100), (1, 64))
    assert abs(float(wide.mean())) < 0.05 and abs(float(wide.std()) - 1) < 0.05
    for kind, dtype in (("bool", torch.bool), ("i32", torch.int32)):
        ones = Given.parse(f"1000:{kind}").tensor("cpu", draw)
        assert ones.dtype is dtype and {*ones.tolist()} == {0, 1}
        assert 400 < int(ones.sum()) < 600
    again = Given.parse("64x100:f32@1,64").tensor("cpu", torch.Generator().manual_seed(1))
    assert torch.equal(wide, again)
    assert Given.parse("8x16:f16").tensor("meta").device.type == "meta"
    assert Given.parse("0.5").tensor("cpu") == 0.5


HEAD = """\
# Source: a model
# inputs: 16x32:bf16 24x32:bf16
#   Two layers: the second one
# something else
"""


def written(folder: Path, text: str) -> Path:
    (folder / "two.txt").write_text(text)
    return folder / "two.txt"


def test_what_comments_say(tmp_path: Path) -> None:
    """The first that is neither source nor inputs says what it is."""
    text = HEAD + definition()
    found = read_listed(written(tmp_path, text))
    assert (found.name, found.what, found.source, found.text) == (
        "two", "Two layers: the second one", "a model", text,
    )  # fmt: skip
    assert found.given == (Given((16, 32), BF16), Given((24, 32), BF16))


def test_a_file_without_comments(tmp_path: Path) -> None:
    """Is what its name says; sizes that are open are 512, types and other sizes as declared."""
    text = definition("f16").replace("[-1, -1]", "[-1, 64]", 1).replace(
        "    d = ", "    s = fd.define_scalar(None, dtype=DataType.Double)\n    d = "
    )  # fmt: skip
    found = read_listed(written(tmp_path, text))
    assert (found.name, found.what, found.source) == ("two", "two", "")
    assert found.given == (
        Given((512, 64), DataType.Half), Given((512, 512), DataType.Half), Given(number=1),
    )  # fmt: skip


def test_inputs_are_drawn_one_behind_the_other(tmp_path: Path) -> None:
    """The same for the same seed."""
    torch = pytest.importorskip("torch")
    found = read_listed(written(tmp_path, HEAD.replace("24x32", "16x32") + definition()))
    x, w = found.inputs("cpu", 3)
    assert not torch.equal(x, w)
    assert all(map(torch.equal, (x, w), found.inputs("cpu", 3)))
    assert not torch.equal(x, found.inputs("cpu", 4)[0])


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_bytes(b"\xff\xfe")
    for path, why in (
        (tmp_path / "none.txt", "No such file or directory"), (tmp_path / "two.txt", "utf-8"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError) as error:
            read_listed(path)
        assert why in error.value.what and error.value.what.startswith(f"{path} (")
        assert str(error.value).endswith(") is not supported; supported: a text with a definition")


def test_the_files_of_a_folder(tmp_path: Path) -> None:
    for name in ("b.txt", "a.py", "c.md"):
        (tmp_path / name).touch()
    assert listed(tmp_path) == [tmp_path / "a.py", tmp_path / "b.txt"]
    assert listed(tmp_path / "c.md") == [tmp_path / "c.md"]
