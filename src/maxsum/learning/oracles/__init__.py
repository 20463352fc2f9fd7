"""Who maximises loss-augmented problems, and how far from the best the answers may be: exact, solver, bracket, relaxed; `choice` picks."""
