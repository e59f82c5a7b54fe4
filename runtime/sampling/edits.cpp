#include "sampling/edits.hpp"

#include <algorithm>
#include <limits>

namespace mortise {
namespace {

LogitEdit penalty(const SamplingParams& params, std::int32_t token, std::int32_t num_generated) {
  LogitEdit edit;
  edit.token = token;
  edit.repetition = params.repetition_penalty;
  if (num_generated > 0) {
    edit.subtract = params.frequency_penalty * static_cast<float>(num_generated) + params.presence_penalty;
  }
  return edit;
}

std::vector<LogitEdit> penalties(const SamplingParams& params, const TokenCounts& counts,
                                 std::span<const std::int32_t> drafts) {
  std::vector<LogitEdit> edits;
  edits.reserve(counts.all().size() + drafts.size());
  const auto times_drafted = [&](std::int32_t token) {
    return static_cast<std::int32_t>(std::count(drafts.begin(), drafts.end(), token));
  };
  for (const auto& [token, count] : counts.all()) {
    edits.push_back(penalty(params, token, count.generated + times_drafted(token)));
  }
  std::vector<std::int32_t> fresh(drafts.begin(), drafts.end());
  std::sort(fresh.begin(), fresh.end());
  fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
  const auto num_counted = static_cast<std::ptrdiff_t>(edits.size());
  for (std::int32_t token : fresh) {
    if (!counts.all().contains(token)) edits.push_back(penalty(params, token, times_drafted(token)));
  }
  const auto by_token = [](const LogitEdit& a, const LogitEdit& b) { return a.token < b.token; };
  std::inplace_merge(edits.begin(), edits.begin() + num_counted, edits.end(), by_token);
  return edits;
}

// What two edits of one token do together; each leaves alone what is not its own.
void join(LogitEdit& edit, const LogitEdit& other) {
  edit.bias += other.bias;
  edit.repetition *= other.repetition;
  edit.subtract += other.subtract;
}

// Both ascend; so does the result, one edit a token.
std::vector<LogitEdit> merged(const std::vector<LogitEdit>& a, const std::vector<LogitEdit>& b) {
  std::vector<LogitEdit> all;
  all.reserve(a.size() + b.size());
  const auto add = [&](const LogitEdit& edit) {
    if (!all.empty() && all.back().token == edit.token) return join(all.back(), edit);
    all.push_back(edit);
  };
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    add(j == b.size() || (i < a.size() && a[i].token <= b[j].token) ? a[i++] : b[j++]);
  }
  return all;
}

}  // namespace

bool uses_counts(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
}

std::vector<LogitEdit> make_edits(const SamplingParams& params, const TokenCounts& counts,
                                  std::span<const std::int32_t> drafts, std::span<const std::int32_t> banned) {
  std::vector<LogitEdit> edits;
  edits.reserve(params.logit_bias.size());
  for (const auto& [token, bias] : params.logit_bias) edits.push_back({token, bias});
  if (uses_counts(params)) edits = merged(edits, penalties(params, counts, drafts));
  if (banned.empty()) return edits;
  std::vector<LogitEdit> bans;
  for (std::int32_t token : banned) bans.push_back({token, -std::numeric_limits<float>::infinity()});
  return merged(edits, bans);
}

}  // namespace mortise
