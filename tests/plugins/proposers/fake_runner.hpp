// tests/plugins/proposers/fake_runner.hpp: a host's runner service without a model: it keeps the tokens that it is
// told, counts what a model would run, and draws what the test says. Rows are counted as runtime/runner has them: what
// has been run stays as far as the tokens stay equal, and a step runs the rest.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mortise/ext/runner.h"
#include "mortise/plugin.hpp"

namespace mortise::test {

class FakeRunner {
 public:
  using Tokens = std::vector<int32_t>;
  struct Sequence {
    Tokens tokens;
    std::size_t num_run = 0, num_drafts = 0;  // the last num_drafts of the tokens
  };

  FakeRunner() {
    table_.struct_size = sizeof(mortise_runner_table);
    table_.owner = this;
    table_.open = [](const mortise_runner_table* runners, const mortise_runner_open_args* args, mortise_runner** runner,
                     mortise_error* error) {
      FakeRunner& self = *static_cast<const Table*>(runners)->owner;
      self.path = view(args->path);
      self.options = view(args->options);
      *runner = self.refusal.empty() ? reinterpret_cast<mortise_runner*>(&self) : nullptr;
      return self.refusal.empty() ? MORTISE_OK : set_error(error, MORTISE_FAILED_PRECONDITION, "runner", self.refusal);
    };
    table_.close = [](mortise_runner* runner) { ++self_of(runner).num_closed; };
    table_.update = [](mortise_runner* runner, const mortise_runner_tokens* tokens, mortise_error* error) {
      return guard(error, "update", [&] { self_of(runner).update(*tokens); });
    };
    table_.step = [](mortise_runner* runner, const mortise_runner_step* step, mortise_error* error) {
      return guard(error, "step", [&] { self_of(runner).step(*step); });
    };
    table_.end = [](mortise_runner* runner, const uint64_t* seq_ids, int32_t num_seqs) {
      for (int32_t i = 0; i < num_seqs; ++i) self_of(runner).sequences.erase(seq_ids[i]);
    };
  }
  FakeRunner(const FakeRunner&) = delete;
  FakeRunner& operator=(const FakeRunner&) = delete;

  const mortise_runner_table* table() const { return &table_; }

  // What it draws for a sequence; -1: it cannot.
  std::function<int32_t(uint64_t id, const Sequence&)> draw = [](uint64_t, const Sequence&) { return 0; };
  std::string refusal;  // of open
  bool fails_update = false;
  std::string path, options;  // that it was opened with
  int num_closed = 0;
  std::map<uint64_t, Sequence> sequences;
  // By step: the tokens that each sequence ran, and the temperatures that it was asked with.
  std::vector<std::map<uint64_t, Tokens>> rows;
  std::vector<std::vector<float>> temperatures;

 private:
  struct Table : mortise_runner_table {
    FakeRunner* owner;
  };
  static FakeRunner& self_of(mortise_runner* runner) { return *reinterpret_cast<FakeRunner*>(runner); }

  void update(const mortise_runner_tokens& args) {
    if (fails_update) throw Failure(MORTISE_INTERNAL, "update", "out of sorts");
    for (int32_t i = 0; i < args.num_seqs; ++i) {
      Sequence& sequence = sequences[args.seq_ids[i]];
      const auto begin = static_cast<std::size_t>(args.begins[i]);
      ASSERT_LE(begin, sequence.tokens.size()) << "sequence " << args.seq_ids[i];
      Tokens now(sequence.tokens.begin(), sequence.tokens.begin() + args.begins[i]);
      now.insert(now.end(), args.tokens + args.offsets[i], args.tokens + args.offsets[i + 1]);
      const auto equal = std::mismatch(now.begin(), now.end(), sequence.tokens.begin(), sequence.tokens.end()).first;
      sequence.num_run = std::min(sequence.num_run, static_cast<std::size_t>(equal - now.begin()));
      const std::size_t num_committed = sequence.tokens.size() - sequence.num_drafts;
      const bool drafts = (args.flags & MORTISE_RUNNER_DRAFTS) != 0;
      sequence.num_drafts = drafts ? now.size() - std::min(num_committed, begin) : 0;
      sequence.tokens = std::move(now);
    }
  }

  void step(const mortise_runner_step& args) {
    auto& run = rows.emplace_back();
    temperatures.emplace_back(args.temperatures, args.temperatures + args.num_seqs);
    for (int32_t i = 0; i < args.num_seqs; ++i) {
      const auto known = sequences.find(args.seq_ids[i]);
      ASSERT_TRUE(known != sequences.end() && !known->second.tokens.empty()) << "sequence " << args.seq_ids[i];
      Sequence& sequence = known->second;
      const int32_t drawn = args.sampled[i] = draw(args.seq_ids[i], sequence);
      if (drawn < 0) continue;
      const std::size_t from = std::min(sequence.num_run, sequence.tokens.size() - 1);
      run[args.seq_ids[i]] = Tokens(sequence.tokens.begin() + static_cast<std::ptrdiff_t>(from), sequence.tokens.end());
      sequence.num_run = sequence.tokens.size();
      sequence.tokens.push_back(drawn);
      ++sequence.num_drafts;
    }
  }

  Table table_{};
};

}  // namespace mortise::test
