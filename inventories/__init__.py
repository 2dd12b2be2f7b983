"""Which nodes there are and what each should be."""
