"""Backends of the differential read, each held to the naive one by the tests."""
