"""The files under deploy/: valid for `ray up` and KubeRay, and their commands exist."""

import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import yaml

from rllib_geoffpac.compat import check_cluster_file

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def closed(required: tuple[str, ...] = (), **properties) -> dict:
    """The schema of a mapping with these keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT, COUNT, FLAG = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
CONTAINER = closed(
    ("name", "image", "resources"),
    name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
    image=TEXT,
    ports={"type": "array", "items": closed(("containerPort",), containerPort=COUNT, name=TEXT)},
    resources=closed(("requests", "limits"), requests=TEXTS, limits=TEXTS),
    volumeMounts={
        "type": "array",
        "items": closed(("name", "mountPath"), name=TEXT, mountPath=TEXT),
    },
)
VOLUME = closed(
    ("name", "persistentVolumeClaim"),
    name=TEXT,
    persistentVolumeClaim=closed(("claimName",), claimName=TEXT),
)
POD = closed(
    ("spec",),
    spec=closed(
        ("containers",),
        containers={"type": "array", "minItems": 1, "items": CONTAINER},
        volumes={"type": "array", "items": VOLUME},
    ),
)
# The part of the RayJob resource (ray.io/v1) that is used here, closed to misspelt keys.
RAY_JOB = closed(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayJob"},
    metadata=closed(("name",), name=TEXT),
    spec=closed(
        ("entrypoint", "rayClusterSpec"),
        entrypoint=TEXT,
        backoffLimit=COUNT,
        shutdownAfterJobFinishes=FLAG,
        ttlSecondsAfterFinished=COUNT,
        rayClusterSpec=closed(
            ("rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"),
            rayVersion=TEXT,
            authOptions=closed(("mode",), mode={"const": "token"}),
            headGroupSpec=closed(
                ("rayStartParams", "template"),
                serviceType={"const": "ClusterIP"},
                rayStartParams=TEXTS,
                template=POD,
            ),
            workerGroupSpecs={
                "type": "array",
                "items": closed(
                    ("groupName", "replicas", "minReplicas", "maxReplicas", "template"),
                    groupName=TEXT,
                    replicas=COUNT,
                    minReplicas=COUNT,
                    maxReplicas=COUNT,
                    rayStartParams=TEXTS,
                    template=POD,
                ),
            },
        ),
    ),
)


@pytest.fixture
def kubernetes() -> tuple[dict, dict]:
    job, claim = yaml.safe_load_all((DEPLOY / "kuberay_rayjob.yaml").read_text())
    return job, claim


def test_ray_up_accepts_the_cluster_file():
    config = yaml.safe_load((DEPLOY / "ray_cluster.yaml").read_text())
    check_cluster_file(config)
    assert config["min_workers"] == len(config["provider"]["worker_ips"])


def test_the_dashboard_of_the_cluster_file_stays_on_loopback():
    commands = yaml.safe_load((DEPLOY / "ray_cluster.yaml").read_text())["head_start_ray_commands"]
    assert any("--dashboard-host=127.0.0.1" in command for command in commands)
    assert "0.0.0.0" not in (DEPLOY / "ray_cluster.yaml").read_text()


def test_no_machine_of_the_cluster_file_starts_ray_without_a_token():
    config = yaml.safe_load((DEPLOY / "ray_cluster.yaml").read_text())
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    for commands in (config["head_start_ray_commands"], config["worker_start_ray_commands"]):
        starting = [command for command in commands if " start " in command]
        assert len(starting) == 1 and starting[0].startswith("RAY_AUTH_MODE=token ")


def test_the_rayjob_follows_its_schema(kubernetes):
    job, claim = kubernetes
    jsonschema.validate(job, RAY_JOB)
    spec = job["spec"]["rayClusterSpec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert [v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"]] == [
            claim["metadata"]["name"]
        ]
        mounted = {mount["name"] for c in pod["containers"] for mount in c["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
    for group in spec["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_ray_versions_are_the_pinned_one(kubernetes):
    job, _ = kubernetes
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    (version,) = [pin.removeprefix("ray==") for pin in pins if pin.startswith("ray==")]
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == version
    assert f"rayproject/ray:{version}" in (DEPLOY / "Dockerfile").read_text()


def test_the_rayjob_runs_a_command_that_exists(kubernetes):
    from typer.testing import CliRunner

    from rllib_cli.app import app

    job, _ = kubernetes
    shell, flag, script = shlex.split(job["spec"]["entrypoint"])
    assert (shell, flag) == ("sh", "-c")
    words = script.replace("\n", " ").split("$(")[0].split()
    assert words[:3] == ["rllib", "train", "file"]
    assert words[3].startswith("/home/ray/rllib_geoffpac/")
    assert (ROOT / words[3].removeprefix("/home/ray/rllib_geoffpac/")).exists()
    help_text = CliRunner().invoke(app, ["train", "file", "--help"]).output
    for option in re.findall(r"--[a-z-]+", script):
        assert option in help_text
