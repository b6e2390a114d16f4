"""An explicit propagation through a whole BERT classifier, the oracle that the engine is held to.

The forward pass is written out from the weights, and relevance is taken back through it with nothing but the functions
of `looprop.propagation.reference`: no autograd, no hooks, no code shared with the engine.

Order of operations, backwards from the logit:

1.  R at the logits: the target's logit at the target, zero elsewhere
2.  classifier: linear_epsilon; pooler tanh: identity; pooler dense: linear_epsilon; selection of [CLS]: zero in all
other rows
3.  for each layer from the last to the first:
    output norm: norm_constant_std; residual sum (dense output, attention norm's output): sum_epsilon; output dense:
        linear_epsilon;
    GELU: identity; intermediate dense: linear_epsilon; R at the attention norm's output = residual part + feed-forward
        part;
    attention norm: norm_constant_std; residual sum (dense output, layer input): sum_epsilon; attention dense:
        linear_epsilon;
    attention per head, either CP: value_only, or AttnLRP: attention_values -> softmax -> attention_scores, c_jir with 1
        / sqrt(d);
    query, key, value dense: linear_epsilon; R at the layer's input = residual + query + key + value parts
4.  embedding norm: norm_constant_std gives R_sum at (word + token type) + position
5.  the embeddings are added in two steps by transformers, so they are taken apart in two: sum_epsilon over (word +
    token type, position), then sum_epsilon over (word, token type), which gives R_word

Masked keys are left out of every row: the mask is a term of no sum. Dropout is absent (eval mode).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from looprop.propagation import reference
from looprop.propagation.reference import BiasShare


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The activations of one encoder layer, in the order in which they are computed."""

    module: Any
    x: Tensor  # (T, D): the layer's input
    Q: Tensor  # (H, T, d)
    K: Tensor  # (H, T, d)
    V: Tensor  # (H, T, d)
    Z: Tensor  # (H, T, T): -inf where masked
    A: Tensor  # (H, T, T)
    context: Tensor  # (T, D): the heads' outputs side by side
    attention_dense: Tensor  # (T, D)
    attention_sum: Tensor  # (T, D): attention_dense + x
    middle: Tensor  # (T, D): norm of attention_sum
    inner: Tensor  # (T, F): before the GELU
    activated: Tensor  # (T, F)
    output_dense: Tensor  # (T, D)
    output_sum: Tensor  # (T, D): output_dense + middle
    output: Tensor  # (T, D): norm of output_sum


def dense(module: nn.Linear, x: Tensor) -> Tensor:
    """y = W x + b."""
    return x @ module.weight.T + module.bias


def layer_norm(module: nn.LayerNorm, x: Tensor) -> Tensor:
    """y = w (x - mean(x)) / sqrt(var(x) + eps) + b."""
    deviation = x - x.mean(dim=-1, keepdim=True)
    return deviation / (deviation.square().mean(dim=-1, keepdim=True) + module.eps).sqrt() * module.weight + module.bias


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(T, H * d) -> (H, T, d)."""
    return x.reshape(len(x), heads, -1).transpose(0, 1)


def merge_heads(x: Tensor) -> Tensor:
    """(H, T, d) -> (T, H * d)."""
    return x.transpose(0, 1).flatten(-2)


def run_layer(module: Any, x: Tensor, kept: Tensor) -> Layer:
    """One encoder layer; kept (T,) is False for the keys that are masked."""
    attention = module.attention.self
    heads = attention.num_attention_heads
    Q, K, V = (
        split_heads(dense(projection, x), heads) for projection in (attention.query, attention.key, attention.value)
    )
    Z = (Q @ K.mT / Q.shape[-1] ** 0.5).masked_fill(~kept, -torch.inf)
    A = torch.softmax(Z, dim=-1)
    context = merge_heads(A @ V)
    attention_dense = dense(module.attention.output.dense, context)
    attention_sum = attention_dense + x
    middle = layer_norm(module.attention.output.LayerNorm, attention_sum)
    inner = dense(module.intermediate.dense, middle)
    activated = module.intermediate.intermediate_act_fn(inner)
    output_dense = dense(module.output.dense, activated)
    output_sum = output_dense + middle
    output = layer_norm(module.output.LayerNorm, output_sum)
    return Layer(
        module=module,
        x=x,
        Q=Q,
        K=K,
        V=V,
        Z=Z,
        A=A,
        context=context,
        attention_dense=attention_dense,
        attention_sum=attention_sum,
        middle=middle,
        inner=inner,
        activated=activated,
        output_dense=output_dense,
        output_sum=output_sum,
        output=output,
    )


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules that read weights, bound to one epsilon and one bias share."""

    epsilon: float
    bias_share: BiasShare

    def through_dense(self, module: nn.Linear, x: Tensor, relevance: Tensor) -> Tensor:
        return reference.linear_epsilon(
            x, module.weight, module.bias, relevance, epsilon=self.epsilon, bias_share=self.bias_share
        )

    def through_norm(self, module: nn.LayerNorm, x: Tensor, relevance: Tensor) -> Tensor:
        rule = partial(
            reference.norm_constant_std, norm_eps=module.eps, epsilon=self.epsilon, bias_share=self.bias_share
        )
        return rule(x, module.weight, module.bias, relevance)

    def through_attention(self, layer: Layer, R_context: Tensor, *, cp: bool) -> Tensor:
        """From the heads' outputs to the layer's input, by way of V alone (CP) or of Q, K and V (AttnLRP)."""
        attention = layer.module.attention.self
        R_O = split_heads(R_context, attention.num_attention_heads)
        if cp:
            R_V = reference.value_only(layer.A, layer.V, R_O, self.epsilon)
            return self.through_dense(attention.value, layer.x, merge_heads(R_V))
        R_A, R_V = reference.attention_values(layer.A, layer.V, R_O, self.epsilon)
        R_Z = reference.softmax(layer.Z, R_A)
        R_Q, R_K = reference.attention_scores(
            layer.Q, layer.K, R_Z, scale=layer.Q.shape[-1] ** -0.5, epsilon=self.epsilon
        )
        parts = ((attention.query, R_Q), (attention.key, R_K), (attention.value, R_V))
        return torch.stack([self.through_dense(module, layer.x, merge_heads(part)) for module, part in parts]).sum(
            dim=0
        )

    def through_layer(self, layer: Layer, relevance: Tensor, *, cp: bool) -> Tensor:
        module = layer.module
        R_sum = self.through_norm(module.output.LayerNorm, layer.output_sum, relevance)
        R_dense, R_residual = reference.sum_epsilon([layer.output_dense, layer.middle], R_sum, epsilon=self.epsilon)
        R_inner = reference.identity(self.through_dense(module.output.dense, layer.activated, R_dense))
        R_middle = R_residual + self.through_dense(module.intermediate.dense, layer.middle, R_inner)
        R_sum = self.through_norm(module.attention.output.LayerNorm, layer.attention_sum, R_middle)
        R_dense, R_residual = reference.sum_epsilon([layer.attention_dense, layer.x], R_sum, epsilon=self.epsilon)
        R_context = self.through_dense(module.attention.output.dense, layer.context, R_dense)
        return R_residual + self.through_attention(layer, R_context, cp=cp)


@torch.no_grad()
def propagate(
    model: Any,
    input_ids: Tensor,
    target: int,
    *,
    cp_layers: set[int],
    epsilon: float,
    bias_share: BiasShare = "keep",
    attention_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Relevance of a BertForSequenceClassification's target logit at the word embeddings and at the embedding sum.

    input_ids and attention_mask (1, T); cp_layers counts from 1, all other layers follow AttnLRP. Returns R_word (T,
    D), R_sum (T, D) and the logit, a tensor of no dimensions.
    """
    rules = Rules(epsilon=epsilon, bias_share=bias_share)
    embeddings, pooler, classifier = model.bert.embeddings, model.bert.pooler, model.classifier
    (ids,) = input_ids  # a batch of one
    kept = torch.ones_like(ids, dtype=torch.bool) if attention_mask is None else attention_mask[0].bool()

    word = embeddings.word_embeddings.weight[ids]  # (T, D)
    token_type = embeddings.token_type_embeddings.weight[torch.zeros_like(ids)]
    position = embeddings.position_embeddings.weight[: len(ids)]
    typed = word + token_type
    summed = typed + position
    x = layer_norm(embeddings.LayerNorm, summed)
    layers: list[Layer] = []
    for module in model.bert.encoder.layer:
        layers.append(run_layer(module, x, kept))
        x = layers[-1].output
    pooled = torch.tanh(dense(pooler.dense, x[0]))  # (D,)
    logits = dense(classifier, pooled)  # (C,)

    R_logits = torch.zeros_like(logits)
    R_logits[target] = logits[target]
    R_pooled = reference.identity(rules.through_dense(classifier, pooled, R_logits))
    relevance = torch.zeros_like(x)
    relevance[0] = rules.through_dense(pooler.dense, x[0], R_pooled)
    for number, layer in reversed(list(enumerate(layers, start=1))):
        relevance = rules.through_layer(layer, relevance, cp=number in cp_layers)
    R_sum = rules.through_norm(embeddings.LayerNorm, summed, relevance)
    R_typed, _ = reference.sum_epsilon([typed, position], R_sum, epsilon=epsilon)
    R_word, _ = reference.sum_epsilon([word, token_type], R_typed, epsilon=epsilon)
    return R_word, R_sum, logits[target]
