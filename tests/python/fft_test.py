"""troupe.fft beside NumPy's."""

import numpy as np
import pytest
import troupe
from troupe import fft

RANDOM = np.random.default_rng(12)
LENGTHS = [1, 2, 3, 8, 15, 64, 97, 211, 10007]


def random(*shape):
    return RANDOM.standard_normal(shape)


def random_complex(*shape):
    return random(*shape) + 1j * random(*shape)


def near(found, expected):
    assert found.shape == expected.shape
    size = 1 + (np.abs(expected).max() if expected.size else 0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * size)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_of_one_axis(n, norm):
    for length in (None, n + 3, max(n // 2, 1)):
        x, z = random(2, n, 3), random_complex(2, n, 3)
        near(fft.as_complex(fft.fft(z, length, 1, norm)), np.fft.fft(z, length, 1, norm))
        near(fft.as_complex(fft.ifft(z, length, -2, norm)), np.fft.ifft(z, length, -2, norm))
        near(fft.as_complex(fft.rfft(x, length, 1, norm)), np.fft.rfft(x, length, 1, norm))
        if length is not None or n > 1:
            near(np.asarray(fft.irfft(z, length, 1, norm)), np.fft.irfft(z, length, 1, norm))


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("s", [None, (4, 5), (9, 8)])
def test_transforms_of_two_axes(s, norm):
    x, z = random(3, 6, 7), random_complex(3, 6, 7)
    near(fft.as_complex(fft.fft2(z, s, norm=norm)), np.fft.fft2(z, s, norm=norm))
    near(fft.as_complex(fft.ifft2(z, s, norm=norm)), np.fft.ifft2(z, s, norm=norm))
    near(fft.as_complex(fft.rfft2(x, s, norm=norm)), np.fft.rfft2(x, s, norm=norm))
    near(np.asarray(fft.irfft2(z, s, norm=norm)), np.fft.irfft2(z, s, norm=norm))
    near(fft.as_complex(fft.fft2(z, axes=(2, 0))), np.fft.fft2(z, axes=(2, 0)))


def test_transforms_of_all_axes():
    x, z = random(3, 4, 5), random_complex(3, 4, 5)
    near(fft.as_complex(fft.fftn(z)), np.fft.fftn(z))
    near(fft.as_complex(fft.ifftn(z, axes=[1])), np.fft.ifftn(z, axes=[1]))
    near(fft.as_complex(fft.rfftn(x)), np.fft.rfftn(x))
    near(np.asarray(fft.irfftn(z, (2, 3, 4), (0, 1, 2))), np.fft.irfftn(z, (2, 3, 4), (0, 1, 2)))


def test_frequencies_and_shifts():
    for n in (4, 5):
        near(np.asarray(fft.fftfreq(n, 0.5)), np.fft.fftfreq(n, 0.5).astype(np.float32))
        near(np.asarray(fft.rfftfreq(n, 0.5)), np.fft.rfftfreq(n, 0.5).astype(np.float32))
        x = random(n, 6)
        near(np.asarray(fft.fftshift(x, (0, 1))), np.fft.fftshift(x))
        near(np.asarray(fft.ifftshift(x, 0)), np.fft.ifftshift(x, 0))


def test_float32_stays():
    x = random(5, 1000).astype(np.float32)
    spectrum = fft.rfft(x)
    assert spectrum.dtype == troupe.float32
    np.testing.assert_allclose(fft.as_complex(spectrum), np.fft.rfft(x.astype(np.float64)), atol=1e-4)
    np.testing.assert_allclose(fft.irfft(spectrum), x, atol=2e-6)


def test_gradients():
    x = random(6, 5)
    kernel = fft.rfft2(random(6, 5))

    def loss(x):
        spectrum = fft.rfft2(x)
        real = spectrum[..., 0] * kernel[..., 0] - spectrum[..., 1] * kernel[..., 1]
        imag = spectrum[..., 0] * kernel[..., 1] + spectrum[..., 1] * kernel[..., 0]
        return troupe.sum(fft.irfft2(fft.as_pairs(real, imag), (6, 5)) ** 3)

    gradient = troupe.value_and_grad(loss)(troupe.tensor(x))[1].numpy()
    traced = troupe.value_and_grad(troupe.function(loss))(troupe.tensor(x))[1].numpy()
    np.testing.assert_allclose(traced, gradient, rtol=1e-12, atol=1e-9)
    h = 1e-5
    for place in [(0, 0), (2, 3), (5, 4)]:
        moved = np.zeros_like(x)
        moved[place] = h
        difference = (float(loss(troupe.tensor(x + moved))) - float(loss(troupe.tensor(x - moved)))) / (2 * h)
        assert gradient[place] == pytest.approx(difference, rel=1e-6)


def test_errors():
    with pytest.raises(ValueError, match="as_pairs"):
        fft.fft(np.ones(5))
    with pytest.raises(ValueError, match="norm is"):
        fft.fft(np.ones((5, 2)), norm="unit")
    with pytest.raises(ValueError, match="2 lengths for 1 axes"):
        fft.rfftn(np.ones(5), (3, 3), (0,))
    with pytest.raises(troupe.InvalidArgumentError, match="length of the transform is 0"):
        fft.irfft(np.ones((1, 2)))
    with pytest.raises(troupe.Error):
        fft.rfft(np.ones(5), n=0)
