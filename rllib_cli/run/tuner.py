"""Turns a checked experiment into a ``ray.tune.Tuner`` (imports Ray)."""

import posixpath
from typing import Any

from ray import tune
from ray.tune.search import BasicVariantGenerator

from rllib_cli import storage
from rllib_cli.experiment import rllib_checks, search_space
from rllib_cli.experiment.algorithms import algorithm_class, register_env
from rllib_cli.experiment.parse import Experiment, env_names
from rllib_cli.experiment.settings import Settings
from rllib_cli.folders import metric_and_mode
from rllib_cli.run.session import SessionCallback, trial_dirname


def _search(experiment: Experiment) -> dict[str, Any]:
    """Who chooses the trials, and how many of them run at a time."""
    at_once = experiment.tune_config.get("max_concurrent_trials")
    if searcher := rllib_checks.make_searcher(experiment):
        return {"search_alg": searcher, "max_concurrent_trials": at_once}
    seed = rllib_checks.search_seed(experiment)
    return {"search_alg": BasicVariantGenerator(random_state=seed, max_concurrent=at_once or 0)}


def make_tuner(experiment: Experiment, resume: bool, wandb_project: str | None = None) -> Any:
    """Builds the ``Tuner`` of a checked experiment, or restores it from its folder."""
    for env in env_names(experiment):
        register_env(env)
    trainable = experiment.algorithm or algorithm_class(experiment.run)
    config, num_samples = experiment.drawn()
    settings = Settings(trainable.get_default_config(), experiment.run)
    space = search_space.to_tune(settings.for_rllib(config))
    filesystem, folder = storage.locate(experiment.folder)
    if resume and tune.Tuner.can_restore(folder, filesystem):
        return tune.Tuner.restore(
            folder,
            trainable=experiment.run,
            resume_errored=True,
            storage_filesystem=filesystem,
        )
    tune.register_trainable(experiment.run, trainable)
    metric, mode = metric_and_mode(experiment)
    callbacks: list[Any] = [SessionCallback()]
    if wandb_project:
        from ray.air.integrations.wandb import WandbLoggerCallback

        callbacks.append(WandbLoggerCallback(project=wandb_project, group=experiment.name))
    root, name = posixpath.split(folder)
    return tune.Tuner(
        experiment.run,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric=metric,
            mode=mode,
            num_samples=num_samples,
            **_search(experiment),
            scheduler=rllib_checks.make_scheduler(experiment.tune_config),
            time_budget_s=experiment.tune_config.get("time_budget_s"),
            trial_dirname_creator=trial_dirname,
        ),
        run_config=tune.RunConfig(
            name=name,
            storage_path=root,
            storage_filesystem=filesystem,
            stop=experiment.stop or None,
            verbose=0,
            callbacks=callbacks,
            checkpoint_config=tune.CheckpointConfig(
                **{"checkpoint_at_end": True, **experiment.checkpoint_config}
            ),
            failure_config=tune.FailureConfig(**experiment.failure_config),
        ),
    )
