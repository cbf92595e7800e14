"""A model behind an OpenAI-compatible API as a `core.recipe.learner.Learner` that can be sampled and not trained.

Its name is `openai:MODEL@URL`, such as `openai:qwen@http://localhost:8000/v1`; without `@URL` it is OpenAI's own. The
key is the environment's `OPENAI_API_KEY`. Answers are kept by all that they depend on, one by one as they come, so that
nothing is asked twice: not after an interrupt, and not in the next command of the same folder.

What a model refuses to answer is data: its words, without code, are the completion. So is what a content filter stops
and what is longer than the model reads. A busy server is asked again (`http_client`); a key, model or parameter that it
does not take ends the command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx2

from ...core.recipe.learner import Completion, OnDrawn, Sampling
from ...core.serialisation import fingerprint, to_plain
from ..errors import TritonrlError, UsageError
from ..http_client import PatientClient, describe
from ..side_by_side import cancelling_pool
from ..work import WorkStore, work_key

PREFIX = "openai:"
KEY_VARIABLE = "OPENAI_API_KEY"
ANSWERS = "answers"
"""The kind of work (`harness.work`) that an answer is."""
_DEFAULT_URL = "https://api.openai.com/v1"
_MAX_SEED = 2**31
"""Some servers keep seeds in 32 bits."""
_UNANSWERED = frozenset({"content_filter", "content_policy_violation", "context_length_exceeded"})
"""Codes of errors that are about one prompt."""
_TOO_LONG = re.compile(r"context (length|size|window)")
"""What vLLM, SGLang and llama.cpp say in words alone: their code is 400."""


def is_api_model(name: str) -> bool:
    """Return whether a policy's name is that of a model behind an API."""
    return name.startswith(PREFIX)


def parse_name(name: str) -> tuple[str, str]:
    """Return model and URL of a policy's name; raises UsageError."""
    model, separator, url = name.removeprefix(PREFIX).rpartition("@")
    if not separator:
        model, url = url, _DEFAULT_URL
    if not model or urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise UsageError(
            f"policy.name: {name}: expected openai:MODEL@URL, such as {PREFIX}qwen@http://localhost:8000/v1"
        )
    return model, url.rstrip("/")


class Untrained:
    """The operations of a `core.recipe.learner.Learner` that need a model's weights, each refused.

    So answers one that has no weights here: it can be sampled, or be read, and not trained.
    """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise UsageError with the learner's `refusal`."""
        raise UsageError(self.refusal)

    @property
    def refusal(self) -> str:
        """Return why nothing is trained."""
        raise NotImplementedError

    fits = reinforce = finetune = _refuse


class ApiModel(Untrained):
    """A model that a server has; its answers are kept in `work`."""

    def __init__(
        self, name: str, work: WorkStore, num_requests: int = 16, timeout_s: float = 300.0, patience_s: float = 1800.0
    ) -> None:
        self.model, self.url = parse_name(name)
        self._work, self._num_requests = work, num_requests
        key = os.environ.get(KEY_VARIABLE)
        self._client = PatientClient(key, timeout_s, patience_s, _is_out_of_quota, num_requests)

    @property
    def fingerprint(self) -> str:
        """Identity of the model as far as a client knows it: its name and the server's address."""
        return fingerprint({"api": "openai", "model": self.model, "url": self.url})

    @property
    def refusal(self) -> str:
        """Return why nothing is trained."""
        return f"policy.name: {PREFIX}{self.model}: a model behind an API is sampled and not trained"

    def sample(
        self,
        adapter: Path | None,
        prompts: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        on_done: Callable[[int], None],
        on_drawn: OnDrawn = lambda *_: None,
    ) -> list[Completion]:
        """One completion for each prompt, asked with the seed beside it; raises UsageError or TritonrlError.

        Servers take a seed as a wish: equal requests may differ, and an answer is kept so that they need not.
        """
        if adapter is not None:
            raise UsageError(f"--adapter {adapter}: a model behind an API takes none")
        with cancelling_pool(self._num_requests, "ask") as pool:
            running = [
                pool.submit(self._answer, prompt, seed, sampling) for prompt, seed in zip(prompts, seeds, strict=True)
            ]
            for number, future in enumerate(as_completed(running), start=1):
                future.result()
                on_done(number)
            return [future.result() for future in running]

    def _answer(self, prompt: str, seed: int, sampling: Sampling) -> Completion:
        key = work_key(ANSWERS, policy=self.fingerprint, prompt=prompt, seed=seed, sampling=to_plain(sampling))
        kept = self._work.once(ANSWERS, key, lambda _: self._ask(prompt, seed, sampling))
        return Completion(text=kept.value["text"], tokens=(), finished=kept.value["finish_reason"] != "length")

    def _ask(self, prompt: str, seed: int, sampling: Sampling) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_new_tokens,
            "seed": seed % _MAX_SEED,
        }
        if sampling.top_p != 1.0:
            body["top_p"] = sampling.top_p
        response = self._post(body)
        if response.status_code == 400 and _error_of(response).get("param") == "max_tokens":
            # what models that think before they answer want it to be called
            body["max_completion_tokens"] = body.pop("max_tokens")
            response = self._post(body)
        return self._read(response)

    def _post(self, body: dict[str, Any]) -> httpx2.Response:
        return self._client.post(f"{self.url}/chat/completions", body)

    def _read(self, response: httpx2.Response) -> dict[str, Any]:
        status, told = response.status_code, describe(response)
        code = "context_length_exceeded" if _TOO_LONG.search(told) else _error_of(response).get("code")
        if status == 400 and code in _UNANSWERED:
            return {"text": "", "finish_reason": code, "refusal": told, "usage": None}
        if status in (401, 403):
            raise UsageError(f"{self.url}: {told} (the key is the environment's {KEY_VARIABLE})")
        if status in (400, 404, 422):
            raise UsageError(f"{self.url}: {told}")
        if status != 200:
            raise TritonrlError(f"{self.url}: {status} {told}")
        try:
            found = response.json()
            choice = found["choices"][0]
            message = choice["message"]
            content, refusal = message.get("content"), message.get("refusal")
        except (ValueError, LookupError, TypeError, AttributeError):
            raise TritonrlError(f"{self.url}: not an answer of an OpenAI-compatible server: {told}") from None
        text = content if isinstance(content, str) else refusal if isinstance(refusal, str) else ""
        return {
            "text": text,
            "finish_reason": choice.get("finish_reason"),
            "refusal": refusal,
            "usage": found.get("usage"),
        }


def _error_of(response: httpx2.Response) -> dict[str, Any]:
    try:
        error = response.json()["error"]
    except (ValueError, LookupError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


def _is_out_of_quota(response: httpx2.Response) -> bool:
    """Return whether waiting does not help: the account's money has run out."""
    return _error_of(response).get("code") == "insufficient_quota"
