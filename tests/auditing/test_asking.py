"""What an audit asks is checked on every input, as an explanation is."""

from typing import Any

import torch
from torch import nn

import zoo
from looprop.auditing.asking import ask_all
from looprop.methods.registry import make_method
from looprop.models.encoded import partition
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, new_subject
from looprop.models.target import Target
from removal.naive import TOKENIZER, encode


class AnswersOtherwiseInTraining(nn.Module):
    """A BERT that gives other logits where gradients are on, for texts that begin with an odd token."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = zoo.build("bert")
        self.config = self.inner.config

    def get_input_embeddings(self) -> Any:
        return self.inner.get_input_embeddings()

    def forward(self, input_ids: torch.Tensor, attention_mask: Any = None, position_ids: Any = None) -> torch.Tensor:
        logits: torch.Tensor = self.inner(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids
        ).logits
        return 1.5 * logits if torch.is_grad_enabled() and int(input_ids[0, 0]) % 2 else logits


def test_an_input_of_another_answer_under_the_engine_is_refused_wherever_it_stands() -> None:
    adapter = TextClassifier(AnswersOtherwiseInTraining(), TOKENIZER)

    def subjects(*first: int) -> list[Subject]:
        found = [encode(torch.tensor([[token, 20, 21, 22, 23]])) for token in first]
        return [new_subject(adapter, each, Target((1,), "1"), partition(each)) for each in found]

    methods = {"cp-lrp": make_method("cp-lrp")}
    assert not ask_all(methods, subjects(8, 10, 12), batch=False)["cp-lrp"].error
    said = ask_all(methods, subjects(8, 9, 10), batch=False)["cp-lrp"]
    assert said.error
    assert "under the engine" in str(said.error)
