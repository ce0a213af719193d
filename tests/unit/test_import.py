"""What an import costs, and what it makes known, in fresh processes."""

import subprocess
import sys

import pytest

import rllib_geoffpac
from rllib_geoffpac import registration

MATHS = ["finite_mdp", "emphatic", "value", "density_ratio", "moments"]
CHECK = f"""
from ray.tune.registry import get_trainable_cls
import gymnasium
print(*(get_trainable_cls(name).__module__ for name in {registration.ALGORITHM_NAMES}))
print(gymnasium.make("TwoCircle-v0").observation_space)
"""


def run(code: str) -> str:
    """Runs `code` in a fresh interpreter; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def heavy_modules_after(code: str) -> list[str]:
    heavy = ["ray", "torch", "jax", "gymnasium", "scipy", "matplotlib"]
    return run(f"{code}\nimport sys\nprint(*(m for m in {heavy} if m in sys.modules))").split()


def test_the_maths_comes_without_ray_and_torch_in_well_under_a_second():
    imports = "from rllib_geoffpac import FiniteMDP, emphatic_traces"
    assert heavy_modules_after(imports) == []
    # The processor's time, interpreter included: about 0.25 s, where Ray and torch take 6 s.
    assert float(run(f"{imports}\nimport time\nprint(time.process_time())")) < 1


@pytest.mark.parametrize("module", MATHS)
def test_maths_on_arrays_needs_numpy_alone(module):
    assert heavy_modules_after(f"import rllib_geoffpac.maths.{module}") == []


@pytest.mark.parametrize(
    "imports",
    [
        "import rllib_geoffpac, ray.rllib, gymnasium",
        pytest.param("import gymnasium, ray.rllib, rllib_geoffpac", marks=pytest.mark.slow),
    ],
)
def test_algorithms_and_environments_are_known_whatever_is_imported_first(imports):
    modules, space = run(f"{imports}\n{CHECK}").splitlines()
    assert modules.split() == [
        f"rllib_geoffpac.algorithms.{name}"
        for name in ("geoff_pac", "ace", "off_pac", "ddpg", "td3")
    ]
    assert space.startswith("Discrete(11)")


def test_registering_imports_no_algorithm():
    code = "import rllib_geoffpac, ray.tune, sys; print('torch' in sys.modules)"
    assert run(code).split() == ["False"]


@pytest.mark.slow
def test_register_makes_them_known_to_a_second_ray():
    code = """
import ray, rllib_geoffpac
from ray.tune.registry import get_trainable_cls
for _ in range(2):
    ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level="ERROR")
    rllib_geoffpac.register()
    print(get_trainable_cls("GeoffPAC").__name__)
    ray.shutdown()
"""
    assert run(code).split() == ["GeoffPAC", "GeoffPAC"]


@pytest.mark.slow
def test_the_watchers_leave_the_import_system_as_it_was():
    code = """
import sys, importlib.util
before = list(sys.meta_path)
import rllib_geoffpac
importlib.util.find_spec("ray.tune.registry")
import gymnasium, ray.tune, inspect
print(before == sys.meta_path, len(inspect.getsource(sys.modules["ray.tune.registry"])) > 0)
"""
    assert run(code).split() == ["True", "True"]


def test_every_public_name_is_there_and_others_are_not():
    for name in rllib_geoffpac.__all__:
        assert getattr(rllib_geoffpac, name) is not None
    assert set(rllib_geoffpac.__all__) <= set(dir(rllib_geoffpac))
    with pytest.raises(AttributeError, match="no attribute 'GeofPAC'"):
        rllib_geoffpac.GeofPAC


def test_the_registered_names_are_those_of_the_algorithms():
    from rllib_geoffpac.algorithms import ALGORITHMS

    assert tuple(ALGORITHMS) == registration.ALGORITHM_NAMES
