"""What the grid decides about table 1."""

from looprop.study import JudgedClaim, Run

from .cells import NUMBERS, cells_of, printed
from .tables import accuracy_of

CLOSE = 0.8
"""An r above it: integrated gradients follow leave-one-out."""
ACCURACY = (0.80, 0.90)
""""About 85 %"."""


def reading_claims(run: Run) -> list[JudgedClaim]:
    """Can the printed numbers be had, and from what do they come?"""
    cells = cells_of(run.rows)
    paper = ", ".join(f"{name} {value:+.4f}" for name, value in zip(NUMBERS, printed(), strict=True))
    near = [c for c in cells if _near_accuracy(accuracy_of(run, c.choices.reading))]
    claims = []
    if near:
        nearest = near[0]
        values = "; ".join(f"{n} {min(v):+.3f} to {max(v):+.3f}" for n, v in zip(NUMBERS, nearest.values, strict=True))
        ours = f"{nearest.choices}: {values}; largest distance {nearest.distance:.3f}"
        claim = "a reading gives the four printed numbers within the range of its seeds"
        claims.append(JudgedClaim(claim, paper, ours, nearest.distance == 0))
    plain = [c for c in near if c.choices.normalisation == "none" and c.choices.loo_zero == c.choices.ig_zero]
    if plain:
        lowest, highest = min(min(c.values[3]) for c in plain), max(max(c.values[3]) for c in plain)
        ours = f"raw maps and one zero: r {lowest:+.3f} to {highest:+.3f} over the networks of about that accuracy"
        claim = "IG correlates negatively with LOO on these networks"
        claims.append(JudgedClaim(claim, f"{printed()[3]:+.4f}", ours, lowest < 0))
        claim = "the sign of IG comes from a zero that means two things and from dividing by sums"
        claims.append(JudgedClaim(claim, "not looked at", ours, lowest > CLOSE))
    return claims


def _near_accuracy(values: tuple[float, ...]) -> bool:
    return bool(values) and ACCURACY[0] <= sum(values) / len(values) <= ACCURACY[1]
