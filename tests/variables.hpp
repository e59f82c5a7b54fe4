// tests/variables.hpp: environment variables of tests: those that steer a test, and those that a test sets for the code
// under test. REQUIRES: no other thread reads or changes the environment meanwhile.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace mortise::test {

// nullopt: the variable is not set.
inline std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

inline int variable_or(const char* name, int otherwise) {
  const std::optional<std::string> value = variable(name);
  return value ? std::atoi(value->c_str()) : otherwise;
}

// nullopt unsets the variable.
inline void set_variable(const char* name, const std::optional<std::string>& value) {
  if (value) {
    ::setenv(name, value->c_str(), /*overwrite=*/1);
  } else {
    ::unsetenv(name);
  }
}

// Sets a variable, or unsets it, while this object lives. Then the variable is again what it was before.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::optional<std::string>& value) : name_(name), before_(variable(name)) {
    set_variable(name, value);
  }
  ~ScopedVariable() { set_variable(name_, before_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* const name_;
  const std::optional<std::string> before_;
};

}  // namespace mortise::test
