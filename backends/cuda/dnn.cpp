#include "dnn.h"

#include <algorithm>
#include <cstring>

#include "cudnn_backend.h"

namespace meshwright::cuda {

namespace {

template <class Number>
DnnValue value_of(int attribute, int type, const std::vector<Number>& numbers) {
  DnnValue value{attribute, type, static_cast<std::int64_t>(numbers.size()),
                 std::vector<std::byte>(numbers.size() * sizeof(Number))};
  std::memcpy(value.bytes.data(), numbers.data(), value.bytes.size());
  return value;
}

}  // namespace

DnnValue dnn_numbers(int attribute, const std::vector<std::int64_t>& numbers) {
  return value_of(attribute, cudnn::kOfInt64, numbers);
}

DnnValue dnn_enumerator(int attribute, int type, std::int32_t number) {
  return value_of(attribute, type, std::vector<std::int32_t>{number});
}

DnnValue dnn_float(int attribute, float number) {
  return value_of(attribute, cudnn::kOfFloat, std::vector<float>{number});
}

DnnValue dnn_descriptor(int attribute, std::size_t place) { return {attribute, cudnn::kOfDescriptor, 1, {}, {place}}; }

DnnValue dnn_flag(int attribute) { return {attribute, cudnn::kOfFlag, 1, {std::byte{1}}}; }

DnnDescriptor dnn_tensor(std::int64_t id, DType dtype, const std::vector<std::int64_t>& sizes, std::int64_t alignment) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t d = sizes.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * sizes[d + 1];
  return {cudnn::kTensor,
          {dnn_enumerator(cudnn::kTensorType, cudnn::kOfDataType,
                          dtype == DType::bfloat16 ? cudnn::kBFloat16 : cudnn::kFloat),
           dnn_numbers(cudnn::kTensorSizes, sizes), dnn_numbers(cudnn::kTensorStrides, strides),
           dnn_numbers(cudnn::kTensorId, {id}), dnn_numbers(cudnn::kTensorAlignment, {alignment})}};
}

DnnDescriptor dnn_rows(std::int64_t id, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t alignment) {
  DnnDescriptor made = dnn_tensor(id, dtype, {rows, columns, 1, 1}, alignment);
  std::ranges::find(made.values, cudnn::kTensorStrides, &DnnValue::attribute)->bytes =
      dnn_numbers(cudnn::kTensorStrides, {columns, 1, columns, columns}).bytes;
  return made;
}

DnnDescriptor dnn_scalar(std::int64_t id) {
  DnnDescriptor made = dnn_tensor(id, DType::float32, {1, 1, 1, 1}, 16);
  made.values.push_back(dnn_flag(cudnn::kTensorIsByValue));
  return made;
}

}  // namespace meshwright::cuda
