"""Readings (RQ1): table 1 over a declared grid of everything that the paper leaves open."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from looprop.inputs.mnist import load_mnist
from looprop.progress import progress_bar
from looprop.running.missing import Work
from looprop.study import About, Grid, Job, JudgedClaim, Kind, Options, Picture, Run, Spec
from looprop.study.kinds.networks.training import draw_digits, trained

from .claims import reading_claims
from .figure import readings_figure
from .measuring import BlockTask, measure_block
from .reading import Reading
from .tables import reading_tables

BLOCK = 500
"""Images to a task."""


class Readings(Kind):
    """Per reading and seed a network to train; per network and block of images a task."""

    case = Reading

    def job(self, spec: Spec, options: Options) -> Job:
        unused = ("model", "data", "loo_from", "references")
        options.check_unused(*unused, because=f"{spec.name} trains its own networks")
        training, test = load_mnist("train"), load_mnist("test")
        digits = draw_digits(test, limit=options.limit, seed=options.seed)
        identity = {
            "spec": spec.to_dict(),
            "data": {"training": training.hash, "test": test.hash, "examples": len(digits.names), "of": digits.total},
            "limit": options.limit,
            "seed": options.seed,
        }
        recipes: Mapping[str, Reading] = spec.cases
        pairs = [(name, seed) for name, reading in recipes.items() for seed in range(reading.seeds)]

        def prepare(folder: Path, *, progress: bool) -> Work:
            networks = {}
            with progress_bar("training networks", len(pairs), show=progress) as advance:
                for name, seed in pairs:
                    networks[name, seed] = trained(folder, training, test, seed, recipe=recipes[name], name=name)
                    advance()
            return partial(measure_block, networks, recipes)

        tasks = []
        for name, seed in pairs:
            pixels = recipes[name].scaled(digits.pixels)
            for start in range(0, len(pixels), BLOCK):
                part = pixels[start : start + BLOCK]
                id = f"{name}/seed {seed}/images {start} to {start + len(part) - 1}"
                tasks.append(BlockTask(id, part, reading=name, seed=seed))
        title = f"{spec.name}: {digits.title}, {len(recipes)} readings"
        about = About("linear attention", "mnist", digits.title, subset=digits.subset, examples=len(digits.names))
        return Job(title, tasks, prepare, identity, about)

    def tables(self, run: Run) -> list[Grid]:
        return reading_tables(run)

    def claims(self, run: Run) -> list[JudgedClaim]:
        return reading_claims(run)

    def picture(self, runs: Sequence[Run]) -> Picture:
        return Picture("What the choices do to table 1", readings_figure(runs[0]))


KIND = Readings()
