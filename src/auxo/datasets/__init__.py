"""Federated data sets: where they come from, how they are kept on disk, and what is in them.

In it: loaders of published data sets and of tables, and the federated file that they are converted to; pyarrow and
pillow only when they are needed.
"""
