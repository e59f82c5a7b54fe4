// tests/plugins/proposers/proposer_instance.hpp: an instance of the proposer that is linked into a test, and a host's
// calls to it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "loader/option_reader.hpp"
#include "mortise/ext/runner.h"
#include "mortise/ext/sequences.h"
#include "mortise/plugin.hpp"
#include "mortise/proposer.h"

namespace mortise::test {

using Tokens = std::vector<int32_t>;

class ProposerInstance {
 public:
  // `runners`: what the host offers as mortise/ext/runner.h.
  explicit ProposerInstance(const std::string& options, const mortise_runner_table* runners = nullptr) {
    host_.struct_size = sizeof host_;
    host_.now_ns = [](const mortise_host*) -> uint64_t { return 42; };
    host_.runners = runners;
    host_.get_ext = [](const mortise_host* host, const char* id) -> const void* {
      return std::string_view(id) == MORTISE_EXT_RUNNER ? static_cast<const Host*>(host)->runners : nullptr;
    };
    mortise_create_args args = sized<mortise_create_args>();
    const OptionReader reader(nlohmann::json::parse(options));
    reader.give_to(args);
    status = component().create(&host_, &args, &instance_, &error);
  }
  ~ProposerInstance() {
    if (instance_ != nullptr) component().destroy(instance_);
  }
  ProposerInstance(const ProposerInstance&) = delete;
  ProposerInstance& operator=(const ProposerInstance&) = delete;

  mortise_status bind(int32_t vocab_size) {
    dims_ = sized<mortise_model_dims>();
    dims_.vocab_size = vocab_size;
    mortise_proposer_bind_args args = sized<mortise_proposer_bind_args>();
    args.target = &dims_;
    return table().bind(self(), &args, &error);
  }
  // Tokens of one sequence from a position on; 0: its whole history.
  mortise_status observe(uint64_t id, int32_t first_position, const Tokens& tokens, std::vector<uint64_t> ended = {}) {
    const int32_t offsets[] = {0, static_cast<int32_t>(tokens.size())};
    const int32_t accepted = 0;
    mortise_observation seen = sized<mortise_observation>();
    seen.num_seqs = 1;
    seen.num_ended = static_cast<int32_t>(ended.size());
    seen.seq_ids = &id;
    seen.token_offsets = offsets;
    seen.tokens = tokens.data();
    seen.num_accepted = &accepted;
    seen.ended_ids = ended.data();
    seen.first_positions = &first_position;
    return table().observe(self(), &seen, &error);
  }
  mortise_status end(std::vector<uint64_t> ended) {
    mortise_observation seen = sized<mortise_observation>();
    seen.num_ended = static_cast<int32_t>(ended.size());
    seen.ended_ids = ended.data();
    return table().observe(self(), &seen, &error);
  }
  // Drafts of sequences at these positions, at most most[i] for each.
  std::vector<Tokens> propose(std::vector<uint64_t> ids, std::vector<int64_t> positions, std::vector<int32_t> most) {
    const int32_t width = *std::max_element(most.begin(), most.end());
    Tokens tokens(ids.size() * static_cast<std::size_t>(width), -1), counts(ids.size(), -1);
    const std::vector<uint64_t> keys(ids.size(), 7);
    const std::vector<float> temperatures(ids.size(), 0.5f), top_ps(ids.size(), 1.0f), min_ps(ids.size(), 0.0f);
    const Tokens top_ks(ids.size(), 0);
    mortise_proposal_args args = sized<mortise_proposal_args>();
    args.num_seqs = static_cast<int32_t>(ids.size());
    args.draft_stride = width;
    args.seq_ids = ids.data();
    args.keys = keys.data();
    args.temperatures = temperatures.data();
    args.top_ks = top_ks.data();
    args.top_ps = top_ps.data();
    args.min_ps = min_ps.data();
    args.max_drafts = most.data();
    args.positions = positions.data();
    args.tokens = tokens.data();
    args.num_drafts = counts.data();
    EXPECT_EQ(table().propose(self(), nullptr, &args, &error), MORTISE_OK) << error.message;
    std::vector<Tokens> drafts;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto row = tokens.begin() + static_cast<std::ptrdiff_t>(i * static_cast<std::size_t>(width));
      drafts.emplace_back(row, row + counts[i]);
    }
    return drafts;
  }
  uint64_t num_sequences() {
    const auto* sequences =
        static_cast<const mortise_sequences_table*>(component().get_ext(instance_, MORTISE_EXT_SEQUENCES));
    return sequences->num_sequences(instance_);
  }

  mortise_status status;  // of create
  mortise_error error = make_error();

 private:
  static const mortise_component& component() { return *mortise_plugin_entry_v0(nullptr)->components[0]; }
  static const mortise_proposer_table& table() {
    return *static_cast<const mortise_proposer_table*>(component().table);
  }
  mortise_proposer* self() { return static_cast<mortise_proposer*>(instance_); }

  struct Host : mortise_host {
    const mortise_runner_table* runners;
  };
  Host host_{};
  mortise_model_dims dims_{};
  void* instance_ = nullptr;
};

}  // namespace mortise::test
