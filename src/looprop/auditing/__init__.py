"""Does an explanation depend on how the model is written? Equivalent rewrites, their proof, sanity checks, verdicts.

`looprop.audit` is the way in. Here is what it gives, `Audit` and its parts, and what it takes for a rewrite of one's
own: `Rewrite`, with `Model`, `Changes` and `Places`.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.auditing.precision import AuditPrecision
    from looprop.auditing.result import Attempt, Audit, Checks, RewriteEffect
    from looprop.auditing.rewrites.base import Model, Places, Rewrite
    from looprop.auditing.rewrites.changes import Changes
    from looprop.auditing.verdicts import MethodVerdict

# Imported when first used, so that `looprop --help` does not wait for torch.
_HOMES = {
    "Attempt": "looprop.auditing.result",
    "Audit": "looprop.auditing.result",
    "AuditPrecision": "looprop.auditing.precision",
    "Changes": "looprop.auditing.rewrites.changes",
    "Checks": "looprop.auditing.result",
    "MethodVerdict": "looprop.auditing.verdicts",
    "Model": "looprop.auditing.rewrites.base",
    "Places": "looprop.auditing.rewrites.base",
    "Rewrite": "looprop.auditing.rewrites.base",
    "RewriteEffect": "looprop.auditing.result",
}

__all__ = [
    "Attempt",
    "Audit",
    "AuditPrecision",
    "Changes",
    "Checks",
    "MethodVerdict",
    "Model",
    "Places",
    "Rewrite",
    "RewriteEffect",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
