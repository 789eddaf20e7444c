"""The best width, depth and tokens for a budget, and how sure the data are of them."""
