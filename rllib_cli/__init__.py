"""The ``rllib`` command: train, evaluate, plot, and run tuned examples.

Nothing in this package imports Ray, torch or gymnasium at module level except the files that say
so in their docstring, so that ``rllib --help`` and the cheap checks of the user's input answer at
once. Every verb is a plain function as well:

* :func:`rllib_cli.experiment.parse.load` reads a YAML or Python experiment file,
* :func:`rllib_cli.run.train.train` runs experiments,
* :func:`rllib_cli.evaluate.measure.evaluate` rolls a checkpoint's target policy out,
* :func:`rllib_cli.plot.plots.plot` draws what Tune wrote.
"""
