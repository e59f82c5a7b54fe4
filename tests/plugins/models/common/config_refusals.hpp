// tests/plugins/models/common/config_refusals.hpp: what a model's parse_config says of configurations that it refuses.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "mortise/plugin.hpp"

namespace mortise::test {

inline nlohmann::json with(nlohmann::json config, const char* key, const nlohmann::json& value) {
  config[key] = value;
  return config;
}

// Of `parse_config`, a function that takes the file's text:
//   using Refused = test::ConfigRefusals<parse_config>;
template <auto parse_config>
struct ConfigRefusals {
  static std::string of_text(const std::string& text, mortise_status expected) {
    try {
      parse_config(text);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code, expected) << failure.message;
      return failure.message;
    }
    ADD_FAILURE() << "accepted: " << text;
    return "";
  }
  static std::string invalid(const nlohmann::json& config) { return of_text(config.dump(), MORTISE_INVALID_ARGUMENT); }
  static std::string unsupported(const nlohmann::json& config) { return of_text(config.dump(), MORTISE_UNIMPLEMENTED); }
};

}  // namespace mortise::test
