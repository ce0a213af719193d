"""What users write: misspelt words, and code by its name."""

import gymnasium as gym
import pytest

from rllib_geoffpac.envs.make_env import create_env
from rllib_geoffpac.envs.mujoco import uses_mujoco
from rllib_geoffpac.validation import did_you_mean, import_by_name, unknown_key_message


def test_the_nearest_words_are_offered_whatever_their_case():
    assert did_you_mean("geofpac", ["GeoffPAC", "ACE"]) == " Did you mean 'GeoffPAC'?"
    assert did_you_mean("zzz", ["GeoffPAC", "ACE"]) == ""
    assert unknown_key_message("lamda", ["lambda_1"], "X").startswith("X has no key `lamda`. Did")


def test_code_is_imported_by_its_name():
    assert import_by_name("os.path:join", "key").__name__ == "join"
    assert import_by_name("collections:OrderedDict.fromkeys", "key")(["a"]) == {"a": None}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("join", "write it as 'package.module:name'"),
        ("no_such_module:name", "No module named 'no_such_module'"),
        ("os.path:joinn", "Did you mean 'join'?"),
    ],
)
def test_code_that_is_not_there_is_named_with_its_key(path, says):
    with pytest.raises(ValueError, match="`behavior` is") as error:
        import_by_name(path, "behavior")
    assert says in str(error.value)


class Still(gym.Env):
    """Keeps the context that it was made with."""

    def __init__(self, context):
        self.context = context


@pytest.mark.parametrize("env", ["CartPole-v1", "gymnasium.envs:CartPole-v1"])
def test_an_environment_is_created_by_its_id(env):
    made = create_env(env, {"sutton_barto_reward": True}, render_mode="rgb_array")
    assert made.render_mode == "rgb_array" and made.spec.kwargs["sutton_barto_reward"]
    made.close()


@pytest.mark.parametrize("env", [Still, f"{__name__}:Still"])
def test_an_environment_is_created_by_its_code_or_the_name_of_it(env):
    made = create_env(env, {"size": 3}, worker_index=2)
    assert made.context == {"size": 3} and made.context.worker_index == 2


def test_an_environments_module_that_lacks_the_name_is_an_error():
    with pytest.raises(ValueError, match="Did you mean 'CartPoleEnv'"):
        create_env("gymnasium.envs.classic_control:CartPolEnv")


def test_mujoco_is_recognised_by_the_environments_id():
    assert uses_mujoco("HalfCheetah-v5")
    assert not uses_mujoco("CartPole-v1")
    assert not uses_mujoco(gym.Env)
