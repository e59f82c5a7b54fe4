#include "kernels/cpu/rows/activation.hpp"

#include "kernels/cpu/rows/gate.hpp"
#include "kernels/cpu/vec/io.hpp"

namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE {
namespace {

template <Activation act, class T>
void apply_as(const T* x, T* out, std::size_t n) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) write(out + i, evaluate<act>(read(x + i)));
  if (i < n) write_tail(out + i, evaluate<act>(read_tail(x + i, n - i)), n - i);
}

template <Activation act, class T>
void gated_as(const T* gate, const T* up, T* out, std::size_t n) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) write(out + i, rounded_activation<act, T>(read(gate + i)) * read(up + i));
  if (i < n) {
    write_tail(out + i, rounded_activation<act, T>(read_tail(gate + i, n - i)) * read_tail(up + i, n - i), n - i);
  }
}

template <class T>
void apply(Activation act, const T* x, T* out, std::size_t n) {
  switch (act) {
    case Activation::kSilu:
      return apply_as<Activation::kSilu>(x, out, n);
    case Activation::kGelu:
      return apply_as<Activation::kGelu>(x, out, n);
    case Activation::kGeluTanh:
      return apply_as<Activation::kGeluTanh>(x, out, n);
    case Activation::kRelu:
      return apply_as<Activation::kRelu>(x, out, n);
  }
}

template <class T>
void gated(Activation act, const T* gate, const T* up, T* out, std::size_t n) {
  switch (act) {
    case Activation::kSilu:
      return gated_as<Activation::kSilu>(gate, up, out, n);
    case Activation::kGelu:
      return gated_as<Activation::kGelu>(gate, up, out, n);
    case Activation::kGeluTanh:
      return gated_as<Activation::kGeluTanh>(gate, up, out, n);
    case Activation::kRelu:
      return gated_as<Activation::kRelu>(gate, up, out, n);
  }
}

}  // namespace

extern const ActivationKernels kActivationKernels;
constinit const ActivationKernels kActivationKernels = {
    .apply_bf16 = apply<Bf16>,
    .apply_f32 = apply<float>,
    .gated_bf16 = gated<Bf16>,
    .gated_f32 = gated<float>,
};

}  // namespace mortise::cpu::inline MORTISE_ISA_NAMESPACE
