"""``python -m rllib_cli`` is the same as the console script ``rllib``."""

from rllib_cli.main import main

if __name__ == "__main__":
    main()
