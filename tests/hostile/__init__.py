"""Dumps made to mislead, damage or exhaust: whatever they hold, they cost themselves and nothing else."""
