"""Draws from the posterior: its target, importance sampling, Markov chains."""
