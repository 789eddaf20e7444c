"""Laws, their parameters, and what is known of them before a fit."""
