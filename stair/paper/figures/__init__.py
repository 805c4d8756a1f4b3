"""One file a figure: which numbers it takes, and how they are drawn."""
