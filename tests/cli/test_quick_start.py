"""The README's first command, with a small budget: what a newcomer sees and finds."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_quick_start_compares_with_a_random_agent_draws_and_records(rllib, home):
    budget = ["--stop", "{num_env_steps_sampled_lifetime: 400}", "--set", "evaluation_duration=1"]
    budget += ["--set", "min_sample_timesteps_per_iteration=400"]
    done = rllib("example", "run", "quickstart", "--storage-path", home / "results", *budget)
    assert done.status == 0, done.text
    table = done.out[done.out.index("random agent's") :].splitlines()
    assert [line.split()[:2] for line in table[1:5]] == [
        [env, algorithm]
        for env in ("Hopper-v5", "TwoCircle-v0")
        for algorithm in ("GeoffPAC", "ACE")
    ]
    shown = home / "results" / "quickstart-hopper-geoffpac" / "show"
    assert (shown / "curves.png").stat().st_size > 10_000
    assert (shown / "episode_000.gif").read_bytes().startswith(b"GIF89a")
    for name in ("curves.png", "episode_000.gif"):
        assert str(shown / name) in done.out


def test_what_can_t_be_shown_is_refused_before_anything_starts(rllib_here):
    refused = rllib_here("example", "run", "quickstart", "--storage-path", "file:///nowhere/at/all")
    assert refused.status == 2 and "--show" in refused.err
