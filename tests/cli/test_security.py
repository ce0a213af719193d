"""The Ray that ``rllib train`` starts is for this machine and this run alone."""

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from command import COMMAND, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STALE = "1" * 64
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that goes on for ever, and what is known about it from outside."""
    home = tmp_path_factory.mktemp("run")
    process = subprocess.Popen(
        [*COMMAND, "train", "--algo", "ACE", "--env", "TwoCircle-v0", "--set", "module=tabular",
         "--set", "optimizer_type=sgd", "--set", "num_env_runners=1", "--storage-path", "results"],
        cwd=home, env={**environment(), "PYTHONUNBUFFERED": "1", "RAY_AUTH_TOKEN": STALE},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    shown = []
    for line in process.stdout:
        shown.append(line)
        if " steps" in line:
            break
    processes = family_of(process.pid)
    token_file = Path(variable_of(processes, "RAY_AUTH_TOKEN_PATH"))
    state = {
        "process": process,
        "home": home,
        "session": session_of(processes),
        "token_file": token_file,
        "token": token_file.read_text(),
        "mode": token_file.stat().st_mode & 0o777,
        "listening": [
            (Path(f"/proc/{pid}/comm").read_text().strip(), *address)
            for pid in processes
            for address in listening(pid)
        ],
        "shown": shown,
    }
    yield state
    process.kill()


def session_of(processes: list[int]) -> Path:
    """Where their Ray keeps its logs."""
    lines = " ".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in processes)
    return Path(re.search(r"/tmp/ray/session_[\d_-]+", lines)[0])


def family_of(pid: int) -> list[int]:
    """A process and all below it."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family


def variable_of(pids: list[int], name: str) -> str:
    """The value of an environment variable in the first of the processes that has it."""
    for pid in pids:
        for word in Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0"):
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
    raise AssertionError(f"no process has {name}")


def listening(pid: int) -> list[tuple[str, int]]:
    """The TCP addresses that a process listens on."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # 0A: LISTEN
                address, port = fields[1].split(":")
                found.append((_readable(address, family), int(port, 16)))
    return found


def _readable(address: str, family: socket.AddressFamily) -> str:
    """The kernel writes addresses as 32-bit words in the machine's byte order."""
    words = [address[i : i + 8] for i in range(0, len(address), 8)]
    packed = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    return socket.inet_ntop(family, packed)


def own_address() -> str:
    """This machine's address on its network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return probe.getsockname()[0]


def test_every_process_listens_on_loopback_only(run):
    kinds = {name for name, *_ in run["listening"]}
    assert {"gcs_server", "raylet"} <= kinds and len(run["listening"]) >= 5
    assert {address for _, address, _ in run["listening"]} <= LOOPBACK


def test_who_comes_through_the_machines_own_address_is_refused(run):
    for name, _, port in run["listening"]:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((own_address(), port), timeout=5).close()
            pytest.fail(f"{name} answers on port {port}")


JOIN = """
import os, sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False)
except ConnectionError as error:
    print("refused:", error)
else:
    print("let in:", ray.cluster_resources())
"""


def test_on_loopback_only_who_knows_the_token_is_let_in(run, tmp_path):
    port = next(port for name, _, port in run["listening"] if name == "gcs_server")
    # The first variable makes this Ray look for loopback, as that of the run does.
    env = {**environment(), "HOME": str(tmp_path), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    env["RAY_NUM_REDIS_GET_RETRIES"] = "2"  # seconds until it gives up
    strangers = [{}, *({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": t} for t in (STALE, "0" * 64))]
    knowing = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": run["token"]}
    tried = [
        subprocess.Popen(
            [sys.executable, "-c", JOIN, f"127.0.0.1:{port}"],
            env={**env, **variables}, stdout=subprocess.PIPE, text=True,
        )
        for variables in (*strangers, knowing)
    ]  # fmt: skip
    answers = [process.communicate(timeout=200)[0] for process in tried]
    assert [answer.split(":")[0] for answer in answers] == ["refused"] * 3 + ["let in"]


def test_rays_web_servers_ask_for_the_token(run):
    answers = set()
    for _, _, port in run["listening"]:
        try:
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", data=b"", timeout=5)
            answers.add(page.status)
        except urllib.error.HTTPError as error:
            answers.add(error.code)
        except (OSError, http.client.HTTPException):
            continue  # the others speak gRPC
    assert answers == {401}


def test_the_token_is_in_a_file_of_the_user_alone_and_nowhere_else(run):
    assert run["mode"] == 0o600 and run["token_file"].parent.stat().st_mode & 0o777 == 0o700
    assert len(run["token"]) == 64
    assert run["token"] not in "".join(run["shown"])
    folders = (run["home"], run["session"])
    written = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert [p for p in written if run["token"].encode() in p.read_bytes()] == []


def test_the_token_is_gone_when_the_run_has_ended(run):
    assert run["token_file"].exists()
    run["process"].send_signal(signal.SIGINT)
    run["process"].communicate(timeout=120)
    assert not run["token_file"].parent.exists()


def test_every_run_has_another_token():
    from rllib_cli.run.cluster import _fresh_token

    tokens = set()
    for _ in range(3):
        with _fresh_token() as path:
            tokens.add(Path(path).read_text())
    assert len(tokens) == 3


@pytest.fixture
def cluster(tmp_path):
    """A cluster with a token, started as docs/cluster.md says; its address and the user's home."""
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("2" * 64)
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2",
         f"--port={port}", "--include-dashboard=false", f"--temp-dir=/tmp/ray-{port}"],
        env={**environment(), "HOME": str(tmp_path), "RAY_AUTH_MODE": "token"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    for line in process.stdout:
        if "--block" in line:
            break
    yield f"{own_address()}:{port}", tmp_path
    process.terminate()
    process.communicate(timeout=60)


def test_a_cluster_with_a_token_lets_its_user_in_and_nobody_else(cluster, tmp_path):
    address, home = cluster
    arguments = [
        *("train", "--algo", "ACE", "--env", "TwoCircle-v0", "--config", "{module: tabular}"),
        *("--stop", "{training_iteration: 1}", "--storage-path", "results"),
        *("--ray-address", address),
    ]
    env = {**environment(), "RAY_NUM_REDIS_GET_RETRIES": "2"}
    running = [
        subprocess.Popen(
            [*COMMAND, *arguments, "--experiment-name", folder.name],
            cwd=home, env={**env, "HOME": str(folder), **mode},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for folder, mode in ((home, {"RAY_AUTH_MODE": "token"}), (tmp_path / "stranger", {}))
    ]  # fmt: skip
    (shown, _), (refused, _) = [process.communicate(timeout=300) for process in running]
    user, stranger = (process.returncode for process in running)
    assert (user, stranger) == (0, 2), shown + refused
    assert refused.startswith("Error: --ray-address") and "auth_token" in refused
    assert "Traceback" not in refused
