"""The grid of readings: maps of many images at once, and what is made of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.readings.cells import NAMES, NUMBERS, Cell, Choices, cells_of, effects, printed
from experiments.readings.maps import attnlrp_both, integrated_gradients, leave_one_out
from experiments.readings.measuring import agreement, zeros_of
from experiments.readings.reading import DEVIATION, MEAN, Reading
from scipy import stats
from torch import Tensor

from looprop.errors import DataError, UnknownNameError
from looprop.study import parse_spec, read_run, reproduce, write_report
from looprop.study.kinds import experiment_text
from looprop.study.kinds.networks.training import LinearAttention, reordered
from looprop.tensors import attribute

ROOT = Path(__file__).parents[2]
BUILDS = [{"positions": p, "pooled": m} for p in (False, True) for m in (False, True)]


def network_of(build: dict[str, bool]) -> LinearAttention:
    torch.manual_seed(3)
    return LinearAttention("kv_first", pixels=9, width=4, **build).double().eval()  # type: ignore[arg-type]


@pytest.fixture
def images() -> Tensor:
    return torch.rand(5, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("zero", [0.0, -0.42])
@pytest.mark.parametrize("build", BUILDS)
def test_leave_one_out_of_a_batch_is_that_of_setting_one_pixel_after_the_other(
    build: dict[str, bool], zero: float, images: Tensor
) -> None:
    network = network_of(build)
    target = torch.tensor([0, 3, 9, 3, 1])
    found = leave_one_out(network, images, target, zero)
    with torch.no_grad():
        for image, of_class, row in zip(images, target, found, strict=True):
            for pixel in range(9):
                other = image.clone()
                other[pixel] = zero
                wanted = network(image[None])[0, of_class] - network(other[None])[0, of_class]
                assert row[pixel] == pytest.approx(float(wanted), abs=1e-12)


@pytest.mark.parametrize("build", BUILDS)
def test_maps_of_a_batch_are_those_of_the_methods_one_by_one(build: dict[str, bool], images: Tensor) -> None:
    network = network_of(build)
    target = network(images).argmax(1)
    one_by_one = {
        method: torch.cat([attribute(network, image[None], method, **options) for image in images])
        for method, options in (("loo", {}), ("ig", {"steps": 2000}), ("attnlrp", {"epsilon": 1e-6}))
    }
    right = torch.cat([attribute(reordered(network, "qk_first").double(), image[None], "attnlrp") for image in images])
    np.testing.assert_allclose(leave_one_out(network, images, target, 0.0), one_by_one["loo"], atol=1e-9)
    np.testing.assert_allclose(integrated_gradients(network, images, target, 0.0), one_by_one["ig"], atol=1e-6)
    both = attnlrp_both(network, images, target, 1e-6)
    np.testing.assert_allclose(both.kv_first, one_by_one["attnlrp"], atol=1e-6)
    np.testing.assert_allclose(attnlrp_both(network, images, target, 0.0).qk_first, right, atol=1e-6)


def test_integrated_gradients_are_complete_from_any_zero(images: Tensor) -> None:
    network = network_of(BUILDS[3])
    target = network(images).argmax(1)
    with torch.no_grad():
        change = network(images) - network(torch.full_like(images, -0.42))
    wanted = change.gather(1, target[:, None])[:, 0]
    np.testing.assert_allclose(integrated_gradients(network, images, target, -0.42).sum(1), wanted, atol=1e-12)


def test_agreement_is_the_mean_of_scipys_r_and_turns_with_the_signs_of_sums() -> None:
    generator = np.random.default_rng(0)
    maps, others = generator.normal(size=(20, 7)), generator.normal(size=(20, 7))
    maps[3] = 1.0  # constant: no r
    found = agreement(maps, others)
    kept = [i for i in range(20) if i != 3]
    rs = [stats.pearsonr(maps[i], others[i]).statistic for i in kept]
    divided = [stats.pearsonr(maps[i] / maps[i].sum(), others[i] / others[i].sum()).statistic for i in kept]
    absolute = [stats.pearsonr(maps[i] / abs(maps[i]).sum(), others[i] / abs(others[i]).sum()).statistic for i in kept]
    assert found["raw"] == pytest.approx(np.mean(rs))
    assert found["sum"] == pytest.approx(np.mean(divided))
    assert found["turned"] == pytest.approx(np.mean(np.sign(rs) != np.sign(divided)))
    assert found["defined"] == 19
    # The third normalisation that one could think of does nothing to r.
    assert np.allclose(absolute, rs)


def test_what_black_is_to_a_network() -> None:
    standard = Reading(scale="standard")
    assert zeros_of(Reading()) == {"zero": 0.0}
    assert zeros_of(standard) == {"zero": 0.0, "black": -MEAN / DEVIATION}
    assert float(standard.scaled(torch.zeros(1))) == pytest.approx(standard.black)
    with pytest.raises(UnknownNameError, match="scale"):
        Reading(scale="other")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="batch"):
        Reading(batch=0)


def rows_of(reading: str, seed: int, **numbers: float) -> list[dict[str, object]]:
    """Two blocks, of one and three images, whose means make up the numbers."""
    keys = {
        "l-r": ("", ""),
        "kv-first": ("zero", ""),
        "qk-first": ("zero", ""),
        "ig": ("zero", "zero"),
    }
    rows: list[dict[str, object]] = []
    for pair, (loo_zero, ig_zero) in keys.items():
        for epsilon in (0.0,) if pair == "ig" else (1e-6, 1e-2):
            for share, count in ((4.0, 1), (0.0, 3)):
                own: dict[str, object] = {"reading": reading, "seed": seed, "pair": pair, "epsilon": epsilon}
                own |= {"loo zero": loo_zero, "ig zero": ig_zero}
                mean = share * numbers[pair]
                rows.append({**own, "raw": mean, "sum": -mean, "defined": count})
    return rows


def test_cells_know_their_numbers_and_how_far_the_printed_ones_lie_outside() -> None:
    left_right, left, right, ig = printed()
    near = {"l-r": left_right, "kv-first": left, "qk-first": right, "ig": ig}
    rows = [
        *rows_of("a", 0, **near),
        *rows_of("a", 1, **{name: value + 0.1 for name, value in near.items()}),
        *rows_of("b", 0, **{name: value + 0.2 for name, value in near.items()}),
    ]
    cells = cells_of(rows)
    assert len(cells) == 2 * 2 * 2 * 2  # readings, normalisations, epsilons, names: one zero is known
    best = cells[0]
    assert best.choices == Choices("a", "zero", "zero", "none", 1e-6, NAMES[0])
    assert best.distance == pytest.approx(0.0, abs=1e-12)
    assert best.means == pytest.approx([value + 0.05 for value in printed()])
    far = next(c for c in cells if c.choices == Choices("b", "zero", "zero", "none", 1e-6, NAMES[0]))
    assert far.distances == pytest.approx([0.2] * 4)
    swapped = next(c for c in cells if c.choices == Choices("a", "zero", "zero", "none", 1e-6, NAMES[1]))
    assert swapped.values[1] == best.values[2]
    turned = next(c for c in cells if c.choices == Choices("a", "zero", "zero", "sum", 1e-6, NAMES[0]))
    assert turned.means == pytest.approx([-mean for mean in best.means])
    moved = effects(cells)
    assert set(moved) == {"reading", "normalisation", "epsilon", "names"}  # loo_zero and ig_zero have one value here
    assert moved["epsilon"] == (0.0, 0.0, 0.0, 0.0)
    assert moved["names"][0] == 0.0
    assert moved["names"][1] == pytest.approx(abs(left - right))


def test_a_cell_without_a_number_is_infinitely_far() -> None:
    cell = Cell(Choices("a", "zero", "zero", "none", 0.0, NAMES[0]), ((0.7,), (0.0,), (float("nan"),), (0.0,)))
    assert cell.distance == float("inf")


@pytest.mark.slow
def test_a_small_run_with_its_report(digits: Path, tmp_path: Path) -> None:
    text = experiment_text("readings")
    head = text[: text.index("cases:")].replace("name: readings", "name: few")
    cases = "cases:\n  one: {seeds: 1, epochs: 1}\n  two: {positions: true, pooled: true, scale: standard, epochs: 1}\n"
    (tmp_path / "few.yaml").write_text(head + cases, encoding="utf-8")
    run = reproduce(tmp_path / "few.yaml", out=tmp_path / "run", progress=False)
    assert run.finished
    assert {(row["reading"], row["seed"]) for row in run.rows} == {("one", 0), ("two", 0), ("two", 1)}
    same = [row for row in run.rows if row["pair"] == "ig" and row["loo zero"] == row["ig zero"]]
    assert {row["ig zero"] for row in same if row["reading"] == "two"} == {"zero", "black"}
    assert repr(reproduce(tmp_path / "few.yaml", out=tmp_path / "run", progress=False).rows) == repr(run.rows)
    write_report(tmp_path / "run")
    report = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    assert all(name in report for name in (*NUMBERS, "Which choice moves which number", "-0.371"))
    assert (tmp_path / "run" / "figure.png").is_file()
    with pytest.raises(DataError, match="takes no model"):
        reproduce(tmp_path / "few.yaml", model="x", out=tmp_path / "other", progress=False)


def test_readings_are_checked() -> None:
    text = "{name: x, kind: readings, question: q, methods: [loo], cases: {a: {seeds: 0}}}"
    with pytest.raises(DataError, match="seeds must be an integer"):
        parse_spec(text, where="x")


def test_the_committed_grid_says_what_table_1_is_made_of() -> None:
    run = read_run(ROOT / "results" / "readings")
    assert run.finished
    assert run.manifest["examples"] == 10_000
    seeds = {name: {row["seed"] for row in run.rows if row["reading"] == name} for name in run.spec["cases"]}
    assert sum(len(own) >= 5 for own in seeds.values()) >= 2
    holds = {judged.claim: judged.holds for judged in run.claims()}
    assert holds["the sign of IG comes from a zero that means two things and from dividing by sums"]
    assert holds["IG correlates negatively with LOO on these networks"] is False
    # The same maps, raw and from one zero, agree; only two zeros and division by sums turn the mean negative.
    cells = cells_of(run.rows)
    assert min(min(c.values[3]) for c in cells if c.choices.normalisation == "none") > 0
    assert min(min(c.values[3]) for c in cells if c.choices.normalisation == "sum") < printed()[3]
