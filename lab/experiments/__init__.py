"""The experiments behind the book's figures: each module measures, and reads what was recorded."""
