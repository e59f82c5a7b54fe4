// Covers: runtime/abi_check/{call,memory,checked_component,kinds}
#include <array>
#include <cstring>
#include <thread>

#include "fake_parts.hpp"
#include "mortise/ext/sequences.h"

namespace mortise::scheduler_calls_test {
namespace {

using namespace fake;

std::function<mortise_status(const mortise_schedule_view*, mortise_schedule_plan*, mortise_error*)> on_plan;
std::function<mortise_status(const mortise_schedule_events*, mortise_error*)> on_events;

mortise_status sound_plan(const mortise_schedule_view* view, mortise_schedule_plan* plan, mortise_error*) {
  plan->num_scheduled = 1;
  plan->num_preempted = plan->num_pins = 0;
  plan->seqs[0] = 0;
  plan->num_new_tokens[0] = view->num_tokens[0] - view->num_computed[0];
  return kOk;
}

constexpr mortise_scheduler_table kTable = {
    sizeof(mortise_scheduler_table), 0,
    [](mortise_scheduler*, const mortise_schedule_events* events, mortise_error* error) {
      return on_events(events, error);
    },
    [](mortise_scheduler*, const mortise_schedule_view* view, mortise_schedule_plan* plan, mortise_error* error) {
      return on_plan(view, plan, error);
    }};

// A view of two sequences, 7 and 8. The first one runs.
struct View {
  std::array<std::uint64_t, 2> ids = {7, 8}, arrivals = {1, 2}, groups = {};
  std::array<std::int32_t, 2> states = {MORTISE_SEQ_RUNNING, MORTISE_SEQ_WAITING}, num_tokens = {5, 6},
                              computed = {4, 0}, cached = {}, cached_free = {}, held = {2, 0}, freed = {1, 0},
                              lookahead = {3, 0}, priorities = {}, with = {0, 1}, shared = {};
  mortise_schedule_view abi() {
    mortise_schedule_view view{};
    view.struct_size = sizeof view;
    view.num_seqs = 2;
    view.block_size = sizes().block_size;
    view.token_budget = sizes().max_batched_tokens;
    view.seq_budget = sizes().max_num_seqs;
    view.num_blocks = sizes().num_blocks;
    view.num_free_blocks = 30;
    view.seq_ids = ids.data();
    view.states = states.data();
    view.num_tokens = num_tokens.data();
    view.num_computed = computed.data();
    view.num_cached = cached.data();
    view.num_cached_free_blocks = cached_free.data();
    view.blocks_held = held.data();
    view.blocks_freed_if_preempted = freed.data();
    view.lookahead = lookahead.data();
    view.priorities = priorities.data();
    view.arrivals = arrivals.data();
    view.groups = groups.data();
    view.cached_free_with = with.data();
    view.cached_free_shared = shared.data();
    view.blocks_freed = [](const void*, const std::int32_t*, std::int32_t n) { return n; };
    return view;
  }
};

struct Plan {
  std::array<std::int32_t, 2> seqs{}, tokens{}, preempted{}, pins{}, pin_tokens{}, drafts{3, 0};
  mortise_schedule_plan abi() {
    mortise_schedule_plan plan{};
    plan.struct_size = sizeof plan;
    plan.seqs = seqs.data();
    plan.num_new_tokens = tokens.data();
    plan.preempted = preempted.data();
    plan.pins = pins.data();
    plan.pin_tokens = pin_tokens.data();
    plan.max_drafts = drafts.data();
    return plan;
  }
};

class CheckedScheduler : public testing::Test {
 protected:
  CheckedScheduler() {
    life = Life();
    on_plan = sound_plan;
    on_events = [](const mortise_schedule_events*, mortise_error*) { return kOk; };
  }
  PartInstance& part() {
    if (part_ == nullptr) part_ = std::make_unique<PartInstance>(instance(component_));
    return *part_;
  }
  const mortise_scheduler_table& table() { return *part().table<mortise_scheduler_table>(); }
  mortise_scheduler* handle() { return part().handle<mortise_scheduler>(); }

  std::string events(std::vector<std::int32_t> kinds, std::vector<std::uint64_t> ids) {
    const std::int32_t tokens[] = {1, 2, 3, 4, 5, 6};
    std::vector<const std::int32_t*> lists(kinds.size(), tokens);
    std::vector<std::int32_t> counts(kinds.size(), 5);
    mortise_schedule_events args{};
    args.struct_size = sizeof args;
    args.num_events = static_cast<std::int32_t>(kinds.size());
    args.kinds = kinds.data();
    args.seq_ids = ids.data();
    args.num_tokens = counts.data();
    args.tokens = lists.data();
    return failure_of(part(), "events", [&](mortise_error* error) { return table().events(handle(), &args, error); });
  }
  // An active scheduler that knows the view's sequences.
  void begin() {
    part().activate(sizes());
    ASSERT_EQ(events({MORTISE_EVENT_ADDED, MORTISE_EVENT_ADDED}, {7, 8}), "");
  }
  std::string plan() {
    const mortise_schedule_view shown = view_.abi();
    return plan_of(&shown);
  }
  std::string plan_of(const mortise_schedule_view* shown) {
    mortise_schedule_plan made = plan_.abi();
    return failure_of(part(), "plan",
                      [&](mortise_error* error) { return table().plan(handle(), shown, &made, error); });
  }

  const Component& component_ = checked(PartKind::kScheduler, &kTable);
  std::unique_ptr<PartInstance> part_;
  View view_;
  Plan plan_;
};

TEST_F(CheckedScheduler, ASoundOneIsLeftAlone) {
  begin();
  EXPECT_EQ(plan(), "");
  EXPECT_EQ(plan_.tokens[0], 1);
  EXPECT_EQ(events({MORTISE_EVENT_ENDED, MORTISE_EVENT_PREFIX_EVICTED}, {7, 7}), "");
  part().deactivate();
}

TEST_F(CheckedScheduler, AnotherFailureThanABreachIsPassedOn) {
  begin();
  on_plan = [](const mortise_schedule_view*, mortise_schedule_plan*, mortise_error* error) -> mortise_status {
    std::strcpy(error->message, "no plan today");
    return MORTISE_UNAVAILABLE;
  };
  EXPECT_EQ(plan(), "scheduler 'fake' (fake.so): plan: no plan today (UNAVAILABLE)");
  on_plan = sound_plan;
  EXPECT_EQ(plan(), "");  // "is not called again": the failure was taken for a breach
}

TEST_F(CheckedScheduler, TheCheckedComponentIsOneAndIsNotCheckedTwice) {
  EXPECT_EQ(&checked_component(component_), &component_);
}

// A defect of a scheduler, and the rule that names it.
struct Defect {
  const char* name;
  std::function<void()> make;
  const char* rule;
};
void PrintTo(const Defect& defect, std::ostream* out) {
  *out << defect.name;
}

void plan_does(const std::function<void(const mortise_schedule_view*, mortise_schedule_plan*, mortise_error*)>& also,
               mortise_status status = MORTISE_OK) {
  on_plan = [=](const mortise_schedule_view* view, mortise_schedule_plan* plan, mortise_error* error) {
    sound_plan(view, plan, error);
    also(view, plan, error);
    return status;
  };
}

class DefectOfPlan : public CheckedScheduler, public testing::WithParamInterface<Defect> {};

TEST_P(DefectOfPlan, IsNamedAndEndsTheInstance) {
  begin();
  GetParam().make();
  const std::string text = plan();
  EXPECT_THAT(text, AllOf(HasSubstr("scheduler 'fake' (fake.so): plan: breaks mortise/"), HasSubstr(GetParam().rule),
                          HasSubstr("(INTERNAL)")));
  EXPECT_THAT(plan(), HasSubstr("is not called again"));
}

INSTANTIATE_TEST_SUITE_P(
    Each, DefectOfPlan,
    testing::Values(
        Defect{"unknown_status", [] { plan_does([](auto*, auto*, auto*) {}, 77); },
               "\"Codes from 1000 on are a plugin's own\": plan returns the status 77"},
        Defect{"fails_silently", [] { plan_does([](auto*, auto*, auto*) {}, MORTISE_UNAVAILABLE); },
               "\"writes the detail into `error`\": plan fails with UNAVAILABLE and gives no message"},
        Defect{"text_without_end",
               [] {
                 plan_does([](auto*, auto*, auto* error) { std::memset(error->message, 'x', sizeof error->message); });
               },
               "plan leaves a text in mortise_error without an end"},
        Defect{"size_of_error", [] { plan_does([](auto*, auto*, auto* error) { error->struct_size = 8; }); },
               "plan changes the struct_size of mortise_error"},
        Defect{"throws", [] { plan_does([](auto*, auto*, auto*) { throw std::runtime_error("out of memory"); }); },
               "\"No exception may leave a plugin\": an exception crossed the C ABI: out of memory"},
        Defect{"throws_a_number", [] { plan_does([](auto*, auto*, auto*) { throw 5; }); },
               "\"No exception may leave a plugin\""},
        Defect{"changes_view",
               [] { plan_does([](auto* view, auto*, auto*) { const_cast<std::int32_t*>(view->states)[1] = 1; }); },
               "\"Data behind `const` is read-only\": plan changes states"},
        Defect{"changes_pointer", [] { plan_does([](auto*, auto* plan, auto*) { plan->seqs = plan->pins; }); },
               "\"The host allocates the arrays\": plan changes a pointer or the size of the plan"},
        Defect{"writes_beyond", [] { plan_does([](auto*, auto* plan, auto*) { plan->pins[2] = 1; }); },
               "plan writes beyond the 2 elements of pins"},
        Defect{"writes_before", [] { plan_does([](auto*, auto* plan, auto*) { plan->seqs[-1] = 1; }); },
               "plan writes beyond the 2 elements of seqs"},
        Defect{"asks_about_waiting",
               [] {
                 plan_does([](auto* view, auto*, auto*) {
                   const std::int32_t asked[] = {1};
                   view->blocks_freed(view->host_data, asked, 1);
                 });
               },
               "\"the running sequences seqs[0 .. num_seqs - 1]\": blocks_freed is asked about sequence 1"},
        Defect{"changes_its_mind",
               [] {
                 plan_does([](auto*, auto* plan, auto*) {
                   static int calls = 0;
                   if (++calls % 2 == 0) plan->max_drafts[0] = 0;
                 });
               },
               "\"called twice with the same view, it gives the same plan\""},
        Defect{"log_level",
               [] { plan_does([](auto*, auto*, auto*) {
                      host_of_last->log(host_of_last, 9, {"x", 1});
                    }); },
               "mortise/host.h, \"`level` is MORTISE_LOG_*\": log is called with the level 9"},
        Defect{"log_of_null",
               [] { plan_does([](auto*, auto*, auto*) {
                      host_of_last->log(host_of_last, 1, {nullptr, 1});
                    }); },
               "log is called with a text that is NULL"},
        Defect{"odd_alignment",
               [] { plan_does([](auto*, auto*, auto*) { host_of_last->allocate(host_of_last, 8, 24); }); },
               "\"`alignment` is not a power of two up to 4096\""},
        Defect{"frees_foreign_memory",
               [] {
                 plan_does([](auto*, auto*, auto*) {
                   static int own;
                   host_of_last->free(host_of_last, &own);
                 });
               },
               "\"Frees memory from `allocate`\": free is called with memory that allocate did not return"},
        Defect{"asks_for_null",
               [] { plan_does([](auto*, auto*, auto*) { host_of_last->get_ext(host_of_last, nullptr); }); },
               "get_ext is called with the id NULL"}),
    [](const auto& info) { return info.param.name; });

TEST_F(CheckedScheduler, MisuseOfTheHostOnAnotherThreadFailsTheNextCall) {
  begin();
  std::thread([] { host_of_last->log(host_of_last, 9, {"x", 1}); }).join();
  EXPECT_THAT(plan(), HasSubstr("breaks mortise/host.h, \"`level` is MORTISE_LOG_*\""));
}

TEST_F(CheckedScheduler, ExtensionsMustNotChange) {
  static int first, second;
  life.get_ext = [](const char*) -> const void* {
    static int calls = 0;
    return ++calls == 1 ? &first : &second;
  };
  EXPECT_EQ(part().get_ext("x/1"), &first);
  const std::string log = log_of([&] {
    EXPECT_EQ(part().get_ext("x/1"), nullptr);  // &second: the other table was passed on
  });
  EXPECT_THAT(
      log, HasSubstr("scheduler 'fake' (fake.so): get_ext: breaks mortise/plugin.h, \"the table of an extension of "
                     "this instance, which lives until destroy\": get_ext(\"x/1\") returns another table than before"));
  EXPECT_THAT(plan(), HasSubstr("returns another table than before"));  // the next call fails
}

TEST_F(CheckedScheduler, NoStateOutlivesTheLastSequence) {
  static const mortise_sequences_table sequences = {sizeof sequences, 0, [](void*) { return std::uint64_t{2}; }};
  life.get_ext = [](const char*) -> const void* { return &sequences; };
  begin();
  const std::string text = events({MORTISE_EVENT_ENDED, MORTISE_EVENT_ENDED}, {7, 8});
  EXPECT_THAT(
      text,
      HasSubstr("breaks mortise/ext/sequences.h, \"told that every sequence has ended, the number must be 0\": the "
                "instance keeps state for 2 sequences"));
}

TEST_F(CheckedScheduler, CreateMustGiveAnInstanceExactlyWhenItIsOk) {
  life.create = [](auto*, auto*, void** handle, mortise_error* error) -> mortise_status {
    static int made;
    std::strcpy(error->message, "no");
    *handle = &made;
    return MORTISE_UNAVAILABLE;
  };
  EXPECT_THAT(error_of([&] { part(); }),
              HasSubstr("\"On failure the out-handle is NULL\": create fails and leaves a handle"));
  life.create = [](auto*, auto*, void**, mortise_error*) { return kOk; };
  EXPECT_THAT(error_of([&] { part(); }),
              HasSubstr("\"On OK *instance is not NULL\": create returns OK without an instance"));
}

TEST_F(CheckedScheduler, DestroyMustReturnWhatTheInstanceHolds) {
  [[maybe_unused]] static void* kept;
  life.create = [](const mortise_host* host, auto*, void** handle, mortise_error*) {
    kept = host->allocate(host, 8, 8);
    *handle = new int;
    return kOk;
  };
  part();
  EXPECT_THAT(
      log_of([&] { part_.reset(); }),
      HasSubstr(
          "destroy: breaks mortise/abi.h, \"The side that allocates memory frees it\": destroy leaves 1 allocations"));
}

// Mistakes of the host: it, and not the part, is named.

TEST_F(CheckedScheduler, AStepBelongsToAnActiveInstance) {
  EXPECT_THAT(plan(), HasSubstr("the host breaks mortise/abi.h, \"active: between activate and deactivate\": plan is "
                                "called before the instance is active"));
}

TEST_F(CheckedScheduler, ActivateBelongsToAnInstanceThatIsNotActive) {
  part().activate(sizes());
  const auto args = sizes();
  EXPECT_THAT(failure_of(part(), "activate",
                         [&](mortise_error* error) { return component_.abi->activate(handle(), &args, error); }),
              HasSubstr("the host breaks mortise/abi.h, \"created: between create and destroy while not active\": "
                        "activate is called while the instance is active"));
}

TEST_F(CheckedScheduler, StructsHaveTheirSize) {
  begin();
  mortise_schedule_view shown = view_.abi();
  shown.struct_size = 8;
  EXPECT_THAT(plan_of(&shown),
              HasSubstr("the host breaks mortise/abi.h, \"Every struct and table begins with `uint32_t "
                        "struct_size`\": view has the struct_size 8, and at least 152 is needed"));
}

TEST_F(CheckedScheduler, StructsAreThere) {
  begin();
  EXPECT_THAT(plan_of(nullptr),
              HasSubstr("the host breaks mortise/abi.h, \"The caller owns every struct, array and string "
                        "that it passes\": view is NULL"));
}

TEST_F(CheckedScheduler, ArraysAreThere) {
  begin();
  mortise_schedule_view shown = view_.abi();
  shown.priorities = nullptr;
  EXPECT_THAT(plan_of(&shown),
              HasSubstr("the host breaks mortise/scheduler.h, \"All arrays have length\": priorities is NULL"));
}

TEST_F(CheckedScheduler, CallsOfAnInstanceDoNotOverlap) {
  begin();
  std::string inner;
  plan_does([&](auto*, auto*, auto*) {
    mortise_schedule_view shown = view_.abi();
    mortise_schedule_plan made = plan_.abi();
    mortise_error error = empty_error();
    EXPECT_EQ(table().plan(handle(), &shown, &made, &error), MORTISE_INTERNAL);
    inner = error.message;
  });
  EXPECT_THAT(plan(), HasSubstr("one call at a time per instance"));  // its own call fails, too
  EXPECT_THAT(inner, HasSubstr("scheduler 'fake' (fake.so) in plan breaks mortise/abi.h, \"one call at a time per "
                               "instance\": plan is called while another call of the instance runs"));
}

TEST_F(CheckedScheduler, AnInstanceThatIsDestroyedIsNotCalled) {
  begin();
  const auto* const functions = &table();
  auto* const gone = handle();
  part_.reset();
  mortise_schedule_view shown = view_.abi();
  mortise_schedule_plan made = plan_.abi();
  mortise_error error = empty_error();
  EXPECT_EQ(functions->plan(gone, &shown, &made, &error), MORTISE_INTERNAL);
  EXPECT_THAT(error.message, HasSubstr("plan is called with a handle that is no live instance"));
}

struct HostMistake {
  const char* name;
  std::function<void(View&, mortise_schedule_view&)> make;
  const char* rule;
};
void PrintTo(const HostMistake& mistake, std::ostream* out) {
  *out << mistake.name;
}
class MistakeInView : public CheckedScheduler, public testing::WithParamInterface<HostMistake> {};

TEST_P(MistakeInView, IsTheHosts) {
  begin();
  mortise_schedule_view shown = view_.abi();
  GetParam().make(view_, shown);
  EXPECT_THAT(plan_of(&shown), AllOf(HasSubstr("the host breaks mortise/scheduler.h"), HasSubstr(GetParam().rule)));
}

INSTANTIATE_TEST_SUITE_P(
    Each, MistakeInView,
    testing::Values(
        HostMistake{"unknown_sequence", [](View& v, auto&) { v.ids[1] = 9; },
                    "has sequence 9 twice, or it is not live"},
        HostMistake{"sequence_twice", [](View& v, auto&) { v.ids[1] = 7; }, "has sequence 7 twice"},
        HostMistake{"order",
                    [](View& v, auto&) {
                      v.arrivals = {2, 1};
                    },
                    "\"The live sequences, oldest first\""},
        HostMistake{"state", [](View& v, auto&) { v.states[0] = 5; }, "states[0] is 5"},
        HostMistake{"computed", [](View& v, auto&) { v.computed[0] = 5; },
                    "sequence 0 has 5 tokens, 5 of them computed"},
        HostMistake{"waiting_is_computed", [](View& v, auto&) { v.computed[1] = 1; }, "\"0 for a waiting sequence\""},
        HostMistake{"waiting_holds_blocks", [](View& v, auto&) { v.held[1] = 1; },
                    "the waiting sequence 1 holds 1 blocks"},
        HostMistake{"frees_more_than_held", [](View& v, auto&) { v.freed[0] = 3; }, "3 of the 2 blocks of sequence 0"},
        HostMistake{"lookahead", [](View& v, auto&) { v.lookahead[0] = 64; }, "lookahead[0] is 64"},
        HostMistake{"budgets", [](View&, auto& v) { v.token_budget = 65; },
                    "\"they become the view's budgets and the sizes of activate\""},
        HostMistake{"free_blocks", [](View&, auto& v) { v.num_free_blocks = 33; }, "33 of 32 blocks"},
        HostMistake{"flags", [](View&, auto& v) { v.flags = 2; }, "\"MORTISE_VIEW_*\": flags are 2"},
        HostMistake{"nobody", [](View&, auto& v) { v.num_seqs = 0; }, "num_seqs is 0"}),
    [](const auto& info) { return info.param.name; });

TEST_F(CheckedScheduler, EventsTellOfEachSequenceOnce) {
  begin();
  const std::string text = events({MORTISE_EVENT_ADDED}, {7});
  EXPECT_THAT(text, HasSubstr("the host breaks mortise/scheduler.h, \"ADDED comes before the "
                              "first plan\": sequence 7 is added twice"));
}

TEST_F(CheckedScheduler, OnlyLiveSequencesEnd) {
  begin();
  const std::string text = events({MORTISE_EVENT_ENDED}, {9});
  EXPECT_THAT(text, HasSubstr("sequence 9 ends, and is not live"));
}

TEST_F(CheckedScheduler, EventsHaveAKnownKind) {
  begin();
  const std::string text = events({8}, {7});
  EXPECT_THAT(text, HasSubstr("\"MORTISE_EVENT_*\": kinds[0] is 8"));
}

TEST_F(CheckedScheduler, EventsAreNotTouched) {
  begin();
  on_events = [](const mortise_schedule_events* events, mortise_error*) {
    const_cast<std::uint64_t*>(events->seq_ids)[0] = 1;
    return kOk;
  };
  const std::string text = events({MORTISE_EVENT_ENDED}, {7});
  EXPECT_THAT(text, HasSubstr("breaks mortise/abi.h, \"Data behind `const` is read-only\": events changes seq_ids"));
}

TEST_F(CheckedScheduler, NoEventsAreNoCall) {
  begin();
  const std::string text = events({}, {});
  EXPECT_THAT(text, HasSubstr("\"Not called when nothing happened\": 0 events"));
}

}  // namespace
}  // namespace mortise::scheduler_calls_test
