// Tensors in a file, as the format `safetensors` keeps them, which PyTorch, JAX and NumPy have readers for: the length of a header in 8 bytes, little-endian; the
// header, JSON that says of each tensor its dtype, its shape and which bytes it has; and the bytes, one tensor behind the other. Nothing in such a file is executed.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "meshwright/result.h"
#include "meshwright/tensor.h"

namespace meshwright::host {

struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> words;  // what else the file says ("__metadata__")
};

// The same tensors and words give the same bytes. Errors: bad_input for a tensor named "__metadata__", which the format has for itself.
Result<std::string> write_safetensors(const Safetensors& content);

// Of a file that may be anything. Errors: bad_input that names the file and what is wrong where: too short, a header that is no JSON or says what can't be, tensors
// that overlap, leave a gap or do not end where the file does.
Result<Safetensors> read_safetensors(const std::string& path);
// The same of its text; `name` stands for the file in errors.
Result<Safetensors> parse_safetensors(std::string_view text, const std::string& name);

}  // namespace meshwright::host
