"""Any Hugging Face causal language model as a kernel, through PyTorch:

    exec:python -m kcc.kernels.torch_lm DIR --dtype bf16 --attention eager

Every option says in `hello` which error source it belongs to, so that two settings can be attributed:

    kcc attribute --train 'exec:… DIR' --infer 'exec:… DIR --dtype bf16 --attention eager --batch 8' --requests R

Scores by one forward pass over prompt and continuation (the prefill path) and writes the logits as
the model gives them. With a batch of 1 (the default) a request's numbers do not depend on what else is
asked; with more, sequences are padded on the right, where a causal model does not look.
"""

import argparse
import contextlib
import hashlib
import pathlib
import platform
import sys
import time

import numpy as np
import torch
import transformers

from torch.nn.attention import SDPBackend, sdpa_kernel

from kcc.kernels.audit import LEVELS, AuditHooks
from kcc.kernels.protocol import serve

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
# Which of PyTorch's attention kernels scaled_dot_product_attention may take; auto: PyTorch decides by shape.
ROUTES = {"auto": None, "math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION}


def weights_digest(directory):
    """SHA-256 over the weight files in order of name: the same checkpoint, the same digest."""
    digest = hashlib.sha256()
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        with open(path, "rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return "sha256:" + digest.hexdigest()


def as_numpy(logits):
    """Without a copy where the tensor is on the CPU; NumPy has no bfloat16, so its bits are taken."""
    logits = logits.cpu()
    return (logits.view(torch.uint16) if logits.dtype == torch.bfloat16 else logits).numpy()


class TorchLM:
    def __init__(self, args):
        self.args = args
        if args.threads:
            torch.set_num_threads(args.threads)
        torch.use_deterministic_algorithms(True, warn_only=True)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            args.model, dtype=DTYPES[args.dtype], attn_implementation=args.attention
        ).to(args.device).eval()
        self.forward = torch.compile(self.model, dynamic=True) if args.compile == "true" else self.model
        self.hooks = None if args.audit == "off" else AuditHooks(self.model, args.audit)
        self.vocab_size = self.model.config.vocab_size
        self.width = self.model.get_output_embeddings().weight.shape[0]  # may be padded
        self.dtype = NAMES[DTYPES[args.dtype]]

    def hello(self):
        args = self.args
        where = torch.backends.cpu.get_cpu_capability() if args.device == "cpu" else torch.cuda.get_device_name(args.device)
        # name, value as the command line takes it, error source
        options = [("dtype", args.dtype, "precision"), ("attention", args.attention, "operator"),
                   ("compile", args.compile, "operator"), ("device", args.device, "operator"),
                   ("threads", str(torch.get_num_threads()), "operator"), ("batch", str(args.batch), "batch"),
                   ("route", args.route, "route")]
        return {
            "fingerprint": f"torch-{torch.__version__} transformers-{transformers.__version__} {platform.machine()}/{where} "
            + " ".join(f"{name}={value}" for name, value, _ in options),
            "modelDigest": weights_digest(args.model),
            "vocabSize": self.vocab_size,
            "evidence": "logits",
            "semantics": "raw",
            "path": "prefill",
            "declares": {"engine": "torch"} | ({} if self.hooks is None else {"audit": args.audit}),
            "options": [{"name": n, "value": v, "source": s} for n, v, s in options],
            # How signatures are made changes no number: it is declared, and not part of the fingerprint.
        } | ({} if self.hooks is None else {"audits": True})

    def routed(self):
        backend = ROUTES[self.args.route]
        return contextlib.nullcontext() if backend is None else sdpa_kernel(backend)

    @torch.inference_mode()
    def score(self, requests, file):
        engine = 0.0
        for first in range(0, len(requests), self.args.batch):
            group = requests[first : first + self.args.batch]
            started = time.perf_counter()
            longest = max(len(r.tokens) for r in group)
            ids = torch.zeros((len(group), longest), dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, r in enumerate(group):
                ids[row, : len(r.tokens)] = torch.as_tensor(r.tokens)
                mask[row, : len(r.tokens)] = 1
            alone = len(group) == 1
            with self.routed(), self.hooks or contextlib.nullcontext():
                logits = self.forward(
                    ids.to(self.args.device), attention_mask=None if alone else mask.to(self.args.device), use_cache=False
                ).logits
            logits = logits.cpu()
            engine += time.perf_counter() - started
            for row, r in enumerate(group):
                file.append(as_numpy(logits[row, r.scored]))
                if self.hooks is not None:
                    file.audit(*self.hooks.of_row(row, len(r.tokens)))
        return engine

    @torch.inference_mode()
    def generate(self, requests, sampling):
        return [self.continuation(request, sampling) for request in requests]

    def continuation(self, request, sampling):
        """Token by token with a cache, sampled from float64 log-probs by the request's own seed."""
        started, first = time.perf_counter(), None
        rng = np.random.default_rng(request.seed)
        ids, cache, tokens, logprobs = torch.tensor([request.tokens]), None, [], []
        while len(tokens) < sampling["outputTokensMax"]:
            with self.routed():
                out = self.model(ids.to(self.args.device), past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            raw = out.logits[0, -1, : self.vocab_size].double().cpu().numpy()
            first = first or time.perf_counter()
            token = choose(raw, sampling, rng)
            tokens.append(token)
            logprobs.append(float(log_softmax(raw)[token]))
            if token in sampling["stop"]:
                break
            ids = torch.tensor([[token]])
        ended = time.perf_counter()
        return {"id": request.id, "tokens": tokens, "logprobs": logprobs,
                "latencyMs": 1000 * (ended - started), "ttftMs": 1000 * ((first or ended) - started)}


def log_softmax(logits):
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def choose(logits, sampling, rng):
    """Greedy at temperature 0, ties to the smaller id; else by inversion of one uniform number, over
    the tokens that top-k and top-p leave."""
    if sampling["temperature"] == 0:
        return int(logits.argmax())
    order = np.argsort(-logits, kind="stable")
    if sampling["topK"] > 0:
        order = order[: sampling["topK"]]
    mass = np.exp(log_softmax(logits[order] / sampling["temperature"]))
    if sampling["topP"] < 1:
        order = order[: int(np.searchsorted(np.cumsum(mass), sampling["topP"])) + 1]
        mass = mass[: len(order)]
    cumulative = np.cumsum(mass)
    at = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return int(order[min(int(at), len(order) - 1)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="directory with config.json and weights")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="sdpa")
    parser.add_argument("--route", choices=ROUTES, default="auto", help="which attention kernel sdpa takes")
    parser.add_argument("--compile", choices=["true", "false"], nargs="?", const="true", default="false",
                        help="torch.compile the forward pass")
    parser.add_argument("--batch", type=int, default=1, help="sequences in one forward pass")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="default: PyTorch's own choice")
    parser.add_argument("--audit", choices=("off", *LEVELS), default="off",
                        help="replay signatures: of each layer's output, or of all that a layer is made of")
    args = parser.parse_args()
    if args.audit != "off" and args.compile == "true":
        sys.exit("--audit looks between the operators, which --compile fuses: leave one of them out")
    if not (pathlib.Path(args.model) / "config.json").exists():
        sys.exit(f"{args.model}: no config.json; a Hugging Face model's directory is needed")
    serve(TorchLM(args))


if __name__ == "__main__":
    main()
