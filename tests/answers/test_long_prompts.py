"""Long prompts: suffixes that run in blocks of attention give what plain masking gives."""

import numpy as np
import pytest
import torch
import transformers as hf

import looprop
from looprop.intercept.attention import AttentionCall
from looprop.removal.shortcuts.prefix import BLOCK, CausalBlocks
from looprop.removal.value import SetFunction
from looprop.workbench import Workbench
from tiny import byte_level


@pytest.fixture(scope="module")
def llama() -> Workbench:
    tokenizer = byte_level()
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
    )
    model = hf.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4.0) if parameter.dim() > 1 else None
    return looprop.load((model, tokenizer))


def test_long_suffixes_agree_with_plain_masking(llama: Workbench) -> None:
    text = " ".join(f"The film of {i} was good and bad." for i in range(30))
    answer = llama.answer(text, answer=" It was.")
    assert len(answer.encoded) > 4 * BLOCK
    subject = llama.subject(answer, features="sentence")
    keep = ~np.eye(len(subject.features), dtype=bool)
    quick, plain = SetFunction(subject), SetFunction(subject.alone(), quick=False)
    assert quick(keep) == pytest.approx(plain(keep), abs=1e-4)
    assert quick.way.startswith("prefix, cut at 3")
    assert "fell_back" not in quick.report()
    assert np.ptp(plain(keep)) > 1e-2, "there is something to be wrong about"


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("boolean", [False, True])
def test_blocks_are_attention_under_the_mask(last: bool, boolean: bool) -> None:
    torch.manual_seed(0)
    before, rows, read = 70, 2 * BLOCK + 30, 5
    query, key, value = (torch.randn(2, 4, n, 8) for n in (rows, before + rows, before + rows))
    seen = torch.ones(rows, before + rows, dtype=torch.bool).tril(before).expand(2, 1, -1, -1).clone()
    seen[1, :, :, 30:60] = False  # a variant that shares less
    mask = seen if boolean else torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    call = AttentionCall(1, query, key, value, mask=mask)
    wanted, got = call.run(), CausalBlocks(read)(call, last)
    assert torch.allclose(got[:, :, -read:], wanted[:, :, -read:], atol=1e-5)
    if not last:
        assert torch.allclose(got, wanted, atol=1e-5)
    # A mask that lets rows look ahead is left to torch.
    ahead = seen.clone()
    ahead[0, :, 0, -1] = True
    call = AttentionCall(1, query, key, value, mask=ahead)
    assert torch.equal(CausalBlocks(read)(call, last), call.run())
