"""Export: a search's elites as a package that needs nothing of ours.

`vocabulary` and `lifting` take the device functions out of a candidate's text, `hosting` writes host code from launch
plans, `modules` puts both together, `choosing` says which elite serves which shape, `retracing` holds what was written
against the plans that were judged, `packaging` renders the files around it and `exporting` does it all.
"""
