"""The runs under results/ go on: their older manifests are taken for what they say, and what they do not say is said.

Models that are not on this machine cannot be loaded; of their runs the specification is compared.
"""

import json
import os
import shutil
from pathlib import Path

import pytest

from looprop.running import OldManifestWarning
from looprop.running.manifest import compare
from looprop.study import load_spec, read_run, reproduce

RESULTS = Path(__file__).parents[2] / "results"
RUNS = sorted(path.parent.name for path in RESULTS.glob("*/manifest.json"))
HERE = {  # with the embedded model, and how each was asked for
    "softmax": ("softmax", {}),
    "layers-sst2": ("layers", {"data": "sst2", "limit": 300}),
}
needs_data = pytest.mark.skipif(not os.environ.get("LOOPROP_DATA"), reason="LOOPROP_DATA is not set")


@pytest.mark.parametrize("name", RUNS)
def test_the_specification_of_a_run_is_still_its_own(name: str) -> None:
    """Also where data sets that it does not use are described in another way by now."""
    before = json.loads((RESULTS / name / "manifest.json").read_text(encoding="utf-8"))["identity"]
    spec = load_spec(before["spec"]["name"])
    used = before.get("data", {}).get("name", next(iter(spec.data), None))
    now = {**before, "spec": spec.to_dict(data=used if used in spec.data else next(iter(spec.data), None))}
    assert compare(before, now).changed == ()
    other = {**now, "spec": {**now["spec"], "question": "another"}}
    assert len(compare(before, other).changed) == 1


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("name", HERE)
def test_a_committed_run_goes_on_and_says_what_is_not_known(name: str, tmp_path: Path) -> None:
    shutil.copytree(RESULTS / name, tmp_path / name)
    before = read_run(tmp_path / name)
    experiment, options = HERE[name]
    with pytest.warns(OldManifestWarning, match="does not say"):
        run = reproduce(experiment, out=tmp_path / name, progress=False, **options)
    assert repr(run.rows) == repr(before.rows)
    session = run.manifest["sessions"][-1]
    assert "numerics" in session["unstated"]
    assert ("model.configuration" in session["unstated"]) == ("model" in run.manifest["identity"])
    assert run.manifest["identity"] == before.manifest["identity"], "nothing was computed under another one"


@needs_data
@pytest.mark.data
@pytest.mark.filterwarnings("error::looprop.running.OldManifestWarning")
def test_a_younger_run_goes_on_without_a_word(tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "remedy-sst2", tmp_path / "run")
    before = read_run(tmp_path / "run")
    run = reproduce("remedy", data="sst2", out=tmp_path / "run", progress=False)
    assert repr(run.rows) == repr(before.rows)
    assert run.manifest["identity"] == before.manifest["identity"]
