"""The tokenizer of `nano`: byte-level BPE, trained on the corpus, with ChatML turns.

Decided here: every digit is a token of its own, so that a number is copied digit by digit and an unseen size is no
harder than a seen one; a line break and the indentation after it form one piece, so that Python's layout costs one
token a line; a name keeps its underscores, its dots and the parenthesis that opens its call, so that `x_ptr` and
`tl.load(` can become one token each (a sixth fewer tokens a pair than without the last two). Nothing is normalised and
bytes are the alphabet, so that any text survives encoding and decoding. The text of a turn is written by
`render_prompt` and by the Jinja template alike; a test holds them equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
PADDING = "<|endoftext|>"
SPECIAL_TOKENS = (PADDING, TURN_START, TURN_END)

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PIECES = r"\n *| ?[A-Za-z_][A-Za-z_.]*\(?|[0-9]| ?[^\sA-Za-z_0-9]+|\s"


def render_prompt(user: str) -> str:
    """The text before an answer: the user's turn and the start of the assistant's."""
    return f"{TURN_START}user\n{user}{TURN_END}\n{TURN_START}assistant\n"


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A `tokenizers.Tokenizer` with at most `vocabulary` tokens, the special ones first."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer=trainer)
    return tokenizer


def with_chat_template(tokenizer: Any, context: int) -> Any:
    """The transformers tokenizer around a `tokenizers.Tokenizer`: what is saved beside the weights."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=PADDING,
        additional_special_tokens=[TURN_START],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
        model_max_length=context,
    )
