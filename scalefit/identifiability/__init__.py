"""Which parameters of a fitted law the data determine, and which they leave open.

A smooth objective makes all starts agree even where the data say nothing, so agreement is no evidence. Looked at
are the design (distinct values of each column, columns that move together), the null directions of the information
matrix at the optimum, each standard error against the range the parameter could have, and each term against the noise.
"""

from scalefit.identifiability.verdicts import Evidence, Identification, Verdict, identify

__all__ = ["Evidence", "Identification", "Verdict", "identify"]
