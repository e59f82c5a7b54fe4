// tests/plugins/models/common/config_refusals.hpp: what a model's parse_config says of configurations that it refuses.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "mortise/plugin.hpp"

namespace mortise::test {

inline nlohmann::json with(nlohmann::json config, const char* key, const nlohmann::json& value) {
  config[key] = value;
  return config;
}

// What `parse_config`, a function that takes the file's text, says of wrong configurations:
//   using Refused = test::ConfigRefusals<parse_config>;
template <auto parse_config>
struct ConfigRefusals {
  static std::string of_text(const std::string& text, mortise_status expected) {
    try {
      parse_config(text);
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code, expected) << failure.message;
      EXPECT_STREQ(failure.where, "config.json");
      return failure.message;
    }
    ADD_FAILURE() << "accepted: " << text;
    return "";
  }
  static std::string invalid(const nlohmann::json& config) { return of_text(config.dump(), MORTISE_INVALID_ARGUMENT); }
  // Sizes that cannot be are refused with key, value and expectation.
  static void expect_of_sizes(const nlohmann::json& config, const std::vector<const char*>& keys) {
    using nlohmann::json;
    for (const char* key : keys) {
      for (const json& value : {json(0), json(-1), json(1ll << 40), json(UINT64_MAX), json(INT64_MIN), json(64.0),
                                json("64"), json::array(), json(true), json(std::string(1000, 'x'))}) {
        const std::string message = invalid(with(config, key, value));
        EXPECT_THAT(message, testing::HasSubstr(std::string(key) + " is " + value.dump().substr(0, 80)));
        EXPECT_THAT(message, testing::HasSubstr("; expected "));
        EXPECT_LT(message.size(), 300u);
      }
    }
  }
  static std::string unsupported(const nlohmann::json& config) { return of_text(config.dump(), MORTISE_UNIMPLEMENTED); }
};

}  // namespace mortise::test
