"""Every validated setting of the five algorithms, wrong on the command line."""

import pytest
import yaml
from impossible_values import COMBINATIONS, IMPOSSIBLE

ENVIRONMENTS = dict.fromkeys(["GeoffPAC", "ACE", "OffPAC"], "CartPole-v1")


def train(rllib_here, algorithm, env, settings):
    options = []
    for key, value in settings.items():
        if callable(value):  # written as code is
            value = f"{value.__module__}:{value.__name__}"
        written = yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()
        options += ["--set", f"{key}={written}"]
    stop = "{training_iteration: 1}"
    return rllib_here("train", "--algo", algorithm, "--env", env, "--stop", stop, *options)


@pytest.mark.parametrize("algorithm", IMPOSSIBLE)
def test_an_impossible_value_is_refused_by_the_name_of_its_key(rllib_here, home, algorithm):
    env = ENVIRONMENTS.get(algorithm, "Pendulum-v1")
    for key, values in IMPOSSIBLE[algorithm].items():
        for value in [*values, ["nonsense"]]:
            done = train(rllib_here, algorithm, env, {key: value})
            assert done.status == 2, (key, value, done.text)
            assert key in done.err, (key, value, done.err)
            assert "Traceback" not in done.text, (key, value)
    assert not list(home.iterdir())


@pytest.mark.parametrize(("algorithm", "env", "settings", "reason"), COMBINATIONS)
def test_settings_that_exclude_each_other(rllib_here, home, algorithm, env, settings, reason):
    done = train(rllib_here, algorithm, env, settings)
    assert (done.status, "Traceback" in done.text) == (2, False), done.text
    assert reason in done.err
    assert not list(home.iterdir())
