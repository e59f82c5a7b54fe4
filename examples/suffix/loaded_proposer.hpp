// examples/suffix/loaded_proposer.hpp: loads a proposer from a plugin file and calls it as the host does, without an
// engine. For tests and for acceptance.cpp.
#pragma once

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "mortise/ext/sequences.h"
#include "mortise/plugin.hpp"
#include "mortise/proposer.h"

namespace suffix {

using Tokens = std::vector<int32_t>;

// Invariant: the instance has been bound, and is destroyed with this object. Not thread-safe.
class LoadedProposer {
 public:
  // Loads the first component of the file. `options`: a JSON object; options that it lacks have their defaults.
  // `now_ns`: the time of the host's clock, which stands.
  LoadedProposer(const char* file, const std::string& options, uint64_t now_ns = 0)
      : component_(first_component(file)) {
    host_.now = now_ns;
    host_.struct_size = sizeof host_;
    host_.abi_minor = MORTISE_ABI_MINOR;
    host_.name = "test";
    host_.version = "0";
    host_.log = [](const mortise_host*, int32_t, mortise_string_view text) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size), text.data);
    };
    host_.allocate = [](const mortise_host*, uint64_t bytes, uint64_t alignment) -> void* {
      return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    host_.free = [](const mortise_host*, void* memory) { std::free(memory); };
    host_.now_ns = [](const mortise_host* host) -> uint64_t { return static_cast<const Host*>(host)->now; };
    host_.get_ext = [](const mortise_host*, const char*) -> const void* { return nullptr; };
    options_ = with_defaults(options);
    const std::string json = options_.dump();
    const mortise_option_reader reader = make_reader();
    auto args = mortise::sized<mortise_create_args>();
    args.options = mortise::view(json);
    args.option_reader = &reader;
    require(component_.create(&host_, &args, &instance_, &error));
    dims_ = mortise::sized<mortise_model_dims>();
    dims_.vocab_size = INT32_MAX;
    auto bound = mortise::sized<mortise_proposer_bind_args>();
    bound.target = &dims_;
    require(table().bind(self(), &bound, &error));
  }
  ~LoadedProposer() {
    if (instance_ != nullptr) component_.destroy(instance_);
  }
  LoadedProposer(const LoadedProposer&) = delete;
  LoadedProposer& operator=(const LoadedProposer&) = delete;

  struct Step {  // of one sequence
    uint64_t id;
    int32_t first_position;  // 0: the whole history
    Tokens tokens;
    int32_t num_accepted = 0;
  };
  mortise_status observe(const std::vector<Step>& steps, const std::vector<uint64_t>& ended = {}) {
    std::vector<uint64_t> ids;
    Tokens offsets = {0}, tokens, accepted, positions;
    for (const Step& step : steps) {
      ids.push_back(step.id);
      tokens.insert(tokens.end(), step.tokens.begin(), step.tokens.end());
      offsets.push_back(static_cast<int32_t>(tokens.size()));
      accepted.push_back(step.num_accepted);
      positions.push_back(step.first_position);
    }
    auto seen = mortise::sized<mortise_observation>();
    seen.num_seqs = static_cast<int32_t>(ids.size());
    seen.num_ended = static_cast<int32_t>(ended.size());
    seen.seq_ids = ids.data();
    seen.token_offsets = offsets.data();
    seen.tokens = tokens.data();
    seen.num_accepted = accepted.data();
    seen.ended_ids = ended.data();
    seen.first_positions = positions.data();
    return timed(observe_s, [&] { return table().observe(self(), &seen, &error); });
  }

  struct Ask {  // of one sequence
    uint64_t id;
    int64_t position;  // of the first draft
    int32_t max_drafts;
  };
  std::vector<Tokens> propose(const std::vector<Ask>& asks) {
    const std::size_t n = asks.size();
    std::vector<uint64_t> ids, keys(n, 7);
    std::vector<int64_t> positions;
    Tokens most, top_ks(n, 0), counts(n, 0);
    for (const Ask& ask : asks) {
      ids.push_back(ask.id);
      positions.push_back(ask.position);
      most.push_back(ask.max_drafts);
    }
    const int32_t stride = most.empty() ? 0 : *std::max_element(most.begin(), most.end());
    Tokens tokens(n * static_cast<std::size_t>(stride), -1);
    const std::vector<float> temperatures(n, 0.0f), top_ps(n, 1.0f), min_ps(n, 0.0f);
    const auto step = mortise::sized<mortise_step>();
    auto args = mortise::sized<mortise_proposal_args>();
    args.num_seqs = static_cast<int32_t>(n);
    args.draft_stride = stride;
    args.seq_ids = ids.data();
    args.max_drafts = most.data();
    args.keys = keys.data();
    args.temperatures = temperatures.data();
    args.positions = positions.data();
    args.tokens = tokens.data();
    args.num_drafts = counts.data();
    args.top_ks = top_ks.data();
    args.top_ps = top_ps.data();
    args.min_ps = min_ps.data();
    require(timed(propose_s, [&] { return table().propose(self(), &step, &args, &error); }));
    std::vector<Tokens> drafts;
    for (std::size_t i = 0; i < n; ++i) {
      if (counts[i] < 0 || counts[i] > most[i]) throw std::runtime_error("more drafts than were asked for");
      const auto row = tokens.begin() + static_cast<std::ptrdiff_t>(i * static_cast<std::size_t>(stride));
      drafts.emplace_back(row, row + counts[i]);
    }
    return drafts;
  }

  uint64_t num_sequences() const {
    const auto* sequences =
        static_cast<const mortise_sequences_table*>(component_.get_ext(instance_, MORTISE_EXT_SEQUENCES));
    return sequences->num_sequences(instance_);
  }

  mortise_error error = mortise::make_error();
  double observe_s = 0, propose_s = 0;  // processor time of the calls

 private:
  static const mortise_component& first_component(const char* file) {
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    using Entry = const mortise_module* (*)(const mortise_entry_args*);
    const auto entry = reinterpret_cast<Entry>(dlsym(library, MORTISE_PLUGIN_ENTRY_NAME));
    if (entry == nullptr) throw std::runtime_error(dlerror());
    auto args = mortise::sized<mortise_entry_args>();
    args.abi_minor = MORTISE_ABI_MINOR;
    args.oldest_abi_minor = MORTISE_ABI_OLDEST_MINOR;
    args.host_name = "test";
    args.host_version = "0";
    const mortise_module& module = *entry(&args);
    if (module.abi_minor < MORTISE_ABI_OLDEST_MINOR || module.abi_minor > MORTISE_ABI_MINOR) {
      throw std::runtime_error(std::string(file) + ": not a plugin of this version of the headers");
    }
    return *module.components[0];
  }
  nlohmann::json with_defaults(const std::string& options) const {
    auto json = nlohmann::json::parse(options);
    const auto schema = nlohmann::json::parse(component_.options_schema);
    for (const auto& [name, property] : schema.at("properties").items()) {
      if (!json.contains(name) && property.contains("default")) json[name] = property.at("default");
    }
    return json;
  }
  // Reads numbers of options_. No proposer of this example has options of other types.
  mortise_option_reader make_reader() {
    auto reader = mortise::sized<mortise_option_reader>();
    reader.context = this;
    reader.get_int = [](void* self, const char* name, int64_t* value) {
      return static_cast<LoadedProposer*>(self)->read(name, value);
    };
    reader.get_float = [](void* self, const char* name, double* value) {
      return static_cast<LoadedProposer*>(self)->read(name, value);
    };
    return reader;
  }
  template <typename T>
  mortise_status read(const char* name, T* value) const {
    if (!options_.contains(name)) return MORTISE_NOT_FOUND;
    if (!options_.at(name).is_number()) return MORTISE_INVALID_ARGUMENT;
    *value = options_.at(name).get<T>();
    return MORTISE_OK;
  }
  void require(mortise_status status) const {
    if (status != MORTISE_OK) throw std::runtime_error(std::string(error.where) + ": " + error.message);
  }
  template <typename Call>
  static mortise_status timed(double& seconds, const Call& call) {
    const double begin = thread_seconds();
    const mortise_status status = call();
    seconds += thread_seconds() - begin;
    return status;
  }
  static double thread_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  const mortise_proposer_table& table() const { return *static_cast<const mortise_proposer_table*>(component_.table); }
  mortise_proposer* self() { return static_cast<mortise_proposer*>(instance_); }

  const mortise_component& component_;
  nlohmann::json options_;
  struct Host : mortise_host {
    uint64_t now;
  };
  Host host_{};
  mortise_model_dims dims_{};
  void* instance_ = nullptr;
};

}  // namespace suffix
