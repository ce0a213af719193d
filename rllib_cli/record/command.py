"""The options of `rllib record`."""

from typing import Annotated

from rllib_cli.options import Env, Seed, Set, option


def record(
    algo: Annotated[str, option("Name of the algorithm.", "--algo", "--run")],
    steps: Annotated[int, option("Transitions of all lanes together, at least.", "--steps", min=1)],
    out: Annotated[
        str,
        option(
            "A folder or URI for RLlib's episodes, or minari:DATASET-ID.",
            "--out",
            metavar="DIR|minari:ID",
        ),
    ],
    env: Env = None,
    config: Annotated[
        str | None, option("Settings of the algorithm: a JSON or YAML mapping.", "--config")
    ] = None,
    set_: Set = None,
    seed: Seed = None,
) -> None:
    """Write what the behaviour policy does as a data set: whole episodes with log mu."""
    from rllib_cli.record import data_sets

    data_sets.record_command(algo, env, config, tuple(set_ or ()), seed, steps, out)
