"""Federated data sets: where they come from, how they are kept on disk, and what is in them."""
