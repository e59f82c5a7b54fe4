#include "fake_world.hpp"

namespace mortise::model_calls_test {
namespace {

using namespace fake;

using CheckedModel = CheckedStep;

TEST_F(CheckedModel, DimsStayTheSame) {
  ASSERT_EQ(dims_of_model(), "");
  world.dims = [](mortise_model_dims* to) { (*to = dims()).vocab_size = 99; };
  EXPECT_THAT(dims_of_model(),
              HasSubstr("breaks mortise/model.h, \"Fills `dims` from the configuration alone\": dims gives "
                        "another answer than before"));
}

TEST_F(CheckedModel, DimsAreAModels) {
  world.dims = [](mortise_model_dims* to) { (*to = dims()).head_dim = 0; };
  EXPECT_THAT(dims_of_model(),
              HasSubstr("breaks mortise/batch.h, \"Dimensions of a model\": dims says a size that is not above 0"));
}

TEST_F(CheckedModel, DimsHaveATypeToComputeIn) {
  world.dims = [](mortise_model_dims* to) { (*to = dims()).dtype = MORTISE_I8; };
  EXPECT_THAT(dims_of_model(), HasSubstr("dims says the dtype 0x8"));
}

TEST_F(CheckedModel, DimsHaveWeightsOfKnownBits) {
  world.dims = [](mortise_model_dims* to) { (*to = dims()).weight_bits = 5; };
  EXPECT_THAT(dims_of_model(), HasSubstr("dims says weights of 5 bits"));
}

TEST_F(CheckedModel, DimsKeepTheirSize) {
  world.dims = [](mortise_model_dims* to) { (*to = dims()).struct_size = 0; };
  EXPECT_THAT(dims_of_model(), HasSubstr("\"the struct_size that the caller set\": dims changes it to 0"));
}

TEST_F(CheckedModel, TheReaderEndsWithLoad) {
  static const mortise_weight_reader* kept;
  world.load = [](const mortise_weight_reader* reader) { return kept = reader, kOk; };
  world.forward = [](const mortise_step* shown, mortise_tensor* hidden, mortise_error* error) {
    mortise_tensor found{};
    EXPECT_EQ(kept->get(kept->context, {"x", 1}, &found), MORTISE_NOT_FOUND);
    return sound_forward(shown, hidden, error);
  };
  begin();
  ASSERT_EQ(plan(), "");
  EXPECT_THAT(forward(),
              HasSubstr("breaks mortise/model.h, \"Keep nothing of `reader`\": the reader is used after load"));
}

TEST_F(CheckedModel, WeightsAreLoadedOnce) {
  ASSERT_EQ(load(), "");
  EXPECT_THAT(
      load(),
      HasSubstr("the host breaks mortise/model.h, \"Reads and prepares all weights, once\": load is called twice"));
}

TEST_F(CheckedModel, WeightsAreLoadedFirst) {
  ASSERT_EQ(bind(), "");
  attention.activate(sizes());
  model.activate(sizes());
  EXPECT_THAT(forward(),
              HasSubstr("the host breaks mortise/model.h, \"Reads and prepares all weights, once, before activate\""));
}

TEST_F(CheckedModel, AllLayersRun) {
  begin();
  ASSERT_EQ(plan(), "");
  world.forward = [](const mortise_step* shown, mortise_tensor* hidden, mortise_error* error) {
    static float numbers[64];
    append(shown, 0, error);
    run(shown, 0, error);
    *hidden = tensor(numbers, {3, 8});
    return kOk;
  };
  EXPECT_THAT(forward(),
              HasSubstr("breaks mortise/model.h, \"Runs all layers\": forward runs the attention of 1 of 2 layers"));
}

TEST_F(CheckedModel, HiddenRowsAreWithinTheirMemory) {
  begin();
  ASSERT_EQ(plan(), "");
  world.forward = [](const mortise_step* shown, mortise_tensor* hidden, mortise_error* error) {
    const mortise_status status = sound_forward(shown, hidden, error);
    hidden->bytes = 8;
    return status;
  };
  EXPECT_THAT(forward(), HasSubstr("\"in the model's device memory\": hidden takes 96 bytes, and 8 are accessible"));
}

TEST_F(CheckedModel, TheStepIsReadOnly) {
  begin();
  ASSERT_EQ(plan(), "");
  world.forward = [](const mortise_step* shown, mortise_tensor* hidden, mortise_error* error) {
    const_cast<mortise_step*>(shown)->generation = 9;
    return sound_forward(shown, hidden, error);
  };
  EXPECT_THAT(forward(), HasSubstr("forward changes step"));
}

TEST_F(CheckedModel, NothingIsAllocatedInAStep) {
  begin();
  ASSERT_EQ(plan(), "");
  world.forward = [](const mortise_step* shown, mortise_tensor*, mortise_error* error) {
    void* memory;
    return shown->device_table->allocate(shown->device, 8, &memory, error);
  };
  EXPECT_THAT(forward(),
              HasSubstr("model 'fake' (fake.so): forward: breaks mortise/plugin.h, \"activate (all allocation and "
                        "tuning)\": the device's allocate is called in a step; it is a [control] call"));
}

// The host compares two attentions inside a forward (execution/attention_pair).
TEST_F(CheckedModel, WhatTheHostAllocatesInsideAStepIsTheHosts) {
  begin();
  ASSERT_EQ(plan(), "");
  const auto device_part = device.active_part<mortise_device, mortise_device_table>();
  void* memory = nullptr;
  const auto forward_of_model = world.forward;
  world.forward = [&](const mortise_step* shown, mortise_tensor* hidden, mortise_error* error) {
    EXPECT_TRUE(device_part.try_call<&mortise_device_table::allocate>("allocate", std::uint64_t{8}, &memory).ok());
    return forward_of_model(shown, hidden, error);
  };
  EXPECT_EQ(forward(), "");
  EXPECT_EQ(log_of([&] { device_part.tell<&mortise_device_table::free>("free", memory); }), "");
}

TEST_F(CheckedModel, WhatItFreesWasItsOwn) {
  begin();
  ASSERT_EQ(plan(), "");
  world.load = [](auto*) { return kOk; };
  world.forward = [](const mortise_step* shown, mortise_tensor* hidden, mortise_error* error) {
    static int not_an_event;
    shown->device_table->event_destroy(shown->device, reinterpret_cast<mortise_event*>(&not_an_event));
    return sound_forward(shown, hidden, error);
  };
  EXPECT_THAT(forward(),
              HasSubstr("\"A handle lives until the function that destroys it\": event_destroy gets an event that the "
                        "device did not hand out, or that was returned before"));
}

TEST_F(CheckedModel, ItReturnsWhatItGotFromTheDevice) {
  static CheckedModel* test;
  test = this;
  world.load = [](auto*) {
    void* memory;
    mortise_error error = empty_error();
    return test->devices().allocate(test->step.device, 8, &memory, &error);
  };
  ASSERT_EQ(load(), "");
  const std::string log = log_of([&] { const PartInstance gone = std::move(model); });
  EXPECT_THAT(
      log,
      HasSubstr("model 'fake' (fake.so): destroy: breaks mortise/abi.h, \"The side that allocates memory frees it\": "
                "destroy leaves 0 allocations of the host and 1 objects of the device"));
}

// The head, with `columns` from 0 on and `rows` rows.
class CheckedHead : public CheckedStep {
 protected:
  std::string head(std::int64_t rows, std::int32_t begin_column, std::int32_t end_column, std::int64_t width) {
    std::vector<float> numbers(4096);
    const mortise_tensor hidden = tensor(numbers.data(), {rows, 8}), logits = tensor(numbers.data(), {rows, width});
    return failure_of(model, "head", [&](mortise_error* error) {
      return models().head(model_handle(), &step, &hidden, begin_column, end_column, &logits, error);
    });
  }
};

TEST_F(CheckedHead, ASoundCallIsLeftAlone) {
  begin();
  EXPECT_EQ(head(2, 0, 100, 100), "");
  EXPECT_EQ(head(2, 64, 100, 36), "");
}
TEST_F(CheckedHead, ColumnsAreMultiples) {
  begin();
  EXPECT_THAT(head(2, 32, 100, 68), HasSubstr("the host breaks mortise/model.h, \"The bounds follow the rule of "
                                              "mortise_linear_args.column_begin\": columns 32 to 100 of 100"));
}
TEST_F(CheckedHead, RowsAreLimited) {
  begin();
  EXPECT_THAT(head(17, 0, 100, 100), HasSubstr("\"R <= max_logit_rows\": 17 rows, and max_logit_rows is 16"));
}
TEST_F(CheckedHead, LogitsHaveTheColumns) {
  begin();
  EXPECT_THAT(head(2, 0, 100, 99), HasSubstr("logits has shape[1] = 99, and 100 is needed"));
}

}  // namespace
}  // namespace mortise::model_calls_test
