#include "simulated_engine.hpp"

#include <algorithm>
#include <stdexcept>

#include "mortise/plugin.hpp"

namespace mortise::test {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

int32_t blocks_for(int64_t tokens, int32_t block_size) {
  return static_cast<int32_t>((tokens + block_size - 1) / block_size);
}

struct Plan {
  mortise_schedule_plan abi = sized<mortise_schedule_plan>();
  std::vector<int32_t> seqs, new_tokens, preempted, pins, pin_tokens, drafts;

  explicit Plan(const std::vector<int32_t>& lookahead)
      : seqs(lookahead.size(), -1),
        new_tokens(lookahead.size(), -1),
        preempted(lookahead.size(), -1),
        pins(lookahead.size()),
        pin_tokens(lookahead.size()),
        drafts(lookahead) {
    abi.num_scheduled = abi.num_preempted = abi.num_pins = -1;
    abi.seqs = seqs.data();
    abi.num_new_tokens = new_tokens.data();
    abi.preempted = preempted.data();
    abi.pins = pins.data();
    abi.pin_tokens = pin_tokens.data();
    abi.num_drafts = drafts.data();
  }
};

}  // namespace

struct SimulatedEngine::View {
  mortise_schedule_view abi = sized<mortise_schedule_view>();
  std::vector<uint64_t> ids, arrivals, groups;
  std::vector<int32_t> states, num_tokens, num_computed, num_cached, cached_free, held, freed, lookahead, priorities;

  explicit View(const SimulatedEngine& engine) {
    for (const Sequence& s : engine.live_) add(engine, s);
    if (engine.options_.whole_drafts) abi.flags = MORTISE_VIEW_WHOLE_DRAFTS;
    abi.step_id = static_cast<uint64_t>(engine.num_steps_);
    abi.num_seqs = static_cast<int32_t>(ids.size());
    abi.block_size = engine.options_.block_size;
    abi.token_budget = engine.options_.token_budget;
    abi.seq_budget = engine.options_.seq_budget;
    abi.num_free_blocks = engine.num_free();
    abi.num_blocks = engine.options_.num_blocks;
    abi.seq_ids = ids.data();
    abi.states = states.data();
    abi.num_tokens = num_tokens.data();
    abi.num_computed = num_computed.data();
    abi.num_cached = num_cached.data();
    abi.num_cached_free_blocks = cached_free.data();
    abi.blocks_held = held.data();
    abi.blocks_freed_if_preempted = freed.data();
    abi.lookahead = lookahead.data();
    abi.priorities = priorities.data();
    abi.arrivals = arrivals.data();
    abi.groups = groups.data();
  }

  void add(const SimulatedEngine& engine, const Sequence& s) {
    const int32_t cached = s.running ? 0 : engine.cached_tokens(s);
    const bool unheld = cached > 0 && engine.prefixes_[static_cast<std::size_t>(s.prefix)].num_holders == 0;
    const bool sole = s.shares && engine.prefixes_[static_cast<std::size_t>(s.prefix)].num_holders == 1;
    ids.push_back(s.id);
    arrivals.push_back(s.arrival);
    groups.push_back(0);
    states.push_back(s.running ? MORTISE_SEQ_RUNNING : MORTISE_SEQ_WAITING);
    num_tokens.push_back(s.num_tokens);
    num_computed.push_back(s.num_computed);
    num_cached.push_back(cached);
    cached_free.push_back(unheld ? cached / engine.options_.block_size : 0);
    held.push_back(s.exclusive + engine.shared_blocks(s));
    freed.push_back(s.exclusive + (sole ? engine.shared_blocks(s) : 0));
    // As the engine does: the step itself yields one token more than the accepted drafts; the last token is never run.
    lookahead.push_back(std::clamp(s.last_token - s.num_tokens - 1, 0, engine.options_.max_lookahead));
    priorities.push_back(s.priority);
  }

  int32_t start(int32_t i) const { return states[i] == MORTISE_SEQ_RUNNING ? num_computed[i] : num_cached[i]; }
  int32_t remaining(int32_t i) const { return num_tokens[i] - start(i); }
  int32_t end(int32_t i, int32_t n, int32_t drafts) const { return start(i) + n + (n == remaining(i) ? drafts : 0); }
  bool before(int32_t a, int32_t b) const {
    return std::pair(priorities[a], arrivals[a]) < std::pair(priorities[b], arrivals[b]);
  }
};

SimulatedEngine::SimulatedEngine(const mortise_component& scheduler, const SimulationOptions& options, uint64_t seed)
    : component_(scheduler), options_(options), random_(seed), unused_(options.num_blocks) {
  auto args = sized<mortise_create_args>();
  args.options = view(std::string_view(R"({"max_num_seqs": 1000, "max_batched_tokens": 100000})"));
  require(component_.create(nullptr, &args, &scheduler_, nullptr) == MORTISE_OK, "create");
  for (int32_t i = 0; i < options.num_prefixes; ++i) {
    prefixes_.push_back({1 + static_cast<int32_t>(random_() % 4), false, 0});
  }
}

SimulatedEngine::~SimulatedEngine() {
  component_.destroy(scheduler_);
}

int32_t SimulatedEngine::num_free() const {
  int32_t free = unused_;
  for (const Prefix& p : prefixes_) free += p.resident && p.num_holders == 0 ? p.num_blocks : 0;
  return free;
}

int32_t SimulatedEngine::cached_tokens(const Sequence& s) const {
  if (s.prefix < 0 || !prefixes_[static_cast<std::size_t>(s.prefix)].resident) return 0;
  return prefixes_[static_cast<std::size_t>(s.prefix)].num_blocks * options_.block_size;
}

void SimulatedEngine::submit(int32_t prompt, int32_t generated, int32_t prefix) {
  // The last generated token is never run, hence needs no slot.
  require(blocks_for(prompt + generated - 1, options_.block_size) <= options_.num_blocks,
          "the test's request is too large");
  const auto priority = static_cast<int32_t>(random_() % static_cast<uint64_t>(options_.num_priorities));
  live_.push_back({next_id_, next_id_, priority, prompt, 0, prompt + generated, prefix, false, false, 0});
  ++next_id_;
}

void SimulatedEngine::submit_random() {
  const int32_t pool_tokens = options_.num_blocks * options_.block_size;
  const int32_t prefix = prefixes_.empty() ? -1 : static_cast<int32_t>(random_() % (prefixes_.size() + 1)) - 1;
  const int32_t least =
      prefix < 0 ? 1 : prefixes_[static_cast<std::size_t>(prefix)].num_blocks * options_.block_size + 1;
  const auto up_to = [&](int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(n)); };
  const bool large = random_() % 16 == 0;  // some take nearly the whole pool
  const int32_t prompt = std::min(pool_tokens, least + up_to(large ? pool_tokens : pool_tokens / 6));
  const int32_t generated = 1 + up_to(std::min(pool_tokens - prompt + 1, large ? pool_tokens : 60));
  submit(prompt, generated, prefix);
}

// Takes blocks that hold nothing, after evicting cached prefixes as needed.
void SimulatedEngine::allocate(int32_t n) {
  for (Prefix& p : prefixes_) {
    if (unused_ >= n) break;
    if (!p.resident || p.num_holders > 0) continue;
    p.resident = false;
    unused_ += p.num_blocks;
  }
  require(unused_ >= n, "over-commit: the plan takes more blocks than there are");
  unused_ -= n;
}

void SimulatedEngine::release(Sequence& s) {
  unused_ += s.exclusive;
  if (s.shares) --prefixes_[static_cast<std::size_t>(s.prefix)].num_holders;
  s.exclusive = 0;
  s.shares = s.running = false;
  s.num_computed = 0;
}

void SimulatedEngine::run(Sequence& s, int32_t n, int32_t lookahead) {
  const bool ends = s.num_computed + n == s.num_tokens;
  const int32_t end = s.num_computed + n + (ends ? lookahead : 0);
  const int32_t needed = blocks_for(end, options_.block_size) - s.exclusive - shared_blocks(s);
  if (needed > 0) {
    allocate(needed);
    s.exclusive += needed;
  }
  s.num_computed += n;
  if (ends) {
    const auto accepted = static_cast<int32_t>(random_() % static_cast<uint64_t>(lookahead + 1));
    s.num_computed += accepted;
    s.num_tokens += accepted + 1;
    require(s.num_tokens <= s.last_token, "more tokens than were asked for");
    // Blocks that only rejected drafts reached are given back.
    const int32_t kept = blocks_for(s.num_computed, options_.block_size) - shared_blocks(s);
    unused_ += s.exclusive - kept;
    s.exclusive = kept;
  }
  if (s.prefix < 0 || s.shares) return;
  Prefix& prefix = prefixes_[static_cast<std::size_t>(s.prefix)];
  if (prefix.resident || s.num_computed < prefix.num_blocks * options_.block_size) return;
  prefix.resident = s.shares = true;
  prefix.num_holders = 1;
  s.exclusive -= prefix.num_blocks;
}

void SimulatedEngine::check(const View& view, const mortise_schedule_plan& plan) const {
  const int32_t size = view.abi.num_seqs;
  require(plan.num_scheduled >= 1 && plan.num_scheduled <= size, "nothing is scheduled, or too much");
  require(plan.num_preempted >= 0 && plan.num_preempted <= size && plan.num_pins == 0, "counts");
  std::vector<int32_t> tokens(static_cast<std::size_t>(size), 0);
  std::vector<char> preempted(static_cast<std::size_t>(size), 0);
  int64_t rows = 0;
  for (int32_t k = 0; k < plan.num_preempted; ++k) {
    const int32_t i = plan.preempted[k];
    require(i >= 0 && i < size && view.states[i] == MORTISE_SEQ_RUNNING && !preempted[i], "bad preemption");
    preempted[i] = 1;
  }
  for (int32_t k = 0; k < plan.num_scheduled; ++k) {
    const int32_t i = plan.seqs[k];
    const int32_t n = plan.num_new_tokens[k];
    require(i >= 0 && i < size && !preempted[i] && tokens[i] == 0, "bad index");
    require(n >= 1 && n <= view.remaining(i), "bad number of new tokens");
    tokens[i] = n;
    const int32_t drafts = plan.num_drafts[i];
    require(drafts >= 0 && drafts <= view.lookahead[i], "bad number of drafts");
    require(!options_.whole_drafts || drafts == view.lookahead[i], "cut drafts that may not be");
    rows += view.end(i, n, drafts) - view.start(i);
  }
  require(rows <= view.abi.token_budget, "token budget exceeded");
  require(plan.num_scheduled <= view.abi.seq_budget, "sequence budget exceeded");

  int32_t num_running = 0;
  for (int32_t i = 0; i < size; ++i) {
    const bool running = view.states[i] == MORTISE_SEQ_RUNNING && !preempted[i];
    const bool admitted = view.states[i] == MORTISE_SEQ_WAITING && tokens[i] > 0;
    for (int32_t k = 0; k < plan.num_preempted; ++k) {
      require(!admitted || view.priorities[i] < view.priorities[plan.preempted[k]],
              "admitted somebody with the blocks of one that matters as much");
    }
    num_running += running || tokens[i] > 0;
  }
  require(num_running <= view.abi.seq_budget, "more sequences run than may");
  for (int32_t a = 0; a < size; ++a) {
    for (int32_t b = 0; b < size; ++b) {
      if (!view.before(a, b)) continue;
      const bool same = view.states[a] == view.states[b];
      require(!(same && preempted[a] && !preempted[b] && view.states[b] == MORTISE_SEQ_RUNNING),
              "preempted a sequence before one that comes after it");
      require(!(same && view.states[b] == MORTISE_SEQ_WAITING && tokens[b] > 0 && tokens[a] == 0),
              "admitted a sequence before one that comes before it");
    }
  }
}

void SimulatedEngine::step() {
  if (live_.empty()) return;
  const View view(*this);
  const auto& table = *static_cast<const mortise_scheduler_table*>(component_.table);
  auto* self = static_cast<mortise_scheduler*>(scheduler_);
  Plan plan(view.lookahead), again(view.lookahead);
  mortise_error error = make_error();
  require(table.plan(self, &view.abi, &plan.abi, &error) == MORTISE_OK, error.message);
  require(table.plan(self, &view.abi, &again.abi, &error) == MORTISE_OK, error.message);
  require(plan.seqs == again.seqs && plan.new_tokens == again.new_tokens && plan.preempted == again.preempted &&
              plan.drafts == again.drafts,
          "the same view gave another plan");
  check(view, plan.abi);

  for (int32_t k = 0; k < plan.abi.num_preempted; ++k) release(live_[static_cast<std::size_t>(plan.preempted[k])]);
  // All admitted sequences take hold of their cached blocks before anybody allocates, lest they be evicted.
  for (int32_t k = 0; k < plan.abi.num_scheduled; ++k) {
    Sequence& s = live_[static_cast<std::size_t>(plan.seqs[k])];
    s.num_computed = view.start(plan.seqs[k]);
    if (!s.running && s.num_computed > 0) {
      s.shares = true;
      ++prefixes_[static_cast<std::size_t>(s.prefix)].num_holders;
    }
    s.running = true;
  }
  for (int32_t k = 0; k < plan.abi.num_scheduled; ++k) {
    const int32_t i = plan.seqs[k];
    const int32_t drafts = plan.drafts[static_cast<std::size_t>(i)];
    num_rows_ += view.end(i, plan.new_tokens[k], drafts) - view.start(i);
    run(live_[static_cast<std::size_t>(i)], plan.new_tokens[k], drafts);
  }
  for (Sequence& s : live_) {
    if (s.num_tokens == s.last_token) release(s);
  }
  num_finished_ += std::erase_if(live_, [](const Sequence& s) { return s.num_tokens == s.last_token; });
  num_preemptions_ += plan.abi.num_preempted;
  ++num_steps_;
}

}  // namespace mortise::test
