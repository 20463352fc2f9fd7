"""What a trained model says beside its labels: how sure it is, which other labels come near, and what it has learned."""
