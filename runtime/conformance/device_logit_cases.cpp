// runtime/conformance/device_logit_cases.cpp: rules of head_reduce, sample and verify_drafts (device_bench.hpp says how
// they are judged).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "conformance/device_bench.hpp"
#include "mortise/ext/rejection.h"
#include "sampling/denormals_off.hpp"

namespace mortise::conformance {
namespace {

void head_reduce_is_right(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    std::int32_t slice = 0;
    bench.run("vocab_slice", [&](const auto& table, auto* device, mortise_error*) {
      return slice = table.vocab_slice(device), MORTISE_OK;
    });
    expect(slice > 0, "vocab_slice is {}", slice);
    const std::int64_t rows = 5, vocab = 2 * slice + 100;
    const std::int32_t top_n = 4;
    Matrix logits = draw_matrix(bench.random(), MORTISE_F32, rows, vocab, 20);
    logits.row(1)[7] = logits.row(1)[3000 % vocab] = 30;  // equal logits: the smaller id comes first
    const std::vector<std::int32_t> targets = {0, static_cast<std::int32_t>(vocab - 1), -1, slice, 17};
    const DeviceBuffer on_targets = on_device(bench.device, targets);
    // The results for the whole vocabulary, and for slices of it.
    std::vector<std::vector<float>> lses, target_logits;
    std::vector<std::vector<std::int32_t>> ids, ranks;
    for (const std::int64_t step : {vocab, static_cast<std::int64_t>(slice)}) {
      const auto bytes = static_cast<std::size_t>(rows) * sizeof(float);
      const DeviceBuffer max(bench.device, bytes), sum(bench.device, bytes), lse(bench.device, bytes),
          of_target(bench.device, bytes), rank(bench.device, bytes), top_ids(bench.device, bytes * top_n),
          top_logits(bench.device, bytes * top_n);
      for (const bool second : {false, true}) {
        for (std::int64_t begin = 0; begin < vocab; begin += step) {
          const std::int64_t count = std::min(step, vocab - begin);
          Matrix some = zeros(MORTISE_F32, rows, count);
          for (std::int64_t r = 0; r < rows; ++r) std::copy_n(logits.row(r) + begin, count, some.row(r));
          const DeviceMatrix on(bench.device, some);
          mortise_head_reduce_args args{};
          args.struct_size = sizeof args;
          args.logits = on.tensor();
          args.vocab_begin = static_cast<std::int32_t>(begin);
          args.first = begin == 0 ? 1 : 0;
          args.targets = on_targets.data<std::int32_t>();
          args.target_logits = of_target.data<float>();
          if (second) {
            args.ranks = rank.data<std::int32_t>();
          } else {
            args.max = max.data<float>();
            args.sum = sum.data<float>();
            args.lse = lse.data<float>();
            args.top_n = top_n;
            args.top_ids = top_ids.data<std::int32_t>();
            args.top_logits = top_logits.data<float>();
          }
          bench.run("head_reduce", [&](const auto& table, auto* device, mortise_error* error) {
            return table.head_reduce(device, nullptr, &args, error);
          });
        }
      }
      lses.push_back(values_of<float>(lse));
      target_logits.push_back(values_of<float>(of_target));
      ids.push_back(values_of<std::int32_t>(top_ids));
      ranks.push_back(values_of<std::int32_t>(rank));
    }
    expect(lses[0] == lses[1] && target_logits[0] == target_logits[1] && ids[0] == ids[1] && ranks[0] == ranks[1],
           "head_reduce gives different results slice by slice than at once");
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = static_cast<std::size_t>(r);
      std::vector<std::int32_t> order(static_cast<std::size_t>(vocab));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, std::greater<>(), [&](std::int32_t token) { return logits.row(r)[token]; });
      for (std::size_t i = 0; i < top_n; ++i) {
        expect(ids[0][at * top_n + i] == order[i], "head_reduce: row {}: top_ids[{}] is {}, expected {}", r, i,
               ids[0][at * top_n + i], order[i]);
      }
      if (targets[at] >= 0) {
        expect(target_logits[0][at] == logits.row(r)[targets[at]], "head_reduce: row {}: target_logits is {}", r,
               target_logits[0][at]);
        const auto place = std::ranges::find(order, targets[at]) - order.begin();
        expect(ranks[0][at] == place, "head_reduce: row {}: ranks is {}, expected {}", r, ranks[0][at], place);
      }
      const DenormalsOff denormals_off;
      float max = -MORTISE_INFINITY, sum = 0;
      mortise_log_sum_exp(logits.row(r), vocab, &max, &sum);
      const float lse = max + mortise_log(sum);
      const bool is_exact = bench.is_known && slice == MORTISE_VOCAB_SLICE;
      expect(is_exact ? lses[0][at] == lse : std::abs(lses[0][at] - lse) < 1e-3f,
             "head_reduce: row {}: lse is {}, expected {}", r, lses[0][at], lse);
    }
  });
}

struct Sampled {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
};

// Rows whose parameters are all drawn at random.
struct Sampling {
  Matrix logits;
  std::vector<float> temperatures, top_ps, min_ps;
  std::vector<std::int32_t> top_ks, edit_begins, edit_counts, allowed_index;
  std::vector<std::uint64_t> keys;
  std::vector<std::int64_t> positions;
  std::vector<mortise_logit_edit> edits;
  std::vector<std::uint32_t> masks;
  Matrix distributions;  // one for every fourth row
  std::vector<std::int32_t> drafts, distribution_rows;

  Sampling(std::mt19937_64& random, std::int64_t rows, std::int64_t vocab)
      : logits(draw_matrix(random, MORTISE_F32, rows, vocab, 6)) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto pick = [&](auto... choices) {
        const float all[] = {static_cast<float>(choices)...};
        return all[random() % (sizeof all / sizeof *all)];
      };
      temperatures.push_back(pick(0, 0.5, 1, 1.7));
      top_ps.push_back(pick(1, 0.9, 0.3));
      min_ps.push_back(pick(0, 0.05, 0.3));
      top_ks.push_back(static_cast<std::int32_t>(pick(0, 1, 5, 50)));
      keys.push_back(random());
      positions.push_back(static_cast<std::int64_t>(random() % 5000));
      edit_begins.push_back(static_cast<std::int32_t>(edits.size()));
      edit_counts.push_back(static_cast<std::int32_t>(random() % 3));
      for (std::int32_t i = 0; i < edit_counts.back(); ++i) {
        edits.push_back({static_cast<std::int32_t>(5 + 7 * i), pick(0, 3, -2), pick(1, 1.5), pick(0, 0.25)});
      }
      allowed_index.push_back(random() % 3 == 0 ? 0 : -1);
    }
    for (std::int64_t word = 0; word < (vocab + 31) / 32; ++word) masks.push_back(static_cast<std::uint32_t>(random()));
    edits.push_back({});  // so that there is memory to point to
    distributions = draw_matrix(random, MORTISE_F32, (rows + 3) / 4, vocab, 6);
    for (std::int64_t r = 0; r < distributions.rows; ++r) {
      for (std::int64_t i = 0; i < vocab; ++i) distributions.row(r)[i] = std::exp(distributions.row(r)[i]);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      drafts.push_back(r % 2 == 0 ? static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab)) : -1);
      distribution_rows.push_back(r % 4 == 0 ? static_cast<std::int32_t>(r / 4) : -1);
    }
  }

  // Draws the tokens with `sample`; with a table, verifies a draft of every second row with it.
  Sampled by_device(const DeviceBench& bench, std::int64_t first, std::int64_t count,
                    const mortise_rejection_table* rejection = nullptr) const {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), first);
    const auto part = [&](const auto& all) {
      return on_device(bench.device, std::vector(all.begin() + first, all.begin() + first + count));
    };
    const DeviceMatrix on(bench.device, logits.rows_at(order));
    const DeviceBuffer temperature = part(temperatures), top_p = part(top_ps), min_p = part(min_ps),
                       top_k = part(top_ks), key = part(keys), position = part(positions), begins = part(edit_begins),
                       counts = part(edit_counts), allowed = part(allowed_index),
                       all_edits = on_device(bench.device, edits), all_masks = on_device(bench.device, masks),
                       tokens(bench.device, static_cast<std::size_t>(count) * 4),
                       logprobs(bench.device, static_cast<std::size_t>(count) * 4);
    mortise_sample_args args{};
    args.struct_size = sizeof args;
    args.logits = on.tensor();
    args.temperatures = temperature.data<float>();
    args.top_ks = top_k.data<std::int32_t>();
    args.top_ps = top_p.data<float>();
    args.min_ps = min_p.data<float>();
    args.keys = key.data<std::uint64_t>();
    args.positions = position.data<std::int64_t>();
    args.edits = all_edits.data<mortise_logit_edit>();
    args.edit_begins = begins.data<std::int32_t>();
    args.edit_counts = counts.data<std::int32_t>();
    args.allowed_index = allowed.data<std::int32_t>();
    args.allowed_masks = all_masks.data<std::uint32_t>();
    args.tokens = tokens.data<std::int32_t>();
    args.processed_logprobs = logprobs.data<float>();
    bench.run("sample", [&](const auto& table, auto* device, mortise_error* error) {
      return table.sample(device, nullptr, &args, error);
    });
    if (rejection != nullptr) {
      const DeviceBuffer draft = part(drafts), distribution_row = part(distribution_rows);
      const DeviceMatrix all(bench.device, distributions);
      mortise_verify_drafts_args verified{};
      verified.struct_size = sizeof verified;
      verified.rows = &args;
      verified.drafts = draft.data<std::int32_t>();
      verified.distributions = all.tensor();
      verified.distribution_rows = distribution_row.data<std::int32_t>();
      bench.run("verify_drafts", [&](const auto&, auto* device, mortise_error* error) {
        return rejection->verify_drafts(device, nullptr, &verified, error);
      });
    }
    expect_equal(logits.rows_at(order), on.read(),
                 rejection == nullptr ? "sample changes the logits" : "verify_drafts changes the logits");
    return {values_of<std::int32_t>(tokens), values_of<float>(logprobs)};
  }

  // What a draft is replaced by, from the tokens that the filters leave.
  std::int32_t verified(std::size_t r, const mortise_sample_row& row, std::vector<mortise_candidate>& scratch) const {
    const std::int64_t left = mortise_filter_tokens(&row, scratch.data());
    std::vector<std::uint64_t> weights(static_cast<std::size_t>(row.vocab_size), 0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(left); ++i) {
      weights[static_cast<std::size_t>(scratch[i].token)] = mortise_weight_of(mortise_exp(scratch[i].x - scratch[0].x));
    }
    const float* const distribution = distribution_rows[r] < 0 ? nullptr : distributions.row(distribution_rows[r]);
    return mortise_verify_draft(weights.data(), distribution, row.vocab_size, drafts[r], row.key, row.position);
  }

  // `verifies`: as by_device with a table.
  Sampled expected(bool verifies = false) const {
    const DenormalsOff denormals_off;
    Sampled all;
    std::vector<mortise_candidate> scratch(static_cast<std::size_t>(logits.columns));
    for (std::size_t r = 0; r < keys.size(); ++r) {
      mortise_sample_row row{};
      row.logits = logits.row(static_cast<std::int64_t>(r));
      row.vocab_size = logits.columns;
      row.temperature = temperatures[r];
      row.top_p = top_ps[r];
      row.min_p = min_ps[r];
      row.top_k = top_ks[r];
      row.key = keys[r];
      row.position = static_cast<std::uint64_t>(positions[r]);
      row.edits = edits.data() + edit_begins[r];
      row.num_edits = edit_counts[r];
      row.allowed = allowed_index[r] < 0 ? nullptr : masks.data();
      all.logprobs.push_back(0);
      all.tokens.push_back(mortise_sample_token(&row, scratch.data(), &all.logprobs.back()));
      if (verifies && drafts[r] >= 0 && row.temperature > 0) all.tokens.back() = verified(r, row, scratch);
    }
    return all;
  }
};

void sampling_is_right(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    for (int round = 0; round < bench.subject.rounds(2); ++round) {
      const Sampling sampling(bench.random(), 40, 700);
      const Sampled expected = sampling.expected(), found = sampling.by_device(bench, 0, 40);
      for (std::size_t r = 0; r < expected.tokens.size(); ++r) {
        if (!bench.is_known && sampling.temperatures[r] > 0) continue;
        expect(found.tokens[r] == expected.tokens[r], "sample: row {} draws the token {}, expected {}", r,
               found.tokens[r], expected.tokens[r]);
        expect(!bench.is_known || mortise_bits_of(found.logprobs[r]) == mortise_bits_of(expected.logprobs[r]),
               "sample: the log probability of row {} is {}, expected {}", r, found.logprobs[r], expected.logprobs[r]);
      }
      for (std::int64_t r = 0; r < 40; r += 7) {
        const Sampled alone = sampling.by_device(bench, r, 1);
        expect(alone.tokens[0] == found.tokens[static_cast<std::size_t>(r)],
               "sample: row {} draws another token alone than among other rows", r);
      }
    }
  });
}

void verified_drafts_are_right(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const auto* const rejection = static_cast<const mortise_rejection_table*>(
        bench.device.table->get_ext(bench.device.device, MORTISE_EXT_REJECTION));
    if (rejection == nullptr) return;
    for (int round = 0; round < bench.subject.rounds(2); ++round) {
      const Sampling sampling(bench.random(), 40, 700);
      const Sampled expected = sampling.expected(true), found = sampling.by_device(bench, 0, 40, rejection);
      for (std::size_t r = 0; r < expected.tokens.size(); ++r) {
        if (!bench.is_known && sampling.temperatures[r] > 0) continue;
        expect(found.tokens[r] == expected.tokens[r], "verify_drafts: row {} gets the token {}, expected {}", r,
               found.tokens[r], expected.tokens[r]);
      }
      for (std::int64_t r = 0; r < 40; r += 6) {
        const Sampled alone = sampling.by_device(bench, r, 1, rejection);
        expect(alone.tokens[0] == found.tokens[static_cast<std::size_t>(r)],
               "verify_drafts: row {} gets another token alone than among other rows", r);
      }
    }
  });
}

constexpr Case kDeviceLogitCases[] = {
    {"device.head_reduce", "head_reduce gives log-sum-exp, targets, ranks and top tokens, at once or in slices.",
     kOfDevice, head_reduce_is_right, true},
    {"device.sample", "sample draws the token that edits, masks, filters and keyed noise ask for.", kOfDevice,
     sampling_is_right, true},
    {"device.verify_drafts",
     "verify_drafts of " MORTISE_EXT_REJECTION " gives the draft or the recovered token, and changes no other row.",
     kOfDevice, verified_drafts_are_right, true},
};

}  // namespace

std::span<const Case> device_logit_cases() {
  return kDeviceLogitCases;
}

}  // namespace mortise::conformance
