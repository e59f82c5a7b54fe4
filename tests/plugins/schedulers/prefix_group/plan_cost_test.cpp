// What a plan costs with 10,000 requests waiting, and what stays in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "loader/option_reader.hpp"
#include "mortise/plugin.hpp"
#include "schedulers/prefix_group/scheduler.hpp"

namespace mortise::prefix_group {
namespace {

constexpr int32_t kRequests = 10000, kPlaces = 64;

using Tokens = std::vector<int32_t>;

mortise_create_args create_args() {
  static const OptionReader options({{"max_num_seqs", 64}, {"max_batched_tokens", 2048}});
  auto args = sized<mortise_create_args>();
  options.give_to(args);
  return args;
}

// A host of the crudest kind: whoever is scheduled has run and ended by the next step.
class Host {
 public:
  explicit Host(const std::vector<Tokens>& prompts) : scheduler_(nullptr, Options(create_args())) {
    std::vector<int32_t> kinds(prompts.size(), MORTISE_EVENT_ADDED), lengths, new_tokens(prompts.size(), 32),
        priorities(prompts.size(), 0);
    std::vector<uint64_t> groups(prompts.size(), 0);
    std::vector<const int32_t*> tokens;
    for (const Tokens& prompt : prompts) {
      ids_.push_back(ids_.size() + 1);
      lengths.push_back(static_cast<int32_t>(prompt.size()));
      tokens.push_back(prompt.data());
    }
    auto events = sized<mortise_schedule_events>();
    events.num_events = static_cast<int32_t>(ids_.size());
    events.kinds = kinds.data();
    events.seq_ids = ids_.data();
    events.num_tokens = lengths.data();
    events.tokens = tokens.data();
    events.max_new_tokens = new_tokens.data();
    events.priorities = priorities.data();
    events.groups = groups.data();
    scheduler_.events(events);
    lengths_ = std::move(lengths);
  }

  // Seconds of the plan alone.
  double step() {
    const std::size_t n = ids_.size();
    const std::vector<int32_t> zeros(n, 0);
    const std::vector<uint64_t> groups(n, 0);
    auto view = sized<mortise_schedule_view>();
    view.num_seqs = static_cast<int32_t>(n);
    view.block_size = 16;
    view.token_budget = 2048;
    view.seq_budget = kPlaces;
    view.num_free_blocks = view.num_blocks = 100000;
    view.seq_ids = view.arrivals = ids_.data();
    view.num_tokens = lengths_.data();
    view.states = view.num_computed = view.num_cached = view.num_cached_free_blocks = view.blocks_held =
        view.blocks_freed_if_preempted = view.lookahead = view.priorities = zeros.data();
    view.groups = groups.data();
    std::vector<int32_t> indices(n);
    std::iota(indices.begin(), indices.end(), 0);
    view.cached_free_with = indices.data();
    view.cached_free_shared = zeros.data();
    std::vector<int32_t> seqs(n), tokens(n), preempted(n), pins(n), pin_tokens(n), drafts(n);
    auto plan = sized<mortise_schedule_plan>();
    plan.seqs = seqs.data();
    plan.num_new_tokens = tokens.data();
    plan.preempted = preempted.data();
    plan.pins = pins.data();
    plan.pin_tokens = pin_tokens.data();
    plan.max_drafts = drafts.data();
    const auto start = std::chrono::steady_clock::now();
    scheduler_.plan(view, plan);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_GT(plan.num_scheduled, 0);
    std::vector<int32_t> gone(seqs.begin(), seqs.begin() + plan.num_scheduled);
    std::sort(gone.rbegin(), gone.rend());
    for (const int32_t i : gone) end(static_cast<std::size_t>(i));
    return seconds;
  }
  void end_all() {
    while (!ids_.empty()) end(ids_.size() - 1);
  }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  void end(std::size_t i) {
    const int32_t kind = MORTISE_EVENT_ENDED, none = 0;
    auto events = sized<mortise_schedule_events>();
    events.num_events = 1;
    events.kinds = &kind;
    events.seq_ids = &ids_[i];
    events.num_tokens = &none;
    scheduler_.events(events);
    ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(i));
    lengths_.erase(lengths_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  Scheduler scheduler_;
  std::vector<uint64_t> ids_;
  std::vector<int32_t> lengths_;
};

Tokens draw(std::mt19937& random, std::size_t count) {
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 32000);
  return tokens;
}

std::vector<Tokens> in_groups(int32_t members, std::size_t shared) {
  std::mt19937 random(1);
  std::vector<Tokens> prompts;
  for (int32_t i = 0; i < kRequests; ++i) {
    if (i % members == 0)
      prompts.push_back(draw(random, shared + 64));
    else {
      prompts.push_back(prompts[static_cast<std::size_t>(i - i % members)]);
      const Tokens own = draw(random, 64);
      std::copy(own.begin(), own.end(), prompts.back().end() - 64);
    }
  }
  std::shuffle(prompts.begin(), prompts.end(), random);
  return prompts;
}

// Each is the beginning of the next: a tree as deep as it can be.
std::vector<Tokens> in_a_chain() {
  std::mt19937 random(1);
  const Tokens longest = draw(random, 2048);
  std::vector<Tokens> prompts;
  for (int32_t i = 0; i < kRequests; ++i) {
    prompts.emplace_back(longest.begin(), longest.begin() + 1 + i % 2048);
  }
  return prompts;
}

struct Case {
  const char* name;
  std::vector<Tokens> (*prompts)();
};

class PlanCost : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Queues, PlanCost,
                         ::testing::Values(Case{"Alone", [] { return in_groups(1, 0); }},
                                           Case{"GroupsOf16", [] { return in_groups(16, 512); }},
                                           Case{"GroupsOf1000", [] { return in_groups(1000, 512); }},
                                           Case{"OneBlockOfAll", [] { return in_groups(kRequests, 16); }},
                                           Case{"Chain", in_a_chain}),
                         [](const auto& info) { return info.param.name; });

TEST_P(PlanCost, StaysSmallWithTenThousandWaiting) {
  const std::vector<Tokens> prompts = GetParam().prompts();
  const auto start = std::chrono::steady_clock::now();
  Host host(prompts);
  const double adding = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<double> seconds;
  for (int i = 0; i < 25; ++i) seconds.push_back(host.step());
  std::sort(seconds.begin(), seconds.end());
  RecordProperty("median_us", std::to_string(seconds[12] * 1e6));
  RecordProperty("most_us", std::to_string(seconds.back() * 1e6));
  RecordProperty("adding_us_each", std::to_string(adding / kRequests * 1e6));
  std::printf("plan: median %.0f us, most %.0f us; adding %.1f us each\n", seconds[12] * 1e6, seconds.back() * 1e6,
              adding / kRequests * 1e6);
  EXPECT_LT(seconds[12], 0.02);  // a hundred times the usual time, for slow machines; quadratic cost would exceed it
  host.end_all();
  EXPECT_EQ(host.scheduler().num_sequences(), 0u);
  EXPECT_EQ(host.scheduler().backlog().num_nodes(), 0u);
}

}  // namespace
}  // namespace mortise::prefix_group
