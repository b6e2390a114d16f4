"""What a report says of one run, before it is written in any form."""

from collections import Counter
from dataclasses import dataclass

from looprop.running.engines import describe
from looprop.study.claims import JudgedClaim
from looprop.study.report.grids import Cells, Grid
from looprop.study.run import Run


@dataclass(frozen=True, eq=False)
class Contents:
    """A run with its tables, that of the paper's claims first if there are any."""

    run: Run
    claims: list[Grid]
    tables: list[Grid]


def contents_of(run: Run) -> Contents:
    """What there is to say of a run."""
    claims = run.claims()
    return Contents(run, [claims_table(claims, run.kind.claims_title)] if claims else [], run.tables())


def claims_table(claims: list[JudgedClaim], title: str) -> Grid:
    """Claims with what the paper prints, where it prints something, our numbers, and the verdict."""
    if not any(claim.paper for claim in claims):
        plain: list[Cells] = [[claim.verdict, claim.claim, claim.ours] for claim in claims]
        return Grid(title, ["verdict", "claim", "found here"], plain, sortable=False)
    rows: list[Cells] = [[claim.verdict, claim.claim, claim.paper, claim.ours] for claim in claims]
    return Grid(title, ["verdict", "claim", "paper", "found here"], rows, sortable=False)


def run_facts(run: Run) -> list[tuple[str, str]]:
    """Where the numbers come from."""
    identity, sessions = run.manifest["identity"], run.manifest["sessions"]
    last = sessions[-1] if sessions else {}
    facts = [("experiment", run.experiment), ("data", run.data_title), ("model", run.model)]
    facts.append(("examples", f"{len(run.computed)} of {run.manifest['tasks']}"))
    if weights := identity.get("model", {}).get("weights"):
        facts.append(("weights", weights[:12]))
    facts += [
        ("seed", str(identity.get("seed", 0))),
        ("torch", str(last.get("versions", {}).get("torch", "not stated"))),
    ]
    facts += [("finished", last.get("finished") or "not yet"), ("sessions", str(len(sessions)))]
    taken_over: Counter[str] = Counter()
    for session in sessions:
        if other := session.get("loo_from"):
            taken_over[other["run"]] += other["examples"]
    facts += [("leave-one-out", f"of {count} examples from {other}") for other, count in taken_over.items() if count]
    engines = [session["engine"] for session in sessions if "engine" in session]
    facts += [(f"machines ({engine['name']})", describe(engine)) for engine in engines]
    if run.failed:
        facts.append(("failed examples", "; ".join(f"{example}: {error}" for example, error in run.failed.items())))
    if run.damaged:
        facts.append(("damaged parts computed anew", ", ".join(run.damaged)))
    unstated = dict.fromkeys(name for session in sessions for name in session.get("unstated", ()))
    if unstated:
        facts.append(("not stated when the run was begun", ", ".join(unstated)))
    return facts
