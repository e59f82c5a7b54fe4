#include "models/llama/exact_math.hpp"

#include <bit>
#include <cassert>
#include <cstdint>

namespace mortise::llama {
namespace {

constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kTwoOverLn2 = 0x1.71547652b82fep+1;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// pi / 2 in three parts (Cody and Waite). The first two have at most 28 bits, so their products with a quadrant number
// below 2^25 are exact, and so is the first subtraction.
constexpr double kHalfPi1 = 0x1.921fb54p+0;
constexpr double kHalfPi2 = 0x1.10b461p-30;
constexpr double kHalfPi3 = 0x1.a62633145c06ep-58;

constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1;
constexpr uint64_t kOneBits = uint64_t{1023} << 52;

// 2^x = 2^n e^(f ln 2), |f| <= 1/2. The error of the Taylor polynomial of degree 14 is below 2^-61.
double exp2_of(double x) {
  const int64_t n = static_cast<int64_t>(x + (x < 0 ? -0.5 : 0.5));
  assert(n > -1022 && n < 1023);
  const double t = (x - static_cast<double>(n)) * kLn2;
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = 1.0 + sum * t / k;
  return sum * std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

// Taylor polynomial for |r| <= pi / 4: the first omitted term, r^17 / 17! or r^18 / 18!, is below 2^-54.
double sin_of(double r) {
  const double r2 = r * r;
  double sum = -1.0 / 1307674368000.0;
  sum = sum * r2 + 1.0 / 6227020800.0;
  sum = sum * r2 - 1.0 / 39916800.0;
  sum = sum * r2 + 1.0 / 362880.0;
  sum = sum * r2 - 1.0 / 5040.0;
  sum = sum * r2 + 1.0 / 120.0;
  sum = sum * r2 - 1.0 / 6.0;
  return r + r * (r2 * sum);
}

double cos_of(double r) {
  const double r2 = r * r;
  double sum = 1.0 / 20922789888000.0;
  sum = sum * r2 - 1.0 / 87178291200.0;
  sum = sum * r2 + 1.0 / 479001600.0;
  sum = sum * r2 - 1.0 / 3628800.0;
  sum = sum * r2 + 1.0 / 40320.0;
  sum = sum * r2 - 1.0 / 720.0;
  sum = sum * r2 + 1.0 / 24.0;
  sum = sum * r2 - 1.0 / 2.0;
  return 1.0 + r2 * sum;
}

}  // namespace

// x = m 2^e with m in [1 / sqrt 2, sqrt 2);  log2 m = 2 / ln 2 * (s + s^3 / 3 + ...), s = (m - 1) / (m + 1).
// |s| < 0.1716, so the first omitted term, s^25 / 25, is below 2^-68 of the result.
double log2_of(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & kMantissa) | kOneBits);
  if (m >= kSqrt2) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double sum = 0.0;
  for (int n = 23; n >= 1; n -= 2) sum = sum * s2 + 1.0 / n;
  return static_cast<double>(exponent) + kTwoOverLn2 * (s * sum);
}

double power(double base, double exponent) {
  return exp2_of(exponent * log2_of(base));
}

SinCos sin_cos(float angle) {
  const double x = static_cast<double>(angle);
  const int64_t quadrant = static_cast<int64_t>(x * kTwoOverPi + 0.5);
  const double n = static_cast<double>(quadrant);
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double s = sin_of(r);
  const double c = cos_of(r);
  const bool swapped = (quadrant & 1) != 0;
  const double sin = swapped ? c : s;
  const double cos = swapped ? s : c;
  return {(quadrant & 2) != 0 ? -sin : sin, ((quadrant + 1) & 2) != 0 ? -cos : cos};
}

}  // namespace mortise::llama
