#include "swaps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "error.hpp"
#include "loader/catalog.hpp"
#include "pipeline/part_change.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

// The file of the part, built again as a compiler would: other bytes that do the same, under one name.
std::string build_again(const Component& component, const TempFolder& folder) {
  static int count = 0;
  std::ifstream in(component.file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::filesystem::path file = folder.path() / (component.name + ".so");
  std::filesystem::remove(file);
  std::ofstream(file, std::ios::binary) << bytes << "build " << ++count;
  return file.string();
}

PartChange draw_change(const PipelineDescription& now, const std::string& device, std::mt19937& random) {
  constexpr int kBlockSizes[] = {16, 32, 64}, kBudgets[] = {17, 64, 300, 2048};
  const bool coupled = now.speculation.verify == Verify::kCoupled;
  switch (between(random, 0, device == "cpu" ? 6 : 4)) {
    case 0:
      return {"scheduler",
              random() % 2 == 0 ? "fcfs" : "prefix_group",
              {{"max_num_seqs", between(random, 1, 12)}, {"max_batched_tokens", kBudgets[random() % 4]}}};
    case 1:  // the same sizes: the engine goes on with all that it has
      return {"scheduler",
              random() % 2 == 0 ? "fcfs" : "prefix_group",
              {{"max_num_seqs", now.max_num_seqs}, {"max_batched_tokens", now.max_batched_tokens}}};
    case 2:
      return {"attention",
              random() % 2 == 0 || device == "remote" ? "paged" : "cascade",
              {{"block_size", random() % 2 == 0 ? now.block_size : kBlockSizes[random() % 3]}}};
    case 3:
      if (!coupled || random() % 3 == 0) return {"proposer", "none"};
      return {"proposer", "ngram", {{"min_match", 1}, {"max_match", 3}, {"max_tokens", between(random, 1, 8)}}};
    case 4: {
      constexpr const char* kDtypes[] = {"auto", "bf16", "f32", "int8", "fp8"};
      const double factor = between(random, 70, 250) / 100.0;
      const auto bytes = static_cast<std::uint64_t>(static_cast<double>(now.kv_cache.memory_bytes) * factor);
      return {"kv_cache",
              "",
              {{"memory", std::min(bytes, std::uint64_t{1} << 30)},
               {"dtype", kDtypes[static_cast<int>(now.kv_cache.dtype)]},
               {"prefix_cache", random() % 4 != 0}}};
    }
    case 5:
      return {"speculation",
              "",
              {{"verify", coupled ? "coupled" : "rejection"},
               {"lengths", coupled && random() % 2 == 0 ? "adaptive" : "fixed"},
               {"batch_expansion", random() % 2 == 0}}};
    default: {  // every weight is prepared again, perhaps for another number of ranks
      const nlohmann::json& options = now.device.choices.front().options;
      const int shards = options.value("shards", 1);
      return {"device",
              "cpu",
              {{"threads", between(random, 1, 3)},
               {"numerics", options.value("numerics", "auto")},
               {"shards", random() % 2 == 0 ? shards : 1}}};
    }
  }
}

}  // namespace

SwapCounts swap_at_random(Assembly& assembly, Engine& engine, const std::string& device, int count,
                          std::mt19937& random, std::uint64_t num_steps) {
  while (engine.stats().num_steps <= num_steps) std::this_thread::yield();  // requests run by then
  static const TempFolder folder;  // what runs may be built again later, from the file that it came from
  SwapCounts counts;
  for (int i = 0; i < count; ++i) {
    const PipelineDescription now = assembly.description();
    const PluginCatalog catalog(now.plugin_folders);
    PartChange change = draw_change(now, device, random);
    if (random() % 4 == 0) {  // the part that runs, built again
      constexpr const char* kKeys[] = {"model", "attention", "scheduler"};
      // The remote device's file has two attentions, so that it would not say which one is meant.
      const auto kind = device == "remote" ? 2 * (random() % 2) : random() % 3;
      const PartDescription& part = kind == 0 ? now.model : kind == 1 ? now.attention : now.scheduler;
      const std::vector<const Component*> running = assembly.components();
      change = {kKeys[kind], build_again(*running[kind == 2 ? 3 : kind + 1], folder), part.choices.front().options};
    }
    SwapOptions options;
    const int steps = random() % 3 == 0 ? between(random, 1, 8) : 0;
    // Until the first swap the engine may run test doubles beside instances of the assembly, and a candidate that
    // shares these would be told of each sequence twice.
    if (counts.made > 0) options.verify_steps = steps;
    try {
      const SwapFigures figures = assembly.swap(engine, with_change(now, change, catalog, folder.path()), options);
      ++counts.made;
      if (figures.verified_steps > 0) ++counts.verified;
      counts.recomputed += static_cast<int>(figures.num_recomputed);
    } catch (const Error& error) {
      const bool differs = dynamic_cast<const DifferenceError*>(&error) != nullptr;  // and none of these parts may
      // Draws that make the cache smaller again and again come to one that is less than a larger block.
      const bool holds_none = std::string_view(error.what()).find("holds no block of") != std::string_view::npos;
      if ((error.code() != ErrorCode::kConflict && !holds_none) || differs) {
        throw std::runtime_error(
            fmt::format("swap of {} {} {}: {}", change.key, change.plugin, change.options.dump(), error.what()));
      }
      ++counts.refused;
    }
    if (random() % 5 != 0) continue;
    try {
      assembly.swap(engine, with_change(assembly.description(), {"proposer", "oracle", {{"log", "/nowhere"}}}, catalog,
                                        folder.path()));
      throw std::runtime_error("a proposer without its log was opened");
    } catch (const Error&) {  // as it should be; nothing has changed
    }
  }
  return counts;
}

}  // namespace mortise::test
