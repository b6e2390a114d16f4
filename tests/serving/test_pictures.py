"""Images in the explorer: what is struck out is leave-one-out, and what is given to the page is bounded."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import looprop
from looprop.errors import InputError
from looprop.serving import pictures
from serving.conftest import Served, picture_file


def colours(path: str) -> Image.Image:
    return Image.open(path).convert("RGB")


def test_a_patch_that_is_struck_out_is_leave_one_out(served: Served) -> None:
    question = {"model": served.vit, "image": served.picture}
    status, said = served.post("/api/ask", question)
    assert status == 200, said
    wanted = looprop.load(served.vit).explain(colours(served.picture), "loo")
    assert said["features"] == wanted.features
    assert said["label"] in ("cat", "dog", "owl")
    assert said["removal"] == "zero"
    for patch in range(16):
        _, without = served.post("/api/without", {"question": question, "struck": [patch]})
        assert -without["change"] == pytest.approx(wanted.scores[patch], abs=1e-4)


def test_several_patches_are_the_set_function(served: Served) -> None:
    question = {"model": served.vit, "image": served.picture, "target": "owl,cat"}
    keep = np.ones((2, 16), dtype=bool)
    keep[1, [3, 4, 9]] = False
    whole, left = looprop.load(served.vit).set_function(colours(served.picture), target=("owl", "cat"))(keep)
    _, without = served.post("/api/without", {"question": question, "struck": [9, 3, 4]})
    assert -without["change"] == pytest.approx(whole - left, abs=1e-4)
    everything = list(range(16))
    assert served.post("/api/without", {"question": question, "struck": everything})[0] == 200


def test_the_page_shows_what_the_model_was_given(served: Served) -> None:
    _, said = served.post("/api/ask", {"model": served.vit, "image": served.picture})
    shown = said["picture"]
    assert (shown["rows"], shown["columns"], shown["patch"]) == (4, 4, [4, 4])
    data = base64.b64decode(shown["data"].removeprefix("data:image/png;base64,"))
    seen = np.asarray(Image.open(io.BytesIO(data)), dtype=float) / 255
    pixels = looprop.load(served.vit).adapter.encode(colours(served.picture)).inputs["pixel_values"][0]
    np.testing.assert_allclose(seen, pixels.permute(1, 2, 0).numpy() * 0.5 + 0.5, atol=0.003)


def test_an_image_given_to_the_page_is_known_by_its_bytes(served: Served, tmp_path: Path) -> None:
    path = picture_file(tmp_path / "mine.png", seed=5)
    data = base64.b64encode(Path(path).read_bytes()).decode()
    status, said = served.post("/api/picture", {"data": data})
    assert status == 200, said
    assert served.post("/api/picture", {"data": data})[1] == said
    question = {"model": served.vit, "image": said["name"]}
    _, without = served.post("/api/without", {"question": question, "struck": [2]})
    wanted = looprop.load(served.vit).explain(colours(path), "loo").scores
    assert -without["change"] == pytest.approx(wanted[2], abs=1e-4)


@pytest.mark.parametrize("name", ["/etc/hostname", "../noise.png", "picture-000000000000", "noise.png"])
def test_a_page_names_no_files(served: Served, name: str) -> None:
    status, said = served.post("/api/ask", {"model": served.vit, "image": name})
    assert status == 422
    assert "unknown picture" in said["error"]


def test_pictures_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = Path(picture_file(tmp_path / "a.png")).read_bytes()
    store = pictures.Pictures()
    monkeypatch.setattr(pictures, "MOST_PIXELS", 1000)
    with pytest.raises(InputError, match="1,000 pixels"):
        store.add(base64.b64encode(data).decode())
    monkeypatch.undo()
    monkeypatch.setattr(pictures, "LARGEST_PICTURE", 1000)
    with pytest.raises(InputError, match="1,000 bytes"):
        store.add(base64.b64encode(data).decode())
    with pytest.raises(InputError, match="1,000 bytes"):
        pictures.Pictures([str(tmp_path / "a.png")])
    monkeypatch.undo()
    cut = store.add(base64.b64encode(data[: len(data) // 2]).decode())  # its head is whole
    with pytest.raises(InputError, match="damaged"):
        store.read(cut)
    with pytest.raises(InputError, match="no file"):
        pictures.Pictures([str(tmp_path / "none.png")])


def written(picture: Image.Image) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


@pytest.mark.parametrize("size", [(65_535, 1), (1, 4_000), (16_000_000, 1)])
def test_a_picture_that_grows_when_its_short_side_does_is_refused(size: tuple[int, int]) -> None:
    """A file of 150 bytes, which a processor that makes the shorter side 224 long would blow up to gigabytes."""
    with pytest.raises(InputError, match="100 times as long as wide"):
        pictures.Pictures().add(written(Image.new("1", size)))


def test_a_picture_of_sixteen_bits_is_refused_and_not_shown_white() -> None:
    shades = np.arange(4096, dtype=np.uint16).reshape(64, 64) * 16
    with pytest.raises(InputError, match="save it with 8 bits"):
        pictures.Pictures().add(written(Image.fromarray(shades)))


def test_only_the_latest_pictures_are_kept(tmp_path: Path) -> None:
    store = pictures.Pictures([picture_file(tmp_path / "given.png")])
    names = [
        store.add(base64.b64encode(Path(picture_file(tmp_path / "x.png", seed=seed)).read_bytes()).decode())
        for seed in range(1, pictures.KEPT + 2)
    ]
    with pytest.raises(InputError, match="unknown picture"):
        store.read(names[0])
    assert store.read(names[-1]).size == (40, 40)
    assert store.read(str(tmp_path / "given.png")).size == (40, 40)
