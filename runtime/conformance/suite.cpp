#include "conformance/suite.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "conformance/held_signals.hpp"
#include "environment.hpp"
#include "loader/module_manifest.hpp"
#include "loader/nearest.hpp"
#include "loader/plugin_file.hpp"

namespace mortise::conformance {
namespace {

using Clock = std::chrono::steady_clock;

bool is_selected(const Case& rule, const std::vector<std::string>& names) {
  const std::string_view name = rule.name;
  return names.empty() || std::ranges::any_of(names, [&](const std::string& wanted) {
           return name == wanted || (wanted.ends_with('.') && name.starts_with(wanted));
         });
}

// Returns the cases of these kinds that the level and the names select, in their order.
std::vector<const Case*> cases_of(std::uint32_t kinds, Level level, const std::vector<std::string>& names) {
  std::vector<const Case*> cases;
  for (const Case& rule : all_cases()) {
    if ((rule.kinds & kinds) != 0 && rule.level <= level && is_selected(rule, names)) cases.push_back(&rule);
  }
  return cases;
}

// Returns the kinds of the components that the file's manifest names, without running its code; empty if it has none.
// The cases of the file say what is wrong with a file that cannot be read.
std::vector<PartKind> kinds_in_manifest(const std::filesystem::path& file) {
  std::vector<PartKind> kinds;
  const auto manifest = manifest_if_readable(file);
  if (!manifest) return kinds;
  for (const ComponentManifest& component : manifest->components) {
    const auto kind = static_cast<PartKind>(component.kind);
    if (std::ranges::find(kAllKinds, kind) != std::end(kAllKinds)) kinds.push_back(kind);
  }
  return kinds;
}

bool has_failed(const Finding& finding) {
  return finding.result.outcome == Outcome::kFailed;
}

void check_names(const std::vector<std::string>& names) {
  for (const std::string& wanted : names) {
    const auto matches = [&](const Case& rule) { return is_selected(rule, {wanted}); };
    if (!std::ranges::any_of(all_cases(), matches)) fail("there is no case '{}'; --list shows all", wanted);
  }
}

Finding run_once(const Case& rule, const CheckOptions& check, const Described* component, const RunLimits& limits) {
  Finding finding{&rule, {}, {}, check.seed, {}};
  if (component != nullptr) {
    finding.component = component->name;
    finding.kind = component->kind;
  }
  finding.result = run_case(rule, check, component == nullptr ? "" : component->label, limits);
  return finding;
}

// The folder where children write private copies of the file. A child that dies while it loads a copy leaves it there
// until the destructor. Invariant: while this lives, TMPDIR is the folder. REQUIRES: this process has one thread.
class ScratchFolder {
 public:
  ScratchFolder() : before_(environment::read("TMPDIR")) {
    std::string name = environment::temporary_folder() + "/mortise-check-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) fail("{}: {}; TMPDIR can name another folder", name, std::strerror(errno));
    path_ = name;
    ::setenv("TMPDIR", name.c_str(), 1);
  }
  ~ScratchFolder() {
    if (before_) {
      ::setenv("TMPDIR", before_->c_str(), 1);
    } else {
      ::unsetenv("TMPDIR");
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

 private:
  const std::optional<std::string> before_;
  std::filesystem::path path_;
};

}  // namespace

std::span<const Case> all_cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> cases;
    for (const auto some : {file_cases(), module_cases(), option_cases(), life_cases(), behaviour_cases(),
                            scheduler_cases(), proposer_cases(), runner_cases(), attention_output_cases(),
                            attention_cases(), model_load_cases(), model_cases(), device_cases(), device_linear_cases(),
                            device_row_cases(), device_logit_cases(), device_state_cases(), device_rank_cases()}) {
      cases.insert(cases.end(), some.begin(), some.end());
    }
    return cases;
  }();
  return all;
}

std::string Finding::reproduce_line() const {
  return fmt::format("{}/{}/{}", component.empty() ? "-" : component, rule->name, seed);
}

std::vector<Finding> run_suite(const CheckOptions& check, const Selection& selection, const RunLimits& limits,
                               const SuiteEvents& events) {
  check_names(selection.cases);
  const HeldSignals held;  // until the running case has ended and the folder is removed
  const ScratchFolder scratch;
  std::vector<Finding> findings;
  const auto add = [&](Finding finding) {
    events.on_finding(finding);
    findings.push_back(std::move(finding));
  };
  const auto wanted = [&](std::uint32_t kinds) { return cases_of(kinds, check.level, selection.cases); };
  std::size_t number = 0, total = 0;
  const auto run_all = [&](const std::vector<const Case*>& rules, const Described* component) {
    for (const Case* rule : rules) {
      events.on_start({rule, ++number, total});
      add(run_once(*rule, check, component, limits));
    }
  };
  if (selection.component.empty() || selection.component == "-") {
    const std::vector<const Case*> of_file = wanted(kOfFile);
    total = of_file.size();
    if (selection.component.empty()) {
      for (const PartKind kind : kinds_in_manifest(check.file)) total += wanted(of_kind(kind)).size();
    }
    run_all(of_file, nullptr);
  }
  if (selection.component == "-") return findings;
  // A file that breaks the rules of files may not load. Then the report consists of its findings so far.
  if (std::ranges::any_of(findings, has_failed)) return findings;
  std::vector<Described> components = describe_file(check, limits);
  if (!selection.component.empty()) {
    std::erase_if(components, [&](const Described& one) { return one.name != selection.component; });
    if (components.empty()) fail("{} has no component '{}'", check.file.string(), selection.component);
  }
  total = number;
  for (const Described& component : components) total += wanted(of_kind(component.kind)).size();
  std::vector<std::pair<const Case*, const Described*>> drawn;
  for (const Described& component : components) {
    const std::size_t first = findings.size();
    run_all(wanted(of_kind(component.kind)), &component);
    for (std::size_t i = first; i < findings.size(); ++i) {
      const Finding& finding = findings[i];
      if (finding.rule->is_drawn && finding.result.outcome == Outcome::kPassed)
        drawn.emplace_back(finding.rule, &component);
    }
  }
  if (check.level != Level::kFuzz) return findings;
  const auto end = Clock::now() + std::chrono::minutes(selection.fuzz_minutes);
  CheckOptions next = check;
  while (!drawn.empty() && Clock::now() < end) {
    ++next.seed;
    std::erase_if(drawn, [&](const auto& one) {
      events.on_start({one.first, ++number, 0});
      Finding finding = run_once(*one.first, next, one.second, limits);
      if (!has_failed(finding)) return false;
      add(std::move(finding));
      return true;  // one failure of a case is enough
    });
  }
  return findings;
}

void apply_reproduce_line(const std::string& line, CheckOptions& check, Selection& selection) {
  const std::size_t first = line.find('/'), last = line.rfind('/');
  std::uint64_t seed = 0;
  const char* const end = line.data() + line.size();
  const bool has_parts = first != std::string::npos && first != last && last + 1 < line.size();
  if (!has_parts || std::from_chars(line.data() + last + 1, end, seed).ptr != end) {
    fail("'{}' is not a line of a report; one looks like my_policy/scheduler.valid_plans/1", line);
  }
  selection.component = line.substr(0, first);
  selection.cases = {line.substr(first + 1, last - first - 1)};
  check.seed = seed;
  check.level = std::max(check.level, Level::kFull);
}

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kNotApplicable:
      return "not applicable";
  }
  return "";
}

nlohmann::json report(const CheckOptions& check, const std::vector<Finding>& findings) {
  auto cases = nlohmann::json::array();
  for (const Finding& finding : findings) {
    cases.push_back({{"component", finding.component},
                     {"kind", finding.component.empty() ? "file" : kind_name(finding.kind)},
                     {"case", finding.rule->name},
                     {"sentence", finding.rule->sentence},
                     {"outcome", outcome_name(finding.result.outcome)},
                     {"text", finding.result.text},
                     {"output", finding.result.output},
                     {"seconds", finding.result.seconds},
                     {"reproduce", finding.reproduce_line()}});
  }
  const bool has_passed = std::ranges::none_of(findings, has_failed);
  return {{"file", check.file.string()}, {"passed", has_passed}, {"cases", std::move(cases)}};
}

}  // namespace mortise::conformance
