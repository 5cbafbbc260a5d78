"""The experiments behind the book's figures: one module each measures, records and reads its recording."""
