#!/usr/bin/env python3
"""Writes the importers' samples: one small record of each format, as its source writes it.

Run in this directory with NumPy and PyTorch at hand; the files are committed, so tests need
neither. Token ids and numbers are made up; shapes, keys, nulls and offsets are the formats' own.
"""

import json
import pathlib
import struct

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
V = 32


def jsonl(path, *records):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records))


def lp(logprob, rank, text):
    return {"logprob": logprob, "rank": rank, "decoded_token": text}


def vllm():
    prompt = [1, 5, 9, 7]
    prompt_logprobs = [
        None,
        {"5": lp(-0.5, 1, "a"), "6": lp(-1.5, 2, "b")},
        # The real token is outside the two best and stands first.
        {"9": lp(-4.0, 7, "c"), "2": lp(-0.25, 1, "d"), "3": lp(-2.0, 2, "e")},
        {"7": lp(-0.125, 1, "f"), "8": lp(-3.0, 2, "g")},
    ]
    jsonl(
        "vllm/completions_prompt.jsonl",
        {
            "id": "req-0", "prompt_tokens": 2, "tags": ["code"],
            "request": {"prompt": prompt, "prompt_logprobs": 2, "max_tokens": 1, "temperature": 0.0},
            "response": {
                "id": "cmpl-1", "object": "text_completion", "model": "m",
                "choices": [{"index": 0, "text": "", "finish_reason": "length", "stop_reason": None,
                             "token_ids": None, "prompt_token_ids": prompt,
                             "prompt_logprobs": prompt_logprobs, "logprobs": None}],
                "system_fingerprint": "vllm-0.18.0-tp2-1a2b3c4d",
                "usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}},
        },
    )
    jsonl(
        "vllm/completions_output.jsonl",
        {
            "id": "req-0",
            "request": {"prompt": [1, 5], "max_tokens": 3, "logprobs": 2, "temperature": 0.7,
                        "return_tokens_as_token_ids": True, "return_token_ids": True},
            "response": {
                "id": "cmpl-2", "object": "text_completion", "model": "m",
                "choices": [{
                    "index": 0, "text": "xyz", "finish_reason": "length", "stop_reason": None,
                    "token_ids": [9, 7, 3], "prompt_token_ids": [1, 5], "prompt_logprobs": None,
                    "logprobs": {
                        "tokens": ["token_id:9", "token_id:7", "token_id:3"],
                        "token_logprobs": [-0.5, -3.5, -0.75],
                        "top_logprobs": [{"token_id:9": -0.5, "token_id:4": -1.25},
                                         {"token_id:7": -3.5, "token_id:2": -0.25, "token_id:8": -2.5},
                                         {"token_id:3": -0.75, "token_id:1": -9999.0, "token_id:5": -1.5}],
                        "text_offset": [0, 1, 2]}}],
                "system_fingerprint": "vllm-0.18.0-tp2-1a2b3c4d",
                "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}},
        },
    )
    jsonl(
        "vllm/generate.jsonl",
        {
            "id": "req-0", "request": {"token_ids": [1, 5], "sampling_params": {"temperature": 1.0, "logprobs": 2}},
            "response": {
                "request_id": "r", "model": "m", "created": 1,
                "choices": [{"index": 0, "token_ids": [9, 7], "finish_reason": "length",
                             "routed_experts": None, "sampling_mask": None,
                             "logprobs": {"content": [
                                 {"token": "token_id:9", "logprob": -0.5, "bytes": None,
                                  "top_logprobs": [{"token": "token_id:9", "logprob": -0.5, "bytes": None},
                                                   {"token": "token_id:4", "logprob": -1.25, "bytes": None}]},
                                 {"token": "token_id:7", "logprob": -2.5, "bytes": None,
                                  "top_logprobs": [{"token": "token_id:7", "logprob": -2.5, "bytes": None},
                                                   {"token": "token_id:2", "logprob": -0.25, "bytes": None}]}]}}],
                "usage": {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4},
                "prompt_logprobs": None},
        },
    )


def sglang():
    jsonl(
        "sglang/generate_input.jsonl",
        {
            "id": "req-0", "prompt_tokens": 2,
            "request": {"input_ids": [1, 5, 9, 7], "return_logprob": True, "logprob_start_len": 1,
                        "top_logprobs_num": 2, "sampling_params": {"max_new_tokens": 0, "temperature": 0.7}},
            "response": {
                "text": "", "output_ids": [],
                "meta_info": {
                    "id": "x", "finish_reason": {"type": "length", "length": 0}, "prompt_tokens": 4,
                    "completion_tokens": 0, "cached_tokens": 0, "weight_version": "default",
                    "e2e_latency": 0.125,
                    "input_token_logprobs": [[None, 5, None], [-4.0, 9, None], [-0.125, 7, None]],
                    "input_top_logprobs": [None, [[-0.25, 2, None], [-2.0, 3, None]],
                                           [[-0.125, 7, None], [-3.0, 8, None]]],
                    "output_token_logprobs": [], "output_top_logprobs": []}},
        },
    )
    jsonl(
        "sglang/generate_output.jsonl",
        {
            "id": "req-0",
            "request": {"input_ids": [1, 5], "return_logprob": True, "top_logprobs_num": 2,
                        "sampling_params": {"max_new_tokens": 2, "temperature": 0.7}},
            "response": {
                "text": "xy", "output_ids": [9, 7],
                "meta_info": {
                    "id": "x", "finish_reason": {"type": "length", "length": 2}, "prompt_tokens": 2,
                    "completion_tokens": 2, "cached_tokens": 0, "weight_version": "default",
                    "e2e_latency": 0.25, "input_token_logprobs": [], "input_top_logprobs": [],
                    "output_token_logprobs": [[-0.5, 9, None], [-2.5, 7, None]],
                    "output_top_logprobs": [[[-0.5, 9, None], [-1.25, 4, None]],
                                            [[-0.25, 2, None], [-1.75, 8, None]]]}},
        },
    )


def llamacpp():
    def entry(i, logprob, tops):
        return {"id": i, "token": str(i), "bytes": [i], "logprob": logprob,
                "top_logprobs": [{"id": t, "token": str(t), "bytes": [t], "logprob": l} for t, l in tops]}

    jsonl(
        "llamacpp/completion.jsonl",
        {
            "id": "req-0",
            "request": {"prompt": [1, 5], "n_predict": 2, "n_probs": 2, "temperature": 0.8,
                        "return_tokens": True},
            "response": {
                "content": "xy", "tokens": [9, 7], "stop": True, "stop_type": "limit", "stopping_word": "",
                "model": "m.gguf", "tokens_predicted": 2, "tokens_evaluated": 2, "tokens_cached": 3,
                "truncated": False, "prompt": "ab",
                "generation_settings": {"temperature": 0.800000011920929, "n_probs": 2}, "timings": {},
                "completion_probabilities": [entry(9, -0.5, [(9, -0.5), (4, -1.25)]),
                                             entry(7, -3.5, [(2, -0.25), (8, -2.5)])]},
        },
    )
    jsonl(
        "llamacpp/chat.jsonl",
        {
            "id": "req-0", "request": {"messages": [], "logprobs": True, "top_logprobs": 2},
            "response": {
                "id": "chatcmpl-1", "object": "chat.completion", "model": "m",
                "system_fingerprint": "b6000-b21e4de",
                "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "xy"},
                             "logprobs": {"content": [entry(9, -0.5, [(9, -0.5), (4, -1.25)]),
                                                      entry(7, -3.5, [(2, -0.25), (8, -2.5)])]}}],
                "usage": {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}},
        },
    )
    jsonl(
        "llamacpp/post_sampling.jsonl",
        {
            "id": "req-0", "request": {"prompt": [1, 5], "n_probs": 2, "post_sampling_probs": True, "temperature": 0.8},
            "response": {
                "content": "x", "tokens": [9], "tokens_evaluated": 2, "tokens_predicted": 1,
                "completion_probabilities": [
                    {"id": 9, "token": "x", "bytes": [120], "prob": 0.75,
                     "top_probs": [{"id": 9, "token": "x", "bytes": [120], "prob": 0.75},
                                   {"id": 4, "token": "y", "bytes": [121], "prob": 0.25}]}]},
        },
    )


def trtllm():
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(4, V)).round(3).tolist()
    jsonl(
        "trtllm/context_logits.jsonl",
        {
            "id": "req-0", "prompt_tokens": 2,
            "request": {"prompt": [1, 5, 9, 7], "max_tokens": 1, "return_context_logits": True,
                        "detokenize": False},
            "response": {"id": "cmpl-1", "object": "text_completion", "model": "m",
                         "choices": [{"index": 0, "text": "", "token_ids": [3], "logprobs": None,
                                      "context_logits": logits, "finish_reason": "length"}],
                         "usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}},
        },
    )
    jsonl(
        "trtllm/completions.jsonl",
        {
            "id": "req-0",
            "request": {"prompt": [1, 5], "max_tokens": 2, "logprobs": 1, "detokenize": False,
                        "temperature": 1.0},
            "response": {"id": "cmpl-2", "object": "text_completion", "model": "m",
                         "choices": [{"index": 0, "text": "", "token_ids": [9, 7],
                                      "logprobs": {"tokens": ["x", "y"], "token_logprobs": [-0.5, -2.5],
                                                   "top_logprobs": [{"x": -0.5}, {"y": -2.5}],
                                                   "text_offset": [1, 2]},
                                      "context_logits": None, "finish_reason": "length"}],
                         "usage": {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}},
        },
    )


def tgi():
    def token(i, logprob, **more):
        return {"id": i, "text": str(i), "logprob": logprob, **more}

    jsonl(
        "tgi/generate.jsonl",
        {
            "id": "req-0",
            "request": {"inputs": "ab", "parameters": {"details": True, "decoder_input_details": True,
                                                       "top_n_tokens": 2, "max_new_tokens": 2,
                                                       "temperature": 0.5}},
            "response": {
                "generated_text": "xy",
                "details": {
                    "finish_reason": "length", "generated_tokens": 2, "seed": 7,
                    "prefill": [token(1, None), token(5, -0.5), token(6, -1.5)],
                    "tokens": [token(9, -0.5, special=False), token(7, -2.5, special=False)],
                    "top_tokens": [[token(9, -0.5, special=False), token(4, -1.25, special=False)],
                                   [token(2, -0.25, special=False), token(8, -1.75, special=False)]]}},
        },
    )


def prime_rl():
    def record(index, ids, mask, infer, train, env, advantage):
        n = len(ids)
        return {
            "schema_version": 1, "step": 3, "rank": 0, "micro_step": 0, "micro_sequence_idx": index,
            "env_name": env, "token_ids": ids, "position_ids": list(range(n)), "loss_mask": mask,
            "temperatures": [0.9] * n, "advantages": [advantage] * n, "inference_logprobs": infer,
            "trainer_logprobs": train, "entropy": [0.5] * n, "mismatch_kl": [0.0] * n,
            "importance_ratio": [1.0] * n}

    jsonl(
        "prime_rl/step_3/rank_0.jsonl",
        record(0, [1, 5, 9, 7, 3], [False, False, True, True, True], [0.0, 0.0, -0.5, -2.5, -0.75],
               [None, -3.0, -0.5, -2.375, -0.75], "math", 0.5),
        record(1, [1, 6, 2, 4], [False, False, True, True], [0.0, 0.0, -1.0, -0.25],
               [None, -2.0, -1.125, -0.25], "code", -1.0),
    )
    (HERE / "prime_rl/step_3/STABLE").touch()


def vexact():
    torch.manual_seed(1)
    out = HERE / "vexact"
    out.mkdir(exist_ok=True)
    ids = {"req-0": [1, 5, 9, 7, 3], "req-1": [2, 6, 4]}
    prompt = {"req-0": 2, "req-1": 2}
    logits, logprobs, metadata = {}, {}, {}
    for key, tokens in ids.items():
        n = len(tokens) - prompt[key]
        rows = [(torch.randn(1, 1, V) * 2).to(torch.bfloat16) for _ in range(n)]
        logits[key] = rows
        logprobs[key] = [torch.log_softmax(row.float().flatten(), 0)[tokens[prompt[key] + i]].item()
                         for i, row in enumerate(rows)]
        metadata[key] = {"generated_text": "x", "prompt_len": prompt[key], "response_len": n,
                         "total_tokens": len(tokens), "processing_time": 0.5, "status": "completed"}
    torch.save(logits, out / "all_logits.pt")
    torch.save(logprobs, out / "all_logprobs.pt")
    (out / "all_token_ids_list.json").write_text(json.dumps(ids))
    (out / "metadata.json").write_text(json.dumps(metadata, indent=2))


def kld():
    """As llama-perplexity's log_softmax() writes its rows."""
    n_ctx, n_vocab, n_chunk = 8, 31, 2
    rng = np.random.default_rng(3)
    tokens = rng.integers(0, n_vocab, size=n_ctx * n_chunk).astype("<i4")
    data = b"_logits_" + struct.pack("<Iii", n_ctx, n_vocab, n_chunk) + tokens.tobytes()
    for _ in range(n_chunk):
        for _ in range(n_ctx // 2, n_ctx - 1):
            logits = (rng.normal(size=n_vocab) * 4).astype(np.float32)
            top = logits.max()
            low = max(logits.min(), top - 16)
            log_sum = np.log(np.exp((logits - top).astype(np.float64)).sum())
            scale = np.float32((top - low) / 65535)
            minimum = np.float32(low - top - log_sum)
            row = np.where(logits > low, np.rint((logits - low) / scale), 0).astype("<u2")
            row = np.append(row, np.zeros(2 * ((n_vocab + 1) // 2) - n_vocab, "<u2"))
            data += struct.pack("<ff", scale, minimum) + row.tobytes()
    (HERE / "llama_kld").mkdir(exist_ok=True)
    (HERE / "llama_kld/base.kld").write_bytes(data)


def npy():
    out = HERE / "npy"
    out.mkdir(exist_ok=True)
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(5, V)).astype(np.float32)
    token = np.array([9, 7, 3, 4, 2], dtype=np.int64)
    shifted = logits.astype(np.float64)
    log_softmax = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    logprob = log_softmax[np.arange(5), token].astype(np.float32)
    flat = dict(token=token, logits=logits, logprob=logprob, request=np.array([0, 0, 0, 1, 1], np.int32),
                position=np.array([2, 3, 4, 2, 3], np.int32), advantage=np.full(5, 0.5, np.float32),
                mask=np.array([1, 1, 0, 1, 1], bool))
    np.savez(out / "flat.npz", **flat)
    np.savez_compressed(out / "compressed.npz", token=token)
    np.save(out / "token.npy", token)
    np.save(out / "logits.npy", logits.astype(np.float16))
    np.savez(out / "batch.npz", token=np.array([[1, 5, 9], [1, 6, 0]], np.int64),
             logprob=np.array([[0, -0.5, -1.5], [0, -0.25, 0]], np.float32),
             mask=np.array([[0, 1, 1], [0, 1, 0]], np.int32))
    (out / "requests.jsonl").write_text('{"id":"req-0","prompt_tokens":2}\n{"id":"req-1","prompt_tokens":2}\n')


for make in (vllm, sglang, llamacpp, trtllm, tgi, prime_rl, vexact, kld, npy):
    make()
