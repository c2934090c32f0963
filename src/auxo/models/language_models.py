"""Small models of language: from a window of tokens, (n, length), to the logits of what comes next or of a class.

Tokens come as int32, and layers of torch read int64.
"""

import math

import torch
from torch import nn

from auxo.models.small_models import check_sizes


class WindowMlp(nn.Module):
    """The neural language model of Bengio et al. (JMLR 2003): embeddings side by side, then one hidden layer."""

    def __init__(self, length: int, vocabulary: int, classes: int, embedding: int = 16, hidden: int = 128) -> None:
        """Take the tokens of a window, the distinct tokens, the classes, and the widths (our choice)."""
        super().__init__()
        check_sizes(embedding=embedding, hidden=hidden)
        self.layers = nn.Sequential(
            nn.Embedding(vocabulary, embedding),
            nn.Flatten(),
            nn.Linear(length * embedding, hidden),
            nn.Tanh(),
            nn.Linear(hidden, classes),
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes)."""
        logits: torch.Tensor = self.layers(tokens.long())
        return logits


class CharLstm(nn.Module):
    """An LSTM that reads the window token by token, as LEAF's (Caldas et al., 2018) does for Shakespeare."""

    def __init__(self, vocabulary: int, classes: int, embedding: int = 8, hidden: int = 128, layers: int = 1) -> None:
        """Take the distinct tokens, the classes, the widths and the layers (LEAF: 8, 256 and 2)."""
        super().__init__()
        check_sizes(embedding=embedding, hidden=hidden, layers=layers)
        self.embed = nn.Embedding(vocabulary, embedding)
        self.read = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.classify = nn.Linear(hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes), from what the last token leaves behind."""
        states, _ = self.read(self.embed(tokens.long()))
        logits: torch.Tensor = self.classify(states[:, -1])
        return logits


class CharTransformer(nn.Module):
    """A transformer (Vaswani et al., NeurIPS 2017), norms first, that answers at the last position.

    As no other position answers, each may look at the whole window. Attention is spelt out in linear layers, which
    participants can share a call of.
    """

    def __init__(
        self, length: int, vocabulary: int, classes: int, width: int = 64, layers: int = 2, heads: int = 4
    ) -> None:
        """Take the tokens of a window, the distinct tokens, the classes and the sizes (our choice).

        Raises:
            ValueError: the heads cannot share the width evenly.
        """
        super().__init__()
        check_sizes(width=width, layers=layers, heads=heads)
        if width % heads:
            raise ValueError(f"width: expected a multiple of the {heads} heads, got {width}")
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(_TransformerLayer(width, heads) for _ in range(layers)))
        self.norm, self.classify = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes)."""
        places = torch.arange(tokens.shape[1]).expand(tokens.shape)
        read = self.layers(self.embed(tokens.long()) + self.place(places))
        logits: torch.Tensor = self.classify(self.norm(read[:, -1]))
        return logits


class _TransformerLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.ask, self.answer = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self._attention(x)
        changed: torch.Tensor = x + self.think(x)
        return changed

    def _attention(self, x: torch.Tensor) -> torch.Tensor:
        samples, length, width = x.shape
        of_heads = self.ask(self.norm(x)).reshape(samples, length, 3, self.heads, width // self.heads)
        queries, keys, values = of_heads.permute(2, 0, 3, 1, 4)  # each (samples, heads, length, width of a head)
        fits = torch.softmax(queries @ keys.transpose(2, 3) / math.sqrt(width // self.heads), dim=-1)
        answer: torch.Tensor = self.answer((fits @ values).transpose(1, 2).reshape(x.shape))
        return answer
