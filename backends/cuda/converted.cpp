#include "converted.h"

#include <utility>

#include "kernels/kernel.h"

namespace meshwright::cuda {

Tensor converted(Tensor tensor, DType to) {
  const DType from = tensor.type().dtype;
  if (from == to) return tensor;
  Tensor made = Tensor::uncleared({to, tensor.shape()});
  const std::byte* numbers = std::as_const(tensor).bytes().data();
  for (std::int64_t i = 0; i < made.elements(); ++i)
    store(made.bytes().data(), static_cast<Element>(to), i, load(numbers, static_cast<Element>(from), i));
  return made;
}

}  // namespace meshwright::cuda
