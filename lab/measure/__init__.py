"""Everything that needs a GPU and leaves a recording."""
