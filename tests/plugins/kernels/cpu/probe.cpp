#include "probe.hpp"

#include "kernels/cpu/vec/io.hpp"
#include "kernels/cpu/vec/math.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

void math(MathFunction function, const float* x, float* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::size_t count = lanes_left(n - i);
    const F32x16 v = load_tail(x + i, count);
    F32x16 r = zero();
    switch (function) {
      case MathFunction::kExp2:
        r = exp2(v);
        break;
      case MathFunction::kExp:
        r = exp(v);
        break;
      case MathFunction::kLog:
        r = log(v);
        break;
      case MathFunction::kLog1p:
        r = log1p(v);
        break;
      case MathFunction::kTanh:
        r = tanh(v);
        break;
      case MathFunction::kErf:
        r = erf(v);
        break;
      case MathFunction::kSigmoid:
        r = sigmoid(v);
        break;
      case MathFunction::kSilu:
        r = silu(v);
        break;
      case MathFunction::kRelu:
        r = relu(v);
        break;
      case MathFunction::kGelu:
        r = gelu(v);
        break;
      case MathFunction::kGeluTanh:
        r = gelu_tanh(v);
        break;
      case MathFunction::kCount:
        break;
    }
    write_tail(y + i, r, count);
  }
}

std::uint64_t wrong_silus(std::uint32_t begin, std::uint64_t count) {
  std::int32_t lane[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lane[i] = static_cast<std::int32_t>(begin + static_cast<std::uint32_t>(i));
  I32x16 u = load_i32(lane);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; i += kLanes, u = u + broadcast_i32(static_cast<std::int32_t>(kLanes))) {
    const F32x16 x = from_bits(u);
    const F32x16 quotient = x / (broadcast(1.0f) + exp(neg(x)));
    wrong += any(!eq(bits(canonical_nan(silu(x))), bits(canonical_nan(quotient)))) ? 1 : 0;
  }
  return wrong;
}

I32x16 of_mask(Mask16 m) {
  return select(m, broadcast_i32(-1), broadcast_i32(0));
}
I32x16 of_float(F32x16 v) {
  return bits(canonical_nan(v));
}

void lanes(LaneOperation operation, const std::uint32_t* a_bits, const std::uint32_t* b_bits,
           const std::uint32_t* c_bits, std::uint32_t* out) {
  const I32x16 ia = load_i32(reinterpret_cast<const std::int32_t*>(a_bits));
  const I32x16 ib = load_i32(reinterpret_cast<const std::int32_t*>(b_bits));
  const I32x16 ic = load_i32(reinterpret_cast<const std::int32_t*>(c_bits));
  const F32x16 a = from_bits(ia), b = from_bits(ib), c = from_bits(ic);
  I32x16 r = ia;
  Bf16 halves[kLanes];
  switch (operation) {
    case LaneOperation::kAdd:
      r = of_float(a + b);
      break;
    case LaneOperation::kSub:
      r = of_float(a - b);
      break;
    case LaneOperation::kMul:
      r = of_float(a * b);
      break;
    case LaneOperation::kDiv:
      r = of_float(a / b);
      break;
    case LaneOperation::kFma:
      r = of_float(fma(a, b, c));
      break;
    case LaneOperation::kFmaExactProduct:
      r = of_float(fma_exact_product(a, b, c));
      break;
    case LaneOperation::kSqrt:
      r = of_float(sqrt(a));
      break;
    case LaneOperation::kMin:
      r = of_float(min(a, b));
      break;
    case LaneOperation::kMax:
      r = of_float(max(a, b));
      break;
    case LaneOperation::kLt:
      r = of_mask(lt(a, b));
      break;
    case LaneOperation::kLe:
      r = of_mask(le(a, b));
      break;
    case LaneOperation::kGt:
      r = of_mask(gt(a, b));
      break;
    case LaneOperation::kGe:
      r = of_mask(ge(a, b));
      break;
    case LaneOperation::kEq:
      r = of_mask(eq(a, b));
      break;
    case LaneOperation::kSelect:
      r = bits(select(lt(a, b), b, c));
      break;
    case LaneOperation::kToInt:
      r = to_int(a);
      break;
    case LaneOperation::kToFloat:
      r = of_float(to_float(ia));
      break;
    case LaneOperation::kSum:
      r = of_float(broadcast(sum(a)));
      break;
    case LaneOperation::kMaxOfLanes:
      r = of_float(broadcast(max(a)));
      break;
    case LaneOperation::kRoundBf16:
      r = bits(round_bf16(a));
      break;
    case LaneOperation::kThroughBf16:
      store_bf16(halves, a), r = bits(load_bf16(halves));
      break;
    case LaneOperation::kAddInt:
      r = ia + ib;
      break;
    case LaneOperation::kSubInt:
      r = ia - ib;
      break;
    case LaneOperation::kAnd:
      r = ia & ib;
      break;
    case LaneOperation::kOr:
      r = ia | ib;
      break;
    case LaneOperation::kXor:
      r = ia ^ ib;
      break;
    case LaneOperation::kMulLo:
      r = mul_lo(ia, ib);
      break;
    case LaneOperation::kMulHi:
      r = mul_hi_u32(ia, ib);
      break;
    case LaneOperation::kMaxInt:
      r = max(ia, ib);
      break;
    case LaneOperation::kAddProductsI16:
      r = add_products_i16(ic, ia, ib);
      break;
    case LaneOperation::kShiftLeft5:
      r = shift_left<5>(ia);
      break;
    case LaneOperation::kShiftRight5:
      r = shift_right<5>(ia);
      break;
    case LaneOperation::kShiftRightSigned5:
      r = shift_right_signed<5>(ia);
      break;
    case LaneOperation::kEqInt:
      r = of_mask(eq(ia, ib));
      break;
    case LaneOperation::kGtInt:
      r = of_mask(gt(ia, ib));
      break;
    case LaneOperation::kCount:
      break;
  }
  store(reinterpret_cast<std::int32_t*>(out), r);
}

void tails(const float* in, float* out, const Bf16* in_bf16, Bf16* out_bf16, std::size_t n) {
  store_tail(out, load_tail(in, n), n);
  store_bf16_tail(out_bf16, load_bf16_tail(in_bf16, n), n);
}

}  // namespace

extern const Probe kProbe;
constinit const Probe kProbe = {math, lanes, wrong_silus, tails};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
