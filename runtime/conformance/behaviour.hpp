// runtime/conformance/behaviour.hpp: writes what a part does in a fixed scenario of its kind, as text. Cases compare
// the texts of two instances, two threads or two copies of a plugin.
#pragma once

#include <cstdint>
#include <string>

#include "conformance/subject.hpp"

namespace mortise::conformance {

// Runs the scenario with this seed on an active part of the subject that has no sequences, and ends all its sequences.
// Throws CaseFailed if the part breaks a rule, and NotApplicable if there is no scenario for this kind.
std::string behaviour(Subject& subject, Part& part, std::uint64_t seed);

// Throws CaseFailed that shows the first line in which the texts differ.
void expect_same(const std::string& before, const std::string& now, const char* what);

}  // namespace mortise::conformance
