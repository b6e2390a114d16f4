"""2, continued. A language model that answers a question about a context: leave-one-out of the sentences, beside
captum's LLMAttribution and ContextCite's random ablations.
"""

from benchmarks.sections import Row, Sizes
from benchmarks.sides.prompted import length
from benchmarks.team import OURS, Team, Turn


def measure(team: Team, sizes: Sizes) -> list[Row]:
    """A short prompt, and a long context. The unit is one forward pass over prompt and answer."""
    rows: list[Row] = []
    for group, count in (("prompt", sizes.prompt_sentences), ("context", sizes.context_sentences)):
        asked = {"layers": sizes.prompt_layers, "count": count}
        turns = [
            Turn(OURS, "context-forward", None, "forward pass", asked),
            Turn(OURS, "context-loo", None, "LOO by sentence", asked),
            Turn("captum", "context-loo", None, "LLMAttribution", asked),
        ]
        if group == "context":
            turns.append(Turn("context_cite", "context-loo", None, "per ablation", asked))
        found = team.take_turns(turns, repeats=sizes.repeats, seconds=sizes.seconds, least=1)
        about = {"group": group, "model": f"SmolLM2, {sizes.prompt_layers} layers", "sentences": count, "batch": 1}
        rows += [{**about, "tokens": length(count), **row} for row in found]
        team.forget()
    return rows
