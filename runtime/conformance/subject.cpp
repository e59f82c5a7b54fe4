#include "conformance/subject.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <utility>

#include "mortise/proposer.h"

namespace mortise::conformance {

mortise_activate_args usual_sizes() {
  mortise_activate_args sizes{};
  sizes.struct_size = sizeof sizes;
  sizes.max_num_seqs = 64;
  sizes.max_batched_tokens = 512;
  sizes.max_logit_rows = 64;
  sizes.max_model_len = 4096;
  sizes.block_size = 16;
  sizes.num_blocks = 1024;
  return sizes;
}

Subject::Subject(const CheckOptions& check, std::string component, const char* case_name)
    : check_(check),
      component_(std::move(component)),
      random_(XXH3_64bits_withSeed(case_name, std::strlen(case_name), check.seed)) {
  target_.struct_size = sizeof target_;
  target_.num_layers = 2;
  target_.hidden_size = 64;
  target_.num_heads = 4;
  target_.num_kv_heads = 2;
  target_.head_dim = 16;
  target_.vocab_size = kVocabSize;
  target_.max_model_len = usual_sizes().max_model_len;
  target_.dtype = MORTISE_F32;
  target_.attention_scale = 0.25f;
}

const PluginFile& Subject::file() {
  return load_plugin_file(check_.file);
}

const Component& Subject::component() {
  for (const Component& component : file().components) {
    if (component.label() == component_) return component;
  }
  throw CaseFailed(fmt::format("the file no longer describes the {}", component_));
}

nlohmann::json Subject::options() {
  const Component& subject = component();
  for (const Option& option : subject.schema.options()) {
    if (option.required && !check_.options.contains(option.name)) {
      throw NotApplicable(fmt::format("the option '{}' has no default; give it with --options", option.name));
    }
  }
  return subject.schema.complete(check_.options, subject.label());
}

PartSetup Subject::setup() {
  PartSetup setup;
  setup.options = options();
  return setup;
}

std::unique_ptr<Part> Subject::make(PartSetup setup) {
  auto part = std::make_unique<Part>(component(), std::move(setup));
  expect(part->created().ok(), "create fails: {}", part->created().text());
  return part;
}

std::unique_ptr<Part> Subject::make_active(PartSetup setup) {
  auto part = make(std::move(setup));
  start(*part);
  return part;
}

void Subject::start(Part& part) {
  if (component().kind == PartKind::kProposer) {
    mortise_proposer_bind_args args{};
    args.struct_size = sizeof args;
    args.target = &target_;
    args.vocab_hash = 42;
    part.perform("bind", [&](mortise_error* error) {
      return part.table<mortise_proposer_table>().bind(part.handle<mortise_proposer>(), &args, error);
    });
  }
  const Answer answer = part.activate(usual_sizes());
  expect(answer.ok(), "activate fails: {}", answer.text());
}

}  // namespace mortise::conformance
