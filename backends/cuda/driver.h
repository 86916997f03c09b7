// What this backend asks of CUDA, cuBLASLt and NCCL: one function for each entry point (entry_points.h), which gives
// the code that the entry point gave. Two implement it: the libraries of NVIDIA, loaded when they are needed
// (loaded_driver.h), and one that runs everything in this process' memory and takes down what was asked for
// (recording_driver.h).
//
// As in CUDA, a thread has a device at a time (`set_device`); streams, events, memory and communicators are of the
// device that was set when they were made. What takes a stream returns at once, and is done when the stream gets to it.
// Thread-safe; a communicator is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dnn.h"
#include "entry_points.h"
#include "launch.h"
#include "meshwright/dtype.h"
#include "meshwright/result.h"
#include "product.h"

namespace meshwright::cuda {

using Code = int;                       // 0: done
inline constexpr Code kNotReady = 600;  // of `stream_query`: cudaErrorNotReady

// Of the library that gave them. Null: none.
struct Stream {
  void* handle = nullptr;
};
struct Event {
  void* handle = nullptr;
};
struct Communicator {
  void* handle = nullptr;
};

struct StepGraph {
  void* handle = nullptr;  // of one that can be launched
};

using UniqueId = std::array<char, 128>;  // ncclUniqueId

enum class CopyKind : std::uint8_t { to_device = 1, to_host = 2, on_device = 3 };  // cudaMemcpyKind

class Driver {
 public:
  virtual ~Driver() = default;

  virtual Code get_device_count(int& count) = 0;
  virtual Code set_device(int device) = 0;
  virtual Code allocate(std::byte*& memory, std::size_t bytes) = 0;
  virtual Code release(std::byte* memory) = 0;
  virtual Code stream_create(Stream& stream) = 0;
  virtual Code stream_destroy(Stream stream) = 0;
  virtual Code stream_query(Stream stream) = 0;  // kNotReady: something on it is not done
  virtual Code event_create(Event& event) = 0;
  virtual Code event_destroy(Event event) = 0;
  virtual Code event_record(Event event, Stream stream) = 0;
  virtual Code stream_wait_event(Stream stream, Event event) = 0;
  virtual Code copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) = 0;
  virtual Code fill(void* to, int byte, std::size_t bytes, Stream stream) = 0;
  // Of the device that is set: all kernels, once. `entry`: the call that failed.
  virtual Code load_kernels(EntryPoint& entry) = 0;
  // Of the device that is set: kernels for so many chains, as chain_source.h writes them. Where there is no compiler
  // the kernel `chain` takes their place. `entry`: the call that failed.
  virtual Code load_chains(const std::string& source, std::size_t count, EntryPoint& entry) = 0;
  virtual Code launch(const Launch& launch, Stream stream) = 0;

  // Whether what is asked for on streams can be captured.
  [[nodiscard]] virtual bool captures() const { return true; }
  // From here on what this thread asks for on the stream is not done, but becomes a part of a graph; so does what it
  // asks for on streams that wait for an event of the graph.
  virtual Code begin_capture(Stream stream) = 0;
  // The graph, all of whose streams have come back to the one on which it began. `entry`: the call that failed.
  virtual Code end_capture(Stream stream, StepGraph& graph, EntryPoint& entry) = 0;
  virtual Code launch_graph(StepGraph graph, Stream stream) = 0;
  virtual Code destroy_graph(StepGraph graph) = 0;

  // Chooses an algorithm for products of this shape on the device that is set, once for each shape. Nothing is found
  // where there is no library, or none of its algorithms will do. `entry`: the call that failed.
  virtual Code plan_product(const ProductShape& shape, ProductPlan& plan, EntryPoint& entry) = 0;
  // What was planned on the device that is set, with a workspace of as many bytes as its plan said. Allocates nothing.
  virtual Code product(const Product& product, Stream stream) = 0;
  // Lets go of all plans of the device that is set.
  virtual Code release_products(EntryPoint& entry) = 0;

  // The same of operations of cuDNN.
  virtual Code plan_dnn(const DnnGraph& graph, ProductPlan& plan, EntryPoint& entry) = 0;
  virtual Code run_dnn(const DnnCall& call, Stream stream, EntryPoint& entry) = 0;
  virtual Code release_dnn(EntryPoint& entry) = 0;

  virtual Code get_unique_id(UniqueId& id) = 0;
  virtual Code init_communicator(Communicator& communicator, int ranks, const UniqueId& id, int rank) = 0;
  virtual Code destroy_communicator(Communicator communicator) = 0;
  virtual Code abort_communicator(Communicator communicator) = 0;
  virtual Code communicator_error(Communicator communicator, Code& error) = 0;
  virtual Code group_start() = 0;
  virtual Code group_end() = 0;
  // `count`: elements; of an all-gather those that this rank has, of a reduce-scatter those that it gets.
  virtual Code all_reduce(const void* from, void* to, std::size_t count, DType dtype, bool maximum,
                          Communicator communicator, Stream stream) = 0;
  virtual Code all_gather(const void* from, void* to, std::size_t count, DType dtype, Communicator communicator,
                          Stream stream) = 0;
  virtual Code reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, bool maximum,
                              Communicator communicator, Stream stream) = 0;
  virtual Code send(const void* from, std::size_t bytes, int peer, Communicator communicator, Stream stream) = 0;
  virtual Code receive(void* to, std::size_t bytes, int peer, Communicator communicator, Stream stream) = 0;

  // What a code of this entry point means: CUDA's or NCCL's own text.
  virtual std::string error_text(EntryPoint entry, Code code) = 0;
  // Of a driver that takes down what it is asked for: what is wrong with what this device was asked for since the last
  // time.
  virtual Status check_device(int /*device*/) { return Done{}; }
};

// "cudaMemcpyAsync: out of memory (error 2)".
inline Status check(Driver& driver, EntryPoint entry, Code code) {
  if (code == 0) return Done{};
  return plugin_failed(std::string(name(entry)) + ": " + driver.error_text(entry, code) + " (error " +
                       std::to_string(code) + ")");
}

// What products of a shape need on the device that is set, in bytes of workspace; nothing: the driver has no algorithm.
// Errors: the driver's.
inline Result<std::optional<std::size_t>> plan_workspace(Driver& driver, const ProductShape& shape) {
  EntryPoint entry = EntryPoint::choose_algorithm;
  ProductPlan plan;
  const Code code = driver.plan_product(shape, plan, entry);
  if (const Status status = check(driver, entry, code); !status)
    return add_context("the product " + to_string(shape), status.error());
  return plan.is_found ? std::optional(plan.workspace_bytes) : std::nullopt;
}

// The same of a graph of cuDNN's.
inline Result<std::optional<std::size_t>> plan_workspace(Driver& driver, const DnnGraph& graph) {
  EntryPoint entry = EntryPoint::dnn_finalize;
  ProductPlan plan;
  const Code code = driver.plan_dnn(graph, plan, entry);
  if (const Status status = check(driver, entry, code); !status)
    return add_context(graph.name + ", which --set emit.cuda.products=kernels computes without cuDNN", status.error());
  return plan.is_found ? std::optional(plan.workspace_bytes) : std::nullopt;
}

}  // namespace meshwright::cuda
