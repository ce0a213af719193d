"""Settings that can't be honoured are refused by name, before anything starts."""

import pytest
from harness import built, tiny_config, train
from ray import tune
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from rllib_geoffpac.algorithms.resources import check_available, sum_resources

REFUSED = {
    "env_runner_cls": (
        lambda c: c.env_runners(env_runner_cls=SingleAgentEnvRunner),
        r"`env_runner_cls` is .*; allowed is a subclass of .*BehaviorEnvRunner",
    ),
    "the old API stack": (
        lambda c: c.api_stack(
            enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False
        ),
        "`enable_rl_module_and_learner` is False; allowed is True: .* new API stack",
    ),
    "gym_env_vectorize_mode": (
        lambda c: c.env_runners(gym_env_vectorize_mode="async"),
        "`gym_env_vectorize_mode` is 'async'; .*use `num_env_runners` for slow simulators",
    ),
    "normalize_actions": (
        lambda c: c.environment(normalize_actions=False),
        "`normalize_actions` is False; allowed is True, its default",
    ),
    "output_write_method": (
        lambda c: c.offline_data(output_write_method="write_json"),
        "`output_write_method` is 'write_json'; .*parquet",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_effect_is_refused_by_name(name):
    change, message = REFUSED[name]
    with pytest.raises(ValueError, match=message) as refusal:
        change(tiny_config()).validate()
    first = str(refusal.value).partition("\n")[0]
    assert "`_" not in first, "a private name is nothing to advise"


def test_an_evaluation_runner_that_can_t_play_pi_is_refused():
    config = tiny_config().evaluation(evaluation_config={"env_runner_cls": SingleAgentEnvRunner})
    with pytest.raises(ValueError, match=r"allowed is a subclass of .*TargetPolicyEnvRunner"):
        config.get_evaluation_config_object().validate()


def test_missing_custom_resources_are_named(ray):
    for change in (
        lambda c: c.env_runners(num_env_runners=2, custom_resources_per_env_runner={"unicorn": 1}),
        lambda c: c.learners(num_learners=1, custom_resources_per_learner={"unicorn": 2}),
    ):
        config = change(tiny_config())
        with pytest.raises(ValueError, match=r"2 of the custom resource 'unicorn', and .* has 0"):
            config.build_algo()
        with pytest.raises(ValueError, match="A trial needs 2 of the custom resource 'unicorn'"):
            tune.Tuner("GeoffPAC", param_space=config).fit()


def test_a_trial_whose_env_runners_need_nothing_is_refused(ray):
    config = tiny_config().env_runners(num_env_runners=2, num_cpus_per_env_runner=0)
    with pytest.raises(ValueError, match="`num_cpus_per_env_runner` is 0, but Tune reserves"):
        tune.Tuner("GeoffPAC", param_space=config).fit()


def test_fractions_of_a_cpu_are_honoured(ray):
    config = tiny_config().env_runners(num_env_runners=3, num_cpus_per_env_runner=0.25)
    config.learners(num_learners=1, num_cpus_per_learner=0.5)
    with built(config) as algo:
        train(algo, 1)
        used = ray.cluster_resources()["CPU"] - ray.available_resources()["CPU"]
    assert used == pytest.approx(3 * 0.25 + 0.5)


def test_resources_are_added_up_and_compared():
    needed = sum_resources([{"CPU": 1, "GPU": 0}, {"CPU": 0.5, "arm": 1}])
    assert needed == {"CPU": 1.5, "arm": 1}
    check_available(needed, {"CPU": 1.5, "arm": 1}, "A trial needs")
    with pytest.raises(ValueError, match=r"needs 1.5 CPUs, and this machine has 1: lower `num_env"):
        check_available(needed, {"CPU": 1}, "A trial needs", "this machine")
