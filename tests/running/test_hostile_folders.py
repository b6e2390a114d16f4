"""Run folders with links, odd things, parts of others and edited manifests: refused in words, and nothing outside of
the folder is touched.
"""

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from looprop.errors import DataError
from looprop.running.parts import part_name
from looprop.running.store import open_store, read_store

IDENTITY = {"spec": {"name": "x"}, "seed": 0}


def rows(*examples: str, value: float = 1.0) -> list[dict]:
    return [{"example": example, "method": "m", "value": value, "error": ""} for example in examples]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_store(tmp_path / "run", IDENTITY) as store:
        store.add(rows("a"))
        store.add(rows("b"))
    return tmp_path / "run"


def part(folder: Path) -> Path:
    return sorted((folder / "parts").glob("*.parquet"))[0]


def again(folder: Path) -> list[str]:
    """Open it for writing, as the next session does: the examples it has."""
    with open_store(folder, IDENTITY) as store:
        return [row["example"] for row in store.rows()]


@pytest.mark.parametrize("name", ["lock", "lock.holder", "manifest.json", "parts"])
@pytest.mark.parametrize("kind", ["symbolic", "dangling", "pipe"])
def test_what_is_no_plain_file_of_the_folder_is_refused(folder: Path, tmp_path: Path, name: str, kind: str) -> None:
    (tmp_path / "precious").write_text("precious")
    place, own = folder / name, tmp_path / "own"
    own.mkdir()
    if place.is_dir():
        shutil.copytree(place, own, dirs_exist_ok=True)
        shutil.rmtree(place)
    elif place.exists():
        shutil.copy(place, tmp_path / "precious")
        place.unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and folder not in path.parents}
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(
            tmp_path / "nothing" if kind == "dangling" else own if name == "parts" else tmp_path / "precious"
        )
    with pytest.raises(DataError, match=r"is a (link|device or pipe) and no"):
        again(folder)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and folder not in path.parents}
    assert after == before
    if name in ("manifest.json", "parts"):
        with pytest.raises(DataError, match=r"is a (link|device or pipe) and no"):
            read_store(folder)


def test_a_lock_with_a_second_name_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    for name in ("lock", "lock.holder"):
        (folder / name).hardlink_to(tmp_path / "precious")
        with pytest.raises(DataError, match="the same file has another name elsewhere"):
            again(folder)
        (folder / name).unlink()
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("make", ["link", "folder"])
def test_half_written_files_that_are_none_are_refused_and_stay(folder: Path, tmp_path: Path, make: str) -> None:
    (tmp_path / "precious").write_text("precious")
    place = folder / "parts" / f".00003-{'ab' * 8}.parquet.{'01' * 8}.tmp"
    place.symlink_to(tmp_path / "precious") if make == "link" else place.mkdir()
    with pytest.raises(DataError, match=f"is a {make} and no file"):
        again(folder)
    assert (tmp_path / "precious").read_text() == "precious"
    assert place.is_symlink() or place.is_dir()


def named_part(folder: Path, content: bytes) -> Path:
    path = folder / "parts" / part_name(content, sorted((folder / "parts").glob("*.parquet")))
    path.write_bytes(content)
    return path


def of_another_run(folder: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "other", IDENTITY) as store:
        store.add(rows("a", value=2.0))
    named_part(folder, part(tmp_path / "other").read_bytes())


def of_no_run(folder: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"example": ["a"], "method": ["m"], "value": [3.0]}), tmp_path / "table")
    named_part(folder, (tmp_path / "table").read_bytes())


def of_something_else(folder: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"mine": [1, 2]}), tmp_path / "table")
    named_part(folder, (tmp_path / "table").read_bytes())


def no_table(folder: Path, tmp_path: Path) -> None:
    named_part(folder, b"PAR1 and nothing else PAR1")


@pytest.mark.parametrize("damage", [of_another_run, of_no_run, of_something_else, no_table])
def test_whole_parts_that_are_not_of_this_run_are_refused(
    folder: Path, tmp_path: Path, damage: Callable[[Path, Path], None]
) -> None:
    damage(folder, tmp_path)
    names = sorted(path.name for path in (folder / "parts").iterdir())
    for act in (again, read_store):
        with pytest.raises(DataError, match=r"is a part of another run, or of none|is not a part of a run"):
            act(folder)
    assert sorted(path.name for path in (folder / "parts").iterdir()) == names, "and stay where they are"


def test_files_of_other_names_are_nobodys_and_noted(folder: Path) -> None:
    odd = ["x" + part(folder).name, "1a-" + part(folder).name[6:], "00009.parquet"]
    for name in odd:
        shutil.copy(part(folder), folder / "parts" / name)
    (folder / "parts" / "notes.txt").write_text("mine")
    with open_store(folder, IDENTITY) as store:
        assert store.manifest["sessions"][-1]["odd"] == sorted(odd)
        store.compact(["a", "b"])
    assert {*odd, "notes.txt"} <= {path.name for path in (folder / "parts").iterdir()}
    assert [row["example"] for row in read_store(folder).rows()] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"identity": {**IDENTITY, "seed": 1}}, "it was edited"),
        ({"fingerprint": "0" * 64}, "it was edited"),
        ({"identity": []}, "identity must be a dict, got list"),
        ({"sessions": {}}, "sessions must be a list, got dict"),
        ({"sessions": [3]}, "session 1 must be a mapping, got int"),
        ({"sessions": [{"damaged": 3}]}, "session 1: damaged must be a list, got int"),
        ({"run": 3}, "run must be a str, got int"),
        ({"version": 2}, "not a manifest of schema"),
    ],
)
def test_an_edited_manifest_is_refused(folder: Path, change: dict, message: str) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    for act in (again, read_store):
        with pytest.raises(DataError, match=message):
            act(folder)


@pytest.mark.parametrize("field", ["identity", "fingerprint", "sessions"])
def test_a_manifest_that_lacks_something_is_refused(folder: Path, field: str) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != field}))
    with pytest.raises(DataError, match=f"says no {field}"):
        again(folder)


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"1" * 5000, b"\xff\xfe{}", b'{"schema":'])
def test_a_manifest_that_cannot_be_read_is_refused(folder: Path, content: bytes) -> None:
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read|is not a manifest"):
        again(folder)


def test_readers_beside_a_writer_see_one_state_or_the_other(tmp_path: Path) -> None:
    names = [f"e{i}" for i in range(12)]
    wanted = {name: rows(name, value=float(i)) for i, name in enumerate(names)}
    stop, wrong, reads = threading.Event(), [], []

    def read() -> None:
        while not stop.is_set():
            try:
                found = read_store(tmp_path / "run").rows()
            except DataError as error:
                if "not a run folder" not in str(error):
                    wrong.append(repr(error))
                continue
            except Exception as error:
                wrong.append(repr(error))
                continue
            reads.append(len(found))
            wrong.extend(row for row in found if [row] != wanted[row["example"]])

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(8):
        with open_store(tmp_path / "run", IDENTITY) as store:
            for name in names:
                store.add(wanted[name])
            store.compact(names)
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert reads
    assert max(reads) == len(names)


def test_a_reader_that_is_overtaken_again_and_again_looks_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, real, left = read_store(folder), Path.read_bytes, [7]

    def gone(path: Path) -> bytes:
        if path.suffix == ".parquet" and left[0]:
            left[0] -= 1
            raise FileNotFoundError(path)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", gone)
    assert [row["example"] for row in reader.rows()] == ["a", "b"]
    assert left == [0]


def test_a_store_that_was_read_before_compaction_still_has_its_rows(folder: Path) -> None:
    reader = read_store(folder)
    with open_store(folder, IDENTITY) as store:
        store.compact(["a", "b"])
    assert [row["example"] for row in reader.rows()] == ["a", "b"]


def test_compacting_keeps_examples_that_nobody_asked_for(folder: Path) -> None:
    with open_store(folder, IDENTITY) as store:
        store.compact(["b"])
    assert {row["example"] for row in read_store(folder).rows()} == {"a", "b"}
