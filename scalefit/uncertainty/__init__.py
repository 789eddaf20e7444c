"""How sure a fit is: resampling, asymptotic theory, profiles, posteriors, with one type for their draws."""
