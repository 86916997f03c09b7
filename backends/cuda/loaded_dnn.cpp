#include "loaded_dnn.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cudnn_backend.h"
#include "meshwright/log.h"

namespace meshwright::cuda {

namespace {

constexpr std::int64_t kWorkspace = std::int64_t{256} << 20U, kMostWorkspace = std::int64_t{1} << 30U;
constexpr std::int64_t kMostEngines = 64;  // of those that are proposed, the best first

}  // namespace

LoadedDnn::LoadedDnn(bool tf32, std::initializer_list<const char*> names, std::string properties)
    : tf32_(tf32), properties_(std::move(properties)) {
  void* library = open_first(names);
  is_there_ = library != nullptr && find_all(library);
  if (!is_there_) {
    log(LogLevel::warning, "cuda",
        "libcudnn.so.9 was not found (PyPI: nvidia-cudnn); set LD_LIBRARY_PATH to where it is. Convolutions, and "
        "attention in half precision, are computed by this backend's own kernels, which are slower");
    return;
  }
  text_ = reinterpret_cast<const char* (*)(int)>(dlsym(library, "cudnnGetErrorString"));
}

bool LoadedDnn::find_all(void* library) {
  return create_.find(library, EntryPoint::dnn_create) && destroy_.find(library, EntryPoint::dnn_destroy) &&
         set_stream_.find(library, EntryPoint::dnn_set_stream) && make_.find(library, EntryPoint::dnn_make) &&
         set_.find(library, EntryPoint::dnn_set) && finalize_.find(library, EntryPoint::dnn_finalize) &&
         get_.find(library, EntryPoint::dnn_get) && execute_.find(library, EntryPoint::dnn_execute) &&
         forget_.find(library, EntryPoint::dnn_forget);
}

Code LoadedDnn::plan(int device, const DnnGraph& graph, ProductPlan& plan, EntryPoint& entry) {
  plan = {};
  if (!is_there_) return 0;
  const std::lock_guard lock(mutex_);
  Device& of = devices_[device];
  auto found = of.plans.find(graph);
  if (found == of.plans.end()) {
    if (const Code code = open(of, entry)) return code;
    Planned planned;
    const Code code = make(of, graph, planned, entry);
    if (code != 0 || planned.plan == nullptr) {
      EntryPoint failed = entry;
      forget(planned, failed);
      planned = {};
    }
    if (code != 0 && !cudnn::is_not_supported(code)) return code;
    found = of.plans.emplace(graph, std::move(planned)).first;
  }
  const Planned& planned = found->second;
  plan = {planned.plan != nullptr, static_cast<std::size_t>(planned.workspace_bytes)};
  return 0;
}

// A handle, or properties in its place.
Code LoadedDnn::open(Device& device, EntryPoint& entry) {
  if (device.handle != nullptr || device.properties != nullptr) return 0;
  if (properties_.empty()) return said(entry, EntryPoint::dnn_create, create_(&device.handle));
  if (const Code code = make_descriptor(cudnn::kDeviceProperties, device.properties, entry)) return code;
  if (const Code code = set(device.properties, cudnn::kDeviceText, cudnn::kOfChar,
                            static_cast<std::int64_t>(properties_.size()), properties_.data(), entry))
    return code;
  return finalize(device.properties, entry);
}

Code LoadedDnn::make(const Device& device, const DnnGraph& graph, Planned& planned, EntryPoint& entry) {
  std::vector<void*> made(graph.descriptors.size(), nullptr);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const DnnDescriptor& wanted = graph.descriptors[i];
    if (const Code code = make_kept(wanted.kind, planned, made[i], entry)) return code;
    for (const DnnValue& value : wanted.values) {
      std::vector<void*> others;
      for (const std::size_t place : value.descriptors) others.push_back(made[place]);
      const void* values = others.empty() ? static_cast<const void*>(value.bytes.data()) : others.data();
      if (const Code code = set(made[i], value.attribute, value.type, value.count, values, entry)) return code;
    }
    if (const Code code = finalize(made[i], entry)) return code;
  }
  void* whole = nullptr;
  if (const Code code = make_kept(cudnn::kOperationGraph, planned, whole, entry)) return code;
  std::vector<void*> operations;
  for (const std::size_t place : graph.operations) operations.push_back(made[place]);
  if (const Code code =
          set(whole, cudnn::kGraphOperations, cudnn::kOfDescriptor, std::ssize(operations), operations.data(), entry))
    return code;
  if (device.handle != nullptr) {
    if (const Code code = set(whole, cudnn::kGraphHandle, cudnn::kOfHandle, 1, &device.handle, entry)) return code;
  }
  if (const Code code = finalize(whole, entry)) return code;
  for (const Wish& wish :
       {Wish{graph.factors, cudnn::kFast, kWorkspace}, Wish{graph.factors, cudnn::kFallback, kWorkspace},
        Wish{graph.factors, cudnn::kFast, kMostWorkspace}}) {
    const Code code = choose(device, wish, whole, planned, entry);
    if (planned.plan != nullptr || (code != 0 && !cudnn::is_not_supported(code))) return code;
  }
  return 0;
}

// The first of the engines that cuDNN proposes which will do.
Code LoadedDnn::choose(const Device& device, const Wish& wish, void* graph, Planned& planned, EntryPoint& entry) {
  void* heuristics = nullptr;
  if (const Code code = make_kept(cudnn::kEngineHeuristics, planned, heuristics, entry)) return code;
  if (const Code code = set(heuristics, cudnn::kHeuristicsGraph, cudnn::kOfDescriptor, 1, &graph, entry)) return code;
  if (const Code code = set(heuristics, cudnn::kHeuristicsMode, cudnn::kOfHeuristicsMode, 1, &wish.mode, entry))
    return code;
  if (device.properties != nullptr) {
    if (const Code code = set(heuristics, cudnn::kHeuristicsDevice, cudnn::kOfDescriptor, 1, &device.properties, entry))
      return code;
  }
  if (const Code code = finalize(heuristics, entry)) return code;
  std::int64_t count = 0;
  if (const Code code = get(heuristics, cudnn::kHeuristicsResults, cudnn::kOfDescriptor, 0, count, nullptr, entry))
    return code;
  std::vector<void*> configs(static_cast<std::size_t>(std::min(count, kMostEngines)), nullptr);
  for (void*& config : configs) {
    if (const Code code = make_kept(cudnn::kEngineConfig, planned, config, entry)) return code;
  }
  if (configs.empty()) return 0;
  if (const Code code = get(heuristics, cudnn::kHeuristicsResults, cudnn::kOfDescriptor, std::ssize(configs), count,
                            configs.data(), entry))
    return code;
  for (std::int64_t i = 0; i < std::min(count, std::ssize(configs)) && planned.plan == nullptr; ++i) {
    if (const Code code = try_engine(device, wish, configs[static_cast<std::size_t>(i)], planned, entry)) return code;
  }
  return 0;
}

Code LoadedDnn::try_engine(const Device& device, const Wish& wish, void* config, Planned& planned, EntryPoint& entry) {
  void* engine = nullptr;
  std::int64_t count = 0;
  if (const Code code = make_kept(cudnn::kEngine, planned, engine, entry)) return code;
  if (const Code code = get(config, cudnn::kConfigEngine, cudnn::kOfDescriptor, 1, count, &engine, entry)) return code;
  std::array<std::int32_t, cudnn::kNotes> notes{};
  if (const Code code =
          get(engine, cudnn::kEngineNotes, cudnn::kOfNumericalNote, std::ssize(notes), count, notes.data(), entry))
    return code;
  const bool is_exact = wish.factors != DType::float32 || tf32_;  // on tensor cores float32 becomes TF32
  const auto is_barred = [&](std::int32_t note) {
    return note == cudnn::kNondeterministic || note == cudnn::kDownConvertsInputs || note == cudnn::kReducesInLess ||
           (note == cudnn::kTensorCore && !is_exact);
  };
  if (std::any_of(notes.begin(), notes.begin() + std::min(count, std::ssize(notes)), is_barred)) return 0;
  void* plan = nullptr;
  if (const Code code = make_kept(cudnn::kExecutionPlan, planned, plan, entry)) return code;
  if (const Code code = set(plan, cudnn::kPlanConfig, cudnn::kOfDescriptor, 1, &config, entry)) return code;
  const Code code = device.handle != nullptr
                        ? set(plan, cudnn::kPlanHandle, cudnn::kOfHandle, 1, &device.handle, entry)
                        : set(plan, cudnn::kPlanDevice, cudnn::kOfDescriptor, 1, &device.properties, entry);
  if (code != 0) return code;
  // What was proposed need not be possible.
  if (finalize_(plan) != 0) return 0;
  std::int64_t bytes = 0;
  if (const Code failed = get(plan, cudnn::kPlanWorkspace, cudnn::kOfInt64, 1, count, &bytes, entry)) return failed;
  if (bytes > wish.workspace_bytes) return 0;
  planned.plan = plan;
  planned.workspace_bytes = bytes;
  return 0;
}

Code LoadedDnn::run(int device, const DnnCall& call, void* stream, EntryPoint& entry) {
  constexpr Code kInvalidValue = 2001;  // CUDNN_STATUS_BAD_PARAM_NULL_POINTER
  // Held until the call is made: a handle's stream is a part of it.
  const std::lock_guard lock(mutex_);
  const Device& of = devices_[device];
  const auto found = of.plans.find(*call.graph);
  entry = EntryPoint::dnn_execute;
  if (found == of.plans.end() || found->second.plan == nullptr) return kInvalidValue;
  if (const Code code = said(entry, EntryPoint::dnn_set_stream, set_stream_(of.handle, stream))) return code;
  void* made = nullptr;
  if (const Code code = make_descriptor(cudnn::kVariantPack, made, entry)) return code;
  Code code = pack(call, made, entry);
  if (code == 0) code = said(entry, EntryPoint::dnn_execute, execute_(of.handle, found->second.plan, made));
  const Code forgotten = forget_(made);
  return code != 0 ? code : said(entry, EntryPoint::dnn_forget, forgotten);
}

Code LoadedDnn::pack(const DnnCall& call, void* made, EntryPoint& entry) {
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [id, data] : call.tensors) {
    ids.push_back(id);
    pointers.push_back(data);
  }
  for (const auto& [id, number] : call.scalars) {
    ids.push_back(id);
    pointers.push_back(const_cast<float*>(&number));
  }
  if (const Code code = set(made, cudnn::kPackIds, cudnn::kOfInt64, std::ssize(ids), ids.data(), entry)) return code;
  if (const Code code =
          set(made, cudnn::kPackPointers, cudnn::kOfPointer, std::ssize(pointers), pointers.data(), entry))
    return code;
  void* workspace = call.workspace;
  if (const Code code = set(made, cudnn::kPackWorkspace, cudnn::kOfPointer, 1, &workspace, entry)) return code;
  return finalize(made, entry);
}

Code LoadedDnn::make_descriptor(int kind, void*& made, EntryPoint& entry) {
  return said(entry, EntryPoint::dnn_make, make_(kind, &made));
}

Code LoadedDnn::make_kept(int kind, Planned& planned, void*& made, EntryPoint& entry) {
  const Code code = make_descriptor(kind, made, entry);
  if (code == 0) planned.descriptors.push_back(made);
  return code;
}

Code LoadedDnn::set(void* descriptor, int attribute, int type, std::int64_t count, const void* values,
                    EntryPoint& entry) {
  return said(entry, EntryPoint::dnn_set, set_(descriptor, attribute, type, count, values));
}

Code LoadedDnn::get(void* descriptor, int attribute, int type, std::int64_t room, std::int64_t& count, void* values,
                    EntryPoint& entry) {
  return said(entry, EntryPoint::dnn_get, get_(descriptor, attribute, type, room, &count, values));
}

Code LoadedDnn::finalize(void* descriptor, EntryPoint& entry) {
  return said(entry, EntryPoint::dnn_finalize, finalize_(descriptor));
}

// The last made first.
Code LoadedDnn::forget(Planned& planned, EntryPoint& entry) {
  Code first = 0;
  for (auto made = planned.descriptors.rbegin(); made != planned.descriptors.rend(); ++made) {
    const Code code = forget_(*made);
    if (first == 0) first = said(entry, EntryPoint::dnn_forget, code);
  }
  planned.descriptors.clear();
  return first;
}

Code LoadedDnn::release(int device, EntryPoint& entry) {
  const std::lock_guard lock(mutex_);
  Device of = std::exchange(devices_[device], {});
  Code first = 0;
  for (auto& [graph, planned] : of.plans) {
    EntryPoint failed = entry;
    const Code code = forget(planned, failed);
    if (first == 0) first = said(entry, failed, code);
  }
  if (of.properties != nullptr) {
    const Code code = forget_(of.properties);
    if (first == 0) first = said(entry, EntryPoint::dnn_forget, code);
  }
  const Code code = of.handle != nullptr ? destroy_(of.handle) : 0;
  return first != 0 ? first : said(entry, EntryPoint::dnn_destroy, code);
}

}  // namespace meshwright::cuda
