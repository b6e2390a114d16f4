"""Image classifiers: patches, pixels, and images that cannot be explained."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

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
