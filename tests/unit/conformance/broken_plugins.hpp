// tests/unit/conformance/broken_plugins.hpp: runs cases of the conformance suite on deliberately broken plugins. A test
// file lists the defects of one kind of plugin, each with the case that should catch it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/suite.hpp"

namespace mortise::conformance {

// The reproduce line and the text of each finding with this outcome.
std::string text_of(const std::vector<Finding>& findings, Outcome outcome);

// Runs the cases on the plugin `file`, without its ending, among the broken plugins. `component`: only on this one.
std::vector<Finding> run(const std::string& file, const nlohmann::json& options, std::vector<std::string> cases,
                         std::chrono::seconds time = std::chrono::seconds(60), const std::string& component = "");

// One kind of defect, the case that finds it, and a part of its text.
struct Broken {
  const char* file;
  const char* defect;
  const char* rule;
  const char* text;
};
void PrintTo(const Broken& broken, std::ostream* out);
std::string name_of(const testing::TestParamInfo<Broken>& info);

// Defects of an instance, which an option of the plugin chooses.
class InAnInstance : public testing::TestWithParam<Broken> {
 protected:
  static void SetUpTestSuite();
};

}  // namespace mortise::conformance
