#include "speculation/speculation_stats.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mortise {
namespace {

double share(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

void subtract_counts(std::vector<std::uint64_t>& from, const std::vector<std::uint64_t>& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) from[i] -= counts[i];
}

void add_counts(std::vector<std::uint64_t>& to, const std::vector<std::uint64_t>& counts) {
  to.resize(std::max(to.size(), counts.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) to[i] += counts[i];
}

}  // namespace

void ProposerStats::add(std::int32_t new_drafts, std::int32_t new_accepted) {
  ++num_verified;
  num_drafts += static_cast<std::uint64_t>(new_drafts);
  num_accepted += static_cast<std::uint64_t>(new_accepted);
  const auto length = std::max(drafted_at.size(), static_cast<std::size_t>(new_drafts));
  drafted_at.resize(length);
  accepted_at.resize(length);
  for (std::size_t i = 0; i < static_cast<std::size_t>(new_drafts); ++i) ++drafted_at[i];
  for (std::size_t i = 0; i < static_cast<std::size_t>(new_accepted); ++i) ++accepted_at[i];
}

void ProposerStats::add(const ProposerStats& other) {
  num_verified += other.num_verified;
  num_drafts += other.num_drafts;
  num_accepted += other.num_accepted;
  add_counts(drafted_at, other.drafted_at);
  add_counts(accepted_at, other.accepted_at);
  draft_s += other.draft_s;
}

void ProposerStats::subtract(const ProposerStats& earlier) {
  num_verified -= earlier.num_verified;
  num_drafts -= earlier.num_drafts;
  num_accepted -= earlier.num_accepted;
  subtract_counts(drafted_at, earlier.drafted_at);
  subtract_counts(accepted_at, earlier.accepted_at);
  draft_s -= earlier.draft_s;
}

double ProposerStats::mean_acceptance_length() const {
  return 1 + share(num_accepted, num_verified);
}

void SpeculationStats::add(const SpeculationStats& other) {
  for (const ProposerStats& theirs : other.proposers) {
    const auto mine = std::ranges::find(proposers, theirs.name, &ProposerStats::name);
    if (mine == proposers.end()) {
      proposers.push_back(theirs);
    } else {
      mine->add(theirs);
    }
  }
  num_steps += other.num_steps;
  verify_s += other.verify_s;
}

SpeculationStats SpeculationStats::since(const SpeculationStats& earlier) const {
  SpeculationStats rest = *this;
  for (const ProposerStats& theirs : earlier.proposers) {  // a swap may have changed the order of the proposers
    std::ranges::find(rest.proposers, theirs.name, &ProposerStats::name)->subtract(theirs);
  }
  rest.num_steps -= earlier.num_steps;
  rest.verify_s -= earlier.verify_s;
  return rest;
}

std::string describe(const ProposerStats& stats) {
  std::string positions;
  for (std::size_t i = 0; i < stats.drafted_at.size(); ++i) {
    positions += fmt::format("{}{:.0f}", i == 0 ? "" : " ", 100 * share(stats.accepted_at[i], stats.drafted_at[i]));
  }
  return fmt::format(
      "{}: {} of {} drafts accepted ({:.1f} %; by position {} %), mean acceptance length {:.2f}; drafting {:.1f} ms",
      stats.name, stats.num_accepted, stats.num_drafts, 100 * share(stats.num_accepted, stats.num_drafts), positions,
      stats.mean_acceptance_length(), stats.draft_s * 1e3);
}

std::vector<std::string> describe(const SpeculationStats& stats) {
  std::vector<std::string> lines;
  for (const ProposerStats& proposer : stats.proposers) {
    if (proposer.num_verified > 0) lines.push_back(describe(proposer));
  }
  if (!lines.empty())
    lines.push_back(fmt::format("verifying: {} steps, {:.1f} ms", stats.num_steps, stats.verify_s * 1e3));
  return lines;
}

nlohmann::ordered_json to_json(const SpeculationStats& stats) {
  auto proposers = nlohmann::ordered_json::array();
  for (const ProposerStats& p : stats.proposers) {
    auto rates = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < p.drafted_at.size(); ++i) rates.push_back(share(p.accepted_at[i], p.drafted_at[i]));
    proposers.push_back({{"name", p.name},
                         {"verified", p.num_verified},
                         {"draft_tokens", p.num_drafts},
                         {"accepted_tokens", p.num_accepted},
                         {"acceptance_rate", share(p.num_accepted, p.num_drafts)},
                         {"acceptance_rate_by_position", std::move(rates)},
                         {"mean_acceptance_length", p.mean_acceptance_length()},
                         {"draft_s", p.draft_s}});
  }
  return {{"proposers", std::move(proposers)}, {"verify_steps", stats.num_steps}, {"verify_s", stats.verify_s}};
}

}  // namespace mortise
