"""Manifests: what they say of a job, and how their settings are compared with the present."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stair.records.files import write_json
from stair.records.keys import file_digest
from stair.records.manifest import (
    CODE,
    CONFIGURATION,
    Manifest,
    Origin,
    changed_settings,
    manifest_files,
    manifest_path,
    missing_responses,
    read_manifest,
    recorded_fact,
    source_digest,
    with_checksum,
    write_manifest,
)

SETTINGS: dict[str, Any] = {"sessions.seed": 1, "controllers.stair": {"layers": (1, 3)}, CODE: "0" * 64}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of two outputs of one job, their inputs, and a shard's mark."""
    run = tmp_path / "run"
    for name in ("data/a.csv", "data/b.csv", "raw/set.jsonl", "work/rollouts/m/shard-0-of-1.json", "../outside/model"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    return run.resolve()


@pytest.fixture
def manifest(folder: Path) -> Manifest:
    outside = (folder / "../outside/model").resolve()
    inputs = {"raw/set.jsonl": file_digest(folder / "raw/set.jsonl"), str(outside): file_digest(outside)}
    path = write_manifest(
        folder,
        [folder / "data/a.csv", folder / "data/b.csv"],
        rule="seal_rollouts",
        wildcards={"model": "m"},
        origin=Origin.now(inputs, SETTINGS, "0" * 64),
        rows=2,
    )
    assert path == manifest_path(folder / "data/a.csv") == folder / "data/a.csv.manifest.json"
    return read_manifest(path)


def test_a_manifest_says_what_an_output_is_made_from(folder: Path, manifest: Manifest) -> None:
    assert (manifest.rule, manifest.wildcards, manifest.title) == ("seal_rollouts", {"model": "m"}, "seal_rollouts m")
    assert manifest.files == {name: file_digest(folder / name) for name in ("data/a.csv", "data/b.csv")}
    outside = folder.parent / "outside" / "model"
    assert manifest.inputs == {
        "raw/set.jsonl": file_digest(folder / "raw/set.jsonl"),
        str(outside): file_digest(outside),
    }, "a shard's mark only orders jobs"
    assert manifest.settings["sessions.seed"] == 1
    content = manifest.content
    assert {"torch", "transformers", "python", "numpy"} <= content["versions"].keys()
    assert len(content["source"]) == 64
    assert content["machine"]["cores"] > 0
    assert recorded_fact(manifest.path, "rows") == content["rows"] == 2
    with pytest.raises(ValueError, match=r"a\.csv\.manifest\.json lacks 'counts'; delete the output"):
        recorded_fact(manifest.path, "counts")


def test_a_folders_manifest_lists_its_files(folder: Path) -> None:
    controller = folder / "controllers" / "m" / "stair"
    (controller / "sub").mkdir(parents=True)
    (controller / "a.csv").write_text("a")
    (controller / "sub" / "b.csv").write_text("b")
    for _ in range(2):  # its own file is never among them
        path = write_manifest(
            folder, [controller], rule="train_controller", wildcards={}, origin=Origin.now({}, {}, "0" * 64)
        )
        assert path == controller / "folder.manifest.json"
        assert list(read_manifest(path).files) == ["controllers/m/stair/a.csv", "controllers/m/stair/sub/b.csv"]


def test_the_missing_responses_of_an_output(folder: Path) -> None:
    output, gap = folder / "data/a.csv", {"sample": 0, "reason": "out of memory"}
    assert missing_responses(output) == []
    for gaps, note in (([], ""), ([gap], "1 response is missing; "), ([gap, gap], "2 responses are missing; ")):
        path = write_manifest(
            folder, [output], rule="r", wildcards={}, origin=Origin.now({}, {}, "0" * 64), missing=gaps
        )
        assert missing_responses(output) == gaps
        assert read_manifest(path).missing_note.startswith(note) and bool(note) == bool(
            read_manifest(path).missing_note
        )
    path.write_text("{")
    assert missing_responses(output) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rule", None), ("rule", 1), ("wildcards", ["m"]), ("wildcards", {"model": 1}), ("files", {}), ("files", None),
        ("files", {"data/a.csv": None}), ("inputs", {"raw/set.jsonl": 1}), ("settings", None), ("versions", None),
        ("sealed", None), ("measured", ["states/1"]), ("missing", 3),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(manifest: Manifest, key: str, value: Any) -> None:
    write_json(manifest.path, with_checksum(manifest.content | {key: value}))
    with pytest.raises(ValueError, match=r"is no manifest: a part of it is missing or of another kind"):
        read_manifest(manifest.path)


def test_a_manifest_with_a_changed_bit_is_refused(manifest: Manifest) -> None:
    sound = manifest.path.read_bytes()
    for place in range(0, len(sound) * 8, 97):
        changed = bytearray(sound)
        changed[place // 8] ^= 1 << place % 8
        manifest.path.write_bytes(changed)
        try:
            content = read_manifest(manifest.path).content
        except ValueError:
            continue
        assert content == manifest.content, "only white space has changed"


def test_a_damaged_or_absent_manifest_is_refused(manifest: Manifest) -> None:
    manifest.path.write_text(manifest.path.read_text()[:40])
    with pytest.raises(ValueError, match=r"a\.csv\.manifest\.json"):
        read_manifest(manifest.path)
    manifest.path.unlink()
    with pytest.raises(FileNotFoundError):
        read_manifest(manifest.path)


def test_changes_of_settings_are_named_down_to_the_value(manifest: Manifest) -> None:
    assert changed_settings(manifest.settings, SETTINGS) == [], "JSON makes a list of a tuple"
    changed = SETTINGS | {"sessions.seed": 2, "controllers.stair": {"layers": [1], "new": True}, CODE: "1" * 64}
    assert changed_settings(manifest.settings, changed) == [
        "controllers.stair.layers was [1, 3], is [1]",
        "controllers.stair.new was null, is true",
        "sessions.seed was 1, is 2",
    ], "other code is no other setting"
    without = {key: value for key, value in SETTINGS.items() if key != "sessions.seed"}
    assert changed_settings(manifest.settings, without) == ["sessions.seed was 1, is null"]
    assert changed_settings({CONFIGURATION: "0" * 64}, {CONFIGURATION: "1" * 64}) == ["the configuration has changed"]


def test_every_manifest_of_a_run_is_found_and_no_work_is_looked_through(folder: Path, manifest: Manifest) -> None:
    others = [
        "controllers/m/stair/folder.manifest.json",
        "checks.csv.manifest.json",
        "replay/m/states.sha256.manifest.json",
    ]
    hidden = [f"{name}/x.manifest.json" for name in ("work", "logs", ".snakemake", "replay/m/states")]
    strange = ["manifest.json", "data/manifest.json", "data/._a.csv.manifest.json"]
    for name in (*others, *hidden, *strange):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    names = {path.relative_to(folder).as_posix() for path in manifest_files(folder)}
    assert names == {"data/a.csv.manifest.json", *others}


def test_a_process_keeps_the_digest_of_the_code_that_it_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job names code that was edited after the warm process had imported its own."""
    code = tmp_path / "edited_package" / "__init__.py"
    code.parent.mkdir()
    code.write_text("before = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = source_digest("edited_package")
    code.write_text("after = 2\n")
    assert source_digest("edited_package") == before
