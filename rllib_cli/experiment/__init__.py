"""From a file or the command line to a checked experiment."""
