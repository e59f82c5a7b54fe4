// tests/plugins/models/common/odd_configurations.hpp: what a model's parse_config makes of the odd configurations of
// tests/golden/config_cases.json, of which transformers says whether they change a result.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_config.hpp"
#include "mortise/plugin.hpp"
#include "temp_folder.hpp"

namespace mortise::test {

// As the host gives the configuration to the plugin.
inline std::string normalised(const nlohmann::json& config) {
  const TempFolder folder;
  std::ofstream(folder.path() / "config.json") << config.dump();
  return read_model_config(folder.path(), "float32").json;
}

// Whether a message names a key that the case changes.
inline bool names_a_change(const std::string& message, const nlohmann::json& odd) {
  const auto named = [&](const std::string& key) { return message.find(key) != std::string::npos; };
  for (const auto& [key, value] : odd["changes"].items()) {
    if (named(key) || (key.starts_with("rope") && named("rope"))) return true;
  }
  return std::any_of(odd["dropped"].begin(), odd["dropped"].end(), named);
}

// A configuration that changes the result is read otherwise than the plain one, or refused by the name of a key that it
// changes. One that does not change the result is read alike, or refused likewise.
template <auto parse_config>
void expect_nothing_is_misread(const std::vector<std::string>& families) {
  const auto golden = nlohmann::json::parse(std::ifstream(MORTISE_SOURCE_DIR "/tests/golden/config_cases.json"));
  using Config = decltype(parse_config(std::string_view()));
  int num_served = 0, num_refused = 0;
  for (const nlohmann::json& odd : golden["cases"]) {
    const std::string family = odd["family"];
    if (std::find(families.begin(), families.end(), family) == families.end()) continue;
    nlohmann::json config = golden["plain"][family];
    const Config plain = parse_config(normalised(config));
    config.update(odd["changes"]);
    for (const std::string key : odd["dropped"]) config.erase(key);
    SCOPED_TRACE(odd.dump());
    try {
      Config parsed = parse_config(normalised(config));
      parsed.max_positions = plain.max_positions;  // the prompt is shorter
      ++num_served;
      if (odd["result"] == "same" || odd["result"] == "other") {
        EXPECT_EQ(parsed == plain, odd["result"] == "same");
      }
    } catch (const Failure& failure) {
      ++num_refused;
      EXPECT_TRUE(names_a_change(failure.message, odd)) << failure.message;
    }
  }
  EXPECT_GT(num_served, 10);
  EXPECT_GT(num_refused, 5);
}

}  // namespace mortise::test
