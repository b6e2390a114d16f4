"""Image classifiers: patches, pixels, and images that cannot be explained."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from matplotlib.image import imread
from PIL import Image

import looprop
import zoo
from looprop.errors import InputError


@pytest.fixture(scope="module")
def vit() -> looprop.Workbench:
    return looprop.Workbench(looprop.load((zoo.build("vit"), None)).adapter)


def image(seed: int = 0) -> torch.Tensor:
    return torch.rand(1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "grad-x-input"])
def test_patches_add_up_to_their_pixels(vit: looprop.Workbench, method: str) -> None:
    e = vit.explain(image(), method, target=1)
    assert len(e) == 16
    pixels = looprop.attribute(lambda x: vit.model(pixel_values=x).logits, image()[None], method, target=1)[0, 0]
    for row in range(4):
        for column in range(4):
            expected = float(pixels[4 * row : 4 * row + 4, 4 * column : 4 * column + 4].sum())
            assert e.scores[4 * row + column] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert e.features[4 * row + column] == f"{row},{column}"
    assert e.scores.sum() == pytest.approx(float(pixels.sum()))


def test_images_in_a_batch_and_as_arrays(vit: looprop.Workbench) -> None:
    together = vit.explain([image(0), image(1).numpy()], "attnlrp")
    for seed, e in enumerate(together):
        np.testing.assert_allclose(e.scores, vit.explain(image(seed)[None], "attnlrp").scores, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (torch.zeros(1, 8, 8), "shape"),
        (torch.zeros(2, 1, 16, 16), "shape"),
        (torch.zeros(1, 16, 16, dtype=torch.uint8), "floating-point"),
        (torch.full((1, 16, 16), torch.nan), "NaN"),
        ("cat.png", "give the image processor"),
    ],
    ids=["small", "batch", "bytes", "nan", "path"],
)
def test_images_that_cannot_be_explained(vit: looprop.Workbench, bad: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        vit.explain(bad)


def test_image_that_is_no_multiple_of_the_patch() -> None:
    torch.manual_seed(0)
    config = hf.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=18,
        patch_size=4,
        num_channels=1,
        num_labels=2,
    )
    bench = looprop.load((hf.ViTForImageClassification(config), None))
    x = torch.rand(1, 18, 18)
    e = bench.explain(x, "attnlrp", target=0)
    pixels = looprop.attribute(lambda y: bench.model(pixel_values=y).logits, x[None], "attnlrp", target=0)
    assert len(e) == 16
    assert e.scores.sum() == pytest.approx(float(pixels.sum()), rel=1e-4)


def drawn(e: looprop.Explanation) -> Any:
    """The pixels of the picture that comes with an explanation."""
    return imread(io.BytesIO(base64.b64decode(e.details["picture"]["png"])), format="png")


def test_an_explanation_brings_the_picture_as_the_model_saw_it(vit: looprop.Workbench) -> None:
    pixels = image()[0]
    e = vit.explain(image(), "attnlrp")
    expected = (pixels - pixels.min()) / (pixels.max() - pixels.min())
    np.testing.assert_allclose(drawn(e), expected.numpy(), atol=1 / 255)
    picture = e.strip().picture
    assert picture is not None
    assert (picture.rows, picture.columns, picture.wide, picture.high) == (4, 4, 1.0, 1.0)
    assert [list(cells) for cells in picture.cells] == [[i] for i in range(16)]
    again = looprop.Explanation.from_dict(json.loads(json.dumps(e.to_dict())))
    assert again.strip().picture == picture, "also once it was saved and read"


def test_the_picture_undoes_what_the_processor_did() -> None:
    processor = hf.ViTImageProcessor(
        size={"height": 16, "width": 16}, image_mean=[0.2, 0.4, 0.6], image_std=[0.5, 0.25, 0.125], do_resize=True
    )
    config = hf.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=4
    )
    bench = looprop.load((hf.ViTForImageClassification(config).eval(), processor))
    colours = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    np.testing.assert_allclose(drawn(bench.explain(Image.fromarray(colours), "cp-lrp")), colours / 255, atol=1.5 / 255)


def test_a_strip_of_pixels_beside_the_last_patch_is_no_part_of_the_map() -> None:
    config = hf.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=18, patch_size=4
    )
    bench = looprop.load((hf.ViTForImageClassification(config).eval(), None))
    picture = bench.explain(torch.rand(3, 18, 18), "cp-lrp").strip().picture
    assert picture is not None
    assert (picture.rows, picture.columns) == (4, 4)
    assert (picture.wide, picture.high) == (pytest.approx(16 / 18), pytest.approx(16 / 18))


def test_pages_and_plots_of_an_image_show_it(vit: looprop.Workbench, tmp_path: Path) -> None:
    e = vit.explain(image(), "looprop")
    source = e.save(tmp_path / "e.html").read_text(encoding="utf-8")
    assert source.count('<span class="patch') == 16
    assert "data:image/png;base64," in source
    axes = e.plot()
    assert len(axes.images) == 2, "the picture and the map over it"
    heat = np.asarray(axes.images[1].get_array())
    assert heat.shape == (4, 4, 4)
    np.testing.assert_allclose(heat[..., 3].ravel(), 0.75 * np.abs(e.scores) / np.abs(e.scores).max(), atol=1e-9)
    several = looprop.Explanations([e, vit.explain(image(), "cp-lrp")])
    assert several.save(tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_an_images_r_is_to_the_removal_that_is_estimated(vit: looprop.Workbench) -> None:
    found = [vit.explain(image(), name) for name in ("loo", "loo[removal=attention-mask]", "looprop")]
    assert [e.details["removal"] for e in found] == ["zero", "attention-mask", "attention-mask"]
    (views,) = looprop.Explanations(found).views()
    assert views[2].tokens.removal == "attention-mask"
    assert views[2].tokens.r == pytest.approx(found[2].correlation(found[1]))
    (apart,) = looprop.Explanations([found[0], found[2]]).notes()
    assert "loo[removal=attention-mask] is the one to compare it with" in apart


def test_two_images_are_not_one_group(vit: looprop.Workbench) -> None:
    several = looprop.Explanations(vit.explain(image(seed), "loo") for seed in (0, 1))
    assert [len(views) for views in several.views()] == [1, 1]
