// runtime/conformance/model_load_cases.cpp: rules of models: what models say of a checkpoint, and how they load it.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "conformance/guarded_memory.hpp"
#include "conformance/model_scene.hpp"
#include "execution/weight_reader.hpp"
#include "mortise/plugin.hpp"
#include "mortise/struct_sizes.h"

namespace mortise::conformance {
namespace {

// A reader of the subject's checkpoint that notes the tensors that it gives, and that can leave one out, give one with
// a row less, or give copies that are gone with it. Its functions are thread-safe, as model.h says.
class AlteredReader {
 public:
  explicit AlteredReader(const Checkpoint& checkpoint) : weights_(checkpoint), inner_(weights_.abi()) {}

  void leave_out(const std::string& tensor) { missing_ = tensor; }
  void crop(const std::string& tensor) { cropped_ = tensor; }
  void give_copies() { gives_copies_ = true; }
  // Returns a reader in guarded memory that lives as long as this object.
  const mortise_weight_reader* abi() {
    mortise_weight_reader reader = inner_;
    reader.context = this;
    reader.get = get;
    reader.get_quantized = get_quantized;
    return copies_.copy(&reader, 1);
  }
  const std::set<std::string>& given() const { return given_; }

 private:
  static mortise_status get(void* context, mortise_string_view name, mortise_tensor* tensor) {
    auto& self = *static_cast<AlteredReader*>(context);
    const std::string text(name.data, name.size);
    if (text == self.missing_) return MORTISE_NOT_FOUND;
    const mortise_status status = self.inner_.get(self.inner_.context, name, tensor);
    if (status != MORTISE_OK) return status;
    const std::lock_guard lock(self.mutex_);
    self.given_.insert(text);
    if (text == self.cropped_) --tensor->shape[0];
    if (self.gives_copies_) {
      const auto* const bytes = static_cast<const std::uint8_t*>(tensor->data);
      tensor->data = const_cast<std::uint8_t*>(self.copies_.copy(bytes, static_cast<std::int64_t>(tensor->bytes)));
    }
    return status;
  }
  static mortise_status get_quantized(void* context, mortise_string_view name, mortise_quantized_matrix* matrix,
                                      mortise_error* error) {
    const auto& self = *static_cast<AlteredReader*>(context);
    return self.inner_.get_quantized(self.inner_.context, name, matrix, error);
  }

  WeightReader weights_;
  const mortise_weight_reader inner_;
  std::string missing_, cropped_;
  bool gives_copies_ = false;
  std::mutex mutex_;  // guards given_ and copies_
  std::set<std::string> given_;
  ReadOnlyCopies copies_;
};

Answer load(const Part& part, AlteredReader& reader) {
  return part.call("load", [&](mortise_error* error) {
    return part.table<mortise_model_table>().load(part.handle<mortise_model>(), reader.abi(), error);
  });
}

// --- what it says of a checkpoint ---

void dims_are_sane(Subject& subject) {
  const mortise_model_dims dims = dims_of(*subject.make());
  expect(dims.num_layers > 0 && dims.hidden_size > 0 && dims.vocab_size > 0 && dims.max_model_len > 0,
         "num_layers {}, hidden_size {}, vocab_size {} and max_model_len {} must all be positive", dims.num_layers,
         dims.hidden_size, dims.vocab_size, dims.max_model_len);
  expect(dims.num_heads > 0 && dims.num_kv_heads > 0 && dims.num_heads % dims.num_kv_heads == 0,
         "num_kv_heads is {}, which does not divide num_heads, {}", dims.num_kv_heads, dims.num_heads);
  expect(dims.head_dim > 0, "head_dim is {}", dims.head_dim);
  expect(dims.dtype == MORTISE_BF16 || dims.dtype == MORTISE_F32, "dtype is {:#x}, neither bf16 nor f32", dims.dtype);
  expect(std::isfinite(dims.attention_scale) && dims.attention_scale > 0, "attention_scale is {}",
         dims.attention_scale);
  expect(dims.weight_bits == 0 || dims.weight_bits == 4 || dims.weight_bits == 8,
         "weight_bits is {}; expected 0, 4 or 8", dims.weight_bits);
  expect(dims.weight_type == 0 || (dims.weight_type == MORTISE_F8_E4M3 && dims.weight_bits == 8) ||
             (dims.weight_type == MORTISE_F4_E2M1 && dims.weight_bits == 4 && dims.weight_group_size == 32) ||
             (dims.weight_type == MORTISE_I8_BLOCK32 && dims.weight_bits != 0),
         "weight_type is {:#x} with weight_bits {} and weight_group_size {}", dims.weight_type, dims.weight_bits,
         dims.weight_group_size);
  expect(dims.weight_group_size >= 0, "weight_group_size is {}", dims.weight_group_size);
}

// Returns the dims as a text that can be compared.
std::string text_of(const Part& part) {
  const mortise_model_dims dims = dims_of(part);
  std::string text = fmt::format(
      "num_layers {} hidden_size {} num_heads {} num_kv_heads {} head_dim {} vocab_size {} max_model_len {} dtype {} "
      "attention_scale {} weight_bits {} weight_group_size {} weight_type {} sliding_windows",
      dims.num_layers, dims.hidden_size, dims.num_heads, dims.num_kv_heads, dims.head_dim, dims.vocab_size,
      dims.max_model_len, dims.dtype, dims.attention_scale, dims.weight_bits, dims.weight_group_size, dims.weight_type);
  if (dims.sliding_windows == nullptr) return text + " none";
  for (std::int32_t layer = 0; layer < dims.num_layers; ++layer) {
    expect(dims.sliding_windows[layer] >= 0, "sliding_windows[{}] is {}", layer, dims.sliding_windows[layer]);
    text += fmt::format(" {}", dims.sliding_windows[layer]);
  }
  return text;
}

void dims_are_stable(Subject& subject) {
  const auto part = subject.make();
  const std::string created = text_of(*part);
  const auto expect_same = [&](const Part& other, const char* when) {
    const std::string now = text_of(other);
    expect(now == created, "dims {} are '{}', but after create they are '{}'", when, now, created);
  };
  expect_same(*part, "at a second call");
  subject.start(*part);
  expect_same(*part, "after load and activate");
  part->deactivate();
  expect_same(*part, "after deactivate");
  expect_same(*subject.make(), "of another instance");
}

// A host that was built with earlier headers has a shorter struct.
void older_dims_are_filled(Subject& subject) {
  const auto part = subject.make();
  constexpr std::uint32_t kOlder = MORTISE_SIZE_0_5(mortise_model_dims);
  const GuardedPages pages(kOlder);
  auto* const dims = static_cast<mortise_model_dims*>(pages.data());
  std::memset(pages.data(), 0, kOlder);
  dims->struct_size = kOlder;
  part->perform("dims", [&](mortise_error* error) {
    return part->table<mortise_model_table>().dims(part->handle<mortise_model>(), dims, error);
  });
  expect(dims->struct_size == kOlder, "dims changes struct_size");
  expect(dims->vocab_size == dims_of(*part).vocab_size, "dims differ for an older host");
}

void odd_configurations_are_refused(Subject& subject) {
  const std::string whole = subject.checkpoint().config().json;
  for (const std::string& config :
       {std::string(), std::string("{}"), std::string("[]"), std::string("null"), std::string("{\"model_type\": 7}"),
        whole.substr(0, whole.size() / 2), std::string(100000, '[')}) {
    PartSetup setup = subject.setup();
    setup.model_config = config;
    const Part part(subject.component(), std::move(setup));
    Answer answer = part.created();
    auto dims = sized<mortise_model_dims>();
    if (answer.ok()) {
      answer = part.call("dims", [&](mortise_error* error) {
        return part.table<mortise_model_table>().dims(part.handle<mortise_model>(), &dims, error);
      });
    }
    expect(!answer.ok(), "create and dims accept the configuration '{}'", config.substr(0, 60));
    expect(answer.status != MORTISE_INTERNAL, "the configuration '{}' is refused as a bug of the model: {}",
           config.substr(0, 60), answer.text());
  }
}

// --- load ---

// Returns tensors of the checkpoint that the model reads: all at levels above quick, otherwise a random few.
std::vector<std::string> some_tensors(Subject& subject) {
  const auto part = subject.make();
  AlteredReader reader(subject.checkpoint());
  const Answer answer = load(*part, reader);
  expect(answer.ok(), "load fails: {}", answer.text());
  expect(!reader.given().empty(), "load reads no tensor");
  std::vector<std::string> names(reader.given().begin(), reader.given().end());
  std::ranges::shuffle(names, subject.random());
  names.resize(std::min<std::size_t>(names.size(), static_cast<std::size_t>(subject.rounds(8))));
  return names;
}

void expect_refusal(const Answer& answer, const std::string& tensor, const char* what) {
  expect(!answer.ok(), "load accepts a checkpoint {} {}", what, tensor);
  expect(answer.status == MORTISE_DATA_LOSS, "a checkpoint {} {} must be refused with DATA_LOSS: {}", what, tensor,
         answer.text());
  expect(answer.text().find(tensor) != std::string::npos, "the refusal of a checkpoint {} {} does not name it: {}",
         what, tensor, answer.text());
}

void missing_tensors_are_named(Subject& subject) {
  for (const std::string& tensor : some_tensors(subject)) {
    const auto part = subject.make();
    AlteredReader reader(subject.checkpoint());
    reader.leave_out(tensor);
    expect_refusal(load(*part, reader), tensor, "without");
  }
}

void wrong_shapes_are_named(Subject& subject) {
  for (const std::string& tensor : some_tensors(subject)) {
    const auto part = subject.make();
    AlteredReader reader(subject.checkpoint());
    reader.crop(tensor);
    expect_refusal(load(*part, reader), tensor, "with too few rows in");
  }
}

void failed_loads_leave_nothing(Subject& subject) {
  const std::vector<std::string> tensors = some_tensors(subject);
  DeviceWatch watch(subject.device());
  for (const std::string& tensor : tensors) {
    PartSetup setup = subject.setup();
    setup.device_table = watch.table();
    const auto part = subject.make(std::move(setup));
    AlteredReader reader(subject.checkpoint());
    reader.leave_out(tensor);
    load(*part, reader);
    part->destroy();
    expect(watch.num_allocations() == 0 && watch.num_weights() == 0,
           "after load has failed, destroy leaves {} allocations and {} weights of the device", watch.num_allocations(),
           watch.num_weights());
  }
  expect(watch.breaches().empty(), "{}", fmt::join(watch.breaches(), "; "));
}

void nothing_of_the_reader_is_kept(Subject& subject) {
  const auto expected_part = subject.make_active();
  const auto part = subject.make();
  {
    AlteredReader reader(subject.checkpoint());
    reader.give_copies();
    const Answer answer = load(*part, reader);
    expect(answer.ok(), "load fails: {}", answer.text());
  }  // the reader and all views that it gave are gone
  const Answer answer = part->activate(usual_sizes());
  expect(answer.ok(), "activate fails: {}", answer.text());
  const auto rows_of = [&](const Part& model) {
    ModelScene scene(subject, model);
    return scene.prefill(scene.sequences().add({1, 2, 3}));
  };
  expect_same_rows(rows_of(*expected_part), rows_of(*part), "a row changes when the reader is gone after load");
}

constexpr Case kModelLoadCases[] = {
    {"model.dims", "dims describe a decoder: positive sizes, heads that fit together, a dtype.", kOfModel,
     dims_are_sane},
    {"model.dims_stable", "dims are the same at every time and in every instance.", kOfModel, dims_are_stable},
    {"model.older_dims", "dims writes nothing beyond the struct of an older host.", kOfModel, older_dims_are_filled},
    {"model.configurations", "A configuration that describes no such model is refused with a reason.", kOfModel,
     odd_configurations_are_refused},
    {"model.missing_tensor", "load refuses a checkpoint without one of its tensors with DATA_LOSS, and names it.",
     kOfModel, missing_tensors_are_named, true},
    {"model.wrong_shape", "load refuses a tensor of another shape with DATA_LOSS, and names it.", kOfModel,
     wrong_shapes_are_named, true},
    {"model.failed_load", "destroy after a failed load frees all device memory and weights of the instance.", kOfModel,
     failed_loads_leave_nothing, true},
    {"model.reader", "load keeps nothing of the reader, and no view of a tensor.", kOfModel,
     nothing_of_the_reader_is_kept},
};

}  // namespace

std::span<const Case> model_load_cases() {
  return kModelLoadCases;
}

}  // namespace mortise::conformance
