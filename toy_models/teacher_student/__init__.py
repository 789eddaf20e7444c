"""Why loss falls with depth: students of several depths imitate a deep random residual network.

`config` and `presets` say what is trained (no torch needed), `networks` is the readable reference,
`stack` and `trainer` the fast equivalent, `sweep` runs a grid and resumes it, `controls` holds the
measurements that need no training. The set-up follows arXiv 2602.05970, Appendix C.
"""
