#include "isas.hpp"

#include <cstdio>
#include <string>

namespace mortise::bench {

std::optional<std::vector<cpu::Isa>> isas_named(std::span<char*> names) {
  std::vector<cpu::Isa> isas;
  for (const char* name : names) {
    std::string error;
    const auto isa = cpu::choose_isa(name, error);
    if (!isa) {
      std::fprintf(stderr, "%s\n", error.c_str());
      return std::nullopt;
    }
    isas.push_back(*isa);
  }
  for (const cpu::Isa isa : cpu::available_isas()) {
    if (names.empty() && isa != cpu::Isa::kPortable) isas.push_back(isa);
  }
  return isas;
}

}  // namespace mortise::bench
