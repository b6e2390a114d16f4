"""Lets torchvision be imported beside a CPU build of torch, whose operators its CUDA build cannot register.

lxt imports a vision model from torchvision, which this bench never runs. Without this, the import ends with
"operator torchvision::nms does not exist".
"""

from typing import Any

import torch

_library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]


def declare() -> None:
    """Declares the two operators that torchvision's import looks up, if they are missing."""
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
