"""Labels that training completes by itself: those that are unknown in part, and hidden states of classes."""
