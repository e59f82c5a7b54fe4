#include "cli/plugin/passed_check.hpp"

#include "cli/plugin/case_progress.hpp"
#include "conformance/suite.hpp"
#include "error.hpp"

namespace mortise {

PublishedCheck passed_check(const std::filesystem::path& file, const std::string& name, const std::string& level,
                            nlohmann::json options) {
  using namespace conformance;
  CheckOptions check{.file = file};
  check.level = level == "full" ? Level::kFull : Level::kQuick;
  check.options = options;
  PublishedCheck result{.mortise = MORTISE_VERSION, .level = level, .options = std::move(options)};
  CaseProgress progress;
  SuiteEvents events = progress.events();
  events.on_finding = [&](const Finding& finding) {
    if (finding.result.outcome == Outcome::kPassed) ++result.passed;
    if (finding.result.outcome == Outcome::kNotApplicable) ++result.not_applicable;
    if (finding.result.outcome != Outcome::kFailed) return;
    // The first failure ends the check, because a plugin that hangs would need a minute for each case.
    fail("{}: it does not pass the case {} of `mortise plugin check`: {:.300}", name, finding.rule->name,
         finding.result.text);
  };
  run_suite(check, {}, {}, events);
  progress.erase();
  if (result.passed == 0) fail("{}: no case of `mortise plugin check` applies to it", name);
  fmt::print("check      {} passed, none failed, {} not applicable\n", result.passed, result.not_applicable);
  std::fflush(stdout);
  return result;
}

}  // namespace mortise
