"""The reproduction of the paper's experiments: from the runs to tables and pictures.

Run it from the repository's root: ``python -m paper.collect``, ``python -m paper.fixed_agents``.
"""
