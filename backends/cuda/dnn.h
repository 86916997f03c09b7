// Operations of cuDNN's graph API as data: what is made of them by the library (loaded_dnn.h) can be read, compared and
// planned without it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launch.h"
#include "meshwright/dtype.h"

namespace meshwright::cuda {

// An attribute of a descriptor, by cuDNN's numbers (cudnn_backend.h): its elements as they lie in memory, or of
// descriptors their places in the graph.
struct DnnValue {
  int attribute = 0, type = 0;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<std::size_t> descriptors = {};
  auto operator<=>(const DnnValue&) const = default;
};

struct DnnDescriptor {
  int kind = 0;
  std::vector<DnnValue> values;
  auto operator<=>(const DnnDescriptor&) const = default;
};

// Descriptors in the order in which they are made, and which of them are operations.
struct DnnGraph {
  std::string name;  // "a convolution of 2×3×32×32 by 8×3×3×3, in bfloat16"
  std::vector<DnnDescriptor> descriptors;
  std::vector<std::size_t> operations;
  DType factors = DType::float32;  // what it multiplies: with tensor cores where they round nothing
  std::size_t kernel_bytes = 0;    // of workspace, that this backend's own kernels need in the library's place
  auto operator<=>(const DnnGraph&) const = default;
};

DnnValue dnn_numbers(int attribute, const std::vector<std::int64_t>& numbers);
DnnValue dnn_enumerator(int attribute, int type, std::int32_t number);
DnnValue dnn_float(int attribute, float number);
DnnValue dnn_descriptor(int attribute, std::size_t place);
DnnValue dnn_flag(int attribute);  // that it is so

// A tensor of these sizes, row by row.
DnnDescriptor dnn_tensor(std::int64_t id, DType dtype, const std::vector<std::int64_t>& sizes, std::int64_t alignment);

// The same of rows of so many numbers, as its norms take them: channels innermost, without space.
DnnDescriptor dnn_rows(std::int64_t id, DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t alignment);

// A number that is handed over by value.
DnnDescriptor dnn_scalar(std::int64_t id);

// A graph where it runs.
struct DnnCall {
  std::shared_ptr<const DnnGraph> graph;
  std::vector<std::pair<std::int64_t, std::byte*>> tensors;  // by id
  std::vector<std::pair<std::int64_t, float>> scalars = {};  // likewise
  std::byte* workspace = nullptr;                            // the call's own while it runs, at a multiple of 256 bytes
  std::size_t workspace_bytes = 0;
  // Of this backend, which do the same: for drivers without the library, and the proof of races. The workspace is
  // theirs.
  std::vector<Launch> kernels;
};

}  // namespace meshwright::cuda
