// Each defect that is built into a file is caught by the case that should catch it.
// Covers: runtime/conformance/module_cases
#include <gmock/gmock.h>

#include "broken_plugins.hpp"

namespace mortise::conformance {
namespace {

using testing::HasSubstr;

class InTheFile : public testing::TestWithParam<Broken> {};

TEST_P(InTheFile, IsFoundByItsCase) {
  const auto findings = run(std::string("broken_") + GetParam().defect, nlohmann::json::object(), {GetParam().rule});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].result.outcome, Outcome::kFailed);
  EXPECT_THAT(findings[0].result.text, HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    File, InTheFile,
    testing::Values(Broken{"", "talks_at_loading", "load.quiet", "writes to standard output"},
                    Broken{"", "changes_environment", "load.quiet", "loading changes the environment"},
                    Broken{"", "thread_at_loading", "load.quiet", "loading changes the number of threads"},
                    Broken{"", "crashes_at_loading", "file.loads", "crashes with ABRT"},
                    Broken{"", "entry_changes", "entry.hosts", "another address at its second call"},
                    Broken{"", "refuses_newer_hosts", "entry.hosts", "the entry refuses a host of minor"},
                    Broken{"", "knows_every_extension", "extensions.unknown", "is not NULL"},
                    Broken{"", "supports_changes", "supports.pure", "different answers to the same query"},
                    Broken{"", "supports_is_silent", "supports.reason", "without a message"},
                    Broken{"", "ignores_struct_size", "life.older_host", "crashes with SEGV"},
                    Broken{"", "wrong_capability", "metadata.capabilities", "cascade"},
                    Broken{"", "two_line_summary", "metadata.texts", "not one line"},
                    Broken{"", "has_numerics", "metadata.numerics", "for this kind it must be NULL"},
                    Broken{"", "open_schema", "options.schema", "additionalProperties"}),
    [](const auto& info) { return std::string(info.param.defect); });

}  // namespace
}  // namespace mortise::conformance
