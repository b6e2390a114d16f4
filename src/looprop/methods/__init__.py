"""The methods, one file each: a subject in, one score per feature out."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.methods.base import Attribution as Attribution, Method as Method
    from looprop.methods.default import DefaultMethodWarning as DefaultMethodWarning
    from looprop.methods.names import method_names as method_names
    from looprop.methods.parts.propagating import propagate as propagate
    from looprop.methods.registry import make_method as make_method, method_class as method_class, register as register

# Imported when first used: the names of the methods are read without torch.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "base": "Attribution Method",
        "default": "DefaultMethodWarning",
        "names": "method_names",
        "parts.propagating": "propagate",
        "registry": "make_method method_class register",
    },
)
