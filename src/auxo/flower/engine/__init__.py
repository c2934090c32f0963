"""Flower apps in this process and its workers: no Ray, no SuperLink, nothing to wait for."""

from auxo.flower.engine.grid import InProcessGrid
from auxo.flower.engine.run_app import FlowerApp, load_app, run_app

__all__ = ["FlowerApp", "InProcessGrid", "load_app", "run_app"]
