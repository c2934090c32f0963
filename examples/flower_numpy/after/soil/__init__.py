"""Soil moisture from sensors, over many farms."""
