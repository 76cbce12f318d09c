"""What a page looks like: templates and assets. Data only; read with importlib.resources."""
