// A pipeline script, with the toy plugins of the loader's tests (toy_device, toy_model, toy_attention, toy_scheduler,
// toy_proposer), and its callbacks. The limits are small, so that a script which meets them does not take seconds.
// Lua's pattern functions are taken away: no limit interrupts them while a script loads, and they are not ours to test.
#include "error.hpp"
#include "fuzz_input.hpp"
#include "pipeline/pipeline_script.hpp"

namespace {

using mortise::PipelineScript;
using mortise::fuzz::require;

const mortise::ScriptLimits kLimits{.memory_bytes = std::size_t{8} << 20,
                                    .load = {2'000'000, std::chrono::milliseconds(500)},
                                    .callback = {200'000, std::chrono::milliseconds(200)}};

constexpr std::string_view kNoPatterns = "string.find, string.match, string.gmatch, string.gsub = nil ";

template <typename Call>
void expect_value_or_error(Call&& call) {
  try {
    call();
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mortise::fuzz::ScratchFolder folder;
  static const mortise::PluginCatalog catalog({std::filesystem::path(TEST_PLUGIN_DIR)});
  static const nlohmann::json messages = {{{"role", "system"}, {"content", "x"}}, {{"role", "user"}, {"content", "y"}}};
  static const nlohmann::json body = {{"prompt", {1, 2, 3}}, {"user", "vip"}, {"temperature", 0.5}, {"stop", nullptr}};
  expect_value_or_error([&] {
    const std::string text = std::string(kNoPatterns).append(mortise::fuzz::text_of(data, size));
    PipelineScript script = PipelineScript::from_text(text, "fuzz.lua", folder.path(), catalog, kLimits);
    require(!script.pipelines().empty());
    for (const mortise::PipelineDescription& pipeline : script.pipelines()) {
      require(pipeline.block_size > 0 && pipeline.max_num_seqs > 0 && pipeline.max_batched_tokens > 0);
      require(pipeline.kv_cache.memory_bytes > 0);
    }
    expect_value_or_error([&] { script.chat_template(messages); });
    expect_value_or_error([&] { script.on_request(body); });
  });
  return 0;
}
