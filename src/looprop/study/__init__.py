"""The study of the paper: an experiment is a YAML file, a run is a folder, a report is its tables, figure and page.

    spec (specs/*.yaml) -> kind (kinds/) -> run -> claims and tables -> report (report/)

What is computed for one example, and what is said about the rows, one kind knows; everything else is the same for all.
A kind in a folder of its own needs the classes that stand here: Kind, Job, About, Task, Grid, Measured, JudgedClaim.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.evaluation.example import Task
    from looprop.study.audit_cases import audit_case
    from looprop.study.claims import JudgedClaim
    from looprop.study.experiments import experiment_names
    from looprop.study.job import About, Job, Options
    from looprop.study.kind import Kind, Picture
    from looprop.study.kinds import load_kind
    from looprop.study.planted_models import planted_model
    from looprop.study.report.grids import Grid, Measured
    from looprop.study.report.writing import write_report
    from looprop.study.reproducing import reproduce
    from looprop.study.run import Run, read_run
    from looprop.study.spec import Spec, load_spec, parse_spec

# Imported when first used, so that `looprop --help` does not wait for torch.
_HOMES = {
    "About": "looprop.study.job",
    "Grid": "looprop.study.report.grids",
    "Job": "looprop.study.job",
    "JudgedClaim": "looprop.study.claims",
    "Kind": "looprop.study.kind",
    "Measured": "looprop.study.report.grids",
    "Options": "looprop.study.job",
    "Picture": "looprop.study.kind",
    "Run": "looprop.study.run",
    "Spec": "looprop.study.spec",
    "Task": "looprop.evaluation.example",
    "audit_case": "looprop.study.audit_cases",
    "experiment_names": "looprop.study.experiments",
    "load_kind": "looprop.study.kinds",
    "load_spec": "looprop.study.spec",
    "parse_spec": "looprop.study.spec",
    "planted_model": "looprop.study.planted_models",
    "read_run": "looprop.study.run",
    "reproduce": "looprop.study.reproducing",
    "write_report": "looprop.study.report.writing",
}

__all__ = [
    "About",
    "Grid",
    "Job",
    "JudgedClaim",
    "Kind",
    "Measured",
    "Options",
    "Picture",
    "Run",
    "Spec",
    "Task",
    "audit_case",
    "experiment_names",
    "load_kind",
    "load_spec",
    "parse_spec",
    "planted_model",
    "read_run",
    "reproduce",
    "write_report",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)
