"""Records a data set with the lanes of an algorithm's config; nothing is learned."""

from rllib_cli import interruption
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.experiment import checks
from rllib_cli.experiment import parse as experiments
from rllib_cli.screen import Screen


def record_command(
    algo: str,
    env: str | None,
    config: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    steps: int,
    out: str,
) -> None:
    """Records, and prints what there is now and how to learn from it.

    Raises:
        UserError: For a mistake in the input, before anything is simulated.
    """
    given = experiments.from_command_line(algo, env, config, "record")
    overrides = experiments.Overrides(set=settings, seed=seed)
    (experiment,) = experiments.override([given], overrides)
    checks.check_algorithm(experiment.run)
    checks.check_config(experiment.config, experiment.run)
    with Screen() as screen:
        from rllib_cli.experiment import rllib_checks

        (trial, *more) = rllib_checks.check_experiment(experiment)
        if more:
            raise UserError("A search space can't be recorded: give every setting one value.")
        algorithm_config = rllib_checks.config_of(experiment, trial)
        if not hasattr(algorithm_config, "record_data"):
            raise UserError(
                f"{algo} has no fixed behaviour policy to record. RLlib's own algorithms write "
                "what they do while they train: set 'output' and 'batch_mode: complete_episodes'."
            )
        try:
            with interruption.unwinding():
                recorded = algorithm_config.record_data(out, steps)
        except ValueError as error:
            raise UserError(exception_summary(error)) from None
        except Exception as error:
            log = screen.keep_log(error)
            raise UserError(
                f"The data set cannot be recorded: {type(error).__name__}: "
                f"{exception_summary(error)} (details: {log})"
            ) from error
        screen.console.print(
            f"{recorded.place}: {recorded.episodes} episodes, {recorded.steps} steps.\n"
            f"To learn from it: rllib train --algo {algo} --data {recorded.place}",
            markup=False,
            soft_wrap=True,
        )
