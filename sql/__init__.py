"""The SQL that longpole ships: one relation a file. Data only; read with importlib.resources."""
