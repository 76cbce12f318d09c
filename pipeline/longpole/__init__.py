"""What a many-GPU training run is waiting on: profiler dumps in, per-step answers in SQL and a page out."""

__version__ = "0.1.0"
