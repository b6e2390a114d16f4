"""Image classifiers of the transformers library: relevance of pixels, summed over patches."""

import base64
import io
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
from looprop.models.checking import items_named
from looprop.models.encoded import Encoded
from looprop.models.kinds import Head

REGION = 16
"""Pixels to a side of the squares that stand for the patches of a model that has none."""


class ImageClassifier(Adapter):
    """A Vision Transformer, of which each patch is one position, or any other network on images, by squares of pixels.

    patch: pixels to a side of a position; None for the model's own patches, or squares of 16 where it has none.
    """

    noun, explained_input = "images", "pixel_values"
    draws = classifies = True

    def __init__(self, model: nn.Module, processor: Any = None, *, name: str = "", patch: int | None = None) -> None:
        super().__init__(model, name=name)
        if "pixel_values" not in self.arguments or "spatial_shapes" in self.arguments:
            raise ModelError(
                f"{self.name} takes no whole images as pixel_values (B, C, H, W): put it into a module that does, for "
                "looprop.attribute, or into one that reads token ids, see docs/how-to/own-model.md"
            )
        if patch is not None and (type(patch) is not int or patch < 1):
            raise InputError(f"patch must be an integer >= 1, got {patch!r}")
        config = getattr(model, "config", None)
        own, self.image = (_sides(config, f"{what}_size") for what in ("patch", "image"))
        self.patch = (patch, patch) if patch is not None else own or (REGION, REGION)
        # Are positions the patches that the model itself cuts an image into?
        self.tokens = own == self.patch and self.image is not None
        if not self.tokens:
            self.removals, self.image = ("zero",), None
        self.processor = processor

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of patches in an image of some size.

        What is left over beside the last whole patch is not read by a model that cuts patches itself; of any other it
        is a smaller square.
        """
        more = (0, 0) if self.tokens else (self.patch[0] - 1, self.patch[1] - 1)
        return (height + more[0]) // self.patch[0], (width + more[1]) // self.patch[1]

    def encode(self, item: Any, *, truncation: bool = False) -> Encoded:
        """A float tensor or array (C, H, W) or (1, C, H, W), or anything the image processor takes."""
        if isinstance(item, np.ndarray):
            item = torch.from_numpy(item)
        if not isinstance(item, Tensor):
            if self.processor is None:
                raise InputError(
                    f"an image must be a float tensor (C, H, W), or give the image processor; got {type(item).__name__}"
                )
            with items_named(f"{self.name} reads images: a float tensor (C, H, W), a PIL image or an image file", item):
                item = self.processor(item, return_tensors="pt")["pixel_values"]
        pixels = item if item.dim() == 4 else item[None]
        wanted = self.image or ("H", "W")
        if pixels.dim() != 4 or len(pixels) != 1 or (self.image and tuple(pixels.shape[-2:]) != self.image):
            raise InputError(f"an image must have shape (C, {wanted[0]}, {wanted[1]}), got {tuple(item.shape)}")
        if not pixels.is_floating_point():
            raise InputError(f"pixels must be floating-point numbers as the model takes them, got {pixels.dtype}")
        if not torch.isfinite(pixels).all():
            raise InputError("the image holds NaN or infinite pixels")
        rows, columns = self.grid(*pixels.shape[-2:])
        if not rows * columns:
            raise InputError(f"an image of {tuple(pixels.shape[-2:])} pixels holds no patch of {self.patch}")
        names = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        none, flags = (None,) * len(names), (False,) * len(names)
        return Encoded({"pixel_values": pixels.to(self.device, self.dtype)}, names, "", none, flags, none)

    def picture(self, encoded: Encoded) -> Mapping[str, Any]:
        """The image as the model got it, after resizing and cropping, its normalisation undone."""
        pixels = encoded.inputs["pixel_values"][0]
        if len(pixels) not in (1, 3):
            return {}
        height, width = pixels.shape[-2:]
        rows, columns = self.grid(height, width)
        covered = {"wide": columns * self.patch[1] / width, "high": rows * self.patch[0] / height}
        return {"png": _png(pixels.detach().float().cpu(), self.processor), "rows": rows, "columns": columns, **covered}

    @property
    def runs_rows(self) -> bool:
        """Rows are cut out of the embedded sequence, where they are patches."""
        return self.tokens

    def at_rows(self, encoded: Encoded, rows: Tensor, *, read: Tensor | None = None) -> Altered:
        """The whole image, of whose embedded sequence (class tokens first) only these rows go on."""
        wanted = rows[:, :, None]
        cut = EmbeddedMode(lambda sequence: sequence.gather(1, wanted.expand(-1, -1, sequence.shape[2])))
        return self.whole(encoded, len(rows)), cut

    def leading_positions(self, encoded: Encoded) -> int:
        """Class and distillation tokens: the model's own count of positions less the patches."""
        if not self.tokens:
            raise ModelError(
                f"{self.name} is explained by squares of pixels, which are no positions that attend to each other"
            )
        return self.ledger.once("leading", lambda: self._count_leading(encoded))

    def _count_leading(self, encoded: Encoded) -> int:
        lengths: list[int] = []

        def note(call: AttentionCall) -> Tensor:
            lengths.append(call.key.shape[-2])
            return call.run()

        def note_scores(_: int, scores: Tensor) -> Tensor:
            lengths.append(scores.shape[-1])
            return scores

        with self.evaluating(), torch.no_grad(), SiteMode(fused=note, scores=note_scores):
            self.logits(encoded.inputs)
        if len(set(lengths)) != 1 or lengths[0] < len(encoded):
            raise ModelError(
                f"{self.name} changes its number of positions between layers: its patches cannot be masked; use "
                "removal='zero'"
            )
        return lengths[0] - len(encoded)

    def spread(self, keep: Tensor, whole: Tensor) -> Tensor:
        """A patch's flag on each of its pixels: (B, patches) -> (B, 1, H, W); pixels of no patch are kept."""
        height, width = whole.shape[-2:]
        flags = keep.reshape(len(keep), 1, *self.grid(height, width))
        flags = flags.repeat_interleave(self.patch[0], 2).repeat_interleave(self.patch[1], 3)[:, :, :height, :width]
        beside = (0, width - flags.shape[3], 0, height - flags.shape[2])
        return torch.nn.functional.pad(flags, beside, value=True)

    def token_scores(self, relevance: Tensor) -> Tensor:
        """Summed over each patch: (B, C, H, W) -> (B, patches)."""
        height, width = relevance.shape[-2:]
        rows, columns = self.grid(height, width)
        beside = (0, columns * self.patch[1] - width, 0, rows * self.patch[0] - height)  # negative: cut off
        pixels = torch.nn.functional.pad(relevance.sum(1), beside)
        blocks = pixels.reshape(len(relevance), rows, self.patch[0], columns, self.patch[1])
        return blocks.sum((2, 4)).flatten(1)


def in_squares(adapter: Adapter, side: int) -> Adapter:
    """The adapter of an image model whose positions are squares of so many pixels to a side."""
    if not isinstance(adapter, ImageClassifier):
        raise InputError(f"patch is for images, and {adapter.name} takes {adapter.noun}")
    # Without an origin it travels whole: another process that loaded the model anew would cut other squares.
    return ImageClassifier(adapter.model, adapter.processor, name=adapter.name, patch=side)


def _png(pixels: Tensor, processor: Any) -> str:
    """Pixels (C, H, W) as a file in base64: by a processor's mean and deviation, else from darkest to brightest."""
    from PIL import Image  # of matplotlib

    normalised = processor if getattr(processor, "do_normalize", True) else None
    mean, spread = (getattr(normalised, f"image_{name}", None) for name in ("mean", "std"))
    if isinstance(mean, list | tuple) and isinstance(spread, list | tuple) and len(mean) == len(spread) == len(pixels):
        shown = pixels * torch.tensor(spread)[:, None, None] + torch.tensor(mean)[:, None, None]
    else:
        shown = (pixels - pixels.min()) / (pixels.max() - pixels.min()).clamp(min=1e-12)
    colours = (255 * shown.clamp(0, 1)).round().to(torch.uint8).permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(colours[:, :, 0] if colours.shape[2] == 1 else colours).save(file, "png", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def _sides(config: Any, name: str) -> tuple[int, int] | None:
    """Height and width that a configuration, or the part of it that is about images, has under a name."""
    for part in (config, getattr(config, "vision_config", None)):
        size = getattr(part, name, None)
        if isinstance(size, int):
            return size, size
        if isinstance(size, list | tuple) and len(size) == 2 and all(isinstance(side, int) for side in size):
            return size[0], size[1]
    return None


PERCEIVER = tuple(f"ForImageClassification{way}" for way in ("Learned", "Fourier", "ConvProcessing"))
HEADS = (
    Head(("ForImageClassification",), ImageClassifier, "AutoModelForImageClassification", "AutoImageProcessor"),
    Head(PERCEIVER, ImageClassifier, reader="AutoImageProcessor"),
)
