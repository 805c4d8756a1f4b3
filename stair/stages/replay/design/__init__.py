"""Crossed-history replay: current problems crossed with saved histories (appendix A.1). Imports no torch."""
