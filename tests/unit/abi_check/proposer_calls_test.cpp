#include <array>

#include "fake_parts.hpp"
#include "mortise/ext/sequences.h"

namespace mortise::proposer_calls_test {
namespace {

using namespace fake;

std::function<mortise_status(const mortise_observation*, mortise_error*)> on_observe;
std::function<mortise_status(const mortise_proposal_args*, mortise_error*)> on_propose;
std::int32_t most_drafts = 4;
std::uint64_t num_kept = 0;

constexpr mortise_proposer_table kTable = {
    sizeof(mortise_proposer_table),
    0,
    [](mortise_proposer*, const mortise_proposer_bind_args*, mortise_error*) { return kOk; },
    [](mortise_proposer*, const mortise_observation* seen, mortise_error* error) { return on_observe(seen, error); },
    [](mortise_proposer*, const mortise_step*, const mortise_proposal_args* args, mortise_error* error) {
      return on_propose(args, error);
    },
    [](mortise_proposer*) { return most_drafts; }};

class CheckedProposer : public testing::Test {
 protected:
  static constexpr std::int32_t kStride = 4;

  CheckedProposer() {
    life = Life();
    on_observe = [](const mortise_observation*, mortise_error*) { return kOk; };
    on_propose = [](const mortise_proposal_args* args, mortise_error*) {
      args->tokens[0] = 5;
      args->num_drafts[0] = 1;
      return kOk;
    };
    most_drafts = 4;
    num_kept = 0;
    observation.struct_size = sizeof observation;
    observation.num_seqs = 1;
    observation.seq_ids = ids.data();
    observation.token_offsets = offsets.data();
    observation.tokens = tokens.data();
    observation.num_accepted = accepted.data();
    observation.first_positions = firsts.data();
    args.struct_size = sizeof args;
    args.num_seqs = 1;
    args.draft_stride = kStride;
    args.seq_ids = ids.data();
    args.max_drafts = most.data();
    args.keys = keys.data();
    args.temperatures = temperatures.data();
    args.positions = positions.data();
    args.tokens = drafts.data();
    args.num_drafts = num_drafts.data();
    args.top_ks = top_ks.data();
    args.top_ps = ps.data();
    args.min_ps = ps.data();
  }
  const mortise_proposer_table& table() const { return *part.table<mortise_proposer_table>(); }
  mortise_proposer* handle() const { return part.handle<mortise_proposer>(); }
  std::string bind() {
    mortise_proposer_bind_args bound{};
    bound.struct_size = sizeof bound;
    bound.target = &target;
    return failure_of(part, "bind", [&](mortise_error* error) { return table().bind(handle(), &bound, error); });
  }
  std::string max_drafts() {
    return log_of([&] {
      part.active_part<mortise_proposer, mortise_proposer_table>().value<&mortise_proposer_table::max_drafts>(
          "max_drafts", 0);
    });
  }
  std::string observe() {
    return failure_of(part, "observe",
                      [&](mortise_error* error) { return table().observe(handle(), &observation, error); });
  }
  std::string propose() {
    mortise_step step{};
    step.struct_size = sizeof step;
    return failure_of(part, "propose",
                      [&](mortise_error* error) { return table().propose(handle(), &step, &args, error); });
  }
  // An active proposer that knows sequence 7, of 3 tokens.
  void begin() {
    ASSERT_EQ(bind(), "");
    part.activate(sizes());
    ASSERT_EQ(observe(), "");
  }

  mortise_model_dims target = dims();
  const Component& component = checked(PartKind::kProposer, &kTable, MORTISE_CAP_DISTRIBUTION);
  PartInstance part = instance(component);
  std::array<std::uint64_t, 1> ids = {7}, keys = {1};
  std::array<std::int32_t, 2> offsets = {0, 3};
  std::array<std::int32_t, 3> tokens = {1, 2, 3};
  std::array<std::int32_t, 1> accepted = {0}, firsts = {0}, most = {4}, num_drafts = {0}, top_ks = {0};
  std::array<float, 1> temperatures = {1}, ps = {1};
  std::array<std::int64_t, 1> positions = {3};
  std::array<std::int32_t, kStride> drafts{};
  std::vector<float> distributions = std::vector<float>(static_cast<std::size_t>(kStride * dims().vocab_size));
  mortise_observation observation{};
  mortise_proposal_args args{};
};

TEST_F(CheckedProposer, ASoundOneIsLeftAlone) {
  begin();
  EXPECT_EQ(propose(), "");
  EXPECT_EQ(drafts[0], 5);
  EXPECT_EQ(num_drafts[0], 1);
}

TEST_F(CheckedProposer, MaxDraftsIsAtLeastOne) {
  ASSERT_EQ(bind(), "");
  EXPECT_EQ(max_drafts(), "");
  most_drafts = 0;
  EXPECT_THAT(max_drafts(),
              HasSubstr("breaks mortise/proposer.h, \"the most drafts per sequence and step, at least 1\": "
                        "max_drafts returns 0"));
}

TEST_F(CheckedProposer, DistributionsSumToOne) {
  begin();
  args.distributions = distributions.data();
  distributions[5] = 1;
  EXPECT_EQ(propose(), "");
  num_drafts[0] = 0;
  on_propose = [](const mortise_proposal_args* given, mortise_error*) {
    given->num_drafts[0] = 1;
    given->distributions[6] = 0.5f;
    return kOk;
  };
  EXPECT_THAT(propose(),
              HasSubstr("breaks mortise/proposer.h, \"the distribution that tokens[i, j] was drawn from\": the "
                        "numbers of draft 0 of sequence 0 have the sum 1.5"));
}

TEST_F(CheckedProposer, DraftsStayWithinTheirArray) {
  begin();
  on_propose = [](const mortise_proposal_args* given, mortise_error*) {
    given->tokens[kStride] = 5;
    return kOk;
  };
  EXPECT_THAT(propose(), HasSubstr("propose writes beyond the 4 elements of tokens"));
}

TEST_F(CheckedProposer, ArgumentsAreReadOnly) {
  begin();
  on_propose = [](const mortise_proposal_args* given, mortise_error*) {
    const_cast<mortise_proposal_args*>(given)->tokens = nullptr;
    return kOk;
  };
  EXPECT_THAT(propose(), HasSubstr("\"Data behind `const` is read-only\": propose changes args"));
}

TEST_F(CheckedProposer, ObservedTokensAreReadOnly) {
  ASSERT_EQ(bind(), "");
  part.activate(sizes());
  on_observe = [](const mortise_observation* seen, mortise_error*) {
    const_cast<std::int32_t*>(seen->tokens)[1] = 9;
    return kOk;
  };
  EXPECT_THAT(observe(), HasSubstr("observe changes tokens"));
}

TEST_F(CheckedProposer, NoStateOutlivesTheLastSequence) {
  static const mortise_sequences_table sequences = {sizeof sequences, 0, [](void*) { return num_kept; }};
  life.get_ext = [](const char*) -> const void* { return &sequences; };
  begin();
  num_kept = 1;
  observation.num_seqs = 0;
  observation.num_ended = 1;
  observation.ended_ids = ids.data();
  EXPECT_THAT(observe(),
              HasSubstr("breaks mortise/ext/sequences.h, \"told that every sequence has ended, the number must be "
                        "0\": the instance keeps state for 1 sequences"));
}

TEST_F(CheckedProposer, BindComesOnce) {
  ASSERT_EQ(bind(), "");
  EXPECT_THAT(bind(), HasSubstr("the host breaks mortise/proposer.h, \"once, before activate\": bind is called twice"));
}

TEST_F(CheckedProposer, BindComesBeforeMaxDrafts) {
  EXPECT_THAT(max_drafts(), HasSubstr("the host breaks mortise/proposer.h, \"called once, after bind\""));
}

TEST_F(CheckedProposer, TheTargetHasDimensions) {
  target.num_kv_heads = 3;
  EXPECT_THAT(
      bind(),
      HasSubstr("the host breaks mortise/batch.h, \"Dimensions of a model\": the model has 2 heads and 3 KV heads"));
}

struct Mistake {
  const char* name;
  std::function<void(mortise_observation&, mortise_proposal_args&)> make;
  const char* rule;
};
void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.name;
}

class MistakeInObservation : public CheckedProposer, public testing::WithParamInterface<Mistake> {};
TEST_P(MistakeInObservation, IsTheHosts) {
  begin();
  GetParam().make(observation, args);
  EXPECT_THAT(observe(), AllOf(HasSubstr("the host breaks mortise/proposer.h"), HasSubstr(GetParam().rule)));
}
INSTANTIATE_TEST_SUITE_P(
    Each, MistakeInObservation,
    testing::Values(
        Mistake{"nothing", [](auto& o, auto&) { o.num_seqs = 0; }, "0 sequences and 0 ended ones"},
        Mistake{"offsets", [](auto& o, auto&) { const_cast<std::int32_t*>(o.token_offsets)[0] = 1; },
                "do not ascend from 0"},
        Mistake{"accepted", [](auto& o, auto&) { const_cast<std::int32_t*>(o.num_accepted)[0] = 4; },
                "4 of the 3 tokens"},
        Mistake{"first_position", [](auto& o, auto&) { const_cast<std::int32_t*>(o.first_positions)[0] = 2; },
                "first_positions[0] is 2, and 3 were reported"},
        Mistake{"token", [](auto& o, auto&) { const_cast<std::int32_t*>(o.tokens)[0] = -1; }, "token -1 of sequence 0"},
        Mistake{"no_tokens", [](auto& o, auto&) { o.tokens = nullptr; }, "tokens is NULL"},
        Mistake{"hidden",
                [](auto& o, auto&) {
                  static mortise_tensor t;
                  o.hidden = &t;
                },
                "hidden is given"},
        Mistake{"no_array", [](auto& o, auto&) { o.num_accepted = nullptr; }, "num_accepted is NULL"}),
    [](const auto& info) { return info.param.name; });

class MistakeInProposal : public CheckedProposer, public testing::WithParamInterface<Mistake> {};
TEST_P(MistakeInProposal, IsTheHosts) {
  begin();
  GetParam().make(observation, args);
  EXPECT_THAT(propose(), AllOf(HasSubstr("the host breaks mortise/proposer.h"), HasSubstr(GetParam().rule)));
}
INSTANTIATE_TEST_SUITE_P(
    Each, MistakeInProposal,
    testing::Values(Mistake{"unknown", [](auto&, auto& a) { const_cast<std::uint64_t*>(a.seq_ids)[0] = 9; },
                            "sequence 9 is given twice, or was never reported"},
                    Mistake{"too_many", [](auto&, auto& a) { const_cast<std::int32_t*>(a.max_drafts)[0] = 5; },
                            "max_drafts[0] is 5"},
                    Mistake{"not_zero", [](auto&, auto& a) { a.num_drafts[0] = 1; }, "num_drafts[0] is 1"},
                    Mistake{"temperature", [](auto&, auto& a) { const_cast<float*>(a.temperatures)[0] = -1; },
                            "temperatures[0] is -1"},
                    Mistake{"position", [](auto&, auto& a) { const_cast<std::int64_t*>(a.positions)[0] = 2; },
                            "positions[0] is 2, and 3 tokens were reported"},
                    Mistake{"tree", [](auto&, auto& a) { a.parents = a.tokens; }, "parents is given"},
                    Mistake{"nobody", [](auto&, auto& a) { a.num_seqs = 0; }, "0 sequences with rows of 4 drafts"},
                    Mistake{"no_array", [](auto&, auto& a) { a.keys = nullptr; }, "keys is NULL"}),
    [](const auto& info) { return info.param.name; });

TEST_F(CheckedProposer, DistributionsAreForThoseThatGiveThem) {
  const PartInstance other = instance(checked(PartKind::kProposer, &kTable));
  mortise_proposer_bind_args bound{};
  bound.struct_size = sizeof bound;
  bound.target = &target;
  auto& its = const_cast<PartInstance&>(other);
  ASSERT_EQ(failure_of(other, "bind",
                       [&](mortise_error* e) { return table().bind(other.handle<mortise_proposer>(), &bound, e); }),
            "");
  its.activate(sizes());
  args.distributions = distributions.data();
  mortise_step step{};
  step.struct_size = sizeof step;
  EXPECT_THAT(
      failure_of(other, "propose",
                 [&](mortise_error* e) { return table().propose(other.handle<mortise_proposer>(), &step, &args, e); }),
      HasSubstr("\"the component has MORTISE_CAP_DISTRIBUTION\": distributions is given"));
}

}  // namespace
}  // namespace mortise::proposer_calls_test
