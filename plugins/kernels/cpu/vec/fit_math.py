#!/usr/bin/env python3
"""Prints the polynomial coefficients of math.hpp: minimax fits by Lawson's weighted least squares, rounded to f32.
usage: fit_math.py (needs numpy). The last figure of a line is the largest error of the fit, relative to the function."""
import math

import numpy as np


def fit(name, target, weight, low, high, degree):
    """Fits sum c[i] x^i to target on [low, high]; the error counts times weight."""
    x = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(4000) + 0.5) / 4000)
    y = np.array([target(v) for v in x])
    w = np.array([weight(v) for v in x])
    a = np.vander(x, degree + 1, increasing=True)
    lawson = np.ones_like(x)
    for _ in range(300):
        s = np.sqrt(lawson) * w
        c = np.linalg.lstsq(a * s[:, None], y * s, rcond=None)[0]
        error = np.abs((a @ c - y) * w)
        lawson *= error / error.max() + 1e-3
        lawson /= lawson.mean()
    c32 = c.astype(np.float32)
    error = np.abs((a @ c32.astype(np.float64) - y) * w).max()
    print(f"{name}: " + ", ".join(float(v).hex() + "f" for v in c32) + f"  # {error:.2e}")


def safe(f, x, limit):
    return limit if x == 0 else f(x)


# 2^x = 1 + x P(x), |x| <= 1/2
fit("exp2", lambda x: safe(lambda x: math.expm1(x * math.log(2)) / x, x, math.log(2)), lambda x: abs(x) / 2**x, -0.5, 0.5, 5)
# log(1 + x) = x - x^2 / 2 + x^3 P(x), sqrt(1/2) <= 1 + x < sqrt(2)
fit("log", lambda x: (math.log1p(x) - x + x * x / 2) / x**3, lambda x: abs(x**3 / math.log1p(x)), math.sqrt(0.5) - 1, math.sqrt(2) - 1, 8)
# tanh(x) = x + x^3 P(x^2), |x| <= 0.625; as a function of x^2
fit("tanh", lambda z: (math.tanh(math.sqrt(z)) / math.sqrt(z) - 1) / z, lambda z: z * math.sqrt(z) / math.tanh(math.sqrt(z)), 1e-6, 0.625**2, 4)
# erf(x) = x + x P(x^2), |x| <= 0.9375; as a function of x^2
fit("erf", lambda z: math.erf(math.sqrt(z)) / math.sqrt(z) - 1, lambda z: math.sqrt(z) / math.erf(math.sqrt(z)), 1e-6, 0.9375**2, 6)
# erf(x) = 1 - exp(x P(x)), 0.9375 <= x <= 4; an error d of the exponent is d erfc / erf of the result
fit("erfc", lambda x: math.log(math.erfc(x)) / x, lambda x: x * math.erfc(x) / math.erf(x), 0.9375, 4.0, 6)
