"""Experiments: typed configurations, the runner and the report."""
