"""Networks (RQ1): the scalar product in its two groupings, and two linear-attention networks with shared weights."""

from functools import partial
from pathlib import Path

import torch

from looprop.errors import DataError
from looprop.evaluation.setup import Setup
from looprop.inputs.mnist import load_mnist
from looprop.running.missing import Work
from looprop.progress import progress_bar
from looprop.study.claims import JudgedClaim
from looprop.study.kind import About, Job, Options
from looprop.study.kind import Kind
from looprop.study.kinds.networks.findings import network_claims
from looprop.study.kinds.networks.pairs import POINT, PairTask, measure_pair
from looprop.study.kinds.networks.findings import network_tables
from looprop.study.kinds.networks.training import draw_digits, trained
from looprop.study.report.grids import Grid
from looprop.study.run import Run
from looprop.study.spec import Spec

DATA = "mnist"


class Networks(Kind):
    """Per seed a network to train; per seed and image a task; and the scalar product."""

    def check(self, spec: Spec) -> None:
        for name, of_data in spec.data.items():
            if of_data.skip:
                raise DataError(f"skip is for experiments of kind 'texts', got it on {name}")
        if DATA not in spec.data:
            raise DataError(f"an experiment of kind {spec.kind!r} runs on {DATA}, got {', '.join(spec.data)}")

    def job(self, spec: Spec, options: Options) -> Job:
        options.check_unused("model", "loo_from", "references", because=f"{spec.name} trains its own networks")
        if options.data not in (None, DATA):
            raise DataError(f"{spec.name} runs on {DATA}, got data {options.data!r}")
        training, test = load_mnist("train"), load_mnist(spec.data[DATA].split or "test")
        digits = draw_digits(test, limit=options.limit, seed=options.seed)
        setup = Setup(spec.methods, spec.metrics, seed=options.seed)
        identity = {
            "spec": spec.to_dict(data=DATA),
            "setup": setup.to_dict(),
            "data": {"training": training.hash, "test": test.hash, "examples": len(digits.names), "of": digits.total},
            "limit": options.limit,
            "seed": options.seed,
        }

        def prepare(folder: Path, *, progress: bool) -> Work:
            networks = {}
            with progress_bar("training networks", spec.seeds, show=progress) as advance:
                for seed in range(spec.seeds):
                    networks[seed] = trained(folder, training, test, seed)
                    advance()
            return partial(measure_pair, networks, setup=setup)

        tasks = [PairTask("product", torch.tensor(POINT))]
        for seed in range(spec.seeds):
            named = zip(digits.names, digits.pixels, strict=True)
            tasks += [PairTask(f"seed {seed}/{name}", pixels, seed=seed) for name, pixels in named]
        title = f"{spec.name}: {digits.title}, {spec.seeds} seeds"
        about = About("linear attention", DATA, digits.title, subset=digits.subset, examples=len(digits.names))
        return Job(title, tasks, prepare, identity, about)

    def tables(self, run: Run) -> list[Grid]:
        return network_tables(run)

    def claims(self, run: Run) -> list[JudgedClaim]:
        return [*network_claims(run)]


KIND = Networks()
