"""Starts a local Ray, or connects to a cluster (imports Ray)."""

import contextlib
import importlib
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import rllib_cli
from rllib_cli import interruption, plugins
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.experiment import checks
from rllib_geoffpac.compat import keep_ray_to_this_machine
from rllib_geoffpac.envs.mujoco import uses_mujoco


def local_resources(num_cpus: int | None, num_gpus: int | None) -> dict[str, float]:
    """What a Ray that is started here will have."""
    gpus = checks.available_gpus() if num_gpus is None else num_gpus
    return {"CPU": num_cpus or checks.available_cpus(), "GPU": gpus}


@contextlib.contextmanager
def ray_session(
    address: str | None,
    resources: dict[str, float],
    envs: list[str],
    references: Sequence[str] = (),
) -> Iterator[None]:
    """Starts Ray on this machine, or connects to the cluster at ``address``; ends it afterwards.

    Args:
        address: Of a running cluster; None starts one here that only this command can use.
        resources: CPUs and GPUs of the one that is started here.
        envs: Environments that the workers will run.
        references: ``package.module:name`` of the user's code, which a cluster needs as well.
    """
    import ray

    runtime_env: dict[str, Any] = {}
    if any(uses_mujoco(env) for env in envs):
        runtime_env["worker_process_setup_hook"] = "rllib_geoffpac.envs.mujoco.silence_mujoco"
    with interruption.unwinding(), contextlib.ExitStack() as stack:
        stack.callback(ray.shutdown)
        with interruption.postponed():
            if address is None:
                _start(resources, runtime_env, stack.enter_context(_fresh_token()))
            else:
                modules = [*package_folders(), *_own(references)]
                _connect(address, {**runtime_env, "py_modules": modules})
        yield


@contextlib.contextmanager
def _fresh_token() -> Iterator[str]:
    """The name of a file, readable for this user alone, that holds a new secret while it exists."""
    with tempfile.TemporaryDirectory(prefix="rllib-") as folder:
        path = os.path.join(folder, "ray_token")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        yield path


def _start(resources: dict[str, float], runtime_env: dict[str, Any], token_file: str) -> None:
    import ray

    ray.init(
        address="local",
        num_cpus=resources["CPU"],
        num_gpus=resources["GPU"],
        include_dashboard=False,
        log_to_driver=False,
        runtime_env=runtime_env or None,
        **keep_ray_to_this_machine(token_file),
    )


def _connect(address: str, runtime_env: dict[str, Any]) -> None:
    """The user's own token, if there is one, is found by Ray itself."""
    import ray
    from ray.exceptions import AuthenticationError

    try:
        ray.init(address=address, log_to_driver=False, runtime_env=runtime_env)
    except (ConnectionError, ValueError, RuntimeError, AuthenticationError) as error:
        raise UserError(
            f"--ray-address {address!r}: no Ray cluster lets us in there "
            f"({exception_summary(error, 200)}). Start one with 'ray start --head'; if it asks "
            "for a token, set RAY_AUTH_MODE=token and have it in ~/.ray/auth_token."
        ) from None


def package_folders() -> list[str]:
    """The folders of this project's packages, which a cluster's workers need as well."""
    files = [rllib_cli.__file__, *(package.__file__ for package in plugins.packages())]
    return [str(Path(file).parent) for file in files if file is not None]


def _own(references: Sequence[str]) -> list[Any]:
    """The top-level modules of the user's code that are not installed packages.

    Installed ones are the cluster's own business; a module of the working folder is not there,
    and neither are those that it imports from there.
    """
    here = Path.cwd().resolve()
    named = {reference.partition(":")[0].partition(".")[0] for reference in references}
    modules = {name: importlib.import_module(name) for name in named}
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/").resolve()
        if "." not in name and here in file.parents and file.is_file():
            modules[name] = module
    known = ["rllib_cli", "__main__", *(package.__name__ for package in plugins.packages())]
    return [
        module
        for name, module in sorted(modules.items())
        if name not in known and "site-packages" not in (module.__file__ or "site-packages")
    ]
