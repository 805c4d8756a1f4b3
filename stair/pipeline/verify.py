"""Checks of a run's outputs: whole, complete, and made from the present inputs and settings.

Manifests show damage and changed values. Snakemake's list of jobs shows missing outputs, and those that it would make again.
"""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from stair.config.model import Config
from stair.config.paths import RunPaths, project_root
from stair.pipeline.archive import settings_now
from stair.pipeline.job_list import ListedJob, list_jobs
from stair.pipeline.outputs import Output, is_output, read_outputs
from stair.records.manifest import (
    CODE,
    SUFFIX,
    Difference,
    Digests,
    Kind,
    Manifest,
    differences,
    package_versions,
    source_digest,
)

_NAMED = 3


def verify(config: Config, paths: RunPaths) -> Verification:
    """Checks a run against the present configuration and Snakemake's list of jobs. Changes nothing.

    Raises:
        ConfigError: the configuration cannot be used, or Snakemake cannot list the jobs.
    """
    with ThreadPoolExecutor(1) as pool:
        jobs = pool.submit(list_jobs, project_root(), {"run": str(paths.folder)})
        verification = Verification(config, paths)
        verification.follow(jobs.result())
    return verification


def check_finished(config: Config, paths: RunPaths) -> list[str]:
    """The lines of `Verification.lines` for a run in which Snakemake has no job left. Runs no Snakemake."""
    verification = Verification(config, paths)
    verification.follow(())
    return list(verification.lines())


class Verification:
    """The states of a run's outputs."""

    def __init__(self, config: Config, paths: RunPaths) -> None:
        self.config, self.paths = config, paths
        self._start = paths.start_command()
        self._digests, self._source, self._versions = (
            Digests(),
            source_digest("stair", "answer_grader"),
            package_versions(),
        )
        self.outputs = sorted(read_outputs(paths.folder), key=_sealed)
        for output in self.outputs:
            self._compare(output)
        self.by_file = {name: output for output in self.outputs for name in output.files}
        self._users: dict[str, list[Output]] = defaultdict(list)

    def _compare(self, output: Output) -> None:
        """Compares an output with its manifest, inputs and settings."""
        manifest, found = output.manifest, output.differences
        if manifest is not None:
            settings, inputs = settings_now(self.config, manifest), not output.left_out
            found = differences(manifest, self.paths.folder, settings=settings, inputs=inputs, digests=self._digests)
            output.notes = list(self._notes(manifest))
        if output.left_out:
            found = [each for each in found if each.kind is not Kind.MISSING]
        damaged, missing = ([each for each in found if each.kind is kind] for kind in (Kind.DAMAGED, Kind.MISSING))
        output.differences = damaged or missing or found
        output.state = "damaged" if damaged else "missing" if missing else "stale" if found else "ok"

    def _notes(self, manifest: Manifest) -> Iterator[str]:
        if manifest.missing_note:
            yield manifest.missing_note
        if CODE not in manifest.settings and manifest.content.get("source") != self._source:
            yield "the code of this generating stage has changed (reported only: nothing reruns)"
        for name, was in manifest.content["versions"].items():
            if (now := self._versions.get(name)) != was:
                yield f"made with {name} {was}; installed is {now or 'none'}"

    def follow(self, jobs: Iterable[ListedJob] | None = None) -> None:
        """Marks as stale everything that was made from unsound outputs. `jobs`: those that Snakemake would run."""
        listed = [(job.reason, self._output_of(job)) for job in jobs or () if any(map(is_output, job.outputs))]
        for output in self.outputs:
            if jobs is not None and output.state == "missing" and not output.listed:
                output.state, output.differences = "ok", []
                output.notes.append("deleted; no job needs it now")
        for output in self.outputs:
            for name in output.inputs:
                self._users[name].append(output)
        self._mark_stale([output for output in self.outputs if output.state != "ok"])
        for reason, output in listed:
            if output.state == "ok":
                text = f"Snakemake would run its job again ({reason})"
                output.differences = [Difference(Kind.INPUT_CHANGED, output.name, text)]
                self._mark_stale([output])
        for output in self.outputs:
            for each in output.differences:
                source = self.by_file.get(each.what, output)
                if (source is output or source.state == "ok") and each.text not in output.own_reasons:
                    output.own_reasons.append(each.text)
            sources = {self.by_file[name]: name for name in output.inputs if name in self.by_file}
            unsound = [f"its input {name} is {one.state}" for one, name in sources.items() if one.state != "ok"]
            output.reasons = [*output.own_reasons, *unsound]

    def _output_of(self, job: ListedJob) -> Output:
        """The output of a job that Snakemake would run."""
        names = tuple(filter(is_output, job.outputs))
        places = [place for name in names for place in (name, os.path.dirname(name))]
        output = next((self.by_file[place] for place in places if place in self.by_file), None)
        if output is None:
            output = Output(names[0], names, None, [])
            self.outputs.append(output)
            self.by_file |= dict.fromkeys(names, output)
        output.listed, output.inputs = True, [*dict.fromkeys([*output.inputs, *job.inputs])]
        absent = [name for name in names if not os.path.exists(self.paths.folder / name)]
        if absent and output.state == "ok" and not output.left_out:
            text = f"{absent[0]} does not exist"
            output.state, output.differences = "missing", [Difference(Kind.MISSING, absent[0], text)]
        return output

    def _mark_stale(self, outputs: Sequence[Output]) -> None:
        """Marks outputs, and those that are made from them, as stale if they were ok."""
        for output in (*outputs, *self._made_from(outputs)):
            output.state = "stale" if output.state == "ok" else output.state

    def _made_from(self, outputs: Sequence[Output]) -> list[Output]:
        """The outputs that are made from others, directly or through others; the nearest first."""
        reached = dict.fromkeys(outputs)
        waiting = list(outputs)
        for output in waiting:  # it grows
            users = dict.fromkeys(user for name in output.files for user in self._users[name])
            waiting += [user for user in users if user not in reached]
            reached |= users
        return waiting[len(outputs) :]

    def lines(self) -> Iterator[str]:
        """A line for each damage and change, and one for missing outputs: how far it reaches, and the command that mends it."""
        yield from self.broken_lines([output for output in self.outputs if output.state in ("damaged", "missing")])
        changed = defaultdict[str, list[Output]](list)
        for output in self.outputs:
            if output.state == "stale":
                for reason in output.own_reasons:
                    changed[reason.removeprefix("its ")].append(output)
        for reason, outputs in changed.items():
            affected = [output for output in (*outputs, *self._made_from(outputs)) if not output.left_out]
            if affected:
                yield f"stale: {reason}; affected: {_names(affected)}; to update: {self._command(outputs)}"

    def broken_lines(self, broken: Sequence[Output]) -> list[str]:
        """The lines of damaged and missing outputs, with one command that mends all of them."""
        causes = [([output], output.reasons[0]) for output in broken if output.state == "damaged"]
        if missing := [output for output in broken if output.state == "missing"]:
            causes.append((missing, missing[0].reasons[0] if len(missing) == 1 else _names(missing)))
        lines = []
        for outputs, text in causes:
            users = self._made_from(outputs)
            reach = f"; made from {'it' if len(outputs) == 1 else 'them'}: {_names(users)}" if users else ""
            lines.append(f"{outputs[0].state}: {text}{reach}")
        if len(lines) == 1:
            return [f"{lines[0]}; to mend it: {self._command(broken)}"]
        return [*lines, f"to mend all of this: {self._command(broken)}"] if lines else []

    def _command(self, outputs: Iterable[Output]) -> str:
        """The command that makes outputs again. It deletes a file of each for which Snakemake sees no reason."""
        names: list[str] = []
        for output in outputs:
            if output.state == "damaged":
                names += [each.what for each in output.differences]
            elif output.state == "stale" and not output.listed and not output.left_out:
                names.append(output.files[0])
        files = [file for name in names if os.path.lexists(file := self.paths.folder / name)]
        denied = [file for file in files if not os.access(file, os.R_OK)]
        unsound = [file for file in files if file not in denied]
        commands = [
            f"{verb} {shlex.join(map(str, few))}" for verb, few in (("chmod u+rX", denied), ("rm", unsound)) if few
        ]
        if unsound or not denied or any(output.state == "missing" for output in outputs):
            # A download that no job needs is made again only as a target.
            fetched = [name for name in names if name.startswith("raw/") and not name.endswith(SUFFIX)]
            commands += [f"{self._start} --target {shlex.quote(name)}" for name in fetched]
            commands.append(self._start)
        return " && ".join(commands)


def _sealed(output: Output) -> str:
    """When an output was made; empty without a manifest."""
    return "" if output.manifest is None else str(output.manifest.content["sealed"])


def _names(outputs: Sequence[Output]) -> str:
    """The number of outputs, and the first of them by name."""
    names = ", ".join(output.name for output in outputs[:_NAMED])
    more = ", ..." if len(outputs) > _NAMED else ""
    return f"{len(outputs)} output{'s' if len(outputs) > 1 else ''} ({names}{more})"
