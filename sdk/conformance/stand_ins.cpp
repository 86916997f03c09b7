#include "stand_ins.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

namespace meshwright {

namespace {

std::string described(const Node& node) {
  return node.op == "meshwright.autograd" ? "gradient of " + node.text("op", "an op") : node.op;
}

// The elements as real numbers: complex ones are pairs.
template <class Visit>
void for_each_real(const TensorType& type, Visit visit) {
  const std::int64_t count = type.elements() * (is_complex(type.dtype) ? 2 : 1);
  for (std::int64_t i = 0; i < count; ++i) visit(i);
}

double real(const Tensor& tensor, std::int64_t i) {
  if (tensor.type().dtype == DType::complex64) return reinterpret_cast<const float*>(tensor.bytes().data())[i];
  if (tensor.type().dtype == DType::complex128) return reinterpret_cast<const double*>(tensor.bytes().data())[i];
  return tensor.get(i);
}

void set_real(Tensor& tensor, std::int64_t i, double value) {
  if (tensor.type().dtype == DType::complex64) reinterpret_cast<float*>(tensor.bytes().data())[i] = static_cast<float>(value);
  else if (tensor.type().dtype == DType::complex128) reinterpret_cast<double*>(tensor.bytes().data())[i] = value;
  else tensor.set(i, value);
}

// A number that every operand moves a little, so that a wrong operand shows.
double digest(std::span<const Tensor* const> operands) {
  double sum = 0;
  for (const Tensor* operand : operands) {
    double total = 0, weight = 0;
    for_each_real(operand->type(), [&](std::int64_t i) {
      const double share = 1 + 0.5 * std::sin(static_cast<double>(i));
      total += share * std::tanh(real(*operand, i));
      weight += share;
    });
    if (weight > 0) sum += total / weight;
  }
  return sum;
}

std::vector<Tensor> stand_in(const OpCall& call, std::span<const Tensor* const> operands) {
  const double shift = digest(operands);
  std::vector<Tensor> results;
  for (const TensorType& type : call.results) {
    Tensor& result = results.emplace_back(type);
    if (!is_floating(type.dtype)) continue;  // zeros: whatever they index, they are in range
    const auto number = static_cast<double>(results.size());
    for_each_real(type, [&](std::int64_t i) { set_real(result, i, 0.5 * std::cos(static_cast<double>(i) + number + shift)); });
  }
  return results;
}

// The same for functions that are known to be element-wise, which ranks compute on their shards.
std::vector<Tensor> pointwise_stand_in(const OpCall& call, std::span<const Tensor* const> operands) {
  std::vector<Tensor> results;
  for (const TensorType& type : call.results) {
    Tensor& result = results.emplace_back(type);
    const auto number = static_cast<double>(results.size());
    for (std::int64_t i = 0; is_floating(type.dtype) && i < type.elements(); ++i) {
      double shift = number;
      for (std::size_t j = 0; j < operands.size(); ++j) shift += static_cast<double>(1 + j) * std::tanh(operands[j]->get(i));
      result.set(i, 0.5 * std::cos(shift));
    }
  }
  return results;
}

}  // namespace

class StandIns::Kernels final : public OpKernels {
 public:
  Kernels(const OpTable& ops, const KernelTable* kernels) : ops_(ops), kernels_(kernels) {}

  [[nodiscard]] std::vector<std::string> stood_in() const {
    const std::scoped_lock lock(mutex_);
    return {stood_in_.begin(), stood_in_.end()};
  }

  [[nodiscard]] bool reads_transposed(const OpCall& call, std::size_t operand) const override {
    const OpKernels* kernel = kernel_of(call);
    return kernel != nullptr && kernel->reads_transposed(call, operand);
  }

 private:
  static bool is_pointwise(const OpCall& call) { return call.node.op.starts_with("meshwright_function.pointwise"); }
  [[nodiscard]] bool is_computed(const OpCall& call) const { return ops_.find(call.node.op) != nullptr && !is_pointwise(call) && !has_complex(call); }
  [[nodiscard]] const OpKernels* kernel_of(const OpCall& call) const {
    return kernels_ != nullptr && is_computed(call) ? kernels_->find(call.node.op) : nullptr;
  }

  Result<std::vector<Tensor>> do_compute(const OpCall& call, std::span<const Tensor* const> operands) const override {
    if (is_computed(call)) {
      const OpKernels* kernel = kernel_of(call);
      return kernel != nullptr ? kernel->compute(call, operands) : std::vector<Tensor>{};
    }
    {
      const std::scoped_lock lock(mutex_);
      stood_in_.insert(described(call.node));
    }
    return is_pointwise(call) && ops_.find(call.node.op) != nullptr ? pointwise_stand_in(call, operands) : stand_in(call, operands);
  }

  const OpTable& ops_;
  const KernelTable* kernels_;
  mutable std::mutex mutex_;
  mutable std::set<std::string> stood_in_;
};

StandIns::StandIns(const OpTable& ops, const KernelTable* kernels) : kernels_(std::make_unique<Kernels>(ops, kernels)) {}
StandIns::~StandIns() = default;

const OpKernels* StandIns::find(std::string_view) const { return kernels_.get(); }

std::vector<std::string> StandIns::ops() const { return kernels_->stood_in(); }

}  // namespace meshwright
