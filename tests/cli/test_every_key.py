"""Every validated config key of the five algorithms, given nonsense on the command line."""

import pytest

ENVIRONMENTS = {
    "GeoffPAC": "Reacher-v5",
    "ACE": "Reacher-v5",
    "OffPAC": "Reacher-v5",
    "DDPG": "Pendulum-v1",
    "TD3": "Pendulum-v1",
}


@pytest.mark.parametrize("algorithm", ENVIRONMENTS)
def test_nonsense_is_refused_by_the_name_of_its_key(rllib_here, home, algorithm):
    import rllib_geoffpac

    keys = [key for key, *_ in getattr(rllib_geoffpac, f"{algorithm}Config")()._checks()]
    assert len(keys) > 20
    for key in dict.fromkeys(keys):
        done = rllib_here(
            *("train", "--algo", algorithm, "--env", ENVIRONMENTS[algorithm]),
            *("--stop", "{training_iteration: 1}", "--set", f"{key}=[nonsense]"),
        )
        assert done.status == 2, (key, done.text)
        assert key in done.err, (key, done.err)
        assert "Traceback" not in done.text, key
    assert not list(home.iterdir())
