"""The study of the paper: an experiment is a YAML file, a run is a folder, a report is its tables, figure and page.

    spec (specs/*.yaml) -> kind (kinds/) -> run -> claims and tables -> report (report/)

What is computed for one example, and what is said about the rows, one kind knows; everything else is the same for all.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.study.audit_cases import audit_case
    from looprop.study.experiments import experiment_names
    from looprop.study.kinds import load_kind
    from looprop.study.planted_models import planted_model
    from looprop.study.report.writing import write_report
    from looprop.study.reproducing import reproduce
    from looprop.study.run import Run, read_run
    from looprop.study.spec import Spec, load_spec, parse_spec

# Imported when first used, so that `looprop --help` does not wait for torch.
_HOMES = {
    "Run": "looprop.study.run",
    "Spec": "looprop.study.spec",
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
    "Run",
    "Spec",
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
