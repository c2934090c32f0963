"""What people look at: the report, figures, tables, the terminal."""
