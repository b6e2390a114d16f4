"""The tables of RQ3: table A1, and how flat the attention of each layer is."""

from looprop.study.kinds.texts.entropy import layer_entropy
from looprop.study.kinds.texts.layer_plans import first_layers, from_layer, only_layer
from looprop.study.kinds.texts.tables import main_table, other_metrics
from looprop.study.report.grids import Cells, Grid, Measured
from looprop.study.run import Run


def layer_tables(run: Run) -> list[Grid]:
    """All tables of a run layer by layer."""
    evaluation, every = run.evaluation(), range(1, run.layers + 1)
    methods = {
        "AttnLRP and CP-LRP": ["loo", "attnlrp", "cp-lrp"],
        "CP-LRP in the first k layers": [first_layers(k) for k in every],
        "CP-LRP from layer k on": [from_layer(k) for k in reversed(every)],
        "CP-LRP in one layer": [only_layer(k) for k in every],
    }
    return [
        *(main_table(run, evaluation, own, title) for title, own in methods.items()),
        _entropies(run),
        other_metrics(evaluation),
    ]


def _entropies(run: Run) -> Grid:
    rows: list[Cells] = [
        [f"layer {k}", Measured(float(entropy), digits=3)] for k, entropy in enumerate(layer_entropy(run), 1)
    ]
    note = "The entropy of attention rows as a share of its maximum, averaged over heads, rows and examples: 1 is flat."
    return Grid("Mean attention entropy", ["layer", "entropy"], rows, note)
