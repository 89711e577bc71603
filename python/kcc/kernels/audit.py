"""Audit hooks for PyTorch models: digests of what chosen modules give, by position, and a replay signature of
all of them (docs/replay.md). Two runs with the same signature computed the same bits at every audit point.

    hooks = AuditHooks(model, "layers")
    with hooks:
        model(ids)
    signature, points = hooks.of_row(0, length)   # points: [("layer 0", [digest of position 0, …]), …]
"""

import hashlib

import torch

LEVELS = ("layers", "all")


def layers_of(model):
    """The longest list of modules: the layers of a transformer, whatever their class."""
    lists = [(name, module) for name, module in model.named_modules() if isinstance(module, torch.nn.ModuleList)]
    if not lists:
        raise ValueError("the model has no list of layers to audit")
    return max(lists, key=lambda pair: len(pair[1]))[1]


def audit_points(model, level):
    """(name, module) of every audit point: the output of each layer, with `all` also of what a layer is made of,
    and the logits."""
    points = []
    for index, layer in enumerate(layers_of(model)):
        if level == "all":
            points += [(f"layer {index}, {name}", child) for name, child in layer.named_children()]
        points.append((f"layer {index}", layer))
    head = model.get_output_embeddings()
    return points + ([("logits", head)] if head is not None else [])


def digests(rows):
    """One digest for each row of a tensor [positions, width], of its bits."""
    data = rows.detach().cpu().contiguous().view(torch.uint8).numpy()
    return [hashlib.blake2b(row.tobytes(), digest_size=8).hexdigest() for row in data]


class AuditHooks:
    """Inside `with`, every forward pass is recorded, in the order in which modules finish. The last pass counts."""

    def __init__(self, model, level="layers"):
        if level not in LEVELS:
            raise ValueError(f"audit level {level!r}; there are {', '.join(LEVELS)}")
        self.level, self.points, self.handles, self.outputs = level, audit_points(model, level), [], {}

    def __enter__(self):
        self.outputs = {}
        for name, module in self.points:
            self.handles.append(module.register_forward_hook(self.hook(name)))
        return self

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def hook(self, name):
        def record(_module, _inputs, output):
            tensor = output[0] if isinstance(output, tuple) else output
            self.outputs.pop(name, None)  # the order is that of the last pass
            self.outputs[name] = tensor

        return record

    def of_row(self, row, length):
        """Signature and points of one sequence of the batch, without its padding."""
        points = [(name, digests(tensor[row, :length])) for name, tensor in self.outputs.items()]
        whole = hashlib.blake2b(digest_size=16)
        for name, values in points:
            whole.update(f"{name}={' '.join(values)}\n".encode())
        return whole.hexdigest(), points
