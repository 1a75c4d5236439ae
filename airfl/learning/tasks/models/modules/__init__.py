"""torch modules of the models that are more than a sequence of layers."""
