#include "cli/plugin/passed_check.hpp"

#include "conformance/suite.hpp"
#include "error.hpp"

namespace mortise {

PublishedCheck passed_check(const std::filesystem::path& file, const std::string& level, nlohmann::json options) {
  using namespace conformance;
  CheckOptions check{.file = file};
  check.level = level == "full" ? Level::kFull : Level::kQuick;
  check.options = options;
  PublishedCheck result{.mortise = MORTISE_VERSION, .level = level, .options = std::move(options)};
  std::string failures;
  std::size_t num_failed = 0;
  run_suite(check, {}, {}, [&](const Finding& finding) {
    if (finding.result.outcome == Outcome::kPassed) ++result.passed;
    if (finding.result.outcome == Outcome::kNotApplicable) ++result.not_applicable;
    if (finding.result.outcome != Outcome::kFailed || ++num_failed > 3) return;
    failures += fmt::format("{}{}: {:.300}", failures.empty() ? "" : "; ", finding.rule->name, finding.result.text);
  });
  if (num_failed > 0) {
    fail("{}: {} cases of `mortise plugin check` fail: {}{}", file.string(), num_failed, failures,
         num_failed > 3 ? "; ..." : "");
  }
  if (result.passed == 0) fail("{}: no case of `mortise plugin check` applies to it", file.string());
  fmt::print("check      {} passed, none failed, {} not applicable\n", result.passed, result.not_applicable);
  std::fflush(stdout);
  return result;
}

}  // namespace mortise
