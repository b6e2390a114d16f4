"""The study of the paper: an experiment is a YAML file, a run is a folder, a report is its tables, figure and page.

    spec (specs/*.yaml) -> kind (kinds/) -> run -> claims and tables -> report (report/)

What is computed for one example, and what is said about the rows, one kind knows; everything else is the same for all.
A kind in a folder of its own needs the classes that stand here: Kind, Job, About, Task, Grid, Measured, JudgedClaim.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.evaluation.example import Task as Task
    from looprop.study.claims import JudgedClaim as JudgedClaim
    from looprop.study.kind import About as About, Job as Job, Kind as Kind, Options as Options, Picture as Picture
    from looprop.study.kinds import experiment_names as experiment_names, load_kind as load_kind
    from looprop.study.kinds.networks.pairs import audit_case as audit_case
    from looprop.study.planted_models import planted_model as planted_model
    from looprop.study.report.grids import Grid as Grid, Measured as Measured
    from looprop.study.report.writing import write_report as write_report
    from looprop.study.reproducing import reproduce as reproduce
    from looprop.study.run import Run as Run, read_run as read_run
    from looprop.study.spec import Spec as Spec, load_spec as load_spec, parse_spec as parse_spec

# Imported when first used, so that `looprop --help` does not wait for torch.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "looprop.evaluation.example": "Task",
        "claims": "JudgedClaim",
        "kind": "About Job Kind Options Picture",
        "kinds": "experiment_names load_kind",
        "kinds.networks.pairs": "audit_case",
        "planted_models": "planted_model",
        "report.grids": "Grid Measured",
        "report.writing": "write_report",
        "reproducing": "reproduce",
        "run": "Run read_run",
        "spec": "Spec load_spec parse_spec",
    },
)
