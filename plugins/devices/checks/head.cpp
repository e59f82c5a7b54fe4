#include "devices/checks/head.hpp"

#include <climits>

#include "devices/checks/matrix.hpp"
#include "mortise/plugin.hpp"

namespace mortise {
namespace {

constexpr char kReduce[] = "head_reduce", kVerify[] = "verify_drafts";

void check_logits(const mortise_tensor* logits, const char* where) {
  check_matrix(logits, where, "logits");
  if (logits->dtype != MORTISE_F32) invalid(where, "logits are " + matrix_text(*logits) + "; expected f32");
}

}  // namespace

void check_head_reduce(const mortise_head_reduce_args& args, std::int32_t slice) {
  check_logits(args.logits, kReduce);
  if (args.vocab_begin < 0 || (args.max != nullptr && args.vocab_begin % slice != 0)) {
    invalid(kReduce, "vocab_begin is " + std::to_string(args.vocab_begin) + "; max and sum need a multiple of " +
                         std::to_string(slice));
  }
  if (args.logits->shape[1] > INT_MAX - args.vocab_begin) {
    invalid(kReduce, "logits are " + matrix_text(*args.logits) + "; token ids are int32");
  }
  if ((args.max == nullptr) != (args.sum == nullptr)) invalid(kReduce, "max and sum must be given together");
  if (args.lse != nullptr && args.max == nullptr) invalid(kReduce, "lse needs max and sum");
  if (args.target_logits != nullptr && args.targets == nullptr) invalid(kReduce, "target_logits needs targets");
  if (args.ranks != nullptr && args.target_logits == nullptr) invalid(kReduce, "ranks need targets and target_logits");
  if (args.top_n < 0 || (args.top_n > 0 && (args.top_ids == nullptr || args.top_logits == nullptr))) {
    invalid(kReduce, "top_n is " + std::to_string(args.top_n) + "; it needs top_ids and top_logits");
  }
}

void check_sample(const mortise_sample_args& args, const char* where) {
  check_logits(args.logits, where);
  const auto require = [where](const void* array, const char* name) {
    if (array == nullptr) invalid(where, std::string(name) + " is missing");
  };
  require(args.temperatures, "temperatures");
  require(args.top_ks, "top_ks");
  require(args.top_ps, "top_ps");
  require(args.min_ps, "min_ps");
  require(args.keys, "keys");
  require(args.positions, "positions");
  require(args.tokens, "tokens");
  if (args.allowed_index != nullptr) require(args.allowed_masks, "allowed_masks");
  if (args.logits->shape[1] == 0) invalid(where, "logits are " + matrix_text(*args.logits));
  if (args.edit_begins == nullptr) return;
  require(args.edit_counts, "edit_counts");
  require(args.edits, "edits");
}

mortise_sample_args checked_rows(const mortise_verify_drafts_args& args) {
  if (args.rows == nullptr) invalid(kVerify, "rows is missing");
  const auto rows = known(args.rows);
  check_sample(rows, kVerify);
  if (args.drafts == nullptr) invalid(kVerify, "drafts is missing");
  if (args.distribution_rows == nullptr) return rows;
  check_matrix(args.distributions, kVerify, "distributions");
  if (args.distributions->dtype != MORTISE_F32 || args.distributions->shape[1] != rows.logits->shape[1]) {
    invalid(kVerify, "distributions are " + matrix_text(*args.distributions) + ", but logits are " +
                         matrix_text(*rows.logits) + "; expected f32 of the same vocabulary");
  }
  return rows;
}

}  // namespace mortise
