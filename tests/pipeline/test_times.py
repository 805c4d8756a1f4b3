from pathlib import Path

from stair.pipeline.times import put_in_order
from stair.records.manifest import write_manifest


def test_manifests_in_a_circle_change_no_time(tmp_path: Path) -> None:
    """A foreign run's manifests can name each other's files as inputs; every start reads them."""
    files = [tmp_path / name for name in ("checks.csv", "claims.csv")]
    for file in files:
        file.write_text("a")
    for file, source in zip(files, reversed(files), strict=True):
        write_manifest(tmp_path, [file], rule="check", wildcards={}, inputs=[source], settings={})
    assert put_in_order(tmp_path) == 0
