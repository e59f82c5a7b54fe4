#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "mortise/ext/graph.h"
#include "mortise/ext/parallel.h"
#include "mortise/plugin.hpp"
#include "queue.hpp"
#include "variables.hpp"

// plugins/devices/cpu/plugin.cpp is compiled in with its entry renamed.
MORTISE_EXTERN_C const mortise_module* mortise_cpu_entry();

namespace mortise::test {
namespace {

const mortise_component& cpu_component() {
  return *mortise_cpu_entry()->components[0];
}
const mortise_device_table& cpu() {
  return *static_cast<const mortise_device_table*>(cpu_component().table);
}

// Of one device: the handle that the host holds is the CPU device's, so that its other tables work on it.
class Remote {
 public:
  static constexpr std::size_t kBytes = std::size_t{16} << 30;  // of addresses; pages come when they are touched

  Remote() {
    void* memory = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw Failure(MORTISE_RESOURCE_EXHAUSTED, "remote", "no address space");
    base_ = static_cast<std::byte*>(memory);
  }
  ~Remote() { munmap(base_, kBytes); }

  // Memory is never used twice: who keeps an address too long reads zeros.
  void* allocate(std::uint64_t bytes) {
    if (bytes > kBytes - used_) throw Failure(MORTISE_RESOURCE_EXHAUSTED, "allocate", "the remote memory is used up");
    void* const result = base_ + used_;
    used_ += (bytes + 4095) / 4096 * 4096 + 4096;
    sizes_[result] = bytes;
    return result;
  }
  void free(void* memory) {
    mortise_error ignored = make_error();
    drain(&ignored);
    const auto size = sizes_.find(memory);
    if (size == sizes_.end()) std::abort();  // it was not allocated here
    madvise(memory, size->second, MADV_DONTNEED);
    sizes_.erase(size);
  }

  void* allocate_host(std::uint64_t bytes) {
    auto memory = std::make_unique<std::byte[]>(bytes + 1);
    void* const result = memory.get();
    host_[result] = {std::move(memory), bytes};
    return result;
  }
  void free_host(void* memory) {
    mortise_error ignored = make_error();
    drain(&ignored);
    host_.erase(memory);
  }
  // Whether the host promised not to touch these bytes until it has waited.
  bool promised(const void* p) const {
    const auto* const at = static_cast<const std::byte*>(p);
    for (const auto& [begin, buffer] : host_) {
      if (at >= begin && at < static_cast<const std::byte*>(begin) + buffer.second) return true;
    }
    return is_remote(p);
  }
  bool is_remote(const void* p) const {
    const auto* const at = static_cast<const std::byte*>(p);
    return at >= base_ && at < base_ + kBytes;
  }

  mortise_status queue(Work work, mortise_error*) {
    (capturing_ ? captured_ : pending_).push_back(std::move(work));
    return MORTISE_OK;
  }
  // Runs what is queued; the first failure is told and the rest dropped.
  mortise_status drain(mortise_error* error) {
    if (capturing_) return set_error(error, MORTISE_FAILED_PRECONDITION, "remote", "the host waits inside a capture");
    mprotect(base_, kBytes, PROT_READ | PROT_WRITE);
    mortise_status status = MORTISE_OK;
    for (std::size_t i = 0; i < pending_.size() && status == MORTISE_OK; ++i) status = pending_[i](error);
    pending_.clear();
    mprotect(base_, kBytes, PROT_NONE);
    return status;
  }

  void begin_capture() { capturing_ = true; }
  std::vector<Work> end_capture() {
    capturing_ = false;
    return std::exchange(captured_, {});
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
  std::map<void*, std::uint64_t> sizes_;
  std::map<void*, std::pair<std::unique_ptr<std::byte[]>, std::uint64_t>> host_;
  std::vector<Work> pending_, captured_;
  bool capturing_ = false;
};

std::mutex remotes_mutex;
std::map<mortise_device*, std::unique_ptr<Remote>> remotes;

Remote& remote_of(mortise_device* device) {
  const std::lock_guard lock(remotes_mutex);
  return *remotes.at(device);
}

mortise_status queue(mortise_device* device, Work work, mortise_error* error) {
  return remote_of(device).queue(std::move(work), error);
}

mortise_status describe(mortise_device* device, mortise_device_info* info) {
  const mortise_status status = cpu().describe(device, info);
  info->host_memory = 0;
  return status;
}

// MORTISE_REMOTE_FREE: how many bytes are free, for tests of what is said when memory is short.
mortise_status memory_info(mortise_device* device, uint64_t* free_bytes, uint64_t* total_bytes) {
  const mortise_status status = cpu().memory_info(device, free_bytes, total_bytes);
  if (const auto wanted = test::variable("MORTISE_REMOTE_FREE")) *free_bytes = std::stoull(*wanted);
  return status;
}

mortise_status allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error* error) {
  return guard(error, "allocate", [&] { *memory = remote_of(device).allocate(bytes); });
}
void free_memory(mortise_device* device, void* memory) {
  if (memory != nullptr) remote_of(device).free(memory);
}
mortise_status host_allocate(mortise_device* device, uint64_t bytes, void** memory, mortise_error*) {
  *memory = remote_of(device).allocate_host(bytes);
  return MORTISE_OK;
}
void host_free(mortise_device* device, void* memory) {
  if (memory != nullptr) remote_of(device).free_host(memory);
}

mortise_status copy(mortise_device* device, mortise_stream*, void* to, const void* from, uint64_t bytes,
                    mortise_error* error) {
  Remote& remote = remote_of(device);
  const Work now = [=](mortise_error*) -> mortise_status {
    std::memmove(to, from, bytes);
    return MORTISE_OK;
  };
  if (remote.promised(from) && remote.promised(to)) return remote.queue(now, error);
  remote.queue(now, error);
  return remote.drain(error);
}
mortise_status fill(mortise_device* device, mortise_stream*, void* memory, uint8_t value, uint64_t bytes,
                    mortise_error* error) {
  return queue(
      device,
      [=](mortise_error*) -> mortise_status {
        std::memset(memory, value, bytes);
        return MORTISE_OK;
      },
      error);
}

mortise_status stream_synchronize(mortise_device* device, mortise_stream*, mortise_error* error) {
  return remote_of(device).drain(error);
}
mortise_status event_create(mortise_device*, mortise_event** event, mortise_error*) {
  *event = reinterpret_cast<mortise_event*>(new char);
  return MORTISE_OK;
}
void event_destroy(mortise_device*, mortise_event* event) {
  delete reinterpret_cast<char*>(event);
}
mortise_status event_synchronize(mortise_device* device, mortise_event*, mortise_error* error) {
  return remote_of(device).drain(error);
}

// Tensors that an argument struct points to, kept as long as the work.
struct Tensors {
  std::vector<std::unique_ptr<mortise_tensor>> kept;
  void keep(const mortise_tensor*& tensor) {
    if (tensor != nullptr) tensor = kept.emplace_back(std::make_unique<mortise_tensor>(*tensor)).get();
  }
};

template <typename Args, typename Operation>
mortise_status queue_args(mortise_device* device, Args args, Operation operation, mortise_error* error,
                          std::initializer_list<const mortise_tensor * Args::*> members) {
  auto tensors = std::make_shared<Tensors>();
  for (const auto member : members) tensors->keep(args.*member);
  return queue(
      device, [=](mortise_error* e) { return (void)tensors, operation(device, nullptr, &args, e); }, error);
}

mortise_status linear(mortise_device* device, mortise_stream*, const mortise_linear_args* args, mortise_error* error) {
  return queue_args(device, *args, cpu().linear, error, {&mortise_linear_args::x, &mortise_linear_args::out});
}
mortise_status rms_norm(mortise_device* device, mortise_stream*, const mortise_norm_args* args, mortise_error* error) {
  return queue_args(device, *args, cpu().rms_norm, error,
                    {&mortise_norm_args::x, &mortise_norm_args::residual, &mortise_norm_args::out});
}
mortise_status layer_norm(mortise_device* device, mortise_stream*, const mortise_norm_args* args,
                          mortise_error* error) {
  return queue_args(device, *args, cpu().layer_norm, error,
                    {&mortise_norm_args::x, &mortise_norm_args::residual, &mortise_norm_args::out});
}
mortise_status head_reduce(mortise_device* device, mortise_stream*, const mortise_head_reduce_args* args,
                           mortise_error* error) {
  return queue_args(device, *args, cpu().head_reduce, error, {&mortise_head_reduce_args::logits});
}
mortise_status sample(mortise_device* device, mortise_stream*, const mortise_sample_args* args, mortise_error* error) {
  return queue_args(device, *args, cpu().sample, error, {&mortise_sample_args::logits});
}
mortise_status embed(mortise_device* device, mortise_stream*, const int32_t* ids, const mortise_weight* weight,
                     const mortise_tensor* out, mortise_error* error) {
  return queue(
      device, [=, out = *out](mortise_error* e) { return cpu().embed(device, nullptr, ids, weight, &out, e); }, error);
}
mortise_status gated_activation(mortise_device* device, mortise_stream*, int32_t activation, const mortise_tensor* x,
                                const mortise_tensor* out, mortise_error* error) {
  return queue(
      device,
      [=, x = *x, out = *out](mortise_error* e) {
        return cpu().gated_activation(device, nullptr, activation, &x, &out, e);
      },
      error);
}
mortise_status activation(mortise_device* device, mortise_stream*, int32_t act, const mortise_tensor* x,
                          const mortise_tensor* out, mortise_error* error) {
  return queue(
      device, [=, x = *x, out = *out](mortise_error* e) { return cpu().activation(device, nullptr, act, &x, &out, e); },
      error);
}
mortise_status add(mortise_device* device, mortise_stream*, const mortise_tensor* a, const mortise_tensor* b,
                   const mortise_tensor* out, mortise_error* error) {
  return queue(
      device, [=, a = *a, b = *b, out = *out](mortise_error* e) { return cpu().add(device, nullptr, &a, &b, &out, e); },
      error);
}
mortise_status gather_rows(mortise_device* device, mortise_stream*, const mortise_tensor* x, const int32_t* rows,
                           const mortise_tensor* out, mortise_error* error) {
  return queue(
      device,
      [=, x = *x, out = *out](mortise_error* e) { return cpu().gather_rows(device, nullptr, &x, rows, &out, e); },
      error);
}
mortise_status scatter_rows(mortise_device* device, mortise_stream*, const mortise_tensor* x, const int32_t* rows,
                            const mortise_tensor* out, mortise_error* error) {
  return queue(
      device,
      [=, x = *x, out = *out](mortise_error* e) { return cpu().scatter_rows(device, nullptr, &x, rows, &out, e); },
      error);
}

// --- graphs ---

struct Graph {
  std::shared_ptr<std::vector<Work>> work;
};

mortise_status begin(mortise_device* device, mortise_stream*, mortise_error*) {
  remote_of(device).begin_capture();
  return MORTISE_OK;
}
mortise_status end(mortise_device* device, mortise_stream*, mortise_graph** graph, mortise_error*) {
  auto work = std::make_shared<std::vector<Work>>(remote_of(device).end_capture());
  *graph = reinterpret_cast<mortise_graph*>(new Graph{std::move(work)});
  return MORTISE_OK;
}
mortise_status replay(mortise_device* device, mortise_stream*, mortise_graph* graph, mortise_error* error) {
  const auto work = reinterpret_cast<Graph*>(graph)->work;
  return queue(
      device,
      [work](mortise_error* e) -> mortise_status {
        for (const Work& operation : *work) {
          if (const mortise_status status = operation(e); status != MORTISE_OK) return status;
        }
        return MORTISE_OK;
      },
      error);
}
void destroy_graph(mortise_device*, mortise_graph* graph) {
  delete reinterpret_cast<Graph*>(graph);
}

constexpr mortise_graph_table kGraphs = {sizeof(mortise_graph_table), 0, begin, end, replay, destroy_graph};
constexpr RemoteTable kRemote = {queue};

const void* get_ext(mortise_device* device, const char* id) {
  const std::string_view name = id;
  if (name == MORTISE_EXT_GRAPH) return &kGraphs;
  if (name == MORTISE_EXT_REMOTE) return &kRemote;
  return name == MORTISE_EXT_PARALLEL ? cpu().get_ext(device, id) : nullptr;
}

const mortise_device_table* table() {
  static const mortise_device_table value = [] {
    mortise_device_table t = cpu();
    t.describe = describe;
    t.memory_info = memory_info;
    t.allocate = allocate;
    t.free = free_memory;
    t.copy = copy;
    t.fill = fill;
    t.stream_synchronize = stream_synchronize;
    t.event_create = event_create;
    t.event_destroy = event_destroy;
    t.event_synchronize = event_synchronize;
    t.linear = linear;
    t.embed = embed;
    t.rms_norm = rms_norm;
    t.layer_norm = layer_norm;
    t.gated_activation = gated_activation;
    t.activation = activation;
    t.add = add;
    t.gather_rows = gather_rows;
    t.scatter_rows = scatter_rows;
    t.head_reduce = head_reduce;
    t.sample = sample;
    t.get_ext = get_ext;
    t.host_allocate = host_allocate;
    t.host_free = host_free;
    return t;
  }();
  return &value;
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  const mortise_status status = cpu_component().create(host, args, instance, error);
  if (status != MORTISE_OK) return status;
  const std::lock_guard lock(remotes_mutex);
  remotes[static_cast<mortise_device*>(*instance)] = std::make_unique<Remote>();
  return status;
}
void destroy(void* instance) {
  {
    const std::lock_guard lock(remotes_mutex);
    remotes.erase(static_cast<mortise_device*>(instance));
  }
  cpu_component().destroy(instance);
}

const mortise_component* component() {
  static const mortise_component value = [] {
    mortise_component c = cpu_component();
    c.capabilities |= MORTISE_CAP_CAPTURE;
    c.name = "remote";
    c.summary = "the CPU behind a wall, for tests";
    c.table = table();
    c.create = create;
    c.destroy = destroy;
    c.get_ext = [](void* instance, const char* id) { return get_ext(static_cast<mortise_device*>(instance), id); };
    return c;
  }();
  return &value;
}

}  // namespace
}  // namespace mortise::test

MORTISE_PLUGIN("mortise.test.remote", "Mortise", "0.1.0", "Apache-2.0", mortise::test::component())
