"""The texts of an experiment: one of its data sets, or a file of one's own."""

from dataclasses import dataclass, replace
from pathlib import Path

from looprop.errors import UnknownNameError
from looprop.inputs.datasets import load_dataset
from looprop.inputs.examples import Dataset, make_dataset
from looprop.inputs.files import read_texts
from looprop.study.spec import DataSpec, Spec


@dataclass(frozen=True)
class TextSource:
    """Where texts come from, and what the experiment says of them, under the name of which data set.

    file: is the name that of a file?
    """

    name: str
    entry: str
    settings: DataSpec
    file: bool

    def load(self, *, limit: int | None, seed: int) -> Dataset:
        """The texts, or `limit` of them drawn by `seed`, each in its template."""
        own = self.settings
        if own.most_words is not None:
            whole = replace(self, settings=replace(own, most_words=None, template="")).load(limit=None, seed=seed)
            short = [example for example in whole if len(example.text.split()) <= own.most_words]
            split = f"{whole.split} of at most {own.most_words} words"
            data = make_dataset(self.name, split, short, labels=whole.labels, limit=limit, seed=seed)
        elif self.file:
            data = read_texts(self.name, limit=limit, seed=seed)
        else:
            data = load_dataset(own.source or self.name, split=own.split or None, form=own.form, limit=limit, seed=seed)
            data = replace(data, name=self.name)
        if not own.template:
            return data
        return replace(data, examples=tuple(replace(e, text=own.template.replace("{text}", e.text)) for e in data))


def choose_source(spec: Spec, wanted: str | None) -> TextSource:
    """The data set of that name, by default the first; a file of one's own texts takes the first one's settings."""
    first = next(iter(spec.data))
    name = wanted or first
    if name in spec.data:
        return TextSource(name, name, spec.data[name], file=bool(Path(name).suffix))
    if Path(name).suffix or Path(name).exists():
        return TextSource(name, first, spec.data[first], file=True)
    raise UnknownNameError(f"data set of {spec.name}", name, spec.data)
