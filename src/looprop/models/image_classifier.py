"""Image classifiers of the transformers library: relevance of pixels, summed over patches."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from looprop.errors import InputError, ModelError
from looprop.intercept.attention import AttentionCall
from looprop.intercept.lookup import EmbeddedMode
from looprop.intercept.sites import SiteMode
from looprop.models.adapter import Adapter, Altered
from looprop.models.encoded import Encoded
from looprop.models.target import labels_of
from looprop.models.traced import Traced
from looprop.propagation.tape import Tape


class ImageClassifier(Adapter):
    """A Vision Transformer: each patch is one position."""

    noun = "images"

    def __init__(self, model: nn.Module, processor: Any = None, *, name: str = "") -> None:
        super().__init__(model, name=name)
        config = getattr(model, "config", None)
        patch, image = getattr(config, "patch_size", None), getattr(config, "image_size", None)
        if patch is None or image is None:
            raise ModelError(
                f"{self.name} does not say its patch_size and image_size: explain it as a plain module with "
                "looprop.attribute"
            )
        self.patch = (patch, patch) if isinstance(patch, int) else tuple(patch)
        self.image = (image, image) if isinstance(image, int) else tuple(image)
        self.processor = processor
        self.labels = labels_of(config)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image[0] // self.patch[0], self.image[1] // self.patch[1]

    def encode(self, item: Any, *, truncation: bool = False) -> Encoded:
        """A float tensor or array (C, H, W) or (1, C, H, W), or anything the image processor takes."""
        if isinstance(item, np.ndarray):
            item = torch.from_numpy(item)
        if not isinstance(item, Tensor):
            if self.processor is None:
                raise InputError(
                    f"an image must be a float tensor (C, H, W), or give the image processor; got {type(item).__name__}"
                )
            item = self.processor(item, return_tensors="pt")["pixel_values"]
        pixels = item if item.dim() == 4 else item[None]
        if pixels.dim() != 4 or len(pixels) != 1 or tuple(pixels.shape[-2:]) != self.image:
            raise InputError(f"an image must have shape (C, {self.image[0]}, {self.image[1]}), got {tuple(item.shape)}")
        if not pixels.is_floating_point():
            raise InputError(f"pixels must be floating-point numbers as the model takes them, got {pixels.dtype}")
        if not torch.isfinite(pixels).all():
            raise InputError("the image holds NaN or infinite pixels")
        rows, columns = self.grid
        names = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        none, flags = (None,) * len(names), (False,) * len(names)
        return Encoded({"pixel_values": pixels.to(self.device, self.dtype)}, names, "", none, flags, none)

    def watch(self, tape: Tape, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The pixels are the explained input."""
        return {**inputs, "pixel_values": tape.watch(inputs["pixel_values"])}

    def explained(self, traced: Traced, readout: str) -> Tensor:
        """Always the pixels."""
        return traced.inputs["pixel_values"]

    @property
    def runs_rows(self) -> bool:
        """Rows are cut out of the embedded sequence."""
        return True

    def at_rows(self, encoded: Encoded, rows: Tensor, *, read: Tensor | None = None) -> Altered:
        """The whole image, of whose embedded sequence (class tokens first) only these rows go on."""
        wanted = rows[:, :, None]
        cut = EmbeddedMode(lambda sequence: sequence.gather(1, wanted.expand(-1, -1, sequence.shape[2])))
        return self.whole(encoded, len(rows)), cut

    def leading_positions(self, encoded: Encoded) -> int:
        """Class and distillation tokens: the model's own count of positions less the patches."""
        if self.facts.leading is None:
            lengths: list[int] = []

            def note(call: AttentionCall) -> Tensor:
                lengths.append(call.key.shape[-2])
                return call.run()

            def note_scores(_: int, scores: Tensor) -> Tensor:
                lengths.append(scores.shape[-1])
                return scores

            with self.evaluating(), torch.no_grad(), SiteMode(fused=note, scores=note_scores):
                self.forward(encoded.inputs)
            if len(set(lengths)) != 1 or lengths[0] < len(encoded):
                raise ModelError(
                    f"{self.name} changes its number of positions between layers: its patches cannot be masked; use "
                    "removal='zero'"
                )
            self.facts.leading = lengths[0] - len(encoded)
        return self.facts.leading

    def spread(self, keep: Tensor, whole: Tensor) -> Tensor:
        """A patch's flag on each of its pixels: (B, patches) -> (B, 1, H, W)."""
        grid = keep.reshape(len(keep), 1, *self.grid)
        return grid.repeat_interleave(self.patch[0], 2).repeat_interleave(self.patch[1], 3)

    def token_scores(self, relevance: Tensor) -> Tensor:
        """Summed over each patch: (B, C, H, W) -> (B, patches)."""
        rows, columns = self.grid
        # What is left over beside the last whole patch is not read by the model.
        pixels = relevance.sum(1)[:, : rows * self.patch[0], : columns * self.patch[1]]
        blocks = pixels.reshape(len(relevance), rows, self.patch[0], columns, self.patch[1])
        return blocks.sum((2, 4)).flatten(1)
