"""No accelerator is at hand when these tests run, so a stand-in looks on: nothing may mix two devices."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import looprop
import tiny
from elsewhere import Elsewhere, put
from looprop.methods.registry import CATALOGUE

TEXTS = ["the film is not good", "a very bad movie , isn't it ?", "fun"]
BUILDERS = {"classifier": tiny.tiny_classifier, "language model": tiny.tiny_decoder}


def test_the_stand_in_notices_what_a_device_would_refuse() -> None:
    model = nn.Linear(3, 3)
    with Elsewhere(model) as second:
        model.weight + torch.zeros(3, device=model.weight.device)
        model.weight[torch.tensor([0, 1])]
        model.weight + torch.tensor(2.0)
        model.weight.detach().cpu() + torch.ones(3)
        torch.ones(3).to(model.weight) + model.weight
        assert second.mixed == []
        model.weight + torch.zeros(3)
        torch.cat([model.weight.detach(), torch.zeros(1, 3)])
        torch.ones(3)[model.weight.new_zeros(1, dtype=torch.long)]
        model.weight.detach().numpy()
    assert len(second.mixed) == 4, second.mixed


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("method", sorted(CATALOGUE))
def test_no_method_mixes_devices(kind: str, method: str) -> None:
    model, tokenizer = BUILDERS[kind]()
    bench = looprop.load((model, tokenizer))
    plain = bench.explain(TEXTS, method)
    fresh = looprop.load((model, tokenizer))
    with Elsewhere(model) as second:
        found = fresh.explain(TEXTS, method)
    assert second.mixed == []
    assert second.made > 0
    for one, other in zip(found, plain, strict=True):
        assert np.allclose(one.scores, other.scores, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", BUILDERS)
@pytest.mark.parametrize("features", ["word", "chunk:2"])
@pytest.mark.parametrize("removal", ["attention-mask", "mask-token", "pad-token", "delete"])
def test_no_removal_mixes_devices(kind: str, features: str, removal: Any) -> None:
    model, tokenizer = BUILDERS[kind]()
    if kind == "language model" and removal == "mask-token":
        pytest.skip("it has no mask token")
    with Elsewhere(model) as second:
        looprop.load((model, tokenizer)).explain(TEXTS[:2], "loo", removal=removal, features=features)
    assert second.mixed == []


@pytest.mark.parametrize("removal", ["zero", "attention-mask"])
def test_no_image_mixes_devices(removal: Any) -> None:
    import transformers as hf

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = hf.ViTForImageClassification(hf.ViTConfig(image_size=12, patch_size=4, num_labels=3, **sizes)).eval()
    image = torch.linspace(-1, 1, 3 * 12 * 12).reshape(3, 12, 12)
    with Elsewhere(model) as second:
        bench = looprop.load((model, None))
        bench.explain(image, "loo", removal=removal)
        bench.explain(image, "attnlrp")
        bench.explain(image, "looprop")
    assert second.mixed == []


@pytest.mark.parametrize("method", ["loo", "attnlrp", "ig[steps=3]", "grad-x-input"])
def test_no_plain_module_mixes_devices(method: str) -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    with Elsewhere(model) as second:
        looprop.attribute(model, put(torch.ones(2, 4), True), method, target=1)
    assert second.mixed == []
