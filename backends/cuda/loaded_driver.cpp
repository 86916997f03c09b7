#include "loaded_driver.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_code.h"
#include "kernels/kernel.h"
#include "library_symbol.h"
#include "loaded_compiler.h"
#include "loaded_dnn.h"
#include "loaded_products.h"

namespace meshwright::cuda {

namespace {

constexpr Code kNoDeviceCode = -2;  // of our own, as kNoLibrary

// As in nccl.h.
int nccl_type(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return 0;
    case DType::uint8:
    case DType::boolean:
      return 1;
    case DType::int32:
      return 2;
    case DType::int64:
      return 4;
    case DType::float16:
      return 6;
    case DType::float32:
      return 7;
    case DType::float64:
      return 8;
    case DType::bfloat16:
      return 9;
    default:
      return -1;  // NCCL refuses it
  }
}

constexpr int kNcclBytes = 1;                                    // ncclUint8
constexpr int kMajorArchitecture = 75, kMinorArchitecture = 76;  // cudaDevAttrComputeCapabilityMajor, ...Minor
int nccl_op(bool maximum) { return maximum ? 2 : 0; }

int threads_of(Worker worker) { return worker == Worker::block ? kBlock : worker == Worker::warp ? kWarp : 1; }

class LoadedDriver final : public Driver {
 public:
  explicit LoadedDriver(bool tf32) : tf32_(tf32) {}

  // Errors: "": none.
  std::string open() {
    void* runtime = open_first({"libcudart.so.13", "libcudart.so.12", "libcudart.so"});
    if (runtime == nullptr)
      return "libcudart was not found; build with `make cuda`, or install CUDA's runtime (PyPI: nvidia-cuda-runtime), "
             "and set LD_LIBRARY_PATH to where it is";
    void* driver = open_first({"libcuda.so.1"});
    nccl_ = open_first({"libnccl.so.2", "libnccl.so"});
    runtime_text_ = reinterpret_cast<const char* (*)(int)>(dlsym(runtime, "cudaGetErrorString"));
    if (driver != nullptr)
      driver_text_ = reinterpret_cast<int (*)(int, const char**)>(dlsym(driver, "cuGetErrorString"));
    if (nccl_ != nullptr) nccl_text_ = reinterpret_cast<const char* (*)(int)>(dlsym(nccl_, "ncclGetErrorString"));
    const bool found =
        get_device_count_.find(runtime, EntryPoint::get_device_count) &&
        set_device_.find(runtime, EntryPoint::set_device) && allocate_.find(runtime, EntryPoint::allocate) &&
        release_.find(runtime, EntryPoint::release) && stream_create_.find(runtime, EntryPoint::stream_create) &&
        stream_destroy_.find(runtime, EntryPoint::stream_destroy) &&
        stream_query_.find(runtime, EntryPoint::stream_query) &&
        event_create_.find(runtime, EntryPoint::event_create) &&
        event_destroy_.find(runtime, EntryPoint::event_destroy) &&
        event_record_.find(runtime, EntryPoint::event_record) &&
        stream_wait_event_.find(runtime, EntryPoint::stream_wait_event) && copy_.find(runtime, EntryPoint::copy) &&
        fill_.find(runtime, EntryPoint::fill) && get_attribute_.find(runtime, EntryPoint::get_attribute) &&
        begin_capture_.find(runtime, EntryPoint::capture_begin) &&
        end_capture_.find(runtime, EntryPoint::capture_end) &&
        instantiate_graph_.find(runtime, EntryPoint::graph_instantiate) &&
        destroy_captured_.find(runtime, EntryPoint::graph_destroy) &&
        launch_graph_.find(runtime, EntryPoint::graph_launch) && destroy_graph_.find(runtime, EntryPoint::graph_forget);
    if (!found) return "libcudart lacks a function that this backend calls; install that of CUDA 12 or 13";
    // These may be missing: whoever needs them is told so then.
    load_module_.find(driver, EntryPoint::load_module);
    get_function_.find(driver, EntryPoint::get_function);
    launch_.find(driver, EntryPoint::launch);
    get_unique_id_.find(nccl_, EntryPoint::get_unique_id);
    init_communicator_.find(nccl_, EntryPoint::init_communicator);
    destroy_communicator_.find(nccl_, EntryPoint::destroy_communicator);
    abort_communicator_.find(nccl_, EntryPoint::abort_communicator);
    communicator_error_.find(nccl_, EntryPoint::communicator_error);
    group_start_.find(nccl_, EntryPoint::group_start);
    group_end_.find(nccl_, EntryPoint::group_end);
    all_reduce_.find(nccl_, EntryPoint::all_reduce);
    all_gather_.find(nccl_, EntryPoint::all_gather);
    reduce_scatter_.find(nccl_, EntryPoint::reduce_scatter);
    send_.find(nccl_, EntryPoint::send);
    receive_.find(nccl_, EntryPoint::receive);
    return "";
  }

  // Where it fails it leaves its argument as it is.
  Code get_device_count(int& count) override {
    count = 0;
    return get_device_count_(&count);
  }
  Code set_device(int device) override {
    const Code code = set_device_(device);
    if (code == 0) device_ = device;
    return code;
  }
  Code allocate(std::byte*& memory, std::size_t bytes) override {
    return allocate_(reinterpret_cast<void**>(&memory), bytes);
  }
  Code release(std::byte* memory) override { return release_(memory); }
  Code stream_create(Stream& stream) override { return stream_create_(&stream.handle, 1); }  // cudaStreamNonBlocking
  Code stream_destroy(Stream stream) override { return stream_destroy_(stream.handle); }
  Code stream_query(Stream stream) override { return stream_query_(stream.handle); }
  Code event_create(Event& event) override { return event_create_(&event.handle, 2); }  // cudaEventDisableTiming
  Code event_destroy(Event event) override { return event_destroy_(event.handle); }
  Code event_record(Event event, Stream stream) override { return event_record_(event.handle, stream.handle); }
  Code stream_wait_event(Stream stream, Event event) override {
    return stream_wait_event_(stream.handle, event.handle, 0);
  }
  Code copy(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) override {
    return copy_(to, from, bytes, static_cast<int>(kind), stream.handle);
  }
  Code fill(void* to, int byte, std::size_t bytes, Stream stream) override {
    return fill_(to, byte, bytes, stream.handle);
  }

  Code load_kernels(EntryPoint& entry) override {
    entry = EntryPoint::load_module;
    if (device_code().empty()) return kNoDeviceCode;
    void* module = nullptr;
    if (const Code code = load_module_(&module, device_code().data())) return code;
    entry = EntryPoint::get_function;
    std::array<void*, kKernels> functions{};
    for (std::size_t i = 0; i < kKernels; ++i) {
      if (const Code code = get_function_(&functions[i], module, kernels()[i].name)) return code;
    }
    const std::lock_guard lock(mutex_);
    functions_[device_] = functions;
    return 0;
  }
  Code load_chains(const std::string& source, std::size_t count, EntryPoint& entry) override {
    if (count == 0 || !compiler().is_there()) return 0;
    int major = 0, minor = 0;
    entry = EntryPoint::get_attribute;
    if (const Code code = get_attribute_(&major, kMajorArchitecture, device_)) return code;
    if (const Code code = get_attribute_(&minor, kMinorArchitecture, device_)) return code;
    std::vector<char>& code_of_all = compiled_[{10 * major + minor, source}];
    if (code_of_all.empty()) {
      if (const Code code = compiler().compile(source, 10 * major + minor, code_of_all, entry)) return code;
    }
    void* module = nullptr;
    entry = EntryPoint::load_module;
    if (const Code code = load_module_(&module, code_of_all.data())) return code;
    std::vector<void*> functions(count);
    entry = EntryPoint::get_function;
    for (std::size_t i = 0; i < count; ++i) {
      if (const Code code = get_function_(&functions[i], module, ("chain_" + std::to_string(i)).c_str())) return code;
    }
    const std::lock_guard lock(mutex_);
    chains_[device_] = std::move(functions);
    return 0;
  }
  Code launch(const Launch& launch, Stream stream) override {
    constexpr std::int64_t kMostBlocks = 65535;
    const std::int64_t threads = launch.count * threads_of(kernel(launch.kernel).worker);
    const auto blocks = static_cast<unsigned>(std::min((threads + kBlock - 1) / kBlock, kMostBlocks));
    std::int64_t count = launch.count;
    void* parameters[] = {const_cast<std::byte*>(launch.arguments.data()), &count};
    void* function = nullptr;
    {
      const std::lock_guard lock(mutex_);
      const std::vector<void*>& chains = chains_[device_];
      function = launch.compiled > 0 && !chains.empty() ? chains[launch.compiled - 1]
                                                        : functions_[device_][static_cast<std::size_t>(launch.kernel)];
    }
    return launch_(function, blocks, 1, 1, static_cast<unsigned>(kBlock), 1, 1, 0, stream.handle, parameters, nullptr);
  }

  Code begin_capture(Stream stream) override {
    return begin_capture_(stream.handle, 1);  // cudaStreamCaptureModeThreadLocal
  }
  Code end_capture(Stream stream, StepGraph& graph, EntryPoint& entry) override {
    void* captured = nullptr;
    entry = EntryPoint::capture_end;
    if (const Code code = end_capture_(stream.handle, &captured)) return code;
    entry = EntryPoint::graph_instantiate;
    if (const Code code = instantiate_graph_(&graph.handle, captured, 0)) return code;
    entry = EntryPoint::graph_destroy;
    return destroy_captured_(captured);
  }
  Code launch_graph(StepGraph graph, Stream stream) override { return launch_graph_(graph.handle, stream.handle); }
  Code destroy_graph(StepGraph graph) override { return destroy_graph_(graph.handle); }

  Code plan_product(const ProductShape& shape, ProductPlan& plan, EntryPoint& entry) override {
    return products().plan(device_, shape, plan, entry);
  }
  Code product(const Product& product, Stream stream) override {
    return products().run(device_, product, stream.handle);
  }
  Code release_products(EntryPoint& entry) override {
    const std::lock_guard lock(mutex_);
    return products_ ? products_->release(device_, entry) : 0;
  }

  Code plan_dnn(const DnnGraph& graph, ProductPlan& plan, EntryPoint& entry) override {
    return dnn().plan(device_, graph, plan, entry);
  }
  Code run_dnn(const DnnCall& call, Stream stream, EntryPoint& entry) override {
    return dnn().run(device_, call, stream.handle, entry);
  }
  Code release_dnn(EntryPoint& entry) override {
    const std::lock_guard lock(mutex_);
    return dnn_ ? dnn_->release(device_, entry) : 0;
  }

  Code get_unique_id(UniqueId& id) override { return get_unique_id_(&id); }
  Code init_communicator(Communicator& communicator, int ranks, const UniqueId& id, int rank) override {
    return init_communicator_(&communicator.handle, ranks, id, rank);
  }
  Code destroy_communicator(Communicator communicator) override { return destroy_communicator_(communicator.handle); }
  Code abort_communicator(Communicator communicator) override { return abort_communicator_(communicator.handle); }
  Code communicator_error(Communicator communicator, Code& error) override {
    return communicator_error_(communicator.handle, &error);
  }
  Code group_start() override { return group_start_(); }
  Code group_end() override { return group_end_(); }
  Code all_reduce(const void* from, void* to, std::size_t count, DType dtype, bool maximum, Communicator communicator,
                  Stream stream) override {
    return all_reduce_(from, to, count, nccl_type(dtype), nccl_op(maximum), communicator.handle, stream.handle);
  }
  Code all_gather(const void* from, void* to, std::size_t count, DType dtype, Communicator communicator,
                  Stream stream) override {
    return all_gather_(from, to, count * static_cast<std::size_t>(size_bytes(dtype)), kNcclBytes, communicator.handle,
                       stream.handle);
  }
  Code reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, bool maximum,
                      Communicator communicator, Stream stream) override {
    return reduce_scatter_(from, to, count, nccl_type(dtype), nccl_op(maximum), communicator.handle, stream.handle);
  }
  Code send(const void* from, std::size_t bytes, int peer, Communicator communicator, Stream stream) override {
    return send_(from, bytes, kNcclBytes, peer, communicator.handle, stream.handle);
  }
  Code receive(void* to, std::size_t bytes, int peer, Communicator communicator, Stream stream) override {
    return receive_(to, bytes, kNcclBytes, peer, communicator.handle, stream.handle);
  }

  std::string error_text(EntryPoint entry, Code code) override {
    if (code == kNoDeviceCode)
      return "this backend was built without nvcc, so that it has no kernels for a GPU; build it with `make cuda`";
    if (code == kNoLibrary)
      return library_of(entry) == Library::nccl
                 ? "libnccl.so.2 was not found (PyPI: nvidia-nccl), or lacks it"
                 : "libcuda.so.1, a part of the GPU's driver, was not found, or lacks it";
    const char* text = text_of(entry, code);
    return text != nullptr ? text : "an error without a text";
  }

 private:
  const char* text_of(EntryPoint entry, Code code) {
    const char* text = nullptr;
    switch (library_of(entry)) {
      case Library::products:
        return products().text(code);
      case Library::nccl:
        return nccl_text_ != nullptr ? nccl_text_(code) : nullptr;
      case Library::driver:
        return driver_text_ != nullptr && driver_text_(code, &text) == 0 ? text : nullptr;
      case Library::dnn:
        return dnn().text(code);
      case Library::compiler:
        return compiler().text(code);
      case Library::runtime:
        return runtime_text_ != nullptr ? runtime_text_(code) : nullptr;
    }
    return nullptr;
  }
  // Opened when a product is planned: it takes a second, and more memory than all else here.
  LoadedProducts& products() {
    const std::lock_guard lock(mutex_);
    if (!products_) products_.emplace(tf32_);
    return *products_;
  }
  // Likewise, when an operation of it is planned.
  LoadedDnn& dnn() {
    const std::lock_guard lock(mutex_);
    if (!dnn_) dnn_.emplace(tf32_);
    return *dnn_;
  }
  // Likewise, when chains are loaded.
  LoadedCompiler& compiler() {
    const std::lock_guard lock(mutex_);
    if (!compiler_) compiler_.emplace();
    return *compiler_;
  }

  void* nccl_ = nullptr;
  const char* (*runtime_text_)(int) = nullptr;
  int (*driver_text_)(int, const char**) = nullptr;
  const char* (*nccl_text_)(int) = nullptr;

  Symbol<int*> get_device_count_;
  Symbol<int> set_device_;
  Symbol<int*, int, int> get_attribute_;
  Symbol<void**, std::size_t> allocate_;
  Symbol<void*> release_;
  Symbol<void**, unsigned> stream_create_, event_create_;
  Symbol<void*> stream_destroy_, stream_query_, event_destroy_;
  Symbol<void*, void*> event_record_;
  Symbol<void*, void*, unsigned> stream_wait_event_;
  Symbol<void*, const void*, std::size_t, int, void*> copy_;
  Symbol<void*, int, std::size_t, void*> fill_;
  Symbol<void*, int> begin_capture_;
  Symbol<void*, void**> end_capture_;
  Symbol<void**, void*, unsigned long long> instantiate_graph_;
  Symbol<void*> destroy_captured_, destroy_graph_;
  Symbol<void*, void*> launch_graph_;
  Symbol<void**, const void*> load_module_;
  Symbol<void**, void*, const char*> get_function_;
  Symbol<void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**> launch_;
  Symbol<UniqueId*> get_unique_id_;
  Symbol<void**, int, UniqueId, int> init_communicator_;
  Symbol<void*> destroy_communicator_, abort_communicator_;
  Symbol<void*, int*> communicator_error_;
  Symbol<> group_start_, group_end_;
  Symbol<const void*, void*, std::size_t, int, int, void*, void*> all_reduce_, reduce_scatter_;
  Symbol<const void*, void*, std::size_t, int, void*, void*> all_gather_;
  Symbol<const void*, std::size_t, int, int, void*, void*> send_;
  Symbol<void*, std::size_t, int, int, void*, void*> receive_;

  static thread_local int device_;
  std::mutex mutex_;
  std::map<int, std::array<void*, kKernels>> functions_;               // by device
  std::map<int, std::vector<void*>> chains_;                           // likewise
  std::map<std::pair<int, std::string>, std::vector<char>> compiled_;  // by architecture and source
  const bool tf32_;
  std::optional<LoadedProducts> products_;
  std::optional<LoadedDnn> dnn_;
  std::optional<LoadedCompiler> compiler_;
};

thread_local int LoadedDriver::device_ = 0;

}  // namespace

Result<std::unique_ptr<Driver>> load_driver(bool tf32) {
  auto driver = std::make_unique<LoadedDriver>(tf32);
  if (const std::string reason = driver->open(); !reason.empty()) return plugin_failed("no device: " + reason);
  return std::unique_ptr<Driver>(std::move(driver));
}

}  // namespace meshwright::cuda
