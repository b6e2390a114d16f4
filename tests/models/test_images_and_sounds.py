"""Images without patches of the model's own, and sounds: by squares of pixels and by pieces of time."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor

import looprop
import zoo
from looprop.errors import InputError, LoopropError, ModelError
from looprop.methods.registry import CATALOGUE
from tiny_heads import IMAGES, SOUNDS, bench, image_of, model_of, sound_of

pytestmark = pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")
METHODS = [about.example or about.name for about in CATALOGUE.values()]
SIDES = {"clip": 4, "siglip": 4, "swin": 2, "resnet": 16}
# The dimension of time behind the batch, and how many samples or frames are an eighth of the sound, rounded up.
PIECES = {"wav2vec2": (1, 26), "ast": (1, 3), "whisper": (2, 3)}
ARGUMENT = {"wav2vec2": "input_values", "ast": "input_values", "whisper": "input_features"}


def parts(name: str, x: Tensor) -> list[Tensor]:
    """Which numbers of an input (1, ...) belong to each feature, by loops."""
    found = []
    if name in IMAGES:
        side, size = SIDES[name], x.shape[-1]
        for row in range(0, size, side):
            for column in range(0, size, side):
                own = torch.zeros_like(x, dtype=torch.bool)
                own[..., row : row + side, column : column + side] = True
                found.append(own)
        return found
    axis, piece = PIECES[name]
    for start in range(0, x.shape[axis], piece):
        own = torch.zeros_like(x, dtype=torch.bool)
        own.narrow(axis, start, min(piece, x.shape[axis] - start)).fill_(True)
        found.append(own)
    return found


def item_of(name: str) -> Tensor:
    return image_of(40 if name == "resnet" else 16) if name in IMAGES else sound_of(name)


def answer(name: str, x: Tensor) -> Tensor:
    found: Tensor = bench(name).model(**{ARGUMENT.get(name, "pixel_values"): x}).logits[0, 1]
    return found


@pytest.mark.parametrize("name", [*IMAGES, *SOUNDS])
def test_leave_one_out_is_the_naive_loop(name: str) -> None:
    x = item_of(name)[None]
    e = bench(name).explain(x[0], "loo", target=1)
    with torch.no_grad():
        whole = float(answer(name, x))
        wanted = [whole - float(answer(name, x * ~own)) for own in parts(name, x)]
    assert e.output == pytest.approx(whole)
    np.testing.assert_allclose(e.scores, wanted, rtol=0, atol=1e-9)
    assert np.abs(wanted).max() > 1e-6


@pytest.mark.parametrize("name", [*IMAGES, *SOUNDS])
def test_the_gradient_is_autograds(name: str) -> None:
    x = item_of(name)[None].requires_grad_()
    e = bench(name).explain(x[0].detach(), "grad-x-input", target=1)
    (gradient,) = torch.autograd.grad(answer(name, x), x)
    product = (x * gradient).detach()
    np.testing.assert_allclose(e.scores, [float(product[own].sum()) for own in parts(name, x)], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", [*IMAGES, *SOUNDS])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_answers_or_refuses_by_name(name: str, method: str) -> None:
    items = [item_of(name), item_of(name).flip(0)]
    try:
        together = bench(name).explain(items, method, target=1)
    except LoopropError:
        return
    for item, e in zip(items, together, strict=True):
        alone = bench(name).explain(item, method, target=1)
        np.testing.assert_allclose(e.scores, alone.scores, rtol=0, atol=1e-8 * max(1.0, np.abs(alone.scores).max()))


def test_sizes_that_differ_are_no_batch() -> None:
    """Images of 40 and of 34 pixels both have nine squares."""
    items = [image_of(40), image_of(34)]
    together = bench("resnet").explain(items, "grad-x-input", target=1)
    for item, e in zip(items, together, strict=True):
        assert len(e) == 9
        np.testing.assert_allclose(e.scores, bench("resnet").explain(item, "grad-x-input", target=1).scores, atol=1e-9)


def test_squares_of_ones_own() -> None:
    """Of a ViT, too: 6 pixels to a side, the last ones smaller."""
    model, x = zoo.build("vit"), torch.randn(1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    e = looprop.load((model, None), patch=6).explain(x, "loo", target=1)
    assert len(e) == 9
    with torch.no_grad():
        for i, score in enumerate(e.scores):
            row, column = 6 * (i // 3), 6 * (i % 3)
            gone = x.clone()
            gone[:, row : row + 6, column : column + 6] = 0
            assert score == pytest.approx(e.output - float(model(pixel_values=gone[None]).logits[0, 1]), abs=1e-9)
    with pytest.raises(InputError, match="patch must be an integer >= 1, got 0"):
        looprop.load((model, None), patch=0)
    with pytest.raises(InputError, match="patch is for images"):
        looprop.load(patch=4)


@pytest.mark.parametrize("removal", ["zero", "attention-mask"])
def test_pixels_beside_the_last_patch(removal: Any) -> None:
    """A model that cuts whole patches does not read them: they change nothing, removed or not."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = (
        hf.ViTForImageClassification(hf.ViTConfig(**sizes, image_size=18, patch_size=4, num_labels=3)).eval().double()
    )
    x = image_of(18)
    other = x.clone()
    other[:, 16:], other[:, :, 16:] = 7.0, -7.0
    m = looprop.load((model, None))
    one, two = (m.explain(image, "loo", target=1, removal=removal) for image in (x, other))
    assert len(one) == 16
    np.testing.assert_allclose(one.scores, two.scores, rtol=0, atol=1e-12)
    if removal == "zero":
        gone = x.clone()
        gone[:, 4:8, 8:12] = 0
        with torch.no_grad():
            wanted = one.output - float(model(pixel_values=gone[None]).logits[0, 1])
        assert one.scores[6] == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["resnet", "swin"])
@pytest.mark.parametrize("method", ["rollout", "looprop"])
def test_squares_do_not_attend(name: str, method: str) -> None:
    with pytest.raises(LoopropError):
        bench(name).explain(item_of(name), method)


@pytest.mark.parametrize(
    ("sound", "said"),
    [
        (torch.zeros(4, 5, 6, 7), "samples"),
        (torch.zeros(8, dtype=torch.long), "floating-point"),
        (torch.full((8,), torch.nan), "NaN"),
        (torch.zeros(0), "empty"),
        ([0.1, 0.2], "feature extractor"),
    ],
)
def test_sounds_that_are_refused(sound: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        bench("wav2vec2").explain(sound)


def test_a_model_that_wants_more_than_an_image_is_named() -> None:
    class Greedy(hf.ViTForImageClassification):  # type: ignore[misc]
        def forward(self, pixel_values: Any = None, input_ids: Any = None) -> Any:
            raise ValueError("You must specify input_ids")

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = Greedy(hf.ViTConfig(**sizes, image_size=16, patch_size=4))
    with pytest.raises(ModelError, match="Greedy cannot be run on this input alone, ValueError: You must specify"):
        looprop.load((model, None)).explain(image_of().float())


def test_sounds_and_images_from_a_folder(tmp_path: Path) -> None:
    for name, reader, item in (
        ("wav2vec2", hf.Wav2Vec2FeatureExtractor(), np.sin(np.arange(400) / 9)),
        ("resnet", hf.ConvNextImageProcessor(size={"shortest_edge": 32}), image_of(32)),
    ):
        model = model_of(name, torch.float32)
        for part in (model, reader):
            part.save_pretrained(tmp_path / name)
        loaded = looprop.load(tmp_path / name)
        given = item.float() if isinstance(item, Tensor) else item
        e = loaded.explain(given, "loo", target=1)
        assert np.isfinite(e.scores).all()
        if name == "wav2vec2":  # an array goes through the feature extractor
            values = reader(item.astype(np.float32), sampling_rate=16_000, return_tensors="pt")["input_values"]
            with torch.no_grad():
                assert e.output == pytest.approx(float(model(input_values=values).logits[0, 1]), rel=1e-4)


def test_what_is_no_image_or_sound_is_refused_with_what_is_wanted() -> None:
    processor = hf.ViTImageProcessorPil(size={"height": 16, "width": 16})
    images = looprop.load((model_of("clip"), processor))
    with pytest.raises(InputError, match=r"reads images: a float tensor \(C, H, W\), .*; got the text 'a film'"):
        images.explain("a film", "loo")
    with pytest.raises(InputError, match=r"reads images: .*; got dict"):
        images.explain({}, "loo")
    extractor = hf.Wav2Vec2FeatureExtractor()
    with pytest.raises(InputError, match=r"reads sounds: .* an array of samples; got the text 'a film'"):
        looprop.load((model_of("wav2vec2"), extractor)).explain("a film", "loo")
