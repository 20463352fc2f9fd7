"""Who maximises the loss-augmented problems: exactly, within a bracket, or over the linear relaxation."""
