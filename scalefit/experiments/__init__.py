"""What the tables of `toy_models` say: depth exponents, and norms."""
