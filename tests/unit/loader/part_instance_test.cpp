// Covers: runtime/loader/option_reader
#include "loader/part_instance.hpp"

#include <cstring>

#include "loader/option_reader.hpp"
#include "loader/plugin_file.hpp"
#include "mortise/scheduler.h"
#include "test_support.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> journal;  // what `lively` tells of its life

PartInstance make_lively(const std::string& fail_in, std::shared_ptr<PartHealth> device = nullptr) {
  static void (*const write)(const char*) = [](const char* line) { journal.emplace_back(line); };
  journal.clear();
  const Component& component = load_plugin_file(good("lively")).components[0];
  CreateContext context;
  context.device_health = std::move(device);
  context.extensions = [](const char* id) -> const void* {
    return std::strcmp(id, "test.journal") == 0 ? &write : nullptr;
  };
  return PartInstance(component, component.schema.complete({{"fail_in", fail_in}}, "x"), context);
}

mortise_activate_args activate_args() {
  mortise_activate_args args{};
  args.struct_size = sizeof args;
  return args;
}

TEST(PartInstance, LivesInOrder) {
  {
    PartInstance part = make_lively("");
    part.activate(activate_args());
    EXPECT_EQ(part.allocated_bytes(), 1000u);
    EXPECT_EQ(part.options(), nlohmann::json({{"fail_in", ""}}));
  }
  EXPECT_THAT(journal, ElementsAre("create", "activate", "deactivate", "destroy"));
}

TEST(PartInstance, OneThatWasNeverActiveIsOnlyDestroyed) {
  { const PartInstance part = make_lively(""); }
  EXPECT_THAT(journal, ElementsAre("create", "destroy"));
}

TEST(OptionReader, GivesOptionsByNameAndType) {
  const OptionReader reader({{"n", 4},
                             {"whole", 5.0},
                             {"x", 0.5},
                             {"on", true},
                             {"t", "a\"b"},
                             {"none", nullptr},
                             {"huge", 1e300},
                             {"list", {1, 2}}});
  mortise_create_args args{};
  reader.give_to(args);
  const mortise_option_reader& read = *args.option_reader;
  std::int64_t n = -1;
  EXPECT_EQ(read.get_int(read.context, "n", &n), MORTISE_OK);
  EXPECT_EQ(n, 4);
  EXPECT_EQ(read.get_int(read.context, "whole", &n), MORTISE_OK);
  EXPECT_EQ(n, 5);
  for (const char* name : {"x", "on", "t", "huge", "list"}) {
    EXPECT_EQ(read.get_int(read.context, name, &n), MORTISE_INVALID_ARGUMENT) << name;
  }
  EXPECT_EQ(n, 5);  // unchanged unless OK
  double x = 0;
  EXPECT_EQ(read.get_float(read.context, "n", &x), MORTISE_OK);
  EXPECT_EQ(x, 4);
  EXPECT_EQ(read.get_float(read.context, "t", &x), MORTISE_INVALID_ARGUMENT);
  std::int32_t on = 0;
  EXPECT_EQ(read.get_bool(read.context, "on", &on), MORTISE_OK);
  EXPECT_EQ(on, 1);
  EXPECT_EQ(read.get_bool(read.context, "n", &on), MORTISE_INVALID_ARGUMENT);
  mortise_string_view text{};
  EXPECT_EQ(read.get_text(read.context, "t", &text), MORTISE_OK);
  EXPECT_STREQ(text.data, "a\"b");
  EXPECT_EQ(read.get_text(read.context, "list", &text), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(read.get_json(read.context, "list", &text), MORTISE_OK);
  EXPECT_STREQ(text.data, "[1,2]");
  for (const char* name : {"none", "missing", ""}) {
    EXPECT_EQ(read.get_json(read.context, name, &text), MORTISE_NOT_FOUND) << name;
  }
}

TEST(PartInstance, MovingKeepsTheInstance) {
  {
    PartInstance first = make_lively("");
    first.activate(activate_args());
    const PartInstance second = std::move(first);
    EXPECT_TRUE(second.active());
  }
  EXPECT_THAT(journal, ElementsAre("create", "activate", "deactivate", "destroy"));
}

TEST(PartInstance, FailedActivateLeavesItCreated) {
  {
    PartInstance part = make_lively("activate");
    const std::string text = error_of([&] { part.activate(activate_args()); });
    EXPECT_EQ(text, "scheduler 'lively' (lively.so): activate: gave no reason (RESOURCE_EXHAUSTED)");
    EXPECT_FALSE(part.active());
  }
  EXPECT_THAT(journal, ElementsAre("create", "activate", "destroy"));  // with deactivate: undone what was not done
}

TEST(PartInstance, FailedCreateIsAnErrorOfOneLineAndDestroysNothing) {
  EXPECT_EQ(error_of([] { make_lively("create"); }),
            "scheduler 'lively' (lively.so): create: toy: no toy is plugged in (UNAVAILABLE)");
  EXPECT_THAT(journal, ElementsAre());
}

TEST(PartInstance, AnExceptionThatCrossesTheAbiIsAnErrorWithThePluginsName) {
  EXPECT_THAT(error_of([] { make_lively("throw"); }),
              AllOf(HasSubstr("lively.so"), HasSubstr("an exception crossed the C ABI: thrown out of create")));
}

TEST(PartInstance, CreateWithoutAnInstanceIsAnError) {
  EXPECT_THAT(error_of([] { make_lively("null"); }), HasSubstr("lively.so): create: returned OK without an instance"));
}

TEST(PartInstance, OneThatHasFailedIsNotEvenDestroyed) {
  {
    PartInstance part = make_lively("");
    part.activate(activate_args());
    part.active_part<mortise_scheduler, mortise_scheduler_table>().health->fail("it said INTERNAL");
  }
  EXPECT_THAT(journal, ElementsAre("create", "activate"));
}

TEST(PartInstance, OneWhoseDeviceHasFailedIsNotDestroyed) {
  const auto device = std::make_shared<PartHealth>();
  {
    PartInstance part = make_lively("", device);
    part.activate(activate_args());
    device->fail("it said INTERNAL");
  }
  EXPECT_THAT(journal, ElementsAre("create", "activate"));
}

TEST(PartInstance, WhatThrowsInDeactivateIsNotDestroyed) {
  {
    PartInstance part = make_lively("deactivate");
    part.activate(activate_args());
  }
  EXPECT_THAT(journal, ElementsAre("create", "activate", "deactivate"));
}

}  // namespace
}  // namespace mortise
