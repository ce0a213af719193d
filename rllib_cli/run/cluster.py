"""Starts a local Ray, or connects to a cluster (imports Ray)."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rllib_cli
from rllib_cli import plugins
from rllib_cli.errors import UserError, exception_summary
from rllib_cli.experiment import checks
from rllib_geoffpac.compat import LOOPBACK_ONLY
from rllib_geoffpac.envs.mujoco import uses_mujoco


def local_resources(num_cpus: int | None, num_gpus: int | None) -> dict[str, float]:
    """What a Ray that is started here will have."""
    gpus = checks.available_gpus() if num_gpus is None else num_gpus
    return {"CPU": num_cpus or checks.available_cpus(), "GPU": gpus}


def start_ray(
    address: str | None,
    resources: dict[str, float],
    envs: list[str],
    references: Sequence[str] = (),
) -> None:
    """Starts Ray on this machine, or connects to the cluster at ``address``.

    Args:
        address: Of a running cluster; None starts one here that only this machine can reach.
        resources: CPUs and GPUs of the one that is started here.
        envs: Environments that the workers will run.
        references: ``package.module:name`` of the user's code, which a cluster needs as well.
    """
    import ray

    runtime_env: dict[str, Any] = {}
    if any(uses_mujoco(env) for env in envs):
        runtime_env["worker_process_setup_hook"] = "rllib_geoffpac.envs.mujoco.silence_mujoco"
    if address is None:
        ray.init(
            address="local",
            num_cpus=resources["CPU"],
            num_gpus=resources["GPU"],
            include_dashboard=False,
            log_to_driver=False,
            runtime_env=runtime_env or None,
            **LOOPBACK_ONLY,  # nobody else on the network can reach it
        )
        return
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            runtime_env={**runtime_env, "py_modules": [*package_folders(), *_own(references)]},
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(
            f"--ray-address {address!r}: no Ray cluster answers there "
            f"({exception_summary(error, 200)}). Start one with 'ray start --head'."
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
