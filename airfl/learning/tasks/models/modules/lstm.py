"""Embedding of size 8, two LSTM layers of 256 units and a linear layer: 822,570 parameters (Fed-SMP, Shakespeare)."""

from __future__ import annotations

from torch import Tensor, nn

VOCABULARY, EMBEDDING, HIDDEN = 90, 8, 256


class NextCharacter(nn.Module):
    """Characters' ids [batch, length], of any number type, to logits of the next one, [batch, 90]."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, EMBEDDING)
        self.lstm = nn.LSTM(EMBEDDING, HIDDEN, num_layers=2, batch_first=True)
        self.dense = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, inputs: Tensor) -> Tensor:
        """From the last step's output."""
        outputs, _ = self.lstm(self.embedding(inputs.long()))
        logits: Tensor = self.dense(outputs[:, -1])
        return logits


def build() -> nn.Module:
    """Return the module: input [batch, 80], logits [batch, 90]."""
    return NextCharacter()
