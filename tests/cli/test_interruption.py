"""Ctrl-C and SIGTERM at every moment: heard, no traceback, status 130 or 143."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import COMMAND, Finished, environment

pytestmark = pytest.mark.timeout(900)

TRAIN = ["example", "run", "smoke/ace_reacher", "--num-samples", "4", "--storage-path", "results"]
TRAIN += ["--stop", "{num_env_steps_sampled_lifetime: 50000}"]
SIGTERM_BIT = 1 << (signal.SIGTERM - 1)


def start(command, cwd) -> subprocess.Popen:
    """Starts a process, and waits until it listens to SIGTERM, which Python alone does not."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**environment(), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        caught = next(line for line in status.read_text().splitlines() if "SigCgt" in line)
        if int(caught.split()[1], 16) & SIGTERM_BIT:
            break
        time.sleep(0.002)
    return process


def interrupt(process, number=signal.SIGINT) -> Finished:
    """Ctrl-C as a terminal does it: it reaches the children, too."""
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=550)
    return Finished(process.returncode, out, err)


@pytest.mark.parametrize("seconds", [0, 0.05, 0.3, 1, 3])
def test_ctrl_c_while_the_command_imports_and_checks_ends_it_at_once(home, seconds):
    process = start([*COMMAND, *TRAIN, "--dry-run"], home)
    time.sleep(seconds)
    begun = time.monotonic()
    stopped = interrupt(process)
    if "nothing was started" in stopped.out:
        pytest.skip("this machine was faster")
    assert (stopped.status, stopped.out) == (130, "")
    assert stopped.err == "\nStopped before anything began.\n"
    assert time.monotonic() - begun < 20
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "words,number,status",
    [("until ", signal.SIGINT, 130), ("Measuring", signal.SIGTERM, 143)],
)
def test_a_signal_before_the_first_trial_does_not_wait_for_the_forecast(
    home, words, number, status
):
    process = start([*COMMAND, *TRAIN], home)
    seen = ""
    while words not in seen:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        seen += line
    stopped = interrupt(process, number)
    assert stopped.status == status, seen + stopped.text
    assert "Traceback" not in stopped.text and "for the 4 trials" not in stopped.out
    assert "Stopped before the first trial began; nothing to resume." in stopped.out
    assert not list((home / "results").glob("*/0000*"))


def test_ctrl_c_while_ray_starts_is_not_lost(home):
    code = (
        "import os, signal, sys, ray\n"
        "def init(**_):\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    except BaseException: pass\n"
        "    print('started', flush=True)\n"
        "ray.init, ray.shutdown = init, lambda: print('ended', flush=True)\n"
        "from rllib_cli import interruption\n"
        "from rllib_cli.run.cluster import ray_session\n"
        "interruption.listen()\n"
        "try:\n"
        "    with ray_session(None, {'CPU': 1, 'GPU': 0}, []): print('wrong')\n"
        "except KeyboardInterrupt:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    stopped = python(code, home)
    assert stopped.out == "started\nended\n"
    assert (stopped.status, stopped.err) == (143, "\nStopped.\n")


def python(code: str, home) -> Finished:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=home, env=environment(), capture_output=True, text=True
    )
    return Finished(done.returncode, done.stdout, done.stderr)


START = "import os, signal, sys\nfrom rllib_cli import interruption\ninterruption.listen()\n"
KILL = "os.kill(os.getpid(), signal.SIGINT)"


def test_an_interruption_that_a_library_swallows_is_raised_afterwards(home):
    stopped = python(
        START + "try:\n"
        "    with interruption.unwinding():\n"
        f"        try: {KILL}\n"
        "        except BaseException: print('swallowed')\n"
        "except KeyboardInterrupt: print('raised', interruption.heard())\n",
        home,
    )
    assert stopped.out == "swallowed\nraised 2\n", stopped.err


def test_an_interruption_that_became_another_error_still_gives_status_130(home):
    stopped = python(
        "import os, signal, sys, types\n"
        "from rllib_cli import interruption\n"
        "from rllib_cli.errors import UserError\n"
        "def app():\n"
        "    with interruption.unwinding():\n"
        f"        try: {KILL}\n"
        "        except KeyboardInterrupt: raise UserError('no such library')\n"
        "sys.modules['rllib_cli.app'] = types.SimpleNamespace(app=app)\n"
        "from rllib_cli.main import main\n"
        "main()\n",
        home,
    )
    assert (stopped.status, stopped.err) == (130, "\nStopped.\n")


def test_the_second_ctrl_c_does_not_wait(home):
    stopped = python(
        START + "try:\n"
        "    with interruption.postponed():\n"
        f"        {KILL}; print('waits'); {KILL}; print('wrong')\n"
        "except KeyboardInterrupt: print('raised')\n",
        home,
    )
    assert stopped.out == "waits\nraised\n", stopped.err


def test_forked_children_end_as_if_nobody_listened(home):
    stopped = python(
        START + "import time\n"
        "ready, tell = os.pipe()\n"
        # A signal that reaches the child before Python has told it of the fork is dropped.
        "if (child := os.fork()) == 0:\n"
        "    os.write(tell, b'.')\n"
        "    while True: time.sleep(0.01)\n"
        "os.read(ready, 1)\n"
        "os.kill(child, signal.SIGTERM)\n"
        "print(os.waitpid(child, 0)[1], flush=True)\n",
        home,
    )
    assert (stopped.out, stopped.err) == (f"{int(signal.SIGTERM)}\n", "")


def test_a_program_of_the_user_s_own_keeps_its_handlers(home):
    stopped = python(
        "import signal\n"
        "from rllib_cli import interruption\n"
        "before = signal.getsignal(signal.SIGINT)\n"
        "with interruption.unwinding(), interruption.postponed(): pass\n"
        "print(signal.getsignal(signal.SIGINT) is before)\n",
        home,
    )
    assert stopped.out == "True\n", stopped.err
