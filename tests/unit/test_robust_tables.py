"""The tables about `robust()`: the worth of each part, gamma_hat at equal overlap, TD3."""

from paper_runs import BUDGET, collected, robust_settings, write_trial

from paper import robust
from paper.entries import entries, variant_entries

ENV = "HalfCheetah-v5"


def write(folder, seed, j_pi, experiment, **settings):
    settings = robust_settings(BUDGET) | settings
    write_trial(folder, seed, [0.0, j_pi], experiment=experiment, env=ENV, **settings)


def test_a_part_is_worth_what_robust_has_and_the_rest_has_not(tmp_path):
    for seed, (whole, less) in enumerate([(10.0, 4.0), (20.0, 5.0), (30.0, 36.0)]):
        write(tmp_path, seed, whole, "halfcheetah-parts")
        write(tmp_path, seed, less, "halfcheetah-without-overlap-target", overlap_target=None)
    table = robust.robust_parts(entries(collected(tmp_path)))
    assert table[0] == f"| without | {ENV} |"
    assert table[2].startswith("| nothing | 20 [")
    assert table[3].startswith("| overlap target | 15 [") and table[3].endswith("worse in 2 of 3 |")


def test_there_is_no_table_of_parts_without_the_whole(tmp_path):
    write(tmp_path, 0, 4.0, "halfcheetah-without-overlap-target", overlap_target=None)
    assert robust.robust_parts(entries(collected(tmp_path))) == []


def test_robust_itself_is_a_value_of_gamma_hat(tmp_path):
    write(tmp_path, 0, 10.0, "halfcheetah-parts")
    for value in (0.0, 0.9):
        write(tmp_path, 0, 10 * value, "halfcheetah-robust-gamma-hat", gamma_hat=value)
    table = robust.gamma_hats(entries(collected(tmp_path)))
    assert table[0] == "| J_pi; overlap at gamma_hat | 0 | 0.2 | 0.9 |"
    assert table[2] == f"| {ENV} | 0; 0.25 | 10; 0.25 | 9; 0.25 |"


def test_td3_is_compared_at_its_own_steps(tmp_path):
    write(tmp_path, 0, 10.0, "halfcheetah-parts")
    write_trial(tmp_path, 0, [0.0, 7.0], experiment="halfcheetah-td3", run="TD3", env=ENV)
    (row,) = robust.beside_td3(entries(collected(tmp_path)))[2:]
    # 200 locksteps of ten lanes, each with the updates that make 20,000.
    assert row.startswith(f"| {ENV} | 2,000 | 10 | 20,000 | 7 |")


def test_of_a_variant_at_two_budgets_the_longer_counts(tmp_path):
    write_trial(tmp_path, 0, [0.0, 1.0], env=ENV)
    write_trial(tmp_path, 0, [0.0, 2.0], env=ENV, value_baseline="ema")
    paper, short = entries(collected(tmp_path))
    long = short._replace(budget=2 * BUDGET)
    assert variant_entries([paper, short, long]) == [paper, long]
    assert variant_entries([paper, short]) == [paper, short]
