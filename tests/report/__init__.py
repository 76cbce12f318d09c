"""The report's tests and the made runs they share."""
