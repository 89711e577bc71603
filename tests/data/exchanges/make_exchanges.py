#!/usr/bin/env python3
"""Writes the exchanges with servers that do not run without a GPU, from their documented formats.

    tests/data/exchanges/make_exchanges.py

sglang-prefill.json, trtllm-prefill.json and vllm-decode.json: what kcc must ask and what the server answers, with every field
the formats have (vLLM 0.32 GenerateResponse; SGLang /generate; trtllm-serve CompletionResponse), on a formula
for logits. vllm-prefill.json and the two of llama.cpp are recordings of real servers, not made here.
"""

import json
import math
import pathlib

HERE = pathlib.Path(__file__).parent
VOCAB, TOP = 12, 3
REQUESTS = [("a", [3, 7], [5, 1, 9]), ("b", [11], [0, 4])]


def logprobs(prefix):
    row = [2.5 * math.sin(0.7 * v + 1.3 * prefix[-1]) + 0.3 * math.cos(v * len(prefix)) for v in range(VOCAB)]
    total = math.log(sum(map(math.exp, row)))
    return [x - total for x in row]


def best(row):
    return sorted(range(VOCAB), key=lambda v: -row[v])[:TOP]


def exchange(method, path, request, response):
    return {"method": method, "path": path, "request": request, "status": 200, "response": response}


def models(owner):
    card = {"id": "tiny", "object": "model", "created": 1794700000, "owned_by": owner, "root": "tiny", "parent": None,
            "max_model_len": 4096}
    return exchange("GET", "/v1/models", None, {"object": "list", "data": [card]})


def sglang(prompt, output):
    tokens, start = prompt + output, len(prompt) - 1
    request = {"input_ids": tokens, "sampling_params": {"max_new_tokens": 0, "temperature": 1}, "return_logprob": True,
               "logprob_start_len": start, "top_logprobs_num": TOP, "return_text_in_logprobs": False}
    rows = [logprobs(tokens[:t]) for t in range(len(prompt), len(tokens))]
    meta = {
        "id": "5f1c", "finish_reason": {"type": "length", "length": 0}, "prompt_tokens": len(tokens),
        "weight_version": "default", "num_retractions": 0, "reasoning_tokens": 0,
        "input_token_logprobs": [[None, tokens[start], None]] + [[row[t], t, None] for row, t in zip(rows, output)],
        "output_token_logprobs": [], "output_token_logprobs_length": 0,
        "input_top_logprobs": [None] + [[[row[v], v, None] for v in best(row)] for row in rows],
        "output_top_logprobs": [], "completion_tokens": 0, "cached_tokens": 0, "dp_rank": None, "e2e_latency": 0.011,
    }
    return exchange("POST", "/generate", request, {"text": "", "output_ids": [], "meta_info": meta})


def trtllm(prompt, output):
    tokens = prompt + output
    request = {"model": "tiny", "prompt": tokens, "max_tokens": 1, "temperature": 1, "return_context_logits": True,
               "detokenize": False}
    choice = {"index": 0, "text": "", "token_ids": [5], "logprobs": None,
              "context_logits": [[x + 4 for x in logprobs(tokens[: t + 1])] for t in range(len(tokens))],
              "finish_reason": "length", "stop_reason": None, "disaggregated_params": None,
              "avg_decoded_tokens_per_iter": 1.0}
    usage = {"prompt_tokens": len(tokens), "total_tokens": len(tokens) + 1, "completion_tokens": 1,
             "prompt_tokens_details": {"cached_tokens": 0}}
    return exchange("POST", "/v1/completions", request,
                    {"id": "cmpl-7d", "object": "text_completion", "created": 1794700000, "model": "tiny",
                     "choices": [choice], "usage": usage, "prompt_token_ids": None})


def vllm_decode(prompt, output):
    request = {"model": "tiny", "token_ids": prompt, "sampling_params": {
        "trace_decode_token_ids": output, "max_tokens": len(output), "logprobs": TOP, "temperature": 1}}
    content = []
    for t, token in enumerate(output):
        row = logprobs(prompt + output[:t])
        order = ([token] + [v for v in best(row) if v != token])[:TOP]  # the forced token first, then cut
        content.append({"token_id": token, "logprob": row[token],
                        "top_logprobs": [{"token_id": v, "logprob": row[v]} for v in order]})
    choice = {"index": 0, "logprobs": {"content": content}, "finish_reason": "length", "stop_reason": None,
              "token_ids": output, "routed_experts": None, "sampling_mask": None}
    usage = {"prompt_tokens": len(prompt), "total_tokens": len(prompt + output), "completion_tokens": len(output),
             "prompt_tokens_details": None}
    return exchange("POST", "/inference/v1/generate", request,
                    {"output_mode": "tokens", "request_id": "9a", "model": "tiny", "created": 1794700000,
                     "choices": [choice], "usage": usage, "prompt_logprobs": None, "prompt_token_ids": None,
                     "metrics": None, "kv_transfer_params": None, "ec_transfer_params": None})


def version(text):
    return exchange("GET", "/version", None, {"version": text})


SGLANG_ABOUT = [
    exchange("GET", "/server_info", None, {
        "model_path": "tiny", "dtype": "bfloat16", "tp_size": 1, "attention_backend": "fa3", "version": "0.6.2",
        "kv_cache_dtype": "auto", "random_seed": 301, "internal_states": [{}]}),
    exchange("GET", "/model_info", None, {
        "model_path": "tiny", "tokenizer_path": "tiny", "is_generation": True, "weight_version": "default"}),
]
MADE = {
    "sglang-prefill": ("sglang", "prefill", [models("sglang"), *SGLANG_ABOUT], sglang),
    "trtllm-prefill": ("trtllm", "prefill", [models("tensorrt_llm"), version("1.3.0")], trtllm),
    "vllm-decode": ("vllm", "decode", [models("vllm"), version("0.32.0")], vllm_decode),
}


def main():
    for name, (server, path, about, answer) in MADE.items():
        requests = [{"id": i, "prompt": prompt, "output": output,
                     "logprobs": [logprobs(prompt + output[:t])[token] for t, token in enumerate(output)]}
                    for i, prompt, output in REQUESTS]
        made = {"source": "made from the documented format by make_exchanges.py", "server": server, "path": path,
                "options": f"top={TOP}&probe=off&vocab_size={VOCAB}", "requests": requests,
                "exchanges": about + [answer(prompt, output) for _, prompt, output in REQUESTS]}
        (HERE / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
