"""Audio classifiers: a waveform or a spectrogram, in pieces of time."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from looprop.errors import InputError, ModelError
from looprop.models.adapter import Adapter
from looprop.models.checking import items_named
from looprop.models.encoded import Encoded
from looprop.models.kinds import Head

SOUNDS = ("input_values", "input_features")
"""What models call a waveform, or a spectrogram, that they take."""
# A piece lasts a tenth of a second, or less where the sound would have fewer pieces than this.
PIECES_A_SECOND, FEWEST = 10, 8
# What models of speech take, and how many frames of a spectrogram make a second.
USUAL_RATE, FRAMES = 16_000, 100
# Positions of a batch that one piece stands for.
WEIGHT = 4


class AudioClassifier(Adapter):
    """A model that answers a sound with one logit per class: each tenth of a second is one position."""

    noun, tokens, removals = "sounds", False, ("zero",)
    classifies = True

    def __init__(self, model: nn.Module, processor: Any = None, *, name: str = "") -> None:
        super().__init__(model, name=name)
        names = [n for n in SOUNDS if n in self.arguments]
        if not names:
            raise ModelError(
                f"{self.name} takes no input_values and no input_features: explain it as a plain module with "
                "looprop.attribute"
            )
        config = getattr(model, "config", None)
        self.explained_input, self.processor = names[0], processor
        self.bins = getattr(config, "num_mel_bins", None)
        self.rate = getattr(processor, "sampling_rate", None) or USUAL_RATE

    def encode(self, item: Any, *, truncation: bool = False) -> Encoded:
        """A float tensor as the model takes it, or samples of a sound (an array) for the feature extractor."""
        if not isinstance(item, Tensor):
            item = self._extracted(item)
        waves = item if item.dim() > 1 and len(item) == 1 else item[None]
        if waves.dim() not in (2, 3):
            raise InputError(
                f"a sound must be samples (N,) or a spectrogram of two dimensions, got {tuple(item.shape)}"
            )
        if not waves.is_floating_point():
            raise InputError(f"a sound must be floating-point numbers as the model takes them, got {waves.dtype}")
        if not waves.numel():
            raise InputError("the sound is empty: nothing to explain")
        if not torch.isfinite(waves).all():
            raise InputError("the sound holds NaN or infinite samples")
        waves = waves.to(self.device, self.dtype)
        size, length = self._piece(waves), waves.shape[self._time(waves)]
        second = self.rate if waves.dim() == 2 else FRAMES
        names = tuple(f"{start / second:.3g} s" for start in range(0, length, size))
        none, flags = (None,) * len(names), (False,) * len(names)
        return Encoded({self.explained_input: waves}, names, "", none, flags, none)

    def _extracted(self, samples: Any) -> Tensor:
        if self.processor is None:
            raise InputError(
                f"a sound must be a float tensor as the model takes it, or give the feature extractor; got "
                f"{type(samples).__name__}"
            )
        with items_named(f"{self.name} reads sounds: a float tensor as it takes it, or an array of samples", samples):
            given = np.asarray(samples, dtype=np.float32)
            features = self.processor(given, sampling_rate=self.rate, return_tensors="pt")
        if self.explained_input not in features:
            raise ModelError(
                f"the feature extractor gives {', '.join(features)}, the model takes {self.explained_input}"
            )
        found: Tensor = features[self.explained_input]
        return found

    def _time(self, waves: Tensor) -> int:
        """Which dimension is time: the first, but for models whose spectrograms lie on the side (Whisper)."""
        lies = waves.dim() == 3 and waves.shape[1] == self.bins != waves.shape[2]
        return 2 if lies else 1

    def _piece(self, waves: Tensor) -> int:
        """How many samples, or frames, are one position."""
        second, length = self.rate if waves.dim() == 2 else FRAMES, waves.shape[self._time(waves)]
        return max(1, min(int(second) // PIECES_A_SECOND, -(-length // FEWEST)))

    def batch_positions(self, encoded: Encoded) -> int:
        return WEIGHT * len(encoded)

    def spread(self, keep: Tensor, whole: Tensor) -> Tensor:
        """A piece's flag on each of its samples: (B, pieces) -> (B, N), (B, N, 1) or (B, 1, N)."""
        time = self._time(whole)
        flags = keep.repeat_interleave(self._piece(whole), 1)[:, : whole.shape[time]]
        if whole.dim() == 2:
            return flags
        return flags[:, None] if time == 2 else flags[:, :, None]

    def token_scores(self, relevance: Tensor) -> Tensor:
        """Summed over each piece: (B, ...) -> (B, pieces)."""
        time, size = self._time(relevance), self._piece(relevance)
        samples = relevance if relevance.dim() == 2 else relevance.sum(3 - time)
        missing = -samples.shape[1] % size
        filled = torch.nn.functional.pad(samples, (0, missing))
        return filled.reshape(len(filled), -1, size).sum(2)


# Classifiers of texts and of sounds have names alike: what the main input is called tells them apart.
NAMES = ("ForSequenceClassification", "ForAudioClassification")
HEADS = (Head(NAMES, AudioClassifier, reader="AutoFeatureExtractor", main_inputs=frozenset(SOUNDS)),)
