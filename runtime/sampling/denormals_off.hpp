// runtime/sampling/denormals_off.hpp: the mode of arithmetic that mortise/numerics.h requires.
#pragma once

#include <cstdint>

#include "mortise/numerics.h"

namespace mortise {

// Denormals are off on the current thread while an object lives. Used by that thread alone. Invariant: the destructor
// restores the mode that the constructor found.
class DenormalsOff {
 public:
  DenormalsOff() : saved_(mortise_denormals_off()) {}
  ~DenormalsOff() { mortise_denormals_restore(saved_); }
  DenormalsOff(const DenormalsOff&) = delete;
  DenormalsOff& operator=(const DenormalsOff&) = delete;

 private:
  std::uint64_t saved_;
};

}  // namespace mortise
