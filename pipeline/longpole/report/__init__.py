"""Pages: `build` reads a run's rows as plain data, `render` draws them; neither does the other's work."""
