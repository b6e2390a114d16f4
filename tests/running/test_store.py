"""The run folder: whole parts, locks, damage, full disks, and what may not change."""

import errno
import math
import os
from pathlib import Path

import pytest

from looprop.errors import DataError
from looprop.running import store as module
from looprop.running.store import open_store, read_store

HALF_A_PART = f".00002-{'ab' * 8}.parquet.{'0123' * 4}.tmp"
IDENTITY = {"spec": {"name": "x", "seeds": 1}, "data": {"hash": "abc"}}


def row(example: str, value: float = 0.1, method: str = "m") -> dict:
    return {"example": example, "method": method, "value": value, "scores": [1 / 3, value], "note": "", "flag": None}


def parts_of(folder: Path) -> list[Path]:
    return sorted((folder / "parts").glob("*.parquet"))


def test_rows_come_back_bit_by_bit_and_in_the_order_asked_for(tmp_path: Path) -> None:
    with open_store(tmp_path, IDENTITY) as store:
        assert store.missing(["a", "b", "c"]) == ["a", "b", "c"]
        store.add([row("b", math.pi), row("b", -0.0, method="n")])
        store.add([row("a", math.nan)])
        assert store.missing(["a", "b", "c"]) == ["c"]
    with open_store(tmp_path, IDENTITY) as store:
        found = store.rows(["a", "b"])
    assert [r["example"] for r in found] == ["a", "b", "b"]
    assert math.isnan(found[0]["value"])
    assert found[1]["value"] == math.pi
    assert found[1]["scores"] == [1 / 3, math.pi]
    assert math.copysign(1, found[2]["value"]) == -1


def test_compacting_leaves_one_part_with_the_same_rows(tmp_path: Path) -> None:
    with open_store(tmp_path, IDENTITY) as store:
        for name in "cab":
            store.add([row(name)])
        store.compact("abc")
        before = store.rows("abc")
    assert len(parts_of(tmp_path)) == 1
    assert read_store(tmp_path).rows("abc") == before


def test_a_damaged_part_is_found_put_aside_reported_and_missing_again(tmp_path: Path) -> None:
    with open_store(tmp_path, IDENTITY) as store:
        store.add([row("a")])
        store.add([row("b")])
    victim = parts_of(tmp_path)[0]
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    with pytest.raises(DataError, match=f"{victim.name} is damaged"):
        read_store(tmp_path)
    with open_store(tmp_path, IDENTITY) as store:
        assert store.missing("ab") == ["a"]
        assert store.manifest["sessions"][-1]["damaged"] == [victim.name]
        store.add([row("a")])
    assert not read_store(tmp_path).missing("ab")


@pytest.mark.parametrize("keep", [0, 10])
def test_a_truncated_part_is_damaged(tmp_path: Path, keep: int) -> None:
    with open_store(tmp_path, IDENTITY) as store:
        store.add([row("a")])
    parts_of(tmp_path)[0].write_bytes(parts_of(tmp_path)[0].read_bytes()[:keep])
    with open_store(tmp_path, IDENTITY) as store:
        assert store.missing("a") == ["a"]


def test_no_space_left_is_said_and_the_run_goes_on_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path, IDENTITY) as store:
        store.add([row("a")])

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.raises(DataError, match=r"no space left .* the 1 examples finished before are safe"):
                store.add([row("b")])
        assert store.missing("ab") == ["b"]
        assert not list((tmp_path / "parts").glob(".*")), "the half-written file takes the space that is missing"
    with open_store(tmp_path, IDENTITY) as store:
        assert store.missing("ab") == ["b"]
        store.add([row("b")])
    assert not read_store(tmp_path).missing("ab")


def test_what_a_killed_process_had_half_written_is_removed(tmp_path: Path) -> None:
    with open_store(tmp_path, IDENTITY) as store:
        store.add([row("a")])
    for place in (tmp_path / "parts" / HALF_A_PART, tmp_path / f".manifest.json.{'0123' * 4}.tmp"):
        place.write_bytes(b"half")
    others = [tmp_path / f".report.html.{'0123' * 4}.tmp", tmp_path / "parts" / ".draft.tmp"]
    for place in others:
        place.write_bytes(b"another process is at it")
    with open_store(tmp_path, IDENTITY) as store:
        assert not store.missing("a")
    assert sorted(tmp_path.rglob(".*")) == sorted(others)


def test_a_changed_identity_is_refused_by_name(tmp_path: Path) -> None:
    with open_store(tmp_path, IDENTITY):
        pass
    changed = {"spec": {"name": "x", "seeds": 2}, "data": {"hash": "abc"}, "limit": 5}
    with (
        pytest.raises(DataError, match=r"limit \(was null, is 5\); spec.seeds \(was 1, is 2\)"),
        open_store(tmp_path, changed),
    ):
        pass


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=r"cannot use .*file as a folder"), open_store(tmp_path / "file", IDENTITY):
        pass
    with pytest.raises(DataError, match=r"holds no manifest.json"):
        read_store(tmp_path)


def test_a_manifest_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema": "other"}')
    with pytest.raises(DataError, match=r"is not a manifest of schema 'looprop.run'"):
        read_store(tmp_path)


def test_a_large_run_is_compacted_into_parts_of_a_bounded_size_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"e{i:03d}" for i in range(60)]
    with open_store(tmp_path, IDENTITY) as store:
        for i in range(12):
            store.add([row(name, method=method) for name in names[::-1][i::12] for method in "mn"])
        before, pieces = store.rows(names), parts_of(tmp_path)
        monkeypatch.setattr(module, "LARGEST", sum(map(module.parts.memory, pieces)) // 3 + 1)
        store.compact(names)
        assert store.rows(names) == before
    assert len(parts_of(tmp_path)) == 3
    again = read_store(tmp_path)
    assert again.rows() == before, "the parts are in the order of the examples"
    content = [path.read_bytes() for path in parts_of(tmp_path)]
    monkeypatch.setattr(module, "LARGEST", sum(map(module.parts.memory, parts_of(tmp_path))) // 3 + 1)
    with open_store(tmp_path, IDENTITY) as store:
        store.compact(names)
    assert [path.read_bytes() for path in parts_of(tmp_path)] == content, "what is compact is left alone"
