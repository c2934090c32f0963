"""Experiments: typed configurations, the runner and the report.

In it: configurations and those that come with Auxo, the parts they can name, the runner, evaluation, comparison over
seeds, the run directory.
"""
