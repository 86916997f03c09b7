#include "loaded_products.h"

#include <tuple>
#include <utility>

#include "meshwright/log.h"

namespace meshwright::cuda {

namespace {

// What NVIDIA recommends for an H100; algorithms that split k need it.
constexpr std::uint64_t kWorkspaceLimit = std::uint64_t{32} << 20U;

int type_of(DType dtype) { return dtype == DType::bfloat16 ? cublaslt::kBFloat16 : cublaslt::kFloat; }

// 0: there is none.
std::uint32_t epilogue_of(const ColumnProduct& product) {
  std::uint32_t epilogue = product.bias != 0 ? cublaslt::kAddsBias : 0;
  if (product.activation == Activation::relu) epilogue |= cublaslt::kRelu;
  if (product.activation == Activation::gelu) epilogue |= product.keeps ? cublaslt::kGeluAux : cublaslt::kGelu;
  return epilogue;
}

const std::byte* address_aligned_to(std::int32_t bytes) {
  return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(bytes));
}

}  // namespace

LoadedProducts::LoadedProducts(bool tf32, std::initializer_list<const char*> names)
    : computing_(tf32 ? cublaslt::kComputeTf32 : cublaslt::kComputeFloat) {
  void* library = open_first(names);
  is_there_ = library != nullptr && find_all(library);
  if (!is_there_) {
    log(LogLevel::warning, "cuda",
        "libcublasLt of CUDA 12 or 13 was not found (PyPI: nvidia-cublas); set LD_LIBRARY_PATH to where it is. "
        "Products are computed by this backend's own kernel, which is much slower");
    return;
  }
  text_ = reinterpret_cast<const char* (*)(int)>(dlsym(library, "cublasLtGetStatusString"));
}

bool LoadedProducts::find_all(void* library) {
  return create_.find(library, EntryPoint::products_create) && destroy_.find(library, EntryPoint::products_destroy) &&
         create_operation_.find(library, EntryPoint::product_describe) &&
         forget_operation_.find(library, EntryPoint::product_forget) &&
         set_operation_.find(library, EntryPoint::product_set) &&
         create_layout_.find(library, EntryPoint::layout_create) &&
         forget_layout_.find(library, EntryPoint::layout_destroy) &&
         set_layout_.find(library, EntryPoint::layout_set) &&
         create_preference_.find(library, EntryPoint::preference_create) &&
         forget_preference_.find(library, EntryPoint::preference_destroy) &&
         set_preference_.find(library, EntryPoint::preference_set) &&
         choose_.find(library, EntryPoint::choose_algorithm) && multiply_.find(library, EntryPoint::product);
}

Code LoadedProducts::plan(int device, const ProductShape& shape, ProductPlan& plan, EntryPoint& entry) {
  plan = {};
  if (!is_there_) return 0;
  const std::lock_guard lock(mutex_);
  Device& of = devices_[device];
  auto found = of.plans.find(shape);
  if (found == of.plans.end()) {
    Planned planned;
    if (const Code code = make(of, shape, planned, entry)) return code;
    found = of.plans.emplace(shape, planned).first;
  }
  plan = {found->second.operation != nullptr, found->second.choice.workspace_bytes};
  return 0;
}

Code LoadedProducts::make(Device& device, const ProductShape& shape, Planned& planned, EntryPoint& entry) {
  if (device.handle == nullptr) {
    if (const Code code = said(entry, EntryPoint::products_create, create_(&device.handle))) return code;
  }
  const ColumnProduct product = by_columns(shape);
  Code code = describe(product, planned, entry);
  if (code == 0) code = choose(device.handle, product, planned, entry);
  if (code == 0) return 0;
  // An activation can be left to a kernel of its own: that the library calls it invalid is no reason to stop.
  const bool is_refused =
      code == cublaslt::kNotSupported || (code == cublaslt::kInvalidValue && product.activation != Activation::none);
  const bool none = entry == EntryPoint::choose_algorithm && is_refused;
  EntryPoint failed = entry;
  const Code forgotten = forget(planned, failed);
  planned = {};
  return none ? said(entry, failed, forgotten) : code;
}

Code LoadedProducts::describe(const ColumnProduct& product, Planned& planned, EntryPoint& entry) {
  if (const Code code = said(entry, EntryPoint::product_describe,
                             create_operation_(&planned.operation,
                                               product.factors == DType::float32 ? computing_ : cublaslt::kComputeFloat,
                                               cublaslt::kFloat)))
    return code;
  for (const auto& [attribute, exchanges] : {std::pair(cublaslt::kTransposesA, product.transposes_a),
                                             std::pair(cublaslt::kTransposesB, product.transposes_b)}) {
    const std::int32_t value = exchanges ? cublaslt::kExchanged : cublaslt::kAsIs;
    if (const Code code =
            said(entry, EntryPoint::product_set, set_operation_(planned.operation, attribute, &value, sizeof value)))
      return code;
  }
  if (const Code code = describe_epilogue(product, planned, entry)) return code;
  for (const auto& [layout, dtype, made] :
       {std::tuple(&product.a, product.factors, &planned.a), std::tuple(&product.b, product.factors, &planned.b),
        std::tuple(&product.c, product.made, &planned.c), std::tuple(&product.d, product.made, &planned.d)}) {
    if (const Code code = describe(*layout, type_of(dtype), product.batches, *made, entry)) return code;
  }
  return 0;
}

// The type of aux is not set: it is the result's then.
Code LoadedProducts::describe_epilogue(const ColumnProduct& product, const Planned& planned, EntryPoint& entry) {
  const std::uint32_t epilogue = epilogue_of(product);
  if (epilogue == 0) return 0;
  Code code = set_operation_(planned.operation, cublaslt::kEpilogue, &epilogue, sizeof epilogue);
  for (const auto& [attribute, elements] : {std::pair(cublaslt::kAuxLeading, product.aux.leading),
                                            std::pair(cublaslt::kAuxBatchStride, product.aux.batch)}) {
    if (code == 0 && product.keeps) code = set_operation_(planned.operation, attribute, &elements, sizeof elements);
  }
  // Addresses that are aligned as those of the product will be: the choice of an algorithm asks for no more of them.
  if (code == 0)
    code = set_addresses(planned, address_aligned_to(product.bias),
                         address_aligned_to(product.keeps ? product.aux.alignment : 0));
  return said(entry, EntryPoint::product_set, code);
}

Code LoadedProducts::set_addresses(const Planned& planned, const std::byte* bias, const std::byte* aux) {
  for (const auto& [attribute, address] : {std::pair(cublaslt::kBias, bias), std::pair(cublaslt::kAux, aux)}) {
    const Code code = address != nullptr ? set_operation_(planned.operation, attribute, &address, sizeof address) : 0;
    if (code != 0) return code;
  }
  return 0;
}

Code LoadedProducts::describe(const ColumnLayout& layout, int type, std::int32_t batches, void*& made,
                              EntryPoint& entry) {
  if (const Code code = said(entry, EntryPoint::layout_create,
                             create_layout_(&made, type, layout.rows, layout.columns, layout.leading)))
    return code;
  if (const Code code =
          said(entry, EntryPoint::layout_set, set_layout_(made, cublaslt::kBatches, &batches, sizeof batches)))
    return code;
  return said(entry, EntryPoint::layout_set,
              set_layout_(made, cublaslt::kBatchStride, &layout.batch, sizeof layout.batch));
}

Code LoadedProducts::choose(void* handle, const ColumnProduct& product, Planned& planned, EntryPoint& entry) {
  void* preference = nullptr;
  if (const Code code = said(entry, EntryPoint::preference_create, create_preference_(&preference))) return code;
  Code code = prefer(preference, product, entry);
  if (code == 0) {
    int found = 0;
    code = choose_(handle, planned.operation, planned.a, planned.b, planned.c, planned.d, preference, 1,
                   &planned.choice, &found);
    if (code == 0) code = found == 0 ? cublaslt::kNotSupported : planned.choice.state;
    said(entry, EntryPoint::choose_algorithm, code);
  }
  const Code forgotten = forget_preference_(preference);
  return code != 0 ? code : said(entry, EntryPoint::preference_destroy, forgotten);
}

Code LoadedProducts::prefer(void* preference, const ColumnProduct& product, EntryPoint& entry) {
  if (const Code code =
          said(entry, EntryPoint::preference_set,
               set_preference_(preference, cublaslt::kMostWorkspace, &kWorkspaceLimit, sizeof kWorkspaceLimit)))
    return code;
  // Parts of a sum are added up as floats.
  const std::uint32_t reductions = cublaslt::kReducesInComputeType;
  if (product.made != DType::float32) {
    if (const Code code = said(entry, EntryPoint::preference_set,
                               set_preference_(preference, cublaslt::kReductions, &reductions, sizeof reductions)))
      return code;
  }
  for (const auto& [attribute, bytes] :
       {std::pair(cublaslt::kAlignmentA, product.a.alignment), std::pair(cublaslt::kAlignmentB, product.b.alignment),
        std::pair(cublaslt::kAlignmentC, product.c.alignment), std::pair(cublaslt::kAlignmentD, product.d.alignment)}) {
    const auto value = static_cast<std::uint32_t>(bytes);
    if (const Code code =
            said(entry, EntryPoint::preference_set, set_preference_(preference, attribute, &value, sizeof value)))
      return code;
  }
  return 0;
}

// Without the addend beta is 0, and nothing of C is read.
Code LoadedProducts::run(int device, const Product& product, void* stream) {
  // Held until the call is made: the addresses of bias and aux are a part of what is planned.
  const std::lock_guard lock(mutex_);
  const Device& of = devices_[device];
  const auto found = of.plans.find(product.shape);
  if (found == of.plans.end() || found->second.operation == nullptr) return cublaslt::kInvalidValue;
  const Planned& planned = found->second;
  if (const Code code = set_addresses(planned, product.shape.bias != 0 ? product.bias : nullptr,
                                      product.shape.keeps ? product.aux : nullptr))
    return code;
  const float beta = product.shape.adds ? product.beta : 0;
  const std::byte* addend = product.shape.adds ? product.addend : product.result;
  return multiply_(of.handle, planned.operation, &product.alpha, product.b, planned.a, product.a, planned.b, &beta,
                   addend, planned.c, product.result, planned.d, &planned.choice.algorithm, product.workspace,
                   product.workspace_bytes, stream);
}

Code LoadedProducts::forget(Planned& planned, EntryPoint& entry) {
  Code first = 0;
  for (void** layout : {&planned.a, &planned.b, &planned.c, &planned.d}) {
    void* forgotten = std::exchange(*layout, nullptr);
    const Code code = forgotten != nullptr ? forget_layout_(forgotten) : 0;
    if (first == 0) first = said(entry, EntryPoint::layout_destroy, code);
  }
  void* operation = std::exchange(planned.operation, nullptr);
  const Code code = operation != nullptr ? forget_operation_(operation) : 0;
  return first != 0 ? first : said(entry, EntryPoint::product_forget, code);
}

Code LoadedProducts::release(int device, EntryPoint& entry) {
  const std::lock_guard lock(mutex_);
  Device of = std::exchange(devices_[device], {});
  Code first = 0;
  for (auto& [shape, planned] : of.plans) {
    EntryPoint failed = entry;
    const Code code = forget(planned, failed);
    if (first == 0) first = said(entry, failed, code);
  }
  const Code code = of.handle != nullptr ? destroy_(of.handle) : 0;
  return first != 0 ? first : said(entry, EntryPoint::products_destroy, code);
}

}  // namespace meshwright::cuda
