"""2, continued. Leave-one-out of many short texts at once, on the embedded model: what one variant costs when nobody
waits for a single text.
"""

from benchmarks import cases
from benchmarks.sections import Row, Sizes
from benchmarks.team import OURS, Team, Turn

LENGTHS = (8, 32)


def measure(team: Team, sizes: Sizes) -> list[Row]:
    """A set of texts of one length, by us in one call, by captum and by a plain loop text after text."""
    model = cases.embedded_model()
    rows: list[Row] = []
    for tokens in LENGTHS:
        case = cases.random_texts(model, tokens, sizes.set_texts)
        chosen = {"batch": 64}  # one text's variants are one batch
        turns = [
            Turn(OURS, "forward", case, "forward pass"),
            Turn(OURS, "loo-set", case, "LOO"),
            Turn(OURS, "loo-set-loop", case, "plain loop over masks", chosen),
            Turn("captum", "loo", case, "FeatureAblation", chosen),
        ]
        found = team.take_turns(turns, repeats=sizes.repeats, seconds=sizes.seconds, least=1)
        about = {"group": "set", "model": "embedded model", "tokens": tokens, "batch": sizes.set_texts}
        rows += [{**about, **row} for row in found]
    team.forget()
    return rows
