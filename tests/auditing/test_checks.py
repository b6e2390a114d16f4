"""The changes behind the sanity checks: each is what it says, and is undone."""

import pytest
import torch
from torch import Tensor, nn

from auditing.pieces import bench, outside
from looprop.auditing.checks import layers_from_the_end, shift_input, shuffle
from looprop.auditing.rewrites.base import undone
from looprop.auditing.rewrites.observing import observe
from looprop.models.adapter import Adapter
from looprop.models.subject import bind


class ReadTwice(nn.Module):
    """A model that looks its tokens up once more, as an encoder and a decoder with one table do."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.config = model, model.config
        self.more = nn.Linear(32, 3).double()

    def get_input_embeddings(self) -> nn.Module:
        embeddings: nn.Module = self.model.get_input_embeddings()  # type: ignore[operator]
        return embeddings

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        looked_up = self.get_input_embeddings()(input_ids)
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits + self.more((looked_up * attention_mask[..., None]).mean(1))


@pytest.mark.parametrize("twice", [False, True])
def test_a_shifted_embedding_is_another_table_of_the_same_function(twice: bool) -> None:
    m, texts = bench("bert", torch.float64)
    adapter = m.adapter
    if twice:
        adapter.model = ReadTwice(m.model).eval()
    subjects = [bind(adapter, text, target=0) for text in texts]
    before, wanted = outside(adapter.model), [subject.output for subject in subjects]
    table = weight_of(adapter)
    with undone() as changes:
        shifted = shift_input(adapter.renewed(), subjects, changes)
        assert [subject.output for subject in shifted] == pytest.approx(wanted, rel=1e-12)
        moved = weight_of(adapter) - table
        assert float(moved.abs().max()) > 0.1 * float(table.std())
        torch.testing.assert_close(moved, moved[:1].expand_as(moved))  # one constant for all tokens
    assert outside(adapter.model) == before


def weight_of(adapter: Adapter) -> Tensor:
    weight = adapter.explained_weight
    assert weight is not None
    return weight.detach()


def test_a_shifted_image_is_another_image_to_the_same_function() -> None:
    m, images = bench("vit", torch.float64)
    subjects = [bind(m.adapter, image.double(), target=0) for image in images]
    before, wanted = outside(m.model), [subject.output for subject in subjects]
    with undone() as changes:
        shifted = shift_input(m.adapter.renewed(), subjects, changes)
        assert [subject.output for subject in shifted] == pytest.approx(wanted, rel=1e-12)
        moved = shifted[0].encoded.inputs["pixel_values"] - subjects[0].encoded.inputs["pixel_values"]
        assert float(moved.min()) > 0.1
        assert float(moved.max()) == pytest.approx(float(moved.min()))  # one constant for all pixels
    assert outside(m.model) == before


def test_shuffled_layers_hold_the_same_numbers_in_other_places() -> None:
    class Three(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last, self.first, self.between = nn.Linear(4, 2), nn.Linear(4, 4), nn.LayerNorm(4)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.last(self.between(self.first(x)))
            return out

    model, x = Three(), torch.rand(2, 4)

    def run() -> None:
        model(x)

    layers = layers_from_the_end(observe(model, run))
    assert layers == [model.last, model.between, model.first]
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with undone() as changes:
        shuffle(layers[:1], changes)
        after = dict(model.named_parameters())
        assert not torch.equal(after["last.weight"], before["last.weight"])
        assert torch.equal(after["last.weight"].flatten().sort().values, before["last.weight"].flatten().sort().values)
        assert torch.equal(after["first.weight"], before["first.weight"])
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
