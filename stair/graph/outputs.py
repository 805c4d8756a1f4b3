"""The table of outputs: the one statement of the graph, in an order in which each comes after what it is made from.

The rules (workflow/rules), `stair verify`, `why`, `restore`, `status` and the display read it. A new stage is a file of
rules, a folder, a settings function and its entries here.
"""

from __future__ import annotations

from dataclasses import replace

from stair.config.paths import BACKBONE_FILES
from stair.config.replay_analysis import REPLAY_PARTS
from stair.config.training import CONTROLLER_FILES
from stair.core import SHARED_T1_STUDY
from stair.graph import made_from, result_settings, settings
from stair.graph.needed_jobs import NeededJobs, drawn_costs, drawn_curves, replayed_models, timed_models
from stair.graph.output_kind import OutputKind, Shards
from stair.graph.run import manifest_beside
from stair.graph.table_inputs import (
    BANK_COST_FIGURE,
    DIAGRAMS,
    TRAINING_FIGURE,
    analyzed_models,
    diagram_models,
    figures_of,
    run_tables,
    shared_t1_tables,
    tables_of,
)
from stair.protocol.preflight_record import prompts_settings
from stair.records import schemas

OUTPUTS: dict[str, OutputKind] = {}
"""The table, by the outputs' names. Its entries are below, because they take their jobs from `NEEDED`."""

NEEDED = NeededJobs(OUTPUTS)
"""Which jobs a run needs. A job is needed if a needed job uses its outputs, so this reads the whole table."""

TABLE_SUFFIXES, FIGURE_SUFFIXES = (".csv", ".md", ".tex", ".html"), (".pdf", ".png", ".csv")

_MEASURING = ("runtime", "tables", "figures", "provenance", "report")
"""The targets of a run that only measures."""


def _unless_only_measuring(output: OutputKind) -> OutputKind:
    """The entry, without jobs in a run that only measures where it belongs to another target."""
    if output.target in _MEASURING:
        return output
    jobs = output.jobs
    return replace(output, jobs=lambda run: [] if run.config.only_measures else jobs(run))


OUTPUTS |= {
    output.name: _unless_only_measuring(output)
    for output in (
        OutputKind(
            "raw",
            rules=("raw",),
            wildcards=("name",),
            jobs=NEEDED.generated_sets,
            files=lambda run, name: [run.paths.dataset_file(run.config, name)],
            settings=lambda run, name: settings.raw(run.config, name),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "backbone",
            rules=("backbone",),
            target="backbones",
            wildcards=("model",),
            jobs=lambda run: [
                (model,) for model in NEEDED.used_models(run) if run.config.models[model].tiny is not None
            ],
            files=lambda run, model: [run.paths.backbone(model) / name for name in BACKBONE_FILES],
            settings=lambda run, model: settings.backbone(run.config, model),
            manifest=lambda run, model: run.paths.backbone(model) / "manifest.json",
            restorable=True,
            work="backbone/{model}",
        ),
        OutputKind(
            "benchmark",
            rules=("benchmark",),
            target="data",
            wildcards=("benchmark",),
            jobs=NEEDED.benchmarks,
            files=lambda run, benchmark: [run.paths.benchmark(benchmark)],
            made_from=lambda run, benchmark: {"source": [run.paths.dataset_file(run.config, benchmark)]},
            settings=lambda run, benchmark: settings.benchmark(run.config, benchmark),
            schema=schemas.BENCHMARK,
            restorable=True,
        ),
        OutputKind(
            "evaluation_sessions",
            rules=("evaluation_sessions",),
            target="sessions",
            wildcards=("benchmark",),
            jobs=lambda run: [(key,) for key in run.config.benchmarks],
            files=lambda run, benchmark: [run.paths.evaluation_sessions(benchmark)],
            made_from=lambda run, benchmark: {"benchmark": [run.paths.benchmark(benchmark)]},
            settings=lambda run, benchmark: settings.sessions(run.config),
            schema=schemas.EVALUATION_SESSIONS,
            restorable=True,
            restorable_alone=True,
            only_without_inputs=True,
            archived=True,
        ),
        OutputKind(
            "training_pool",
            rules=("training_pool",),
            target="data",
            wildcards=("model",),
            jobs=NEEDED.training_pools,
            files=lambda run, model: [run.paths.training_pool(model), run.paths.cleaning(model)],
            made_from=made_from.training_pool,
            settings=lambda run, model: settings.training_pool(run.config, model),
            schema=schemas.TRAINING_POOL,
            restorable=True,
            archived=True,
        ),
        OutputKind(
            "data_report",
            rules=("data_report",),
            target="data",
            jobs=lambda run: [()] if NEEDED.has_all_data(run) else [],
            files=lambda run: [
                run.paths.data_report(".md"),
                run.paths.data_report(".json"),
                run.paths.data_counts,
                run.paths.near_duplicates,
            ],
            made_from=made_from.data_report,
            settings=lambda run: result_settings.data_report(run.config),
            manifest=lambda run: manifest_beside(run.paths.data_report(".md")),
        ),
        OutputKind(
            "preflight",
            rules=("preflight_model",),
            target="preflight",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in NEEDED.used_models(run)],
            files=lambda run, model: [run.paths.preflight(model)],
            settings=lambda run, model: settings.preflight(run.config, model),
            uses_model=True,
        ),
        OutputKind(
            "preflight_limits",
            rules=("preflight_limits",),
            target="preflight",
            wildcards=("model", "prompts"),
            jobs=NEEDED.checked_prompts,
            files=lambda run, model, prompts: [run.paths.preflight_limits(model, prompts)],
            made_from=made_from.preflight_limits,
            settings=lambda run, model, prompts: prompts_settings(run.config, model, prompts),
            uses_model=True,
        ),
        OutputKind(
            "rollouts",
            rules=("seal_rollouts",),
            target="rollouts",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in NEEDED.trained_models(run)],
            files=lambda run, model: [run.paths.rollouts(model)],
            made_from=lambda run, model: {"pool": [run.paths.training_pool(model)]},
            settings=lambda run, model: settings.rollouts(run.config, model),
            schema=schemas.ROLLOUTS,
            constant=("model",),
            uses_model=True,
            restorable=True,
            work="rollouts/{model}",
            shards=Shards("rollout_shard", lambda run, model: run.config.rollouts.shards),
        ),
        OutputKind(
            "training_sessions",
            rules=("training_sessions",),
            target="sessions",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in NEEDED.trained_models(run)],
            files=lambda run, model: [
                run.paths.training_sessions(model),
                run.paths.validation_sessions(model),
                run.paths.dropped_records(model),
            ],
            made_from=made_from.pool_and_rollouts,
            settings=lambda run, model: settings.sessions(run.config),
            schema=schemas.TRAINING_SESSIONS,
        ),
        OutputKind(
            "data_card",
            rules=("data_card",),
            target="rollouts",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in NEEDED.trained_models(run)],
            files=lambda run, model: [run.paths.data_card(model)],
            made_from=made_from.pool_and_rollouts,
            settings=lambda run, model: result_settings.data_card(run.config, model),
        ),
        OutputKind(
            "controller",
            rules=("train_controller", "train_lora", "train_lora_stair"),
            target="training",
            wildcards=("model", "controller"),
            jobs=lambda run: [(model, key) for key in run.config.controllers for model in run.config.trained(key)],
            # A pattern has no kind of its own: the rules name it.
            files=lambda run, model, controller, kind=None: [
                run.paths.controller(model, controller) / name
                for name in CONTROLLER_FILES[kind or run.config.controllers[controller].kind]
            ],
            made_from=lambda run, model, controller: made_from.training_data(run, model),
            settings=lambda run, model, controller: settings.training(run.config, model, controller),
            manifest=lambda run, model, controller: run.paths.controller(model, controller) / "manifest.json",
            uses_model=True,
            restorable=True,
            restorable_alone=True,
            work="training/{model}/{controller}",
            archived=True,
        ),
        OutputKind(
            "responses",
            rules=("seal_evaluation",),
            target="evaluation",
            wildcards=("model", "benchmark", "condition"),
            jobs=NEEDED.answered,
            files=lambda run, model, benchmark, condition: [run.paths.responses(model, benchmark, condition)],
            made_from=made_from.responses,
            settings=lambda run, model, benchmark, condition: settings.evaluation(
                run.config, model, benchmark, condition
            ),
            schema=schemas.RESPONSES,
            constant=("model", "benchmark", "condition"),
            uses_model=True,
            restorable=True,
            work="evaluation/{model}/{benchmark}/{condition}",
            shards=Shards("evaluation_shard", lambda run, model, benchmark, condition: run.config.shards_of(condition)),
        ),
        OutputKind(
            "scores",
            rules=("score_condition",),
            target="scores",
            wildcards=("model", "benchmark", "condition"),
            jobs=lambda run: run.evaluated,
            files=lambda run, model, benchmark, condition: [run.paths.evaluation(model, benchmark, condition)],
            made_from=lambda run, model, benchmark, condition: {
                "responses": [run.paths.responses(model, benchmark, condition)],
                "benchmark": [run.paths.benchmark(benchmark)],
            },
            settings=lambda run, model, benchmark, condition: result_settings.scores(run.config, benchmark),
            schema=schemas.SCORED,
            constant=("model", "benchmark", "condition"),
            restorable=True,
            restorable_alone=True,
            only_without_inputs=True,
            archived=True,
        ),
        OutputKind(
            SHARED_T1_STUDY,
            rules=("seal_controls",),
            target="controls",
            wildcards=("model", "benchmark", "condition"),
            jobs=NEEDED.answered_shared_t1,
            files=lambda run, model, benchmark, condition: [run.paths.shared_t1.responses(model, benchmark, condition)],
            made_from=lambda run, *job: made_from.responses(run.shared_t1, *job),
            settings=lambda run, model, benchmark, condition: settings.controls(
                run.config, model, benchmark, condition
            ),
            schema=schemas.RESPONSES,
            constant=("model", "benchmark", "condition"),
            uses_model=True,
            restorable=True,
            work="controls/{model}/{benchmark}/{condition}",
            shards=Shards(
                "controls_shard",
                lambda run, model, benchmark, condition: run.config.shared_t1().shards_of(condition),
            ),
        ),
        OutputKind(
            "shared_t1_scores",
            rules=("score_controls",),
            target="scores",
            wildcards=("model", "benchmark", "condition"),
            jobs=lambda run: run.shared_t1.evaluated,
            files=lambda run, model, benchmark, condition: [
                run.paths.shared_t1.evaluation(model, benchmark, condition)
            ],
            made_from=lambda run, model, benchmark, condition: {
                "responses": [run.paths.shared_t1.responses(model, benchmark, condition)],
                "benchmark": [run.paths.benchmark(benchmark)],
            },
            settings=lambda run, model, benchmark, condition: result_settings.scores(run.config, benchmark),
            schema=schemas.SCORED,
            constant=("model", "benchmark", "condition"),
            restorable=True,
            restorable_alone=True,
            only_without_inputs=True,
            archived=True,
        ),
        OutputKind(
            "response_card",
            rules=("response_card",),
            target="evaluation",
            wildcards=("model",),
            jobs=NEEDED.carded_models,
            files=lambda run, model: [run.paths.response_card(model)],
            made_from=lambda run, model: {
                "responses": [run.paths.responses(*job) for job in run.evaluated if job[0] == model]
            },
            settings=lambda run, model: result_settings.response_card(run.config, model),
        ),
        OutputKind(
            "replay_design",
            rules=("replay_design",),
            target="replay",
            wildcards=("model",),
            jobs=replayed_models,
            files=lambda run, model: [run.paths.replay_problems(model), run.paths.replay_histories(model)],
            made_from=made_from.replay_design,
            settings=lambda run, model: settings.replay_design(run.config, model),
            uses_model=True,
            restorable=True,
            restorable_alone=True,
            archived=True,
        ),
        OutputKind(
            "replay",
            rules=("seal_replay",),
            target="replay",
            wildcards=("model",),
            jobs=NEEDED.measured_models,
            files=lambda run, model: [run.paths.replay_cells(model)],
            made_from=lambda run, model: {
                **made_from.replay_design(run, model),
                "design": [run.paths.replay_problems(model), run.paths.replay_histories(model)],
            },
            settings=lambda run, model: settings.replay(run.config, model),
            schema=schemas.REPLAY_CELLS,
            uses_model=True,
            work="replay/{model}",
            shards=Shards("replay_shard", lambda run, model: run.replay.shards),
        ),
        OutputKind(
            "replay_statistics",
            rules=("replay_statistics",),
            target="replay",
            wildcards=("model", "part"),
            jobs=lambda run: [(model, part) for model in analyzed_models(run.config) for part in REPLAY_PARTS],
            files=lambda run, model, part: [run.paths.replay_statistics(model, part)],
            made_from=lambda run, model, part: {
                "cells": [run.paths.replay_cells(model)],
                "histories": [run.paths.replay_histories(model)],
            },
            settings=lambda run, model, part: result_settings.replay_statistics(run.config, part),
            schema=schemas.REPLAY_STATISTICS,
            restorable=True,
            restorable_alone=True,
            archived=True,
        ),
        OutputKind(
            "runtime",
            rules=("measure_runtime",),
            target="runtime",
            wildcards=("model",),
            jobs=timed_models,
            files=lambda run, model: [run.paths.runtime(model)],
            made_from=made_from.runtime,
            settings=lambda run, model: settings.runtime(run.config, model),
            uses_model=True,
            restorable=True,
            random_weights=lambda run: run.runtime.synthetic is not None,
            work="runtime/{model}",
            restorable_alone=True,
            archived=True,
        ),
        OutputKind(
            "check",
            rules=("check",),
            target="check",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.checks],
            made_from=lambda run: made_from.check(run, NEEDED.checked_models(run)),
            settings=lambda run: result_settings.checks(run.config),
            stage_writes_manifest=False,
            restorable=True,
            restorable_alone=True,
            only_without_inputs=True,
            archived=True,
        ),
        OutputKind(
            "table",
            rules=("table",),
            target="tables",
            wildcards=("table",),
            jobs=lambda run: [
                (name,) for name in (*tables_of(run.config), *shared_t1_tables(run.config), *run_tables(run.config))
            ],
            files=lambda run, table: [run.paths.table(table, suffix) for suffix in TABLE_SUFFIXES],
            made_from=lambda run, table: made_from.table(run, OUTPUTS, table),
            settings=lambda run, table: result_settings.table(run.config, table),
            manifest=lambda run, table: run.paths.table(table, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "training_figure",
            rules=("training_figure",),
            target="figures",
            wildcards=("figure",),
            jobs=drawn_curves,
            files=lambda run, figure: [run.paths.figure(figure, suffix) for suffix in FIGURE_SUFFIXES],
            made_from=lambda run, figure: {
                "curves": list(run.paths.curves(run.config, figure.removeprefix(TRAINING_FIGURE)).values())
            },
            settings=lambda run, figure: result_settings.training_figure(
                run.config, figure.removeprefix(TRAINING_FIGURE)
            ),
            manifest=lambda run, figure: run.paths.figure(figure, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "bank_cost_figure",
            rules=("bank_cost_figure",),
            target="figures",
            wildcards=("figure",),
            jobs=drawn_costs,
            files=lambda run, figure: [run.paths.figure(figure, suffix) for suffix in FIGURE_SUFFIXES],
            made_from=lambda run, figure: {"runtime": [run.paths.runtime(figure.removeprefix(BANK_COST_FIGURE))]},
            settings=lambda run, figure: result_settings.runtime_figure(
                run.config, figure.removeprefix(BANK_COST_FIGURE)
            ),
            manifest=lambda run, figure: run.paths.figure(figure, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "diagram",
            rules=("diagram",),
            target="figures",
            wildcards=("figure",),
            jobs=lambda run: [(name,) for name in DIAGRAMS if diagram_models(run.config)],
            files=lambda run, figure: [run.paths.figure(figure, suffix) for suffix in FIGURE_SUFFIXES],
            made_from=made_from.diagram,
            settings=lambda run, figure: result_settings.diagram(run.config, figure),
            manifest=lambda run, figure: run.paths.figure(figure, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "figure",
            rules=("figure",),
            target="figures",
            wildcards=("figure",),
            jobs=lambda run: [(name,) for name in figures_of(run.config)],
            files=lambda run, figure: [run.paths.figure(figure, suffix) for suffix in FIGURE_SUFFIXES],
            made_from=made_from.figure,
            settings=lambda run, figure: result_settings.figure(run.config, figure),
            manifest=lambda run, figure: run.paths.figure(figure, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "comparison",
            rules=("comparison",),
            target="comparison",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.comparison(".csv"), run.paths.comparison(".md")],
            made_from=lambda run: made_from.every_number(run, OUTPUTS),
            settings=lambda run: result_settings.comparison(run.config),
            manifest=lambda run: run.paths.comparison(".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "claims",
            rules=("claims",),
            target="claims",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.claims(".csv"), run.paths.claims(".md")],
            made_from=lambda run: made_from.every_number(run, OUTPUTS),
            settings=lambda run: result_settings.claims(run.config),
            manifest=lambda run: run.paths.claims(".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "provenance",
            rules=("provenance",),
            target="provenance",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.provenance],
            made_from=lambda run: made_from.every_result(run, OUTPUTS),
            settings=lambda run: result_settings.provenance(run.config),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "report",
            rules=("report",),
            target="report",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.report],
            made_from=lambda run: made_from.report(run, OUTPUTS),
            settings=lambda run: result_settings.report(run.config),
            stage_writes_manifest=False,
        ),
    )
}
