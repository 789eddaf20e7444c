"""Scaling laws of neural networks in width, depth and tokens: fit them, and plan the next run."""

__version__ = "0.1.0"
