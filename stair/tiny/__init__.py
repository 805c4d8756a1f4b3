"""The generated problems of the tiny and the smoke run. Only the jobs import this folder."""
