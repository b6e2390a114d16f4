"""The plain name of an operation: `torch.add`, `Tensor.add_`, `Tensor.__radd__` and `aten.add.Tensor` are all `add`.

What is not torch's own goes by its full name: `library::add` may do anything.
"""

from types import FunctionType
from typing import Any

OWN_NAMESPACES = frozenset({"aten", "prim", "prims"})


def _named(pairs: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in pairs.split())


_REVERSED = _named(
    "radd=add rmul=mul rsub=rsub rtruediv=rdiv rdiv=rdiv rpow=rpow rmatmul=matmul float=item int=item index=item "
    "complex=item"
)
_SYNONYMS = _named(
    "truediv=div divide=div true_divide=div multiply=mul subtract=sub negative=neg _softmax=softmax "
    "special_softmax=softmax swapaxes=transpose swapdims=transpose concat=cat concatenate=cat clip=clamp "
    "linalg_vector_norm=vector_norm linalg_norm=norm"
)
_IN_PLACE_DUNDER = {"iadd", "isub", "imul", "itruediv", "ipow", "imatmul"}
_NOT_IN_PLACE = {"requires_grad_", "retain_grad"}


def operation_name(function: Any) -> tuple[str, bool]:
    """The plain name of a torch function and whether it works in place.

    >>> import torch
    >>> [operation_name(f) for f in (torch.Tensor.add_, torch.Tensor.__rmul__, torch.ops.aten.mul.Tensor)]
    [('add', True), ('mul', False), ('mul', False)]
    """
    schema = getattr(function, "_schema", None)
    full = schema.name if schema is not None else getattr(function, "_qualified_op_name", "")
    namespace, _, name = full.partition("::")
    home = str(getattr(function, "__module__", None))
    if name and namespace not in OWN_NAMESPACES:
        return str(full), False
    if not name and isinstance(function, FunctionType) and home.partition(".")[0] != "torch":
        return f"{home}::{function.__name__}", False
    name = full.split("::")[-1] if schema is not None else getattr(function, "__name__", repr(function))
    if name in ("__get__", "__set__"):
        owner = getattr(getattr(function, "__self__", None), "__name__", "?")
        return f"{name.strip('_')}:{owner}", False
    return plain_name(name)


def plain_name(name: str) -> tuple[str, bool]:
    """The plain name of an operation that torch calls by this name, and whether it works in place.

    >>> plain_name("__iadd__"), plain_name("multiply")
    (('add', True), ('mul', False))
    """
    in_place = False
    if name.startswith("__") and name.endswith("__"):
        name = name.strip("_")
        if name in _IN_PLACE_DUNDER:
            name, in_place = name[1:], True
        name = _REVERSED.get(name, name)
    elif name.endswith("_") and name not in _NOT_IN_PLACE:
        name, in_place = name[:-1], True
    return _SYNONYMS.get(name, name), in_place
