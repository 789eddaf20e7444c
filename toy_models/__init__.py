"""Small torch models that show where scaling exponents come from."""
