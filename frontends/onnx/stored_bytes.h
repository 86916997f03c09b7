// The bytes of tensors, which lie in the model's file or in files beside it.
#pragma once

#include <string>

#include "meshwright/tensor.h"
#include "model.h"

namespace meshwright::onnx {

class StoredBytes {
 public:
  // `model_path`: files beside it are named relative to its folder.
  explicit StoredBytes(std::string model_path) : model_path_(std::move(model_path)) {}

  // Whether they can be had: in the file, or in one that exists.
  [[nodiscard]] bool has(const StoredTensor& tensor) const;

  // Whether its place is one that may be read, if there is a file: inside of the model's folder, links resolved, a regular
  // file and long enough. Errors: bad_input, as of `read`.
  [[nodiscard]] Status check(const StoredTensor& tensor) const;

  // Errors: bad_input, naming the tensor and the file: one outside of the model's folder, or one that is too short.
  [[nodiscard]] Result<Tensor> read(const StoredTensor& tensor) const;

 private:
  [[nodiscard]] std::string path_of(const ExternalPlace& place) const;

  std::string model_path_;
};

}  // namespace meshwright::onnx
