"""The paper's claims as tests on a run."""
