#include "broken_plugins.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

#include "variables.hpp"

namespace mortise::conformance {

using testing::HasSubstr;

std::string text_of(const std::vector<Finding>& findings, Outcome outcome) {
  std::string text;
  for (const Finding& finding : findings) {
    if (finding.result.outcome != outcome) continue;
    text += fmt::format("{}: {} {}\n", finding.reproduce_line(), finding.result.text, finding.result.output);
  }
  return text;
}

std::vector<Finding> run(const std::string& file, const nlohmann::json& options, std::vector<std::string> cases,
                         std::chrono::seconds time, const std::string& component) {
  CheckOptions check;
  check.file = std::filesystem::path(BROKEN_PLUGIN_DIR) / (file + ".so");
  check.options = options;
  Selection selection;
  selection.cases = std::move(cases);
  selection.component = component;
  return run_suite(check, selection, {time, std::uint64_t{1} << 30}, {});
}

void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.file << " " << broken.defect;
}

std::string name_of(const testing::TestParamInfo<Broken>& info) {
  return std::string(info.param.file) + "_" + info.param.defect;
}

// Cases of attentions and models need a device.
void InAnInstance::SetUpTestSuite() {
  test::set_variable("MORTISE_PLUGIN_PATH", MORTISE_BINARY_DIR);
}

TEST_P(InAnInstance, IsFoundByItsCase) {
  const Broken& broken = GetParam();
  const bool hangs = std::string_view(broken.defect) == "hangs";
  nlohmann::json options = {{"defect", broken.defect}};
  if (std::string_view(broken.file) == "broken_model") options["path"] = TINY_CHECKPOINT;
  const auto findings = run(broken.file, options, {broken.rule}, std::chrono::seconds(hangs ? 2 : 60), broken.file);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].result.outcome, Outcome::kFailed);
  EXPECT_THAT(findings[0].result.text, HasSubstr(broken.text));
  // The same case passes where nothing is broken.
  const auto sound = run(broken.file, {{"defect", "none"}}, {broken.rule});
  EXPECT_EQ(text_of(sound, Outcome::kFailed), "");
}

}  // namespace mortise::conformance
