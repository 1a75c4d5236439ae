"""Learning: tasks divided among devices, local training of many devices at once, server rules and evaluation."""
