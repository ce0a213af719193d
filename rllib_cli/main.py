"""Entry point of the ``rllib`` command: it can be interrupted before anything else is imported."""

import sys

from rllib_cli import interruption


def main() -> None:
    """Runs the command and ends the process with its status."""
    interruption.listen()
    from rllib_cli.app import app
    from rllib_cli.errors import UserError

    status: int | str | None = 0
    error: UserError | None = None
    try:
        app()
    except SystemExit as ended:
        status = ended.code
    except UserError as raised:
        status, error = 2, raised
    except KeyboardInterrupt:
        status = 130
    if number := interruption.heard():
        # Libraries turn the interruption into errors of their own, which say nothing to the user.
        status = 128 + number
        print("\nStopped.", file=sys.stderr)
    elif error is not None:
        print(f"Error: {error}", file=sys.stderr)
    sys.exit(status)
