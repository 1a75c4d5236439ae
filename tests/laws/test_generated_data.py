"""Laws of generated data sets: moments over devices, sizes, labels, and least errors in closed form."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from airfl.learning.generated import Population
from airfl.learning.tasks.datasets import GaussianClasses, GeneratedDataset, Synthetic
from airfl.runtime.streams import Purpose, Streams

SIGMAS = 5
DEVICES = 600


def population(dataset: GeneratedDataset, devices: int = DEVICES) -> Population:
    return Population(dataset, Streams(0), devices)


def assert_variance(values: np.ndarray, variance: float) -> None:
    """Check the variance of independent normal numbers of mean 0."""
    assert np.mean(values**2) == pytest.approx(variance, rel=SIGMAS * math.sqrt(2 / values.size))


def test_models_and_feature_means_of_synthetic_devices() -> None:
    """alpha and beta are standard deviations: of u_k, the common mean of W_k and b_k, and of B_k, the mean of v_k."""
    dataset = Synthetic(alpha=2.0, beta=3.0)
    laws = [
        dataset.law_of_device(Streams(0).device_generator(Purpose.DEVICE_DATA, None, k), {}) for k in range(DEVICES)
    ]
    v, w, b = (np.stack(each) for each in zip(*laws, strict=True))
    assert (v.shape, w.shape, b.shape) == ((DEVICES, 60), (DEVICES, 60, 10), (DEVICES, 10))
    u = w.mean(axis=(1, 2))
    assert_variance(u, 4 + 1 / 600)
    assert_variance(v.mean(axis=1), 9 + 1 / 60)
    assert_variance(w - u[:, None, None], 599 / 600)
    assert_variance(v - v.mean(axis=1, keepdims=True), 59 / 60)
    assert_variance(b.mean(axis=1) - u, 1 / 10 + 1 / 600)  # the same u_k
    between = np.mean(u * v.mean(axis=1))  # u_k and B_k are independent
    assert abs(between) < SIGMAS * math.sqrt((4 + 1 / 600) * (9 + 1 / 60) / DEVICES)


def test_features_and_labels_of_a_synthetic_device() -> None:
    """Sigma_jj = j^-1.2 about v_k, and the labels are those of the device's own model."""
    dataset, count = Synthetic(), 20_000
    generators = [Streams(0).device_generator(Purpose.DEVICE_DATA, None, 7) for _ in range(2)]
    inputs, targets = dataset.draw(generators[0], count, {})
    v, w, b = dataset.law_of_device(generators[1], {})
    variances = np.arange(1, 61) ** -1.2
    assert np.all(np.abs(inputs.mean(axis=0) - v) < SIGMAS * np.sqrt(variances / count))
    assert np.all(np.abs(inputs.var(axis=0) / variances - 1) < SIGMAS * math.sqrt(2 / count))
    correlation = np.corrcoef(inputs.T) - np.eye(60)
    assert np.abs(correlation).max() < (SIGMAS + 1) / math.sqrt(count)  # of 1,770 pairs
    logits = inputs.astype(np.float64) @ w + b
    margin = np.partition(logits, 8, axis=1)[:, 8:]
    clear = margin[:, 1] - margin[:, 0] > 1e-4  # inputs are rounded to single precision
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(targets[clear], logits.argmax(axis=1)[clear])


def test_alpha_changes_no_label() -> None:
    """u_k is added to every entry of W_k and b_k, so that it moves the logits of all classes alike."""
    (inputs, targets), (same_inputs, same_targets) = (
        population(Synthetic(alpha=alpha)).samples(3, "train") for alpha in (0.0, 50.0)
    )
    np.testing.assert_array_equal(inputs, same_inputs)
    np.testing.assert_array_equal(targets, same_targets)


def test_synthetic_devices_are_alike_in_the_iid_variant() -> None:
    """Features of mean 0 and one model for all."""
    devices = population(Synthetic(iid=True, sizes="equal", device_samples=900))
    w, b = (devices._common[name] for name in ("W", "b"))
    for device in (0, 5):
        inputs, targets = devices.samples(device, "train")
        assert np.mean(targets == (inputs @ w + b).argmax(axis=1)) > 0.99
        assert np.all(np.abs(inputs.mean(axis=0)) < SIGMAS * np.sqrt(np.arange(1, 61) ** -1.2 / 900))


def test_sizes_of_synthetic_devices() -> None:
    """50 + floor(exp(4 + 2 z)) of normal z: a share Phi((log m - 4)/2) of devices has fewer than 50 + m; 9/10 train."""
    devices = population(Synthetic(), 100_000)
    train, test = devices._counts(np.arange(100_000))
    total = train + test
    np.testing.assert_array_equal(train, np.floor(total * 9 / 10 + 1e-9))
    np.testing.assert_array_equal(devices.sizes, train)
    assert total.min() == 50
    for fewer in (1, 10, 55, 403, 3000):
        share = norm.cdf((math.log(fewer) - 4) / 2)
        deviation = math.sqrt(share * (1 - share) / 100_000)
        assert np.mean(total < 50 + fewer) == pytest.approx(share, abs=SIGMAS * deviation)


@pytest.mark.parametrize(("separation", "shift"), [(0.0, 0.0), (1.0, 0.0), (3.0, 1.5), (6.0, 0.0)])
def test_the_least_error_of_two_classes_is_a_q_function(separation: float, shift: float) -> None:
    dataset = GaussianClasses(classes_count=2, separation=separation, shift_std=shift)
    expected = norm.sf(separation / 2 / math.sqrt(1 + shift**2))
    assert dataset.least_error == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("classes", "shift", "concentration"), [(2, 0.0, math.inf), (2, 1.0, 0.3), (5, 0.5, math.inf)])
def test_the_nearest_mean_has_the_least_error(classes: int, shift: float, concentration: float) -> None:
    """It is the Bayes rule of one who does not know the device; a sample of each of many devices, so independent."""
    dataset = GaussianClasses(
        classes_count=classes, separation=2.0, shift_std=shift, concentration=concentration, device_samples=1
    )
    devices, count = population(dataset, 8000), 8000
    means = devices._common["means"]
    samples = [devices.samples(device, "train") for device in range(count)]
    inputs, targets = (np.concatenate(each) for each in zip(*samples, strict=True))
    wrong = (inputs @ means.T).argmax(axis=1) != targets
    expected = dataset.least_error
    assert wrong.mean() == pytest.approx(expected, abs=SIGMAS * math.sqrt(expected * (1 - expected) / count))
    shares = np.bincount(targets, minlength=classes) / count
    assert np.all(np.abs(shares - 1 / classes) < SIGMAS * math.sqrt((1 - 1 / classes) / classes / count))


def test_class_means_have_equal_distances() -> None:
    means = population(GaussianClasses(classes_count=4, features=6, separation=3.0))._common["means"]
    distances = np.linalg.norm(means[:, None] - means[None], axis=2)
    np.testing.assert_allclose(distances[~np.eye(4, dtype=bool)], 3.0, rtol=1e-12)


def test_labels_and_shifts_of_devices() -> None:
    """Dirichlet shares have variance (1/c)(1 - 1/c)/(c a + 1), and n labels add p(1 - p)/n; shifts have shift_std^2."""
    classes, alpha, count = 4, 0.5, 100
    dataset = GaussianClasses(
        classes_count=classes, features=4, concentration=alpha, shift_std=2.0, device_samples=count
    )
    devices = population(dataset)
    means, shares, shifts = devices._common["means"], [], []
    for device in range(DEVICES):
        inputs, targets = devices.samples(device, "train")
        shares.append(np.bincount(targets, minlength=classes) / count)
        shifts.append((inputs - means[targets]).mean(axis=0))
    of_one = 1 / classes * (1 - 1 / classes)
    of_shares = of_one / (classes * alpha + 1)
    expected = of_shares + (of_one - of_shares) / count  # E[p(1 - p)] = p(1 - p) - Var p
    found = np.var(np.array(shares), axis=0).mean()
    assert found == pytest.approx(expected, rel=SIGMAS * math.sqrt(2 / DEVICES))
    assert_variance(np.array(shifts), 4 + 1 / count)
