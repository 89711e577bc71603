"""kcc.cuda without a device: mask constants on either side, against sums over the tokens left."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from kcc import cuda  # noqa: E402

IDS = [0, 3, 7, 60]
LOWEST = torch.finfo(torch.float32).min


def measured(train, infer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: float(value[0]) for name, value in cuda.measure(train, infer).items()}


def rows(on_train=None, on_infer=None):
    generator = torch.Generator().manual_seed(5)
    train = 3 * torch.randn((1, 64), generator=generator)
    infer = train + 0.1 * torch.randn((1, 64), generator=generator)
    if on_train is not None:
        train[0, IDS] = on_train
    if on_infer is not None:
        infer[0, IDS] = on_infer
    return train, infer


@pytest.mark.parametrize("constant", [-torch.inf, LOWEST, -1e30, -1e9])
def test_a_mask_on_the_train_side_leaves_kl_finite(constant):
    train, infer = rows(on_train=constant)
    kept = [i for i in range(64) if i not in IDS]
    log_p = torch.log_softmax(train[0].double(), -1)[kept]
    log_q = torch.log_softmax(infer[0].double(), -1)
    drift = measured(train, infer)
    assert drift["kl"] == pytest.approx(float((log_p.exp() * (log_p - log_q[kept])).sum()), rel=1e-12)
    assert drift["tv"] == pytest.approx(
        0.5 * float((log_p.exp() - log_q[kept].exp()).abs().sum() + log_q[IDS].exp().sum()), rel=1e-12)
    assert drift["reverse_kl"] > 1e6
    assert drift["entropy"] == pytest.approx(float(-(log_q.exp() * log_q).sum()), rel=1e-12)
    if constant == -torch.inf:
        assert drift["reverse_kl"] == drift["logit_span"] == drift["logit_l2"] == torch.inf


@pytest.mark.parametrize("on_train, on_infer", [
    (-torch.inf, -torch.inf), (-torch.inf, -1e30), (-1e30, -torch.inf), (-1e9, LOWEST), (LOWEST, LOWEST)])
def test_what_both_sides_mask_is_left_out(on_train, on_infer):
    kept = [i for i in range(64) if i not in IDS]
    train, infer = rows(on_train, on_infer)
    drift = measured(train, infer)
    want = measured(train[:, kept], infer[:, kept])
    for name in ("kl", "reverse_kl", "tv", "chi2", "entropy", "train_entropy"):
        assert drift[name] == pytest.approx(want[name], rel=1e-12), name


def test_a_mask_on_the_infer_side_is_an_infinite_kl():
    drift = measured(*rows(on_infer=-torch.inf))
    assert drift["kl"] == drift["chi2"] == torch.inf
    assert drift["reverse_kl"] < 1
