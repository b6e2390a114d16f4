"""Does an explanation depend on how the model is written? Equivalent rewrites, their proof, sanity checks, verdicts.

`looprop.audit` is the way in. Here is what it gives, `Audit` and its parts, and what it takes for a rewrite of one's
own: `Rewrite`, with `Model`, `Changes` and `Places`.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.auditing.original import AuditPrecision as AuditPrecision
    from looprop.auditing.result import (
        Attempt as Attempt,
        Audit as Audit,
        Checks as Checks,
        MethodVerdict as MethodVerdict,
        RewriteEffect as RewriteEffect,
    )
    from looprop.auditing.rewrites.base import Changes as Changes, Model as Model, Places as Places, Rewrite as Rewrite

# Imported when first used, so that `looprop --help` does not wait for torch.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "original": "AuditPrecision",
        "result": "Attempt Audit Checks MethodVerdict RewriteEffect",
        "rewrites.base": "Changes Model Places Rewrite",
    },
)
