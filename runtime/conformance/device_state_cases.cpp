// runtime/conformance/device_state_cases.cpp: rules of a device beyond a single operation: bits of quantised products,
// odd numbers, threads, other instances, reactivation, memory and tasks of other parts.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <limits>
#include <string_view>
#include <thread>

#include "conformance/device_bench.hpp"
#include "conformance/quantized_product.hpp"
#include "mortise/ext/parallel.h"
#include "mortise/numerics.h"
#include "sampling/denormals_off.hpp"

namespace mortise::conformance {
namespace {

constexpr std::int64_t kRows = 64, kColumns = 104;  // of weights; no whole tile of columns

FloatRows rows_of(const Matrix& matrix) {
  FloatRows rows;
  for (std::int64_t r = 0; r < matrix.rows; ++r) rows.emplace_back(matrix.row(r), matrix.row(r) + matrix.columns);
  return rows;
}

Matrix multiplied(const DeviceBench& bench, const DeviceWeight& weight, const Matrix& x) {
  const DeviceMatrix in(bench.device, x), out(bench.device, zeros(bench.dtype, x.rows, kRows));
  mortise_linear_args args{};
  args.struct_size = sizeof args;
  args.x = in.tensor();
  args.weight = weight.get();
  args.out = out.tensor();
  bench.run("linear", [&](const auto& table, auto* device, mortise_error* error) {
    return table.linear(device, nullptr, &args, error);
  });
  return out.read();
}

// Throws NotApplicable unless the numerics id for `asked` is `known`.
void require_class(const DeviceBench& bench, std::int32_t asked, std::string_view known) {
  const char* const id = bench.device.table->numerics_id(bench.device.device, asked);
  if (id == nullptr) throw NotApplicable("its numerics id for such weights is NULL");
  if (id != known) throw NotApplicable(fmt::format("the suite does not know the bits of its numerics id {}", id));
}

// `form` lacks use and dtype.
void quantized_bits_are_right(Subject& subject, WeightForm form, std::int32_t asked, const char* known,
                              Product (*product_of)(const FloatRows&)) {
  in_each_type(subject, [&](const DeviceBench& bench) {
    require_class(bench, asked, known);
    const Matrix w = bench.draw(kRows, kColumns, 2);
    form.use = MORTISE_WEIGHT_LINEAR;
    form.dtype = bench.dtype;
    const DeviceWeight weight = prepare(bench.device, form, {w});
    const Product product = product_of(rows_of(w));
    for (const std::int64_t rows : {1, 5, 37}) {
      const Matrix x = bench.draw(rows, kColumns, 2);
      Matrix expected = zeros(bench.dtype, rows, kRows);
      {
        const DenormalsOff denormals_off;
        for (std::int64_t m = 0; m < rows; ++m) {
          const std::vector<float> y = product({x.row(m), x.row(m) + kColumns});
          for (std::int64_t n = 0; n < kRows; ++n) {
            expected.row(m)[n] = mortise_round(y[static_cast<std::size_t>(n)], bench.bf16());
          }
        }
      }
      expect_equal(expected, multiplied(bench, weight, x), known);
    }
  });
}

void int8_bits_are_right(Subject& subject) {
  quantized_bits_are_right(subject, {0, 0, 8}, MORTISE_I8, "cpu-int8/1", int8_product);
}
void int4_bits_are_right(Subject& subject) {
  quantized_bits_are_right(subject, {0, 0, 4, 32}, MORTISE_I8, "cpu-int8/1",
                           [](const FloatRows& w) { return int4_product(w, 32); });
}
void int8_block32_bits_are_right(Subject& subject) {
  quantized_bits_are_right(subject, {0, 0, 8, 32, MORTISE_I8_BLOCK32}, MORTISE_I8_BLOCK32, "cpu-int8-block32/1",
                           [](const FloatRows& w) { return block32_product(w, 8); });
}
void int4_block32_bits_are_right(Subject& subject) {
  quantized_bits_are_right(subject, {0, 0, 4, 32, MORTISE_I8_BLOCK32}, MORTISE_I8_BLOCK32, "cpu-int8-block32/1",
                           [](const FloatRows& w) { return block32_product(w, 4); });
}
void fp8_bits_are_right(Subject& subject) {
  quantized_bits_are_right(subject, {0, 0, 8, 0, MORTISE_F8_E4M3}, MORTISE_F8_E4M3, "cpu-fp8/1", fp8_product);
}

// The id says that the bits are those of the device's own product of the widened weights, whatever class that has.
void mxfp4_bits_are_right(Subject& subject) {
  constexpr const char* kKnown = "mxfp4/1";
  in_each_type(subject, [&](const DeviceBench& bench) {
    require_class(bench, MORTISE_F4_E2M1, kKnown);
    const Matrix w = bench.draw(kRows, kColumns, 2);
    Matrix widened = w;
    const FloatRows rows = mxfp4_rows(rows_of(w));
    for (std::int64_t n = 0; n < kRows; ++n) std::ranges::copy(rows[static_cast<std::size_t>(n)], widened.row(n));
    for (const std::int64_t m : {1, 5, 37, 300}) {
      const Matrix x = bench.draw(m, kColumns, 2);
      const Matrix expected =
          multiplied(bench, prepare(bench.device, {MORTISE_WEIGHT_LINEAR, bench.dtype}, {widened}), x);
      const WeightForm form = {MORTISE_WEIGHT_LINEAR, bench.dtype, 4, 32, MORTISE_F4_E2M1};
      expect_equal(expected, multiplied(bench, prepare(bench.device, form, {w}), x), kKnown);
    }
  });
}

Matrix computed_sum(const DeviceBench& bench, const Matrix& a, const Matrix& b) {
  const DeviceMatrix x(bench.device, a), y(bench.device, b), out(bench.device, zeros(a.dtype, a.rows, a.columns));
  bench.run("add", [&](const auto& table, auto* device, mortise_error* error) {
    return table.add(device, nullptr, x.tensor(), y.tensor(), out.tensor(), error);
  });
  return out.read();
}

void odd_numbers_are_added(Subject& subject) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kOdd[] = {0.0f,         -0.0f,     kInfinity,  -kInfinity,
                            0x1p-126f,    0x1p-127f, -0x1p-130f, 0x1.fep127f,
                            -0x1.fep127f, 1.0f,      -1.0f,      std::numeric_limits<float>::quiet_NaN()};
  in_each_type(subject, [&](const DeviceBench& bench) {
    if (!bench.is_known) throw NotApplicable("the suite does not know the bits of its numerics id");
    Matrix a = bench.draw(9, 40), b = bench.draw(9, 40);
    for (Matrix* const matrix : {&a, &b}) {
      for (float& value : matrix->values) value = kOdd[bench.random()() % std::size(kOdd)];
    }
    Matrix expected = a;
    {
      const DenormalsOff denormals_off;
      for (std::size_t i = 0; i < a.values.size(); ++i) {
        expected.values[i] = mortise_round(a.values[i] + b.values[i], bench.bf16());
      }
    }
    expect_equal(expected, computed_sum(bench, a, b), "add of odd numbers");
  });
}

void no_rows_are_no_work(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const DeviceWeight weight =
        prepare(bench.device, {MORTISE_WEIGHT_LINEAR, bench.dtype}, {bench.draw(kRows, kColumns)});
    multiplied(bench, weight, zeros(bench.dtype, 0, kColumns));
    computed_sum(bench, zeros(bench.dtype, 0, 40), zeros(bench.dtype, 0, 40));
  });
}

void threads_change_nothing(Subject& subject) {
  in_each_type(subject, [](const DeviceBench& bench) {
    const DeviceWeight weight =
        prepare(bench.device, {MORTISE_WEIGHT_LINEAR, bench.dtype}, {bench.draw(kRows, kColumns)});
    const Matrix x = bench.draw(12, kColumns), expected = multiplied(bench, weight, x);
    std::exception_ptr failure;
    std::thread([&] {
      try {
        expect_equal(expected, multiplied(bench, weight, x), "linear on another thread");
      } catch (...) {
        failure = std::current_exception();
      }
    }).join();
    if (failure != nullptr) std::rethrow_exception(failure);
  });
}

void other_instances_change_nothing(Subject& subject) {
  in_each_type(subject, [&](const DeviceBench& bench) {
    const DeviceWeight weight =
        prepare(bench.device, {MORTISE_WEIGHT_LINEAR, bench.dtype}, {bench.draw(kRows, kColumns)});
    const Matrix x = bench.draw(12, kColumns), expected = multiplied(bench, weight, x);
    subject.make_active()->destroy();
    expect_equal(expected, multiplied(bench, weight, x), "linear after another instance has ended");
  });
}

// Returns the bytes in use: those of the process if the device uses its memory, else those of the device.
std::int64_t taken_bytes(const DeviceBench& bench) {
  if (has_host_memory(bench.device)) {
    std::ifstream file("/proc/self/statm");
    std::int64_t total = 0, resident = 0;
    file >> total >> resident;
    return resident * static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  }
  std::uint64_t free_bytes = 0, total_bytes = 0;
  bench.run("memory_info", [&](const auto& table, auto* device, mortise_error*) {
    return table.memory_info(device, &free_bytes, &total_bytes);
  });
  return static_cast<std::int64_t>(total_bytes - free_bytes);
}

void memory_is_returned(Subject& subject) {
  constexpr std::int64_t kMaxKept = 10 << 20;
  in_each_type(subject, [](const DeviceBench& bench) {
    const Matrix w = bench.draw(512, 512);
    const auto use = [&] { prepare(bench.device, {MORTISE_WEIGHT_LINEAR, bench.dtype}, {w}); };
    for (int i = 0; i < 5; ++i) use();
    // Measures up to three times, because other programs may take memory of a GPU meanwhile. A leak shows every time.
    std::int64_t kept = kMaxKept;
    for (int i = 0; i < 3 && kept >= kMaxKept; ++i) {
      const std::int64_t before = taken_bytes(bench);
      for (int j = 0; j < 40; ++j) use();
      kept = taken_bytes(bench) - before;
    }
    expect(kept < kMaxKept, "{} KiB of 40 freed weights are still held", kept / 1024);
  });
}

// Counters that show whether tasks run once, and one at a time on each thread.
struct Visits {
  std::vector<std::atomic<int>> tasks, running;  // by task, by thread
  std::atomic<bool> is_wrong = false;
};

void visit(void* context, std::int32_t task, std::int32_t thread) {
  auto& all = *static_cast<Visits*>(context);
  const auto t = static_cast<std::size_t>(task), on = static_cast<std::size_t>(thread);
  if (t >= all.tasks.size() || on >= all.running.size() || all.running[on]++ != 0) {
    all.is_wrong = true;
    return;
  }
  ++all.tasks[t];
  --all.running[on];
}

void tasks_run_once(Subject& subject) {
  const auto part = subject.make_active();
  const auto* const parallel = static_cast<const mortise_parallel_table*>(part->get_ext(MORTISE_EXT_PARALLEL));
  if (parallel == nullptr) throw NotApplicable("it has no extension " MORTISE_EXT_PARALLEL);
  auto* const device = part->handle<mortise_device>();
  const std::int32_t threads = parallel->num_threads(device);
  expect(threads >= 1, "num_threads is {}", threads);
  for (const std::int32_t count : {0, 1, 3, 1000}) {
    Visits visits{std::vector<std::atomic<int>>(static_cast<std::size_t>(count)),
                  std::vector<std::atomic<int>>(static_cast<std::size_t>(threads)), false};
    parallel->run(device, count, visit, &visits);
    expect(!visits.is_wrong, "run of {} tasks gives a wrong number, or one thread to two tasks at a time", count);
    for (const auto& times : visits.tasks) expect(times == 1, "a task of {} is run {} times", count, times.load());
  }
}

constexpr Case kDeviceStateCases[] = {
    {"device.int8_bits", "linear with weights made int8 has the bits of cpu-int8/1, if that is its id.", kOfDevice,
     int8_bits_are_right, true},
    {"device.int4_bits", "linear with weights made int4 has the bits of cpu-int8/1, if that is its id.", kOfDevice,
     int4_bits_are_right, true},
    {"device.int8_block32_bits",
     "linear with weights made int8-block32 has the bits of cpu-int8-block32/1, if that is its id.", kOfDevice,
     int8_block32_bits_are_right, true},
    {"device.int4_block32_bits",
     "linear with weights made int4-block32 has the bits of cpu-int8-block32/1, if that is its id.", kOfDevice,
     int4_block32_bits_are_right, true},
    {"device.fp8_bits", "linear with weights made FP8 has the bits of cpu-fp8/1, if that is its id.", kOfDevice,
     fp8_bits_are_right, true},
    {"device.mxfp4_bits",
     "linear with weights made MXFP4 has the bits of linear with their numbers, if its id is mxfp4/1.", kOfDevice,
     mxfp4_bits_are_right, true},
    {"device.odd_numbers", "add: infinities, NaN, denormals and zeros have the bits of the numerics id.", kOfDevice,
     odd_numbers_are_added, true},
    {"device.no_rows", "An operation on no rows succeeds and writes nothing.", kOfDevice, no_rows_are_no_work, true},
    {"device.threads", "A call on another thread gives the same bits.", kOfDevice, threads_change_nothing, true},
    {"device.instances", "The end of one instance does not disturb another.", kOfDevice, other_instances_change_nothing,
     true},
    {"device.memory_returned", "Freed weights leave no memory behind.", kOfDevice, memory_is_returned, true},
    {"device.parallel", "run of " MORTISE_EXT_PARALLEL " runs each task once, with a thread of its own.", kOfDevice,
     tasks_run_once},
};

}  // namespace

std::span<const Case> device_state_cases() {
  return kDeviceStateCases;
}

}  // namespace mortise::conformance
