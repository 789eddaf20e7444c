"""From a law and a table to its optimum, with the covariance of the estimates."""
