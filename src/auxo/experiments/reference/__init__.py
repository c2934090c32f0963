"""Configurations as TOML files; see `auxo.experiments.references`."""
