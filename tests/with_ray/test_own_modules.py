"""Modules of a user's: what the documented protocol is enough for, and what others are told."""

import re

import numpy as np
import pytest
from foreign_modules import Foreign, Plain
from harness import CONFIGS, built, tiny_config, train
from pages import ROOT
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from rllib_geoffpac import DDPGConfig

SPEC = RLModuleSpec(module_class=Plain)
GIVEN = {
    "module": lambda config: config.training(module=Plain),
    "module by its name": lambda config: config.training(module="foreign_modules:Plain"),
    "rl_module_spec": lambda config: config.rl_module(rl_module_spec=SPEC),
    "rl_module_spec of several": lambda config: config.rl_module(
        rl_module_spec=MultiRLModuleSpec(rl_module_specs={"default_policy": SPEC})
    ),
}


@pytest.mark.slow
def test_the_documented_protocol_is_enough(ray):
    config = tiny_config(kernel="auto", module=Foreign)
    config.evaluation(evaluation_interval=1, evaluation_duration=2)
    with built(config) as algo:
        first, second = train(algo, 2)
    assert first["weights_digest"] != second["weights_digest"]
    assert np.isfinite(second["evaluation"]["env_runners"]["j_pi"])


@pytest.mark.parametrize("way", GIVEN)
def test_what_a_class_lacks_is_named_before_anything_starts(way):
    missing = "`function`, .*`get_target_network_pairs`, `log_prob`, `entropy`"
    with pytest.raises(ValueError, match=f"foreign_modules.Plain .*{missing}.*connectors.md"):
        GIVEN[way](tiny_config()).validate()


def test_settings_decide_about_what_is_needed():
    tiny_config(module=Foreign).validate()
    for settings, name in (
        ({"critic": "action_value", "view": "forward", "lambda_2": 1.0}, "action"),
        ({"policy_average": 7.0}, "average_parameters"),
    ):
        with pytest.raises(ValueError, match=f"foreign_modules.Foreign .*has no `{name}`:"):
            tiny_config(module=Foreign, **settings).validate()
    config = DDPGConfig().environment("Pendulum-v1").rl_module(rl_module_spec=SPEC)
    with pytest.raises(ValueError, match=r"derive it from .*DeterministicActorCriticRLModule"):
        config.validate()


class Unfinished(Foreign):
    def setup(self):
        super().setup()
        del self.distribution


def test_what_setup_left_out_is_named(ray):
    with pytest.raises(ValueError, match=r"Unfinished .*has no `distribution`"):
        tiny_config(module=Unfinished).build_algo()


def test_a_class_that_is_no_module_is_named():
    with pytest.raises(ValueError, match=r"`module` gives .*int.*TorchRLModule"):
        tiny_config(module=int).validate()


def test_the_page_lists_everything_that_is_asked_for():
    page = (ROOT / "docs" / "connectors.md").read_text()
    table = page[page.index("## A module of your own") :]
    listed = set(re.findall(r"`(\w+)", "".join(re.findall(r"^\|[^|]*\|", table, re.MULTILINE))))
    configs = [config() for config in CONFIGS.values()]
    configs.append(CONFIGS["GeoffPAC"]().training(critic="action_value", policy_average=7.0))
    configs += [DDPGConfig(), DDPGConfig().env_runners(behavior="noise")]
    asked = set()
    for config in configs:
        protocol = config.module_protocol()
        asked |= {*protocol.methods, *protocol.attributes}
    assert asked <= listed
