"""An audit as a page: verdicts, a heat map of methods and rewrites, sanity checks, and what each rewrite did."""

import math
from collections.abc import Sequence

from looprop.auditing.result import Attempt, Audit, Checks, RewriteEffect, change_text, percent, said_of
from looprop.display import Cell, Column, card, correlation, escape, facts, fragment, mixed, page, paragraph, table
from looprop.display.html import folded

FOOTER = (
    "A rewrite computes the same function in another way; it is used only after logits and gradients were found equal "
    "on all inputs. Change: the largest difference of scores of any input, relative to its largest score. r: Pearson's "
    "correlation of the explanations before and after, mean over inputs."
)
FAINTEST = 0.2
"""The strength of colour of the smallest change there is."""


def audit_page(audit: Audit) -> str:
    """The whole page."""
    title = "Does the explanation depend on how the model is written?"
    return page(title, _body(audit), subtitle=_subtitle(audit), footer=FOOTER)


def audit_fragment(audit: Audit) -> str:
    """For a notebook: verdicts and heat map."""
    body = f"<h2>{escape(_subtitle(audit))}</h2>" + verdict_table(audit) + heat_map(audit)
    lines = (f"{said_of(name, own)}  {name}: {own.sentence}" for name, own in audit.verdicts.items())
    return fragment(body, plain="\n".join(lines))


def _subtitle(audit: Audit) -> str:
    cut = f"; {audit.about['truncated']}" if "truncated" in audit.about else ""
    model, precision = audit.about.get("model", "model"), audit.about.get("computed_in", "its own precision")
    return f"{model} on {audit.title}, computed in {precision}{cut}"


def _body(audit: Audit) -> str:
    same = f"“0” is a change of at most {audit.tolerance:.0e}. Hover for r and for how often the top feature changes."
    parts = card(verdict_table(audit), title="Verdicts")
    if audit.applied:
        parts += card(heat_map(audit) + paragraph(same), title="How far explanations change, in % of the largest score")
    parts += card(checks_table(audit.checks), title="Sanity checks")
    items = [f"<li>{escape(f'{one.rewrite}: {line}')}</li>" for one in audit.attempts for line in one.unsupported]
    left = f"{len(items)} places that were met and left alone, with the reason"
    rewritten = rewrites_table(audit.attempts) + (folded(f"<ul>{''.join(items)}</ul>", left) if items else "")
    parts += card(rewritten, title="What was rewritten")
    parts += card(_all_rows(audit.rows), title="All numbers") if audit.rows else ""
    return parts + card(facts(_facts(audit)), title="Where the numbers come from")


def verdict_table(audit: Audit) -> str:
    """One line per method."""
    rows = [[said_of(name, own), name, own.sentence, "; ".join(own.flags)] for name, own in audit.verdicts.items()]
    columns = [Column(name) for name in ("verdict", "method", "under rewriting", "sanity checks it fails")]
    return table(columns, rows, sortable=False, stacked=True)


def heat_map(audit: Audit) -> str:
    """Methods by rewrites: the stronger the colour, the more the explanation changes."""
    # Ten names side by side: they break at their hyphens.
    head = "<th>method</th>" + "".join(
        f'<th style="text-align:center;white-space:normal">{escape(name)}</th>' for name in audit.applied
    )
    body = ""
    for method in audit.methods:
        cells = "".join(_heat_cell(audit.row(method, rewrite), audit.tolerance) for rewrite in audit.applied)
        body += f"<tr><td>{escape(method)}</td>{cells}</tr>"
    return f'<div class="scroll"><table class="data"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _heat_cell(effect: RewriteEffect, tolerance: float) -> str:
    if effect.refused:
        return f'<td class="heat outside" title="{escape(effect.refused)}">refused</td>'
    # By its root, so that a change of one per cent is seen, in the dark too.
    kind, style = mixed(0.0 if effect.change <= tolerance else max(FAINTEST, min(1.0, effect.change**0.5)))
    tip = (
        f"r {correlation(effect.r)}, lowest {correlation(effect.lowest_r)}; change {effect.change:.1e}; another top "
        f"feature in {percent(effect.top)}"
    )
    return f'<td class="heat {kind}" style="{style}" title="{escape(tip)}">{change_text(effect.change, tolerance)}</td>'


CHECK_COLUMNS = {
    "method": "",
    "r to LOO": "mean correlation with leave-one-out on the model as it is",
    "residual": "median of |f - sum of scores| / |f|; integrated gradients counts from its baseline",
    "weights shuffled": "r with the explanation after shuffling the last third of layers, two thirds, all "
    "(Adebayo et al.)",
    "input shifted": "change and r when the input's zero is moved and the model takes it off again (Kindermans et al.)",
    "alone or in a batch": "largest relative change",
    "slopes": "largest relative difference between scores and measured slopes of what the rules say",
}


def checks_table(checks: Sequence[Checks]) -> str:
    """The sanity checks as numbers."""
    rows: list[list[str | Cell]] = []
    for check in checks:
        if check.refused:
            rows.append([check.method, "refused", "", "", "", "", ""])
            continue
        shuffled = "  ".join(correlation(r) for r in check.randomised) or "–"
        shifted = f"{change_text(check.shifted, 1e-6)} %, r {correlation(check.shifted_r)}"
        shifted = "–" if math.isnan(check.shifted) else shifted
        tiny = ("–" if math.isnan(value) else f"{value:.0e}" for value in (check.batched, check.slopes))
        rows.append([check.method, correlation(check.loo_r), percent(check.residual), shuffled, shifted, *tiny])
    return table([Column(name, tip=tip) for name, tip in CHECK_COLUMNS.items()], rows, sortable=False)


def rewrites_table(attempts: Sequence[Attempt]) -> str:
    """The changes of each rewrite, and its proof."""
    columns = [Column("rewrite"), Column("what it does"), Column("outcome"), Column("places")]
    columns += [Column("logits differ by", tip="relative, the largest of all inputs"), Column("gradients differ by")]
    rows: list[list[str | Cell]] = []
    for attempt in attempts:
        outcome = attempt.status if not attempt.reason else f"{attempt.status}: {attempt.reason}"
        proof = [Cell(value, text=_tiny(value)) for value in (attempt.logits, attempt.gradient)]
        places = Cell(len(attempt.places), text=str(len(attempt.places)))
        rows.append([attempt.rewrite, attempt.summary, outcome, places, *proof])
    return table(columns, rows, sortable=False, stacked=True)


def _tiny(value: float) -> str:
    return "–" if math.isnan(value) else "0" if value == 0 else f"{value:.0e}".replace("-", "−")


def _all_rows(effects: Sequence[RewriteEffect]) -> str:
    names = ("method", "rewrite", "mean r", "lowest r", "largest change", "other top feature", "r to LOO")
    rows: list[list[str | Cell]] = []
    for one in effects:
        values = (one.r, one.lowest_r, one.change, one.top, one.loo_r)
        shown = zip(values, (_fine, _fine, _tiny, percent, _fine), strict=True)
        cells = [Cell(value, text=write(value)) for value, write in shown]
        rows.append([one.method, one.rewrite, *([f"refused: {one.refused}", *[""] * 4] if one.refused else cells)])
    return folded(table([Column(name) for name in names], rows), f"{len(effects)} rows")


def _fine(r: float) -> str:
    return "–" if math.isnan(r) else f"{r:.6f}".replace("-", "−")


def _facts(audit: Audit) -> list[tuple[str, str]]:
    about = audit.about
    names = ("model", "class", "inputs", "features", "precision", "started")
    shown = [(name, str(about[name])) for name in names if name in about]
    shown += [("weights", str(about.get("weights", ""))[:12]), ("inputs", str(about.get("inputs_hash", ""))[:12])]
    shown += [("seconds", str(about.get("seconds", ""))), ("of the processor", str(about.get("cpu_seconds", "")))]
    versions = about.get("versions", {})
    return shown + [(name, str(versions.get(name, ""))) for name in ("looprop", "torch", "transformers")]
