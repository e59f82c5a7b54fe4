// probe.hpp: vec.hpp and math.hpp as functions over arrays, one set per instruction set: the tests' way to them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::cpu {

enum class MathFunction { kExp2, kExp, kLog, kLog1p, kTanh, kErf, kSigmoid, kSilu, kRelu, kGelu, kGeluTanh, kCount };

// Operations of vec.hpp on the bits of a, b and c, sixteen results each; masks come out as all ones or zero, the
// reductions in every lane. Floats come out through canonical_nan, but for kSelect and the loads and stores.
enum class LaneOperation {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFma,
  kFmaExactProduct,
  kSqrt,
  kMin,
  kMax,
  kLt,
  kLe,
  kGt,
  kGe,
  kEq,
  kSelect,
  kToInt,
  kToFloat,
  kSum,
  kMaxOfLanes,
  kRoundBf16,
  kThroughBf16,
  kAddInt,
  kSubInt,
  kAnd,
  kOr,
  kXor,
  kMulLo,
  kMulHi,
  kMaxInt,
  kAddProductsI16,
  kShiftLeft5,
  kShiftRight5,
  kShiftRightSigned5,
  kEqInt,
  kGtInt,
  kCount
};

struct Probe {
  void (*math)(MathFunction function, const float* x, float* y, std::size_t n);
  void (*lanes)(LaneOperation operation, const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* c,
                std::uint32_t* out);
  // How many of the `count` floats whose bits are `begin` and on have a silu other than x / (1 + exp(-x)), divided.
  std::uint64_t (*wrong_silus)(std::uint32_t begin, std::uint64_t count);
  // The first n elements of `in` through load_tail and store_tail, and through their bf16 forms.
  void (*tails)(const float* in, float* out, const std::uint16_t* in_bf16, std::uint16_t* out_bf16, std::size_t n);
};

}  // namespace mortise::cpu
