"""ALBERT (Lan et al., ICLR 2020) from the library transformers: drawn at random, and small unless told otherwise."""

import torch
from torch import nn
from transformers import AlbertConfig, AlbertForSequenceClassification

from auxo.models.small_models import check_sizes


class Albert(nn.Module):
    """One transformer layer that is passed several times; the class is told from the first position."""

    def __init__(  # noqa: PLR0913 - each is set by its name
        self,
        length: int,
        vocabulary: int,
        classes: int,
        *,
        hidden_size: int = 64,
        layers: int = 2,
        heads: int = 4,
        embedding_size: int = 32,
        dropout: float = 0.0,
    ) -> None:
        """Take the tokens of a window, the distinct tokens, the classes and the sizes (ALBERT base: 768, 12, 12, 128).

        The default sizes are our choice. With dropout participants train one by one.

        Raises:
            ValueError: the heads cannot share the width evenly, or dropout is not a share below 1.
        """
        super().__init__()
        check_sizes(hidden_size=hidden_size, layers=layers, heads=heads, embedding_size=embedding_size)
        if hidden_size % heads:
            raise ValueError(f"hidden_size: expected a multiple of the {heads} heads, got {hidden_size}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: expected at least 0 and less than 1, got {dropout}")
        self.classify = AlbertForSequenceClassification(
            AlbertConfig(
                vocab_size=vocabulary,
                num_labels=classes,
                max_position_embeddings=length,
                hidden_size=hidden_size,
                intermediate_size=4 * hidden_size,
                embedding_size=embedding_size,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                hidden_dropout_prob=dropout,
                attention_probs_dropout_prob=dropout,
                classifier_dropout_prob=dropout,
                # All tokens of a window are read and learned, 0 included.
                pad_token_id=None,
                bos_token_id=None,
                eos_token_id=None,
                attn_implementation="eager",  # plain products, which torch can map over participants
            )
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits, (n, classes)."""
        logits: torch.Tensor = self.classify(input_ids=tokens.long()).logits
        return logits
