"""Handwritten digits over many clients."""
