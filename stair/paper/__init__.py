"""Tables, figures, claims and the comparison with the paper: they lay out numbers that others computed."""
